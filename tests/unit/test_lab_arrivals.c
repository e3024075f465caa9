/* SPDX-License-Identifier: Apache-2.0
 *
 * When requests are sent, and how long they are: distributions with fixed seeds, the rescaling to the
 * nanosecond, traces good and bad. Literal numbers come from a reckoning in Python.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/load/arrivals.h"
#include "lab/load/lengths.h"
#include "lab/load/sampling.h"

struct fixture {
	struct experiment e;
	struct arrivals a;
	struct err err;
	char path[64];
};

static int begin(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fd;

	strcpy(f->path, "/tmp/test-lab-arrivals-XXXXXX");
	fd = mkstemp(f->path);
	close(fd);
	*state = f;
	return experiment_init(&f->e);
}

static int end(void **state)
{
	struct fixture *f = *state;

	arrivals_release(&f->a);
	experiment_release(&f->e);
	unlink(f->path);
	free(f);
	return 0;
}

static void make(struct fixture *f, const char *pairs)
{
	char text[256], *save = NULL;

	snprintf(text, sizeof(text), "%s", pairs);
	for (char *pair = strtok_r(text, " ", &save); pair; pair = strtok_r(NULL, " ", &save)) {
		char *value = strchr(pair, '=');

		*value++ = '\0';
		assert_int_equal(experiment_set(&f->e, pair, value, &f->err), 0);
	}
	arrivals_release(&f->a);
	assert_int_equal(arrivals_make(&f->e, &f->a, &f->err), 0);
}

static void write_file(struct fixture *f, const char *text)
{
	FILE *file = fopen(f->path, "w");

	fputs(text, file);
	fclose(file);
}

static void check_spread(const struct fixture *f, double rate, double cv, double tolerance)
{
	double sum = 0, squares = 0, mean;

	for (size_t i = 0; i < f->a.n; i++) {
		double gap = (double)(f->a.due_ns[i] - (i ? f->a.due_ns[i - 1] : 0)) * 1e-9;

		assert_true(gap >= 0);
		sum += gap;
		squares += gap * gap;
	}
	mean = sum / (double)f->a.n;
	assert_float_equal(mean * rate, 1, tolerance);
	assert_float_equal(sqrt(squares / (double)f->a.n - mean * mean) / mean, cv, tolerance * cv);
}

static void same_numbers_everywhere(void **state)
{
	static const double uniforms[] = { 0x1.8bb64e95418a7p-2, 0x1.e7ac18c95f1d2p-1,
					   0x1.7e4bd3da68d9fp-2 };
	static const int64_t poisson[] = { 242565787, 313624691, 590561936, 844806139 };
	static const int64_t bursty[] = { 217718, 862164, 865370, 279984914 };
	struct fixture *f = *state;
	struct sampler sampler;

	sampler_seed(&sampler, 1, STREAM_ARRIVALS);
	for (int i = 0; i < 3; i++)
		assert_true(sample_uniform(&sampler) == uniforms[i]);
	make(f, "arrival=poisson requests=4 request_rate=10 rescale=false seed=1");
	assert_memory_equal(f->a.due_ns, poisson, sizeof(poisson));
	make(f, "arrival=gamma burstiness=0.25 seed=7");
	assert_memory_equal(f->a.due_ns, bursty, sizeof(bursty));
}

static void spreads(void **state)
{
	struct fixture *f = *state;
	size_t longer = 0;

	make(f, "arrival=poisson requests=40000 request_rate=100 rescale=false seed=3");
	check_spread(f, 100, 1, 0.02);
	for (size_t i = 1; i < f->a.n; i++)
		longer += f->a.due_ns[i] - f->a.due_ns[i - 1] > 10000000;
	assert_float_equal((double)longer / 40000, exp(-1), 0.01);
	make(f, "arrival=gamma burstiness=0.25");
	check_spread(f, 100, 2, 0.04);
	make(f, "burstiness=4");
	check_spread(f, 100, 0.5, 0.02);
}

static void rescaled_exactly(void **state)
{
	struct fixture *f = *state;
	int64_t raw[1000];
	double factor;

	make(f, "arrival=gamma burstiness=0.5 requests=1000 request_rate=7 rescale=false seed=9");
	memcpy(raw, f->a.due_ns, sizeof(raw));
	make(f, "rescale=true");
	assert_int_equal(f->a.due_ns[999], llround(1000 / 7.0 * 1e9));
	factor = 1000 / 7.0 * 1e9 / (double)raw[999];
	assert_true(fabs(factor - 1) > 1e-3); /* else this proves nothing */
	for (int i = 0; i < 1000; i++)
		assert_true(fabs((double)f->a.due_ns[i] - (double)raw[i] * factor) < 3);
	make(f, "arrival=constant");
	for (int i = 0; i < 1000; i++)
		assert_true(llabs(f->a.due_ns[i] - llround((i + 1) / 7.0 * 1e9)) <= 1);
}

static void ramps(void **state)
{
	struct fixture *f = *state;
	double at = 0, rate;

	make(f, "arrival=constant ramp=linear ramp_start=1 ramp_end=11 requests=6");
	for (int i = 0; i < 6; i++) {
		at += 1 / (1 + 2.0 * i);
		assert_true(llabs(f->a.due_ns[i] - llround(at * 1e9)) <= 1);
	}
	make(f, "ramp=exponential ramp_start=1 ramp_end=32");
	for (at = 0, rate = 1; rate < 33; rate *= 2)
		at += 1 / rate;
	assert_true(llabs(f->a.due_ns[5] - llround(at * 1e9)) <= 1);
	make(f, "requests=1");
	assert_int_equal(f->a.due_ns[0], 1000000000);
}

static void closed(void **state)
{
	struct fixture *f = *state;

	make(f, "arrival=closed requests=12");
	assert_null(f->a.due_ns);
	assert_int_equal(f->a.n, 12);
}

static void traces(void **state)
{
	struct fixture *f = *state;
	char pair[128];

	snprintf(pair, sizeof(pair), "arrival=trace arrival_trace=%s", f->path);
	write_file(f, "0.5\n1.5\r\n\n1.75\n");
	make(f, pair);
	assert_int_equal(f->a.n, 3);
	assert_int_equal(f->a.due_ns[0], 0);
	assert_int_equal(f->a.due_ns[2], 1250000000);
	assert_int_equal(f->a.prompt_tokens[0], -1);
	write_file(f, "{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, "
		      "\"hash_ids\": [46, 47]}\n{\"timestamp\": 30535, \"input_length\": 6472, "
		      "\"output_length\": 26}\n");
	make(f, pair);
	assert_int_equal(f->a.due_ns[1], 3053000000);
	assert_int_equal(f->a.prompt_tokens[1], 6472);
	assert_int_equal(f->a.output_tokens[0], 52);
	write_file(f, "{\"timestamp\": 1}\n{\"timestamp\": 2.5}\n{\"timestamp\": 4}\n");
	make(f, pair);
	assert_int_equal(f->a.due_ns[1], 1500000000);
	make(f, "requests=2");
	assert_int_equal(f->a.n, 2);
}

static void bad_traces(void **state)
{
	static const char *const cases[][2] = {
		{ "1\n2\nx\n", "line 3: not a number" },
		{ "1\n0.5\n", "line 2: earlier than the line before" },
		{ "-1\n", "line 1: a time out of range" },
		{ "nan\n", "line 1: a time out of range" },
		{ "1\n{\"timestamp\": 2}\n", "line 2: lines of both forms" },
		{ "{\"time\": 2}\n", "line 1: there is no number \"timestamp\"" },
		{ "{\"timestamp\": 2, \"input_length\": 0}\n", "line 1: a length" },
		{ "{\"timestamp\": 2,\n", "line 1: the line: not valid JSON" },
		{ "\n\n", "has no arrivals" },
	};
	struct fixture *f = *state;

	assert_int_equal(experiment_set(&f->e, "arrival", "trace", &f->err), 0);
	assert_int_equal(experiment_set(&f->e, "arrival_trace", f->path, &f->err), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		write_file(f, cases[i][0]);
		assert_true(arrivals_make(&f->e, &f->a, &f->err) < 0);
		if (!strstr(f->err.message, cases[i][1]) || !strstr(f->err.message, f->path))
			fail_msg("%s: '%s' does not say '%s'", cases[i][0], f->err.message,
				 cases[i][1]);
		assert_null(f->a.due_ns);
	}
}

static void drawn(const char *text, double *ret_mean, int64_t *ret_min, int64_t *ret_max)
{
	struct sampler sampler;
	struct lengths lengths;
	struct err err = { "" };
	double sum = 0;

	assert_int_equal(lengths_parse(text, "prompt_tokens", &lengths, &err), 0);
	sampler_seed(&sampler, 5, STREAM_LENGTHS);
	*ret_min = INT64_MAX;
	*ret_max = 0;
	for (int i = 0; i < 20000; i++) {
		int64_t n = lengths_draw(&lengths, &sampler);

		sum += (double)n / 20000;
		*ret_min = n < *ret_min ? n : *ret_min;
		*ret_max = n > *ret_max ? n : *ret_max;
	}
	*ret_mean = sum;
	lengths_release(&lengths);
}

static void length_forms(void **state)
{
	struct fixture *f = *state;
	int64_t min, max;
	double mean;
	char text[128];

	drawn("128", &mean, &min, &max);
	assert_true(min == 128 && max == 128);
	drawn("uniform:64,66", &mean, &min, &max);
	assert_true(min == 64 && max == 66);
	assert_float_equal(mean, 65, 0.02);
	drawn("normal:128,32", &mean, &min, &max);
	assert_float_equal(mean, 128, 1);
	assert_true(min >= 1 && min < 40 && max > 210);
	drawn("normal:2,32", &mean, &min, &max);
	assert_int_equal(min, 1);
	drawn("lognormal:100,0.5", &mean, &min, &max);
	assert_float_equal(mean, 100 * exp(0.125), 2);
	write_file(f, "3\n5\n");
	snprintf(text, sizeof(text), "file:%s", f->path);
	drawn(text, &mean, &min, &max);
	assert_true(min == 3 && max == 5 && fabs(mean - 4) < 1e-9);
}

static void bad_lengths(void **state)
{
	static const char *const cases[] = { "",
					     "0",
					     "-3",
					     "12x",
					     "uniform:5",
					     "uniform:9,5",
					     "uniform:1.5,3",
					     "normal:10,-1",
					     "normal:nan,1",
					     "gauss:1,2",
					     "99999999999" };
	struct lengths lengths = { 0 };
	struct fixture *f = *state;
	char text[128];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_true(lengths_parse(cases[i], "output_tokens", &lengths, &f->err) < 0);
		assert_non_null(strstr(f->err.message, "output_tokens '"));
	}
	snprintf(text, sizeof(text), "file:%s", f->path);
	write_file(f, "3\n\nfive\n");
	assert_true(lengths_parse(text, "output_tokens", &lengths, &f->err) < 0);
	assert_non_null(strstr(f->err.message, "line 3"));
	write_file(f, "");
	assert_true(lengths_parse(text, "output_tokens", &lengths, &f->err) < 0);
	assert_null(lengths.list);
}

static void prompts_have_their_words(void **state)
{
	struct sampler sampler;
	struct buf buf = { 0 };
	int words = 1;

	(void)state;
	sampler_seed(&sampler, 5, STREAM_PROMPTS);
	prompt_append(&buf, &sampler, 300);
	for (size_t i = 0; i < buf.size; i++)
		words += buf.data[i] == ' ';
	assert_int_equal(words, 300);
	buf_release(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(same_numbers_everywhere, begin, end),
		cmocka_unit_test_setup_teardown(spreads, begin, end),
		cmocka_unit_test_setup_teardown(rescaled_exactly, begin, end),
		cmocka_unit_test_setup_teardown(ramps, begin, end),
		cmocka_unit_test_setup_teardown(closed, begin, end),
		cmocka_unit_test_setup_teardown(traces, begin, end),
		cmocka_unit_test_setup_teardown(bad_traces, begin, end),
		cmocka_unit_test_setup_teardown(length_forms, begin, end),
		cmocka_unit_test_setup_teardown(bad_lengths, begin, end),
		cmocka_unit_test(prompts_have_their_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
