/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch (Kineto) traces in pieces: whatever the size of the blocks, the number of threads and the way
 * of looking through text, the result is the same; files that break off anywhere give what comes
 * before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kineto_text.h"

/* With all that makes it hard to tell where an event begins. */
static const char trace[] =
	"\n{\n  \"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"GPU\"},"
	"{\"id\": 1, \"name\": \"},{\\\"\"}],\n  \"traceEvents\": [\n"
	"  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 1, \"tid\": 2,\n"
	"    \"ts\": 10.5, \"dur\": 5,\n    \"args\": {\n      \"Input Dims\": [[1, 2], [2]]\n    }\n"
	"  },\n"
	"  {\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"}, {\\\"ph\\\": k\",\"pid\":0,\"tid\":7,"
	"\"ts\":11.001,\"dur\":2,\"args\":{\"grid\":[1,2,3],\"a\":[{\"b\":{}},{\"c\":1}],"
	"\"block\":[4,5,6]}},\n"
	"  {\"args\":{\"correlation\":5,\"x\":\"\\\\\"},\"dur\":\"7\",\"name\":\"cudaMalloc\","
	"\"tid\":\"2\",\"ts\":1e1,\"cat\":\"cuda_runtime\",\"ph\":\"X\"}   ,   "
	"{\"ph\":\"s\",\"id\":1,\"tid\":2,\"ts\":1,\"cat\":\"fwdbwd\"},"
	"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"bad\"\",\"ts\":1,\"dur\":1},\n"
	"  {\"ph\":\"f\",\"id\":1,\"tid\":3,\"ts\":2,\"cat\":\"fwdbwd\"},\n"
	"  {\"ph\":\"X\",\"cat\":\"what\",\"name\":\"u\",\"ts\":1,\"dur\":1,\"args\":{\"q\":\"{{{\"}},\n"
	"  {\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":461,\"args\":{\"labels\":\"CPU\"}},\n"
	"  {\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"late\",\"ts\":99,\"dur\":-1},\n"
	"  {}\n ],\n  \"distributedInfo\": {\"rank\": 4, \"world_size\": 8},\n"
	"  \"baseTimeNanoseconds\": 1700000000000000000,\n"
	"  \"traceName\": \"[{\\\"ph\\\": }, {\"\n}\n";

static const char expected[] =
	"fact key='schemaVersion' value='1'\n"
	"device name='GPU'\n"
	"device device=1 name='},{\"'\n"
	"op site='aten::mm' start_ns=10500 duration_ns=5000 thread=2 shape='[1,2]x[2]' unknown=3\n"
	"kernel launch='}, {\"ph\": k <1,2,3> <4,5,6> 0 registers 0+0 bytes' start_ns=11001 "
	"duration_ns=2000 stream=7\n"
	"api name='cudaMalloc' start_ns=10000 duration_ns=7000 thread=2 correlation=5 "
	"status=4294967295\n"
	"fact key='rank' value='4'\n"
	"fact key='world_size' value='8'\n"
	"fact key='traceName' value='[{\"ph\": }, {'\n"
	"flow name='fwdbwd' start_ns=1000 duration_ns=1000 thread=2 end_thread=3 id=1\n"
	"damaged at 602: no comma between two members\n"
	"damaged at 855: a duration below zero\n"
	"unknown: what\n"
	"process rank=4 pid=461 shift=1700000000000000000 since 1970\n";

static void test_block_sizes(void **state)
{
	(void)state;
	/* The offsets that are expected. */
	assert_memory_equal(trace + 602, "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"bad", 35);
	assert_memory_equal(trace + 855, "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"late", 36);
	for (size_t bytes = 1; bytes <= sizeof(trace); bytes++) {
		struct kineto_choices choices = { scan_best(), bytes, 1 };
		char *lines = lines_of(trace, ALL_KINDS, &choices);

		assert_string_equal(lines, expected);
		free(lines);
	}
}

/* A mark of UTF-8, a list alone, a top level that cannot be read, an end like one of an event's list,
 * and two traces one behind the other. */
static void test_small_blocks_of_others(void **state)
{
	static const char *const texts[] = {
		"\xef\xbb\xbf  [ {\"ph\":\"i\",\"name\":\"a\",\"ts\":1} ] ",
		"[]",
		"{\"a\": ], \"traceEvents\" : 1, \"traceEvents\"  :  [{\"ph\":\"i\",\"name\":\"a\","
		"\"ts\":1}]}",
		"{\"traceEvents\":[{\"ph\":\"i\" \"a\":[{}]},{\"ph\":\"i\",\"name\":\"b\",\"ts\":1},"
		"{\"ph\":\"i\",\"name\":\"c\"a,\"b\":[{}  ]  ,  \"traceName\":1}]  ,  "
		"\"traceName\"  :\"n\"}",
		"{\"traceEvents\":[{\"ph\":\"i\",\"name\":\"a\",\"ts\":1}]} \n"
		"{\"traceEvents\":[{\"ph\":\"i\",\"name\":\"b\",\"ts\":1},"
		"{\"ph\":\"i\",\"name\":\"c\",\"ts\":1}]}\n",
	};
	static const char *const results[] = {
		"mark time_ns=1000 text='a'\nprocess rank=9? pid=0 shift=0\n",
		"process rank=9? pid=0 shift=0\n",
		"mark time_ns=1000 text='a'\ndamaged at 1: no value where one should be\n"
		"process rank=9? pid=0 shift=0\n",
		"mark time_ns=1000 text='b'\nfact key='traceName' value='1'\n"
		"damaged at 16: no comma between two members\n"
		"damaged at 65: no comma between two members\n"
		"damaged at 116: something after the end of the trace\n"
		"process rank=9? pid=0 shift=0\n",
		"mark time_ns=1000 text='a'\n"
		"damaged at 48: something after the end of the trace\n"
		"process rank=9? pid=0 shift=0\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (size_t bytes = 1; bytes <= strlen(texts[i]); bytes++) {
			struct kineto_choices choices = { scan_best(), bytes, 1 };
			char *lines = lines_of(texts[i], ALL_KINDS, &choices);

			assert_string_equal(lines, results[i]);
			free(lines);
		}
}

static void test_threads(void **state)
{
	(void)state;
	for (unsigned int workers = 2; workers <= 4; workers++)
		for (size_t bytes = 1; bytes <= 600; bytes += 7) {
			struct kineto_choices choices = { scan_best(), bytes, workers };
			char *lines = lines_of(trace, ALL_KINDS, &choices);

			assert_string_equal(lines, expected);
			free(lines);
		}
}

static void test_ways(void **state)
{
	const struct scan *way;

	(void)state;
	for (size_t i = 0; (way = scan_way(i)); i++)
		for (size_t bytes = 50; bytes <= sizeof(trace); bytes += 100) {
			struct kineto_choices choices = { way, bytes, 1 };
			uint64_t kernels = UINT64_C(1) << RECORD_KERNEL;
			char *lines = lines_of(trace, ALL_KINDS, &choices), *other;

			assert_string_equal(lines, expected);
			free(lines);
			/* Most events are skipped now. */
			lines = lines_of(trace, kernels, &choices);
			choices.scan = scan_way(0);
			other = lines_of(trace, kernels, &choices);
			assert_string_equal(lines, other);
			assert_non_null(strstr(lines, "kernel launch='}, {\"ph\": k <1,2,3>"));
			free(lines);
			free(other);
		}
}

/* Rows of a file that breaks off are the first of those of the whole one. */
static void test_every_cut(void **state)
{
	size_t bad = (size_t)(strstr(trace, "\"bad\"") - trace);

	(void)state;
	for (size_t size = 0; size < sizeof(trace) - 1; size++) {
		struct kineto_choices choices = { scan_best(), 64, 1 };
		struct err err = { "" };
		char *lines, *end;
		const char *whole = expected;
		int r = read_bytes(trace, size, false, ALL_KINDS, &choices, &lines, &err);

		if (r < 0) {
			assert_true(size <
				    (size_t)(strstr(trace, "traceEvents\": [") - trace + 15));
			assert_non_null(strstr(err.message, "no list of events"));
			free(lines);
			continue;
		}
		/* Nothing but the end of the outermost object says that it is all; what follows an
		 * event that cannot be read is that event, until another one begins. */
		if (size < sizeof(trace) - 2 && (size < bad || size > bad + 56))
			assert_non_null(strstr(lines, "the file ends "));
		for (char *line = lines; *line; line = end + 1) {
			size_t length = strcspn(line, "\n");

			end = line + length;
			if (!strncmp(line, "damaged", 7) || !strncmp(line, "flow", 4) ||
			    !strncmp(line, "note", 4))
				break;
			assert_int_equal(strncmp(line, whole, length + 1), 0);
			whole += length + 1;
		}
		free(lines);
	}
}

/* Longer than all blocks. */
static void test_long_events(void **state)
{
	size_t long_bytes = 300000;
	char *name = malloc(long_bytes + 1), *text, *lines, *want;
	struct kineto_choices choices = { scan_best(), 1000, 2 };

	(void)state;
	memset(name, 'n', long_bytes);
	name[long_bytes] = 0;
	assert_true(asprintf(&text,
			     "[{\"ph\":\"i\",\"name\":\"%s\",\"ts\":1},"
			     "{\"ph\":\"i\",\"name\":\"b\",\"ts\":2}]",
			     name) > 0);
	assert_true(asprintf(&want,
			     "mark time_ns=1000 text='%s'\nmark time_ns=2000 text='b'\n"
			     "process rank=9? pid=0 shift=0\n",
			     name) > 0);
	lines = lines_of(text, ALL_KINDS, &choices);
	assert_string_equal(lines, want);
	free(lines);
	/* The same, skipped. */
	lines = lines_of(text, UINT64_C(1) << RECORD_KERNEL, &choices);
	assert_string_equal(lines, "process rank=9? pid=0 shift=0\n");
	free(lines);
	free(want);
	free(text);
	free(name);
}

/* A string that does not end takes no more memory than there is of it, and ends nothing before. */
static void test_endless_string(void **state)
{
	size_t size = (size_t)2 << 20;
	char *text = malloc(size + 1), *lines;
	struct kineto_choices choices = { scan_best(), 65536, 1 };

	(void)state;
	memset(text, 'x', size);
	text[size] = 0;
	memcpy(text, "[{\"ph\":\"i\",\"name\":\"a\",\"ts\":1},{\"ph\":\"i\",\"name\":\"",
	       strlen("[{\"ph\":\"i\",\"name\":\"a\",\"ts\":1},{\"ph\":\"i\",\"name\":\""));
	lines = lines_of(text, ALL_KINDS, &choices);
	assert_string_equal(lines, "mark time_ns=1000 text='a'\n"
				   "damaged at 30: the file ends inside of an event\n"
				   "process rank=9? pid=0 shift=0\n");
	free(lines);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_blocks_of_others),
		cmocka_unit_test(test_block_sizes),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_ways),
		cmocka_unit_test(test_every_cut),
		cmocka_unit_test(test_long_events),
		cmocka_unit_test(test_endless_string),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
