/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of servers, cut at every byte: head, chunks, events, and what they say. Where a server is,
 * and when it has too much to do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/load/completion.h"
#include "lab/load/http_stream.h"
#include "lab/load/http_target.h"
#include "lab/load/saturation.h"

static void collect(void *arg, const char *data, size_t length)
{
	struct buf *events = arg;

	buf_append(events, "<", 1);
	buf_append(events, data, length);
	buf_append(events, ">", 1);
}

/* Feeds the parts of text cut at `a` and `b`; events as "<one><two>". -errno, or the bytes left. */
static int feed(const char *text, size_t a, size_t b, bool end, struct http_answer *answer,
		struct buf *events, struct err *err)
{
	size_t cuts[4] = { 0, a, b, strlen(text) }, used = 0;
	int r = 0;

	events->size = 0;
	http_answer_init(answer, collect, events);
	for (int i = 0; i < 3 && r == 0; i++) {
		size_t n = cuts[i + 1] - cuts[i];
		char *part = malloc(n ? n : 1); /* exact, so that a sanitizer sees a byte too far */

		memcpy(part, text + cuts[i], n);
		r = http_answer_feed(answer, part, n, &used, err);
		free(part);
		if (r == 0 && used < n)
			return (int)(strlen(text) - cuts[i] - used);
	}
	return r == 0 && end ? http_answer_end(answer, err) : r;
}

static void check_cuts(const char *text, bool end, const char *expected, int left)
{
	struct buf events = { 0 };
	struct http_answer answer;
	struct err err = { "" };
	size_t n = strlen(text);

	for (size_t a = 0; a <= n; a++) {
		for (size_t b = a; b <= n; b += b < n && n - b > 7 ? 5 : 1) {
			int r = feed(text, a, b, end, &answer, &events, &err);

			buf_append(&events, "", 1);
			if (strcmp(events.data, expected) != 0 || answer.state != HTTP_DONE ||
			    r < 0)
				fail_msg("cut at %zu and %zu: '%s', state %d, %d, %s", a, b,
					 events.data, answer.state, r, err.message);
			http_answer_release(&answer);
		}
	}
	assert_int_equal(feed(text, n, n, end, &answer, &events, &err), left);
	http_answer_release(&answer);
	buf_release(&events);
}

#define STREAM "Content-Type: text/event-stream; charset=utf-8\r\n"

static void every_cut(void **state)
{
	(void)state;
	check_cuts("HTTP/1.1 200 OK\r\n" STREAM "Transfer-Encoding: chunked\r\n\r\n"
		   "b\r\ndata: one\n\n\r\n"
		   "8\r\ndata: tw\r\n"
		   "1A\r\no\r\n: ping\r\ndata:3\rdata:4\r\r\r\n"
		   "C;x=y\r\ndata: [DONE]\r\n2\r\n\n\n\r\n0\r\nX: y\r\n\r\n",
		   false, "<one><two\n3\n4><[DONE]>", 0);
	check_cuts("HTTP/1.1 200 OK\r\n" STREAM "Connection: close\r\n\r\nid: 1\ndata: a\n\n"
		   "event: x\ndata\n\ndata: last",
		   true, "<a><><last>", 0);
	check_cuts("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Too Many\r\ncontent-length: 4\r\n"
		   "\r\nslowHTTP/",
		   false, "<slow>", 5);
	check_cuts("HTTP/1.0 200 OK\nContent-Length: 0\n\n", false, "<>", 0);
}

static void connections(void **state)
{
	static const struct {
		const char *text;
		bool keep;
	} cases[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true },
		{ "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nok", false },
		{ "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false },
		{ "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
		  true },
	};
	struct buf events = { 0 };
	struct http_answer answer;
	struct err err = { "" };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(feed(cases[i].text, 3, 9, false, &answer, &events, &err), 0);
		assert_int_equal(answer.keep_alive, cases[i].keep);
		assert_int_equal(answer.status, 200);
		http_answer_release(&answer);
	}
	buf_release(&events);
}

static void broken_answers(void **state)
{
	static const char *const cases[][2] = {
		{ "SSH-2.0-OpenSSH\r\n", "does not speak HTTP/1.1: its answer begins with 'SSH" },
		{ "HTTP/1.1 2x0 OK\r\n", "does not speak HTTP" },
		{ "HTTP/1.1 200 OK\r\nno colon\r\n", "header line 'no colon'" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n", "Content-Length '-1'" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
		  "two different" },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		  "chunk size 'zz'" },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", "longer" },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "in the middle" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", "in the middle" },
		{ "", "without an answer" },
	};
	struct buf events = { 0 };
	struct http_answer answer;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct err err = { "" };

		assert_true(feed(cases[i][0], 0, 0, true, &answer, &events, &err) < 0);
		if (!strstr(err.message, cases[i][1]))
			fail_msg("'%s' does not say '%s'", err.message, cases[i][1]);
		http_answer_release(&answer);
	}
	buf_release(&events);
}

static struct completion_event read_event(const char *text, struct buf *said)
{
	struct completion_event event;

	completion_read(text, strlen(text), &event, said);
	return event;
}

static void events_of_the_api(void **state)
{
	struct completion_event event;
	struct buf said = { 0 };

	(void)state;
	event = read_event("[DONE]", &said);
	assert_true(event.done && !event.has_choice && !event.error[0]);
	event = read_event("{\"choices\":[{\"text\":\" a\",\"finish_reason\":null}]}", &said);
	assert_true(event.has_text && !event.finished && !event.has_usage);
	event = read_event("{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
			   &said);
	assert_true(event.has_choice && !event.has_text);
	event = read_event("{\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":"
			   "\"length\"}],\"usage\":null}",
			   &said);
	assert_true(event.has_text && event.finished && !event.has_usage);
	event = read_event("{\"choices\":[{\"delta\":{\"reasoning_content\":\"c\"}}]}", &said);
	assert_true(event.has_text);
	event = read_event("{\"choices\":[{\"delta\":{\"tool_calls\":[{}]}}]}", &said);
	assert_true(event.has_text);
	event = read_event("{\"choices\":[],\"usage\":{\"prompt_tokens\":3,"
			   "\"completion_tokens\":7}}",
			   &said);
	assert_true(!event.has_choice && event.has_usage);
	assert_int_equal(event.prompt_tokens, 3);
	assert_int_equal(event.output_tokens, 7);
	assert_int_equal(said.size, 4);
	assert_memory_equal(said.data, " abc", 4);
	event = read_event("{\"error\":{\"message\":\"out of\\nmemory\"}}", NULL);
	assert_string_equal(event.error, "out of?memory");
	event = read_event("{\"choices\":", NULL);
	assert_non_null(strstr(event.error, "not a JSON object"));
	buf_release(&said);
}

static void bodies(void **state)
{
	struct experiment e;
	struct buf body = { 0 };
	struct err err;

	(void)state;
	assert_int_equal(experiment_init(&e), 0);
	assert_int_equal(experiment_set(&e, "endpoint", "completions", &err), 0);
	assert_int_equal(experiment_set(&e, "temperature", "0", &err), 0);
	assert_int_equal(completion_body(&body, &e, "m", "say \"x\"", 5), 0);
	buf_append(&body, "", 1);
	assert_string_equal(body.data,
			    "{\"model\":\"m\",\"prompt\":\"say \\\"x\\\"\",\"max_tokens\":5,"
			    "\"temperature\":0,\"stream\":true,\"stream_options\":"
			    "{\"include_usage\":true}}");
	body.size = 0;
	assert_int_equal(experiment_set(&e, "endpoint", "chat", &err), 0);
	assert_int_equal(experiment_set(&e, "ignore_eos", "true", &err), 0);
	assert_int_equal(completion_body(&body, &e, NULL, "x", 5), 0);
	buf_append(&body, "", 1);
	assert_string_equal(
		body.data, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":5,"
			   "\"temperature\":0,\"ignore_eos\":true,\"stream\":true,"
			   "\"stream_options\":{\"include_usage\":true}}");
	buf_release(&body);
	experiment_release(&e);
}

static void urls(void **state)
{
	static const char *const good[][3] = {
		{ "http://127.0.0.1:8000", "127.0.0.1:8000", "" },
		{ "http://127.0.0.1", "127.0.0.1", "" },
		{ "HTTP://127.0.0.1:80/v1/", "127.0.0.1:80", "" },
		{ "http://[::1]:9/api/v1", "[::1]:9", "/api" },
	};
	static const char *const bad[][2] = {
		{ "https://host", "only http:// is spoken here" },
		{ "localhost:8000", "is not a server's URL" },
		{ "http://", "is not a server's URL" },
		{ "http://:80", "is not a server's URL" },
		{ "http://h:port", "is not a server's URL" },
		{ "http://h\r\nX: y", "is not a server's URL" },
		{ "http://name.invalid", "cannot be found" },
	};
	struct http_target target;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct err err = { "" };

		if (http_target_init(&target, good[i][0], &err) < 0)
			fail_msg("%s: %s", good[i][0], err.message);
		assert_string_equal(target.authority, good[i][1]);
		assert_string_equal(target.base, good[i][2]);
		http_target_release(&target);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct err err = { "" };

		assert_true(http_target_init(&target, bad[i][0], &err) < 0);
		if (!strstr(err.message, bad[i][1]))
			fail_msg("%s: '%s' does not say '%s'", bad[i][0], err.message, bad[i][1]);
	}
}

static void the_address_that_listens(void **state)
{
	struct sockaddr_in address[2];
	struct http_target target = { .n_addresses = 2 };
	socklen_t size = sizeof(*address);
	int fds[2];

	(void)state;
	for (int i = 0; i < 2; i++) { /* both have a port of their own, and the second listens */
		address[i] = (struct sockaddr_in){ .sin_family = AF_INET,
						   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(fds[i], (struct sockaddr *)&address[i], size), 0);
		assert_int_equal(getsockname(fds[i], (struct sockaddr *)&address[i], &size), 0);
		memcpy(&target.addresses[i], &address[i], size);
		target.sizes[i] = size;
	}
	http_target_settle(&target);
	assert_int_equal(target.n_addresses, 2); /* neither takes a connection yet */
	assert_int_equal(listen(fds[1], 4), 0);
	http_target_settle(&target);
	assert_int_equal(target.n_addresses, 1);
	assert_memory_equal(&target.addresses[0], &address[1], size);
	close(fds[0]);
	close(fds[1]);
}

/* A server that takes `service_s` for each of the requests that come `rate` times a second, `slots`
 * at once. When it is told to be over-saturated; 0: never within 60 s. */
static double told_at(double rate, double service_s, size_t slots)
{
	struct saturation s = { 0 };
	double free_at[64] = { 0 }, first[6000], told = 0;
	size_t n = (size_t)(60 * rate), next_first = 0;

	for (size_t i = 0; i < n && told == 0; i++) {
		double now = (double)i / rate, at = now;
		size_t slot = 0, under_way = 0;

		for (size_t k = 1; k < slots; k++)
			if (free_at[k] < free_at[slot])
				slot = k;
		at = fmax(at, free_at[slot]);
		free_at[slot] = at + service_s;
		first[i] = at + service_s / 10;
		while (next_first < i && first[next_first] <= now) {
			saturation_first_token(&s, first[next_first],
					       first[next_first] - (double)next_first / rate);
			saturation_ended(&s, service_s);
			next_first++;
		}
		for (size_t k = 0; k <= i; k++)
			under_way += first[k] + service_s * 0.9 > now;
		saturation_sent(&s, now, under_way);
		if (saturation_test(&s, now))
			told = now;
	}
	saturation_release(&s);
	return told;
}

static void over_saturation(void **state)
{
	double told;

	(void)state;
	assert_true(told_at(20, 0.2, 8) == 0);	/* half of what it can */
	assert_true(told_at(39, 0.2, 8) == 0);	/* almost all */
	assert_true(told_at(20, 2.9, 60) == 0); /* slow, and not too much */
	told = told_at(60, 0.2, 8);		/* half more than it can */
	assert_true(told >= SATURATION_SECONDS && told < 15);
	told = told_at(50, 0.2, 8);
	assert_true(told >= SATURATION_SECONDS && told < 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cut),	   cmocka_unit_test(connections),
		cmocka_unit_test(broken_answers),  cmocka_unit_test(events_of_the_api),
		cmocka_unit_test(bodies),	   cmocka_unit_test(urls),
		cmocka_unit_test(over_saturation), cmocka_unit_test(the_address_that_listens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
