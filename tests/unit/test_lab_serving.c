/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of serving: three requests worked out by hand in every dialect, and recordings of the
 * dialects' owners, whose own summaries must come out (tests/data/serving/README.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_read.h"
#include "failing_alloc.h"
#include "json_check.h"
#include "lab/serving/serving.h"

#define MS INT64_C(1000000)
#define NEAR(a, b) assert_true(fabs((a) - (double)(b)) <= 1e-9 * (1 + fabs((double)(b))))

static struct request *add(struct requests *all, enum request_end end, int64_t sent_ms,
			   int64_t end_ms, int64_t tokens)
{
	struct request *request = requests_add(all);

	assert_non_null(request);
	request->end = end;
	request->sent_ns = sent_ms * MS;
	request->end_ns = end_ms < 0 ? -1 : end_ms * MS;
	request->prompt_tokens = 10;
	request->output_tokens = tokens;
	return request;
}

static void pieces(struct requests *all, int n, ...)
{
	va_list times;

	va_start(times, n);
	for (int i = 0; i < n; i++)
		assert_int_equal(requests_piece(all, va_arg(times, int) * MS), 0);
	va_end(times);
}

/* Sent at 0: a role at 40, texts at 50, 70, 80 (5 tokens), the reason of the end at 85, end at 90.
 * Sent at 100: one text at 200, end at 210. Failed: 300 to 320, after a text. Warm-up before. */
static void build(struct requests *all)
{
	struct request *request;

	*all = (struct requests){ .start_ns = 0, .end_ns = 500 * MS, .load_ns = -1 };
	add(all, REQUEST_OK, 0, 400, 4)->warmup = true;
	pieces(all, 2, 100, 300);
	request = add(all, REQUEST_OK, 0, 90, 5);
	request->due_ns = 0;
	assert_int_equal(requests_empty(all, 40 * MS), 0);
	pieces(all, 3, 50, 70, 80);
	assert_int_equal(requests_empty(all, 85 * MS), 0);
	request = add(all, REQUEST_OK, 100, 210, 1);
	request->due_ns = 98 * MS;
	pieces(all, 1, 200);
	add(all, REQUEST_FAILED, 300, 320, -1);
	pieces(all, 1, 310);
	add(all, REQUEST_CANCELLED, 330, 340, -1)->prompt_tokens = -1;
	add(all, REQUEST_TIMEOUT, 330, 350, -1);
	add(all, REQUEST_UNFINISHED, 330, -1, -1);
	add(all, REQUEST_OK, 360, 370, 0); /* an answer without anything in it */
}

static void compute(const struct requests *all, enum dialect dialect,
		    const struct goodput_limit *limit, struct serving *ret)
{
	assert_int_equal(serving_compute(all, dialect, limit, ret), 0);
	assert_int_equal(ret->ok, 2);
	assert_int_equal(ret->failed, 2);
	assert_int_equal(ret->cancelled, 1);
	assert_int_equal(ret->timeouts, 1);
	assert_int_equal(ret->unfinished, 1);
	assert_int_equal(ret->prompt_tokens, 20);
	assert_int_equal(ret->output_tokens, 6);
	NEAR(ret->lateness.mean, 1);
	assert_int_equal(ret->lateness.n, 2);
}

static void test_vllm(void **state)
{
	struct goodput_limit limit = { .ttft_ms = 100, .tpot_ms = 11 };
	struct requests all;
	struct serving s;

	(void)state;
	build(&all);
	compute(&all, DIALECT_VLLM, &limit, &s);
	/* The role is a chunk: the first comes at 40, the last at 85. */
	NEAR(s.metrics[SERVING_TTFT].mean, (40 + 100) / 2.0);
	NEAR(s.metrics[SERVING_TTFT].std, 30);
	NEAR(s.metrics[SERVING_TTFT].p90, 40 + 0.9 * 60);
	NEAR(s.metrics[SERVING_TPOT].mean, 45 / 4.0);
	assert_int_equal(s.metrics[SERVING_TPOT].n, 1);
	/* Gaps 10, 20, 10, 5. */
	assert_int_equal(s.metrics[SERVING_ITL].n, 4);
	NEAR(s.metrics[SERVING_ITL].mean, 45 / 4.0);
	NEAR(s.metrics[SERVING_ITL].max, 20);
	NEAR(s.metrics[SERVING_E2EL].mean, (85 + 100) / 2.0);
	assert_int_equal(s.metrics[SERVING_ICL].n, 0);
	assert_string_equal(s.metrics[SERVING_ICL].reason, "this dialect has no such figure");
	NEAR(s.duration_s, 0.5);
	NEAR(s.requests_per_s, 4);
	NEAR(s.output_tokens_per_s, 12);
	NEAR(s.total_tokens_per_s, 52);
	/* 11.25 is above the limit; one token counts as 0. */
	NEAR(s.goodput_per_s, 2);
	NEAR(s.concurrency_max, 2);
	assert_true(isnan(s.concurrency_mean));
	requests_release(&all);
}

static void test_guidellm(void **state)
{
	struct goodput_limit limit = { .ttft_ms = 100, .tpot_ms = 11 };
	struct requests all;
	struct serving s;

	(void)state;
	build(&all);
	compute(&all, DIALECT_GUIDELLM, &limit, &s);
	NEAR(s.metrics[SERVING_TTFT].mean, (50 + 100) / 2.0);
	/* A value that occurred, not one between two. */
	NEAR(s.metrics[SERVING_TTFT].p50, 50);
	NEAR(s.metrics[SERVING_TTFT].p90, 100);
	/* 80 / 5 with weight 5, 100 / 1 with weight 1. */
	assert_int_equal(s.metrics[SERVING_TPOT].n, 6);
	NEAR(s.metrics[SERVING_TPOT].mean, 180 / 6.0);
	NEAR(s.metrics[SERVING_TPOT].p50, 16);
	NEAR(s.metrics[SERVING_TPOT].p90, 100);
	NEAR(s.metrics[SERVING_TPOT].std, sqrt((14 * 14 * 5 + 70 * 70) / 6.0));
	assert_int_equal(s.metrics[SERVING_ITL].n, 4);
	NEAR(s.metrics[SERVING_ITL].mean, 30 / 4.0);
	NEAR(s.metrics[SERVING_E2EL].mean, (90 + 110) / 2.0);
	/* All six that ended, and the token of the failed one; no prompt of the cancelled one. */
	NEAR(s.requests_per_s, 12);
	NEAR(s.output_tokens_per_s, 14);
	NEAR(s.total_tokens_per_s, 14 + 100);
	/* One token has no inter-token latency, and so cannot be judged. */
	NEAR(s.goodput_per_s, 2);
	NEAR(s.concurrency_mean, (90 + 110 + 20 + 10 + 20 + 10) / 500.0);
	NEAR(s.concurrency_max, 2);
	requests_release(&all);
}

static void test_aiperf(void **state)
{
	struct goodput_limit limit = { .ttft_ms = 100, .tpot_ms = 7 };
	struct requests all;
	struct serving s;

	(void)state;
	build(&all);
	compute(&all, DIALECT_AIPERF, &limit, &s);
	NEAR(s.metrics[SERVING_TTFT].mean, (50 + 100) / 2.0);
	NEAR(s.metrics[SERVING_TTFT].p50, 75);
	NEAR(s.metrics[SERVING_ITL].mean, 30 / 4.0);
	assert_int_equal(s.metrics[SERVING_ITL].n, 1);
	assert_int_equal(s.metrics[SERVING_ICL].n, 2);
	NEAR(s.metrics[SERVING_ICL].mean, 15);
	NEAR(s.metrics[SERVING_E2EL].mean, (80 + 100) / 2.0);
	assert_int_equal(s.metrics[SERVING_TPOT].n, 0);
	/* From the first request to the last text; rates are of the measured part. */
	NEAR(s.duration_s, 0.2);
	NEAR(s.requests_per_s, 4);
	NEAR(s.goodput_per_s, 0);
	NEAR(s.concurrency_mean, (90 + 110) / 500.0);
	requests_release(&all);
}

static void test_nothing_known(void **state)
{
	struct requests all = { .start_ns = -1, .end_ns = -1, .load_ns = -1 };

	(void)state;
	for (int i = 0; i < DIALECTS; i++) {
		struct serving s;

		assert_int_equal(serving_compute(&all, (enum dialect)i, NULL, &s), 0);
		for (int k = 0; k < SERVING_METRICS; k++) {
			assert_int_equal(s.metrics[k].n, 0);
			assert_non_null(s.metrics[k].reason);
		}
		for (int k = 0; k < SERVING_RATES; k++) {
			assert_true(isnan(serving_rate(&s, (enum serving_rate)k)));
			assert_non_null(s.rate_reasons[k]);
		}
		assert_non_null(s.lateness.reason);
	}
}

/* An engine that answers in one go: no first token, but an end and tokens. */
static void test_not_streamed(void **state)
{
	struct requests all = { .start_ns = 0, .end_ns = 1000 * MS, .load_ns = -1 };
	struct serving s;

	(void)state;
	add(&all, REQUEST_OK, 0, 800, 8)->prompt_tokens = -1;
	for (int i = 0; i < DIALECTS; i++) {
		assert_int_equal(serving_compute(&all, (enum dialect)i, NULL, &s), 0);
		assert_int_equal(s.ok, 1);
		NEAR(s.metrics[SERVING_E2EL].mean, 800);
		NEAR(s.output_tokens_per_s, 8);
		assert_int_equal(s.metrics[SERVING_TTFT].n, 0);
		assert_string_equal(s.metrics[SERVING_TTFT].reason,
				    "the answers were not streamed");
		assert_true(isnan(s.total_tokens_per_s));
		assert_string_equal(s.rate_reasons[SERVING_TOTAL_TOKENS_PER_S],
				    "the number of prompt tokens is unknown");
		assert_true(isnan(s.goodput_per_s));
		assert_string_equal(s.rate_reasons[SERVING_GOODPUT], "no limits were given");
	}
	requests_release(&all);
}

/* Answers of one token only, with a limit on tpot; and a server that says 0 for its tokens. */
static void test_one_token(void **state)
{
	struct goodput_limit limit = { .tpot_ms = 10 };
	struct requests all = { .start_ns = 0, .end_ns = 1000 * MS, .load_ns = -1 };
	static const double good[DIALECTS] = { 1, NAN, 0 };
	struct serving s;

	(void)state;
	add(&all, REQUEST_OK, 0, 90, 0);
	all.v[0].output_tokens = 1;
	pieces(&all, 1, 80);
	for (int i = 0; i < DIALECTS; i++) {
		assert_int_equal(serving_compute(&all, (enum dialect)i, &limit, &s), 0);
		assert_string_equal(s.metrics[SERVING_ITL].reason,
				    "no answer had more than one token");
		if (isnan(good[i])) {
			assert_true(isnan(s.goodput_per_s));
			assert_non_null(s.rate_reasons[SERVING_GOODPUT]);
		} else {
			NEAR(s.goodput_per_s, good[i]);
		}
	}
	all.v[0].output_tokens = 0;
	assert_int_equal(serving_compute(&all, DIALECT_VLLM, NULL, &s), 0);
	assert_int_equal(s.output_tokens, 1);
	assert_int_equal(serving_compute(&all, DIALECT_AIPERF, NULL, &s), 0);
	assert_int_equal(s.output_tokens, 0);
	requests_release(&all);
}

/* GuideLLM takes moments within 0.1 ms for one, the first of them: the window ends at 999.95 ms. */
static void test_merged_moments(void **state)
{
	struct requests all = { .start_ns = 0, .end_ns = 1000 * MS, .load_ns = -1 };
	struct serving s;

	(void)state;
	add(&all, REQUEST_OK, 100, 900, 3);
	pieces(&all, 2, 500, 800);
	add(&all, REQUEST_OK, 100, 0, 2)->end_ns = 999950000;
	pieces(&all, 1, 400);
	assert_int_equal(serving_compute(&all, DIALECT_GUIDELLM, NULL, &s), 0);
	NEAR(s.duration_s, 1);
	NEAR(s.requests_per_s, 2 / 0.99995);
	/* No token comes so late. */
	NEAR(s.output_tokens_per_s, 5);
	assert_int_equal(serving_compute(&all, DIALECT_VLLM, NULL, &s), 0);
	NEAR(s.requests_per_s, 2);
	requests_release(&all);
}

static void test_goodput_limits(void **state)
{
	static const char *const bad[] = { "ttft",    "ttft:",	       "ttft:x",   "ttft:-1",
					   "ttft:0",  "ttft:inf",      "itl:20",   "ttft:1x",
					   "ttft:1;", "ttft:1 ttft:2", "ttft:nan", "ttft=200",
					   ":5" };
	struct goodput_limit limit;
	struct err err;

	(void)state;
	assert_int_equal(goodput_parse("ttft:200 tpot:50.5,e2el:2000 ", &limit, &err), 0);
	NEAR(limit.ttft_ms, 200);
	NEAR(limit.tpot_ms, 50.5);
	NEAR(limit.e2el_ms, 2000);
	assert_int_equal(goodput_parse("", &limit, &err), 0);
	NEAR(limit.ttft_ms, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err.message[0] = '\0';
		assert_int_equal(goodput_parse(bad[i], &limit, &err), -EINVAL);
		assert_non_null(strstr(err.message, bad[i]));
	}
}

static char *as_json(const struct serving *serving)
{
	struct json json;
	char *text;

	json_init_buffer(&json, 1);
	serving_write_json(serving, &json);
	assert_int_equal(json_finish(&json, &text), 0);
	return text;
}

/* Every number of `expected` is at the same place of `found`. Recordings have times in nanoseconds
 * or microseconds, so that the last digits differ. */
static size_t compare(const struct json_node *expected, const struct json_node *found,
		      const char *where)
{
	char place[256];
	double a, b;
	size_t n = 0;

	if (!found)
		fail_msg("%s is missing", where);
	if (expected->type == JSON_OBJECT) {
		for (const struct json_node *node = expected->child; node; node = node->next) {
			snprintf(place, sizeof(place), "%.180s.%.60s", where, node->key);
			n += compare(node, json_get(found, node->key), place);
		}
		return n;
	}
	assert_int_equal(expected->type, JSON_NUMBER);
	if (found->type != JSON_NUMBER)
		fail_msg("%s is not a number", where);
	a = strtod(expected->text, NULL);
	b = strtod(found->text, NULL);
	if (fabs(a - b) > 5e-7 * fabs(a) + 1e-6)
		fail_msg("%s: %s in the recording, %s here", where, expected->text, found->text);
	return 1;
}

static struct json_node *parse_file(const char *path)
{
	static char text[65536];
	FILE *file = fopen(path, "r");
	struct json_node *root;
	size_t n;

	assert_non_null(file);
	n = fread(text, 1, sizeof(text), file);
	fclose(file);
	assert_true(n < sizeof(text));
	assert_int_equal(json_parse(path, text, n, &root, NULL), 0);
	return root;
}

static void test_recordings(void **state)
{
	(void)state;
	for (int i = 0; i < DIALECTS; i++) {
		struct json_node *recorded, *found;
		struct goodput_limit limit;
		struct requests requests;
		struct serving serving;
		struct err err = { 0 };
		char path[512], *text;

		snprintf(path, sizeof(path), MOESCOPE_DATA_DIR "/serving/%s.expected.json",
			 dialect_names[i]);
		recorded = parse_file(path);
		snprintf(path, sizeof(path), MOESCOPE_DATA_DIR "/serving/%s.requests.jsonl",
			 dialect_names[i]);
		if (requests_read(path, &requests, &err) < 0)
			fail_msg("%s", err.message);
		assert_int_equal(
			goodput_parse(json_get_string(recorded, "goodput", "?"), &limit, &err), 0);
		assert_int_equal(serving_compute(&requests, (enum dialect)i, &limit, &serving), 0);
		text = as_json(&serving);
		assert_int_equal(json_parse("figures", text, strlen(text), &found, &err), 0);
		assert_true(compare(json_get(recorded, "expected"), found, dialect_names[i]) > 30);
		json_node_free(recorded);
		json_node_free(found);
		requests_release(&requests);
		free(text);
	}
}

static char *as_text(const struct serving *serving, bool formulas)
{
	const struct text_layout layout = { .width = 80 };
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_int_equal(serving_print(serving, &layout, formulas, out), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void test_outputs(void **state)
{
	struct requests all;

	(void)state;
	build(&all);
	for (int i = 0; i < DIALECTS; i++) {
		struct serving s;
		char *text, *plain;

		compute(&all, (enum dialect)i, NULL, &s);
		text = as_json(&s);
		assert_true(json_check(text));
		free(text);
		plain = as_text(&s, false);
		text = as_text(&s, true);
		assert_non_null(strstr(plain, "2 ok, 2 failed, 1 cancelled, 1 timed out"));
		assert_non_null(strstr(plain, "n/a: no limits were given"));
		assert_non_null(strstr(plain, serving_owner((enum dialect)i)));
		assert_null(strstr(plain, "How "));
		assert_non_null(strstr(text, "How "));
		for (int k = 0; k < SERVING_METRICS; k++) {
			const char *formula = serving_formula((enum dialect)i,
							      (enum serving_metric)k);

			if (formula && strlen(formula) < 40)
				assert_non_null(strstr(text, formula));
		}
		free(text);
		free(plain);
	}
	requests_release(&all);
	assert_int_equal(dialect_find("aiperf"), DIALECT_AIPERF);
	assert_int_equal(dialect_find("genai"), -1);
}

static void test_no_memory(void **state)
{
	struct goodput_limit limit = { .ttft_ms = 100 };
	struct requests all;

	(void)state;
	build(&all);
	for (int i = 0; i < DIALECTS; i++) {
		struct serving s;
		int r = -ENOMEM;

		for (long n = 0; r < 0; n++) {
			countdown = n;
			r = serving_compute(&all, (enum dialect)i, &limit, &s);
			countdown = -1;
			assert_true(r == 0 || r == -ENOMEM);
			assert_true(n < 1000);
		}
	}
	requests_release(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vllm),	       cmocka_unit_test(test_guidellm),
		cmocka_unit_test(test_aiperf),	       cmocka_unit_test(test_nothing_known),
		cmocka_unit_test(test_not_streamed),   cmocka_unit_test(test_one_token),
		cmocka_unit_test(test_merged_moments), cmocka_unit_test(test_goodput_limits),
		cmocka_unit_test(test_recordings),     cmocka_unit_test(test_outputs),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
