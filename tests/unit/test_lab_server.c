/* SPDX-License-Identifier: Apache-2.0
 *
 * A point whose engine is a server: the mock, started and stopped by point_serve, and servers that fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/point.h"

static volatile bool stop;
static const char *line; /* of the server, with %d for the port */

static int server(const struct experiment *e, const struct lab_tools *tools, const char *directory,
		  int port, struct argv *argv, struct err *err)
{
	char text[1000];

	(void)e;
	(void)tools;
	(void)directory;
	(void)err;
	snprintf(text, sizeof(text), line, port);
	return argv_add_all(argv, "/bin/sh", "-c", text, NULL);
}

static const struct engine engine = {
	.name = "test", .summary = "a server of the test", .server = server, .ready_path = "/health"
};

struct fixture {
	struct experiment e;
	struct point point;
	char directory[64];
};

static void set(struct fixture *f, const char *key, const char *value)
{
	struct err err = { "" };

	assert_int_equal(experiment_set(&f->e, key, value, &err), 0);
}

static int begin(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char path[80];

	strcpy(f->directory, "/tmp/test-lab-server-XXXXXX");
	if (!mkdtemp(f->directory) || experiment_init(&f->e) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/" POINT_LOG, f->directory);
	f->point = (struct point){ .experiment = &f->e,
				   .engine = &engine,
				   .stop = &stop,
				   .directory = f->directory,
				   .start_ns = clock_monotonic_ns(),
				   .log_fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC,
						  0666) };
	stop = false;
	child_signals(&stop);
	set(f, "requests", "4");
	set(f, "max_tokens", "3");
	*state = f;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static int end(void **state)
{
	struct fixture *f = *state;

	child_signals(NULL);
	nftw(f->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	f->point.directory = NULL;
	point_release(&f->point);
	experiment_release(&f->e);
	free(f);
	return 0;
}

static void serve(struct fixture *f, double limit_s)
{
	struct experiment live;

	if (limit_s > 0) {
		f->e.time_limit_s = limit_s;
		f->point.deadline_ns = f->point.start_ns + (int64_t)(limit_s * 1e9);
	}
	assert_int_equal(experiment_copy(&live, &f->e), 0);
	point_serve(&f->point, &live);
	experiment_release(&live);
}

static void says(struct fixture *f, const char *text)
{
	if (!strstr(f->point.error.message, text))
		fail_msg("'%s' is not in: %s", text, f->point.error.message);
}

static void test_served(void **state)
{
	struct fixture *f = *state;
	struct requests read = { 0 };
	struct err err = { "" };
	char path[80];

	line = "exec python3 " MOCK_SERVER " --port %d --ttft-ms 2 --gap-ms 1";
	set(f, "repeats", "2");
	set(f, "warmup", "1");
	serve(f, 0);
	if (f->point.status != POINT_SUCCESS)
		fail_msg("%s", f->point.error.message);
	assert_true(f->point.measured);
	/* One to warm up, and then four, twice. */
	assert_int_equal(f->point.requests.n, 9);
	for (size_t i = 0; i < 9; i++) {
		const struct request *request = &f->point.requests.v[i];

		assert_int_equal(request->end, REQUEST_OK);
		assert_int_equal(request->output_tokens, 3);
		assert_int_equal(request->pieces, 3);
		assert_int_equal(request->warmup, i == 0);
		assert_true(f->point.requests.pieces_ns[request->first_piece] > request->sent_ns);
	}
	assert_true(f->point.requests.load_ns > 0);
	assert_true(f->point.peak_rss_bytes > 0);
	snprintf(path, sizeof(path), "%s/" POINT_REQUESTS, f->directory);
	assert_int_equal(requests_read(path, &read, &err), 0);
	assert_int_equal(read.n, 9);
	requests_release(&read);
}

static void test_dies_at_once(void **state)
{
	struct fixture *f = *state;

	line = "echo no model at %d >&2; exit 7";
	serve(f, 0);
	assert_int_equal(f->point.status, POINT_FAILED);
	says(f, "the server failed with status 7; its last words: no model at ");
	assert_false(f->point.measured);
}

static void test_never_ready(void **state)
{
	struct fixture *f = *state;

	line = "sleep 600; : %d";
	serve(f, 0.5);
	assert_int_equal(f->point.status, POINT_TIMEOUT);
	says(f, "the time limit of 0.5 s");
}

/* Answers, and then no request is done in time. */
static void test_hangs_under_load(void **state)
{
	struct fixture *f = *state;

	line = "exec python3 " MOCK_SERVER " --port %d --silent-pct 100";
	serve(f, 3);
	assert_int_equal(f->point.status, POINT_TIMEOUT);
	says(f, "the time limit of 3 s");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(test_served),
		TEST(test_dies_at_once),
		TEST(test_never_ready),
		TEST(test_hangs_under_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
