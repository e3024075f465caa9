/* SPDX-License-Identifier: Apache-2.0
 *
 * requests.jsonl: what is written is read back, a file that ends anywhere is read up to there, and
 * what is wrong is refused with its line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "failing_alloc.h"
#include "lab/serving/requests.h"

#define HEAD "{\"schema\":\"moescope/requests/1\"}\n"

static char path[64];

static void put(const char *text, size_t length)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static void two_requests(struct requests *requests)
{
	struct request *request;

	*requests = (struct requests){ .start_ns = 1000, .end_ns = 9000, .load_ns = -1 };
	request = requests_add(requests);
	request->sent_ns = 1000;
	request->end_ns = 5000;
	request->end = REQUEST_OK;
	request->server_counts = true;
	request->prompt_tokens = 12;
	request->output_tokens = 3;
	assert_int_equal(requests_empty(requests, 1500), 0);
	for (int i = 2; i < 5; i++)
		assert_int_equal(requests_piece(requests, i * 1000), 0);
	request = requests_add(requests);
	request->due_ns = 1500;
	request->sent_ns = 2000;
	request->end_ns = 9000;
	request->end = REQUEST_TIMEOUT;
	request->warmup = true;
	request->error = strdup("no \"answer\"\nin time");
	assert_int_equal(requests_piece(requests, 8000), 0);
	requests->over_saturated = true;
	requests->text = strdup("caf\xc3\xa9");
}

static void test_round_trip(void **state)
{
	struct requests a, b;
	struct err err = { 0 };

	(void)state;
	two_requests(&a);
	assert_int_equal(requests_write(&a, path, &err), 0);
	assert_int_equal(requests_read(path, &b, &err), 0);
	assert_int_equal(b.n, 2);
	assert_int_equal(b.start_ns, 1000);
	assert_int_equal(b.end_ns, 9000);
	assert_int_equal(b.load_ns, -1);
	assert_true(b.over_saturated);
	assert_false(b.cut_off);
	assert_string_equal(b.text, a.text);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(b.v[i].due_ns, a.v[i].due_ns);
		assert_int_equal(b.v[i].sent_ns, a.v[i].sent_ns);
		assert_int_equal(b.v[i].end_ns, a.v[i].end_ns);
		assert_int_equal(b.v[i].end, a.v[i].end);
		assert_int_equal(b.v[i].warmup, a.v[i].warmup);
		assert_int_equal(b.v[i].server_counts, a.v[i].server_counts);
		assert_int_equal(b.v[i].prompt_tokens, a.v[i].prompt_tokens);
		assert_int_equal(b.v[i].output_tokens, a.v[i].output_tokens);
		assert_int_equal(b.v[i].first_piece, a.v[i].first_piece);
		assert_int_equal(b.v[i].pieces, a.v[i].pieces);
		assert_int_equal(b.v[i].empties, a.v[i].empties);
	}
	assert_string_equal(b.v[1].error, a.v[1].error);
	assert_null(b.v[0].error);
	assert_memory_equal(b.pieces_ns, a.pieces_ns, 4 * sizeof(int64_t));
	assert_memory_equal(b.empties_ns, a.empties_ns, sizeof(int64_t));
	requests_release(&a);
	requests_release(&b);
}

/* A driver that was killed: whole lines count, the rest of the last one is dropped. */
static void test_cut_anywhere(void **state)
{
	struct requests all;
	char text[2048];
	size_t length, first;
	FILE *file;

	(void)state;
	two_requests(&all);
	assert_int_equal(requests_write(&all, path, NULL), 0);
	requests_release(&all);
	file = fopen(path, "r");
	assert_non_null(file);
	length = fread(text, 1, sizeof(text), file);
	fclose(file);
	first = (size_t)((char *)memchr(text, '\n', length) - text);
	for (size_t n = 0; n <= length; n++) {
		struct requests some;
		struct err err = { 0 };
		size_t lines = 0, begin = 0;
		int r;

		put(text, n);
		r = requests_read(path, &some, &err);
		if (n < first) {
			assert_int_equal(r, -EBADMSG);
			assert_non_null(strstr(err.message, path));
			continue;
		}
		assert_int_equal(r, 0);
		for (size_t i = 0; i < n; i++)
			if (text[i] == '\n') {
				lines++;
				begin = i + 1;
			}
		/* Without its newline a line may still be whole. */
		if (n > begin && text[n] == '\n')
			lines++;
		else
			assert_int_equal(some.cut_off, n > begin);
		assert_int_equal(some.n, lines < 2 ? 0 : lines > 2 ? 2 : 1);
		assert_int_equal(!some.text, lines < 4);
		requests_release(&some);
	}
}

static void test_ends_are_found(void **state)
{
	static const char text[] = HEAD
		"{\"sent_ns\":5,\"end_ns\":7,\"end\":\"ok\",\"warmup\":true}\n"
		"{\"sent_ns\":20,\"end_ns\":90,\"end\":\"ok\"}\n"
		"{\"sent_ns\":10,\"end_ns\":null,\"end\":\"unfinished\"}\n";
	struct requests requests;

	(void)state;
	put(text, strlen(text));
	assert_int_equal(requests_read(path, &requests, NULL), 0);
	assert_int_equal(requests.start_ns, 10);
	assert_int_equal(requests.end_ns, 90);
	assert_int_equal(requests.v[2].end_ns, -1);
	assert_int_equal(requests.v[1].output_tokens, -1);
	requests_release(&requests);
}

static void test_bad_files(void **state)
{
#define OK "\"sent_ns\":5,\"end_ns\":7,\"end\":\"ok\""
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "", "is empty" },
		{ "[]\n", "line 1: must be an object" },
		{ "{}\n", "line 1: schema is missing" },
		{ "{\"schema\":\"moescope/requests/2\"}\n", "newer moescope" },
		{ "{\"schema\":\"moescope/report/1\"}\n", "line 1: the schema must be" },
		{ "{\"schema\":1}\n", "line 1: the schema must be" },
		{ "{\"schema\":\"moescope/requests/1\",\"start_ns\":9,\"end_ns\":8}\n",
		  "end_ns is before start_ns" },
		{ HEAD "\n", "line 2" },
		{ HEAD "{nothing}\n", "line 2: not valid JSON at byte 1" },
		{ HEAD "{" OK ",\"ouput_tokens\":3}\n",
		  "unknown key \"ouput_tokens\"; did you mean \"output_tokens\"?" },
		{ HEAD "{" OK ",\"end\":\"ok\"}\n", "line 2: end is there twice" },
		{ HEAD "{\"sent_ns\":5,\"end_ns\":7}\n", "line 2: end is missing" },
		{ HEAD "{\"sent_ns\":5,\"end_ns\":7,\"end\":\"good\"}\n", "end must be \"ok\"" },
		{ HEAD "{\"sent_ns\":5.5,\"end_ns\":7,\"end\":\"ok\"}\n",
		  "sent_ns must be a whole number" },
		{ HEAD "{\"sent_ns\":-5,\"end_ns\":7,\"end\":\"ok\"}\n",
		  "sent_ns must be a whole number" },
		{ HEAD "{\"sent_ns\":5,\"end_ns\":9223372036854775807,\"end\":\"ok\"}\n",
		  "end_ns must be a whole number" },
		{ HEAD "{\"sent_ns\":5,\"end_ns\":null,\"end\":\"ok\"}\n",
		  "needs sent_ns and end_ns" },
		{ HEAD "{\"sent_ns\":5,\"end_ns\":4,\"end\":\"ok\"}\n",
		  "end_ns is before sent_ns" },
		{ HEAD "{" OK ",\"warmup\":1}\n", "warmup must be true or false" },
		{ HEAD "{" OK ",\"error\":1}\n", "error must be a string" },
		{ HEAD "{" OK ",\"pieces_ns\":5}\n", "pieces_ns must be a list" },
		{ HEAD "{" OK ",\"pieces_ns\":[null]}\n", "pieces_ns must be a list" },
		{ HEAD "{" OK ",\"pieces_ns\":[7,6]}\n",
		  "pieces_ns goes back in time, from 7 to 6" },
		{ HEAD "{" OK ",\"pieces_ns\":[4]}\n", "pieces_ns begins before sent_ns" },
		{ HEAD "{" OK ",\"empties_ns\":[6,8]}\n", "empties_ns goes on after end_ns" },
		{ HEAD "{\"sent_ns\":null,\"end_ns\":7,\"end\":\"failed\",\"pieces_ns\":[4]}\n",
		  "pieces_ns begins before sent_ns" },
		{ HEAD "{\"text\":\"a\"}\n{" OK "}\n", "line 3: a line after that of the text" },
		{ HEAD "{" OK "}\n{" OK "}\nx\n{" OK "}\n", "line 4" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct requests requests;
		struct err err = { 0 };

		put(bad[i].text, strlen(bad[i].text));
		assert_int_equal(requests_read(path, &requests, &err), -EBADMSG);
		if (!strstr(err.message, bad[i].says))
			fail_msg("'%s' does not say '%s'", err.message, bad[i].says);
		assert_non_null(strstr(err.message, path));
	}
}

static void test_no_file(void **state)
{
	struct requests requests;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(requests_read("/nonexistent/requests.jsonl", &requests, &err), -ENOENT);
	assert_non_null(strstr(err.message, "/nonexistent/requests.jsonl"));
	requests = (struct requests){ 0 };
	assert_int_equal(requests_write(&requests, "/nonexistent/requests.jsonl", &err), -ENOENT);
	assert_non_null(strstr(err.message, "/nonexistent/requests.jsonl"));
}

static void test_no_memory(void **state)
{
	struct requests requests;
	int r = -ENOMEM;

	(void)state;
	two_requests(&requests);
	assert_int_equal(requests_write(&requests, path, NULL), 0);
	requests_release(&requests);
	for (long n = 0; r < 0; n++) {
		struct err err = { 0 };

		countdown = n;
		r = requests_read(path, &requests, &err);
		countdown = -1;
		assert_true(r == 0 || r == -ENOMEM);
		assert_true(n < 10000);
		if (r < 0)
			assert_true(err.message[0] != '\0');
	}
	assert_int_equal(requests.n, 2);
	requests_release(&requests);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_ends_are_found), cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_no_file),	       cmocka_unit_test(test_no_memory),
	};
	int fd, failed;

	snprintf(path, sizeof(path), "/tmp/requests-XXXXXX");
	fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
