/* SPDX-License-Identifier: Apache-2.0
 *
 * The web server beside many clients, for the sanitizers: replies are made once for all who ask, those
 * who wait are answered when it ends, and addresses are taken apart without surprises.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "surfaces/http/http.h"
#include "surfaces/http/library.h"
#include "surfaces/http/replies.h"
#include "surfaces/http/target.h"
#include "trace/rundir.h"

/* Target. */

static void test_target(void **state)
{
	struct target t;

	(void)state;
	assert_int_equal(target_parse("/", &t, NULL), 0);
	assert_int_equal(t.n_segments, 0);
	assert_int_equal(target_parse("/api/runs/a%20b+c/%C3%A9/?x=1+2%3D&y&=z", &t, NULL), 0);
	assert_int_equal(t.n_segments, 4);
	assert_string_equal(t.segments[2], "a b+c");
	assert_string_equal(t.segments[3], "\xc3\xa9");
	assert_int_equal(t.n_pairs, 3);
	assert_string_equal(target_value(&t, "x"), "1 2=");
	assert_string_equal(target_value(&t, "y"), "");
	assert_string_equal(target_value(&t, ""), "z");
	assert_null(target_value(&t, "z"));
	assert_int_equal(target_parse("/a?x=1%0a%09b", &t, NULL), 0);
	assert_string_equal(target_value(&t, "x"), "1\n\tb");
	assert_int_equal(target_parse("/a//b", &t, NULL), 0);
	assert_int_equal(t.n_segments, 3);
	assert_string_equal(t.segments[1], "");
}

static void test_target_refused(void **state)
{
	static const char *const bad[] = { "",	    "api",	  "/%",	      "/%4",
					   "/%zz",  "/%00",	  "/%0a",     "/%ff",
					   "/%c3",  "/a?b=%00",	  "/a?%0d=",  "/a/b/c/d/e/f/g",
					   "/\x7f", "/%ed%a0%80", "/a?b=%0d", "/a?%0a=b" };
	char long_one[TARGET_MAX + 2];
	struct target t;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = { "" };

		assert_true(target_parse(bad[i], &t, &err) < 0);
		assert_true(err.message[0]);
	}
	memset(long_one, '/', sizeof(long_one));
	long_one[TARGET_MAX + 1] = '\0';
	assert_true(target_parse(long_one, &t, NULL) < 0);
	long_one[TARGET_MAX] = '\0';
	assert_true(target_parse(long_one, &t, NULL) < 0);
	memset(long_one + 1, 'a', TARGET_MAX - 1);
	assert_int_equal(target_parse(long_one, &t, NULL), 0);
	assert_int_equal(strlen(t.segments[0]), TARGET_MAX - 1);
}

/* Replies. */

#define LONG_US 120000 /* longer than people wait */

struct kitchen {
	_Atomic unsigned int made;
	_Atomic uint64_t signature;
	_Atomic bool closed; /* nothing is made */
	_Atomic bool cooking;
	_Atomic bool growing;
	_Atomic bool lacks; /* something that somebody else must bring */
	_Atomic unsigned int refused;
	bool once;
};

static struct reply cook(void *context, const char *target)
{
	struct kitchen *kitchen = context;
	struct reply reply = { .status = 200, .type = "text/plain", .once = kitchen->once };

	kitchen->cooking = true;
	while (kitchen->closed)
		usleep(1000);
	if (kitchen->lacks) {
		kitchen->refused++;
		return (struct reply){ .status = 0 };
	}
	kitchen->made++;
	kitchen->cooking = false;
	reply.body = strdup(target);
	reply.size = strlen(target);
	return reply;
}

static uint64_t kitchen_signature(void *context, const char *target, bool *ret_growing)
{
	(void)target;
	*ret_growing = ((struct kitchen *)context)->growing;
	return ((struct kitchen *)context)->signature;
}

/* What a thread found wrong: only the main thread may assert, which jumps out of its test. */
static _Atomic unsigned int wrong;

struct guest {
	struct reply_waiter waiter; /* first */
	pthread_mutex_t lock;
	pthread_cond_t served;
	const struct reply *reply;
	bool waits, ready;
};

static void guest_waits(struct reply_waiter *waiter)
{
	((struct guest *)waiter)->waits = true;
}

static void guest_is_served(struct reply_waiter *waiter, const struct reply *reply)
{
	struct guest *guest = (struct guest *)waiter;

	pthread_mutex_lock(&guest->lock);
	guest->reply = reply;
	guest->ready = true;
	pthread_cond_signal(&guest->served);
	pthread_mutex_unlock(&guest->lock);
}

static struct guest guest_new(void)
{
	return (struct guest){ .waiter = { guest_waits, guest_is_served, NULL },
			       .lock = PTHREAD_MUTEX_INITIALIZER,
			       .served = PTHREAD_COND_INITIALIZER };
}

/* The body of the reply, whether it was there or had to be made; "": there is none. */
static void ask(struct replies *replies, const char *target, char *ret_body, size_t size)
{
	struct guest guest = guest_new();
	const struct reply *reply = replies_ask(replies, target, &guest.waiter);

	if (!reply) {
		pthread_mutex_lock(&guest.lock);
		while (!guest.ready)
			pthread_cond_wait(&guest.served, &guest.lock);
		pthread_mutex_unlock(&guest.lock);
		reply = guest.reply;
		wrong += !guest.waits;
	}
	snprintf(ret_body, size, "%.*s", reply ? (int)reply->size : 0, reply ? reply->body : "");
	reply_release(reply);
}

struct party {
	struct replies *replies;
	unsigned int n;
};

static void *ask_many(void *arg)
{
	struct party *party = arg;
	char target[32], body[32];

	for (unsigned int i = 0; i < 3000; i++) {
		snprintf(target, sizeof(target), "/%u", i * 7 % party->n);
		ask(party->replies, target, body, sizeof(body));
		wrong += strcmp(body, target) != 0;
	}
	return NULL;
}

static void test_replies_are_made_once(void **state)
{
	struct kitchen kitchen = { .closed = true };
	struct reply_maker maker = { cook, kitchen_signature, &kitchen };
	struct replies *replies = replies_new(&maker);
	struct guest guests[50];
	pthread_t threads[8];
	/* More than are kept. */
	struct party party = { replies, 300 };

	(void)state;
	for (size_t i = 0; i < 50; i++) {
		guests[i] = guest_new();
		assert_null(replies_ask(replies, "/same", &guests[i].waiter));
	}
	kitchen.closed = false;
	for (size_t i = 0; i < 50; i++) {
		pthread_mutex_lock(&guests[i].lock);
		while (!guests[i].ready)
			pthread_cond_wait(&guests[i].served, &guests[i].lock);
		pthread_mutex_unlock(&guests[i].lock);
		assert_string_equal(guests[i].reply->body, "/same");
		reply_release(guests[i].reply);
	}
	assert_int_equal(kitchen.made, 1);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_many, &party), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	assert_true(kitchen.made >= 301);
	assert_int_equal(wrong, 0);
	replies_stop(replies);
	replies_free(replies);
}

static void test_replies_grow_old(void **state)
{
	struct kitchen kitchen = { .signature = 1 };
	struct reply_maker maker = { cook, kitchen_signature, &kitchen };
	struct replies *replies = replies_new(&maker);
	char body[16];

	(void)state;
	ask(replies, "/a", body, sizeof(body));
	ask(replies, "/a", body, sizeof(body));
	assert_int_equal(kitchen.made, 1);
	kitchen.signature = 2;
	ask(replies, "/a", body, sizeof(body));
	assert_int_equal(kitchen.made, 2);
	/* What grows is told anew after a while, but its end at once. */
	kitchen.growing = true;
	kitchen.signature = 3;
	while (kitchen.made == 2)
		ask(replies, "/a", body, sizeof(body));
	kitchen.signature = 4;
	kitchen.growing = false;
	ask(replies, "/a", body, sizeof(body));
	assert_int_equal(kitchen.made, 4);
	replies_stop(replies);
	ask(replies, "/a", body, sizeof(body));
	assert_string_equal(body, "");
	assert_int_equal(wrong, 0);
	replies_free(replies);
}

static void wait_until_served(struct guest *guest)
{
	pthread_mutex_lock(&guest->lock);
	while (!guest->ready)
		pthread_cond_wait(&guest->served, &guest->lock);
	pthread_mutex_unlock(&guest->lock);
	reply_release(guest->reply);
}

/* Asks for what grows, and whose last reply took long, until the next one is in the making, and once more.
 * False: this thread was held up for so long that the last one would not do any more. */
static bool is_told_meanwhile(struct replies *replies, struct kitchen *kitchen, struct guest *guest)
{
	bool cooking;

	do {
		const struct reply *reply;

		usleep(1000);
		cooking = kitchen->cooking;
		reply = replies_ask(replies, "/a", &guest->waiter);
		if (!reply)
			return false;
		reply_release(reply);
	} while (!cooking);
	return true;
}

/* Nobody waits for the next state of what grows as long as the last one will do. */
static void test_old_replies_bridge_the_making(void **state)
{
	struct kitchen kitchen = { .signature = 1 };
	struct reply_maker maker = { cook, kitchen_signature, &kitchen };
	struct replies *replies = replies_new(&maker);
	struct guest guest;
	unsigned int made;
	bool told = false;

	(void)state;
	for (int tries = 0; !told && tries < 20; tries++) {
		kitchen.growing = false;
		kitchen.closed = true;
		kitchen.signature++;
		guest = guest_new();
		assert_null(replies_ask(replies, "/a", &guest.waiter));
		while (!kitchen.cooking)
			usleep(1000);
		usleep(LONG_US);
		kitchen.closed = false;
		wait_until_served(&guest);
		kitchen.closed = true;
		kitchen.growing = true;
		kitchen.signature++;
		guest = guest_new();
		told = is_told_meanwhile(replies, &kitchen, &guest);
		if (told)
			break;
		kitchen.closed = false;
		wait_until_served(&guest);
	}
	assert_true(told);
	/* It ends meanwhile: that is waited for, and is not what is in the making. */
	made = kitchen.made;
	kitchen.signature++;
	kitchen.growing = false;
	guest = guest_new();
	assert_null(replies_ask(replies, "/a", &guest.waiter));
	kitchen.closed = false;
	wait_until_served(&guest);
	assert_int_equal(kitchen.made, made + 2);
	replies_stop(replies);
	replies_free(replies);
}

/* Those that wait for something hold up no other, and come when it is there. */
static void test_replies_wait(void **state)
{
	struct kitchen kitchen = { .lacks = true, .once = true };
	struct reply_maker maker = { cook, kitchen_signature, &kitchen };
	struct replies *replies = replies_new(&maker);
	struct guest guests[10];
	char target[16], body[16];

	(void)state;
	for (size_t i = 0; i < 10; i++) {
		guests[i] = guest_new();
		snprintf(target, sizeof(target), "/%zu", i);
		assert_null(replies_ask(replies, target, &guests[i].waiter));
	}
	while (kitchen.refused < 10)
		usleep(1000);
	/* Still not there. */
	replies_retry(replies);
	while (kitchen.refused < 20)
		usleep(1000);
	assert_int_equal(kitchen.made, 0);
	kitchen.lacks = false;
	ask(replies, "/other", body, sizeof(body));
	assert_string_equal(body, "/other");
	replies_retry(replies);
	for (size_t i = 0; i < 10; i++) {
		pthread_mutex_lock(&guests[i].lock);
		while (!guests[i].ready)
			pthread_cond_wait(&guests[i].served, &guests[i].lock);
		pthread_mutex_unlock(&guests[i].lock);
		snprintf(target, sizeof(target), "/%zu", i);
		assert_string_equal(guests[i].reply->body, target);
		reply_release(guests[i].reply);
	}
	assert_int_equal(kitchen.made, 11);
	/* Not kept. */
	ask(replies, "/other", body, sizeof(body));
	assert_int_equal(kitchen.made, 12);
	/* Whoever waits when it ends gets none. */
	kitchen.lacks = true;
	guests[0] = guest_new();
	assert_null(replies_ask(replies, "/last", &guests[0].waiter));
	replies_stop(replies);
	assert_true(guests[0].ready);
	assert_null(guests[0].reply);
	replies_free(replies);
}

/* The server. */

static char directory[] = "/tmp/moescope-http-XXXXXX";

static int load_nothing(const char *path, const struct run_want *want, struct run **ret_run,
			struct err *err)
{
	return run_load(path, want, ret_run, err);
}

static struct http_server *serve(void)
{
	struct http_options options = {
		.path = directory, .address = "127.0.0.1", .metrics = true, .load = load_nothing
	};
	struct http_server *server;
	struct err err = { "" };

	assert_int_equal(http_open(&options, &server, &err), 0);
	return server;
}

static int connected(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* The status of the reply; 0: none came. */
static int status_of(uint16_t port, const char *target)
{
	char text[4096];
	int fd = connected(port), status = 0;
	ssize_t n;

	if (fd < 0)
		return 0;
	snprintf(text, sizeof(text),
		 "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", target);
	if (write(fd, text, strlen(text)) > 0 && (n = read(fd, text, sizeof(text) - 1)) > 0) {
		text[n] = '\0';
		sscanf(text, "HTTP/1.1 %d", &status);
	}
	close(fd);
	return status;
}

static struct {
	uint16_t port;
	_Atomic bool closing;
	_Atomic unsigned int answered;
} storm;

static void *be_a_client(void *arg)
{
	static const char *const targets[] = {
		"/api/runs",
		"/api/runs/a/steps",
		"/api/runs/a/report",
		"/",
		"/metrics",
		"/api/runs/a/events",
		"/api/runs/a/ops?limit=1",
		"/api/openapi.json",
		"/api/runs/a/timeline",
		"/api/runs/a/timeline/boxes?from=0&to=9&width=5",
	};
	size_t i = (size_t)(uintptr_t)arg;

	while (!storm.closing) {
		int status = status_of(storm.port, targets[i++ % 10]);

		wrong += !storm.closing && status != 200;
		storm.answered++;
	}
	return NULL;
}

static void test_many_clients(void **state)
{
	struct http_server *server = serve();
	pthread_t threads[8];

	(void)state;
	storm.port = http_port(server);
	for (uintptr_t i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, be_a_client, (void *)i), 0);
	while (storm.answered < 800)
		usleep(1000);
	/* While they ask, and one follows the run. */
	storm.closing = true;
	http_close(server);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(wrong, 0);
}

static void test_closes_beside_followers(void **state)
{
	struct http_server *server = serve();
	int followers[20];
	char text[1024];

	(void)state;
	for (int i = 0; i < 20; i++) {
		static const char ask_events[] =
			"GET /api/runs/a/events HTTP/1.1\r\nHost: localhost\r\n\r\n";

		followers[i] = connected(http_port(server));
		assert_true(followers[i] >= 0);
		assert_int_equal(write(followers[i], ask_events, strlen(ask_events)),
				 (ssize_t)strlen(ask_events));
		assert_true(read(followers[i], text, sizeof(text)) > 0);
	}
	http_close(server);
	for (int i = 0; i < 20; i++) {
		while (read(followers[i], text, sizeof(text)) > 0)
			;
		close(followers[i]);
	}
}

static void test_library(void **state)
{
	struct library library;
	struct library_runs runs;
	struct err err = { "" };
	char path[128], inner[128], *found;
	bool growing = false;

	(void)state;
	snprintf(path, sizeof(path), "%s/b.mscope", directory);
	assert_int_equal(symlink("/tmp", path), 0);
	assert_int_equal(library_open(&library, directory, &err), 0);
	assert_int_equal(library_list(&library, &runs), 0);
	assert_int_equal(runs.n, 1);
	assert_string_equal(runs.of[0].name, "a");
	library_runs_release(&runs);
	found = library_find(&library, "a", &err);
	assert_non_null(found);
	assert_true(library_signature(found, &growing) != 0);
	free(found);
	assert_null(library_find(&library, "b", &err));
	assert_null(library_find(&library, "../a", &err));
	/* Nor is a directory of its own whose files are elsewhere. */
	snprintf(inner, sizeof(inner), "%s/c.mscope", directory);
	assert_int_equal(mkdir(inner, 0755), 0);
	snprintf(inner, sizeof(inner), "%s/c.mscope/run.json", directory);
	assert_int_equal(symlink("../a.mscope/run.json", inner), 0);
	assert_null(library_find(&library, "c", &err));
	unlink(inner);
	snprintf(inner, sizeof(inner), "%s/c.mscope", directory);
	rmdir(inner);
	library_close(&library);
	unlink(path);
	assert_int_equal(library_signature(path, &growing), 0);
	snprintf(path, sizeof(path), "%s/a.mscope", directory);
	assert_int_equal(library_open(&library, path, &err), 0);
	assert_non_null(found = library_find(&library, "a", &err));
	free(found);
	library_close(&library);
}

static int make_run(void **state)
{
	char *argv[] = { "program" };
	struct rundir_meta meta = { .argc = 1, .argv = argv, .level = "trace" };
	char path[128], *made;
	struct err err;

	(void)state;
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/a.mscope", directory);
	if (rundir_create(path, &meta, &made, &err) < 0)
		return -1;
	free(made);
	return 0;
}

static int remove_run(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_target),
		cmocka_unit_test(test_target_refused),
		cmocka_unit_test(test_replies_are_made_once),
		cmocka_unit_test(test_replies_grow_old),
		cmocka_unit_test(test_old_replies_bridge_the_making),
		cmocka_unit_test(test_replies_wait),
		cmocka_unit_test(test_library),
		cmocka_unit_test(test_many_clients),
		cmocka_unit_test(test_closes_beside_followers),
	};

	return cmocka_run_group_tests(tests, make_run, remove_run);
}
