/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk of threads and streams, folded stacks, and profiles of speedscope and pprof.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exports/exports.h"
#include "exports/stacks/stacks.h"
#include "fake_run.h"

static char *text_of(const struct run *run, int (*write)(const struct run *, FILE *, struct err *))
{
	struct err err = { "" };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(write(run, out, &err), 0);
	assert_string_equal(err.message, "");
	fclose(out);
	return text;
}

static void test_walk(void **state)
{
	/* kind, row, lane of thread 1: by start, longer first, less deep first. */
	static const struct stack_ref wanted[] = {
		{ .kind = STACK_RANGE, .row = 2 }, { .kind = STACK_RANGE, .row = 1 },
		{ .kind = STACK_OP, .row = 0 },	   { .kind = STACK_API, .row = 1 },
		{ .kind = STACK_API, .row = 0 },   { .kind = STACK_RANGE, .row = 0, .lane = 1 },
	};
	struct run *run = fake_run_new();
	uint32_t site = fake_site(run, "r", -1, -1, 0);
	const struct stack_ref *refs;
	struct stacks stacks;
	size_t n, lanes;

	(void)state;
	fake_call(run, "late", 50, 60, 2);
	fake_call(run, "early", 10, 20, 1);
	fake_op(run, site, 0, 100, 1, 2, 0);
	fake_range(run, site, 90, 110, 1, 1); /* crosses all others */
	fake_range(run, site, 0, 100, 1, 1);
	fake_range(run, site, 0, 100, 1, 0);
	fake_range(run, site, 0, 5, 2, 0); /* another thread */
	fake_kernel(run, "k", 70, 80, 1);
	fake_kernel(run, "u", 75, -1, 1); /* untimed */
	assert_int_equal(stacks_init(&stacks, run), 0);
	assert_int_equal(stacks.n, 3);
	assert_int_equal(stacks.tracks[0].family, STACK_FAMILY_THREAD);
	assert_int_equal(stacks.tracks[0].id, 1);
	assert_int_equal(stacks.tracks[1].id, 2);
	assert_int_equal(stacks.tracks[2].family, STACK_FAMILY_STREAM);
	assert_int_equal(stacks.tracks[2].id, 7);
	assert_int_equal(stacks.untimed[STACK_KERNEL], 1);
	assert_int_equal(stacks_walk(&stacks, 0, &refs, &n, &lanes), 0);
	assert_int_equal(n, 6);
	assert_int_equal(lanes, 2);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(refs[i].kind, wanted[i].kind);
		assert_int_equal(refs[i].row, wanted[i].row);
		assert_int_equal(refs[i].lane, wanted[i].lane);
	}
	assert_int_equal(stacks_walk(&stacks, 2, &refs, &n, &lanes), 0);
	assert_int_equal(n, 1);
	assert_int_equal(lanes, 1);
	stacks_release(&stacks);
	fake_run_free(run);
}

/* Rows of two processes, out of order, and more threads than the first table of them holds. */
static void test_walk_many(void **state)
{
	struct run *run = fake_run_new();
	uint16_t other = fake_shard(run, 1, 4243);
	uint32_t site = fake_site(run, "r", -1, -1, 0);
	struct stacks stacks;
	size_t rows = 0;

	(void)state;
	for (uint16_t shard = 0; shard <= other; shard++)
		for (uint32_t i = 0; i < 3000; i++)
			fake_add_range(run, shard,
				       &(struct row_range){ .site = site,
							    .start_ns = 100000 - 7 * (int64_t)i,
							    .duration_ns = 5,
							    .thread = 1 + i % 100 });
	assert_int_equal(stacks_init(&stacks, run), 0);
	assert_int_equal(stacks.n, 200);
	for (size_t t = 0; t < stacks.n; t++) {
		const struct stack_ref *refs;
		size_t n, lanes;

		assert_int_equal(stacks.tracks[t].shard, t / 100);
		assert_int_equal(stacks.tracks[t].id, 1 + t % 100);
		assert_int_equal(stacks_walk(&stacks, t, &refs, &n, &lanes), 0);
		assert_int_equal(n, 30);
		assert_int_equal(lanes, 1);
		rows += n;
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(run->range.thread[refs[i].row], 1 + t % 100);
			assert_int_equal(run->range.shard[refs[i].row], t / 100);
			assert_true(!i || stack_start(&stacks, &refs[i - 1]) <
						  stack_start(&stacks, &refs[i]));
		}
	}
	assert_int_equal(rows, run->range.n);
	stacks_release(&stacks);
	fake_run_free(run);
}

/* forward [0, 100) with an operation [10, 60) that launches twice, and a call outside of it. */
static struct run *small_run(void)
{
	struct run *run = fake_run_new();

	fake_span(run, 0, 1000);
	fake_add_thread(run, 0,
			&(struct row_thread){ .thread = 1, .name = fake_string(run, "main") });
	fake_call(run, "cudaLaunchKernel", 20, 30, 1);
	fake_call(run, "cudaLaunchKernel", 40, 45, 2);
	fake_op(run, fake_site(run, "aten::mm;out", -1, -1, 0), 10, 60, 1, 1, 0);
	fake_call(run, "cudaMemcpyAsync", 70, 75, 3);
	fake_range(run, fake_site(run, "for\nward", -1, -1, 1), 0, 100, 1, 0);
	fake_kernel(run, "gemm", 100, 300, 1);
	fake_kernel(run, "gemm", 300, 450, 2);
	fake_kernel(run, "lost", 500, 507, 99); /* no call */
	fake_kernel(run, "when", 510, -1, 2);	/* untimed */
	fake_copy(run, 1, 2, 64, 600, 620, 3);
	return run;
}

static void test_folded(void **state)
{
	struct run *run = small_run();
	char *text = text_of(run, export_folded);

	(void)state;
	assert_string_equal(text, "main, thread 1;for ward;aten::mm:out;gemm 350\n"
				  "no call recorded;lost 7\n"
				  "main, thread 1;for ward;copy host to device 20\n");
	free(text);
	text = text_of(run, export_folded_host);
	/* 100 - 50 - 5; 50 - 10 - 5 */
	assert_string_equal(text, "main, thread 1;for ward 45\n"
				  "main, thread 1;for ward;aten::mm:out 35\n"
				  "main, thread 1;for ward;aten::mm:out;cudaLaunchKernel 15\n"
				  "main, thread 1;for ward;cudaMemcpyAsync 5\n");
	free(text);
	fake_run_free(run);
}

static void test_folded_ranks(void **state)
{
	struct run *run = fake_run_new();
	uint16_t other = fake_shard(run, 5, 77);
	char *text;

	(void)state;
	fake_range(run, fake_site(run, "a\xff", -1, -1, 0), 0, 10, 1, 0);
	fake_add_range(run, other,
		       &(struct row_range){ .site = fake_site(run, "b", -1, -1, 0),
					    .duration_ns = 20,
					    .thread = 2 });
	text = text_of(run, export_folded_host);
	assert_string_equal(text, "rank 0;thread 1;a\xef\xbf\xbd 10\nrank 5;thread 2;b 20\n");
	free(text);
	fake_run_free(run);
}

static int flame_host(const struct run *run, FILE *out, struct err *err)
{
	return export_flame(run, false, out, err);
}

static int flame_device(const struct run *run, FILE *out, struct err *err)
{
	return export_flame(run, true, out, err);
}

static void assert_has(const char *text, const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("no %s in %s", wanted, text);
}

/* Of the folded stacks; 7 of 377 are shown, nothing is small. */
static void test_flame(void **state)
{
	struct run *run = small_run();
	char *text = text_of(run, flame_device);

	(void)state;
	assert_has(text, "\"total_ns\": 377");
	assert_has(text, "\"merged\": 0");
	assert_has(text, "\"self_ns\": [ 0, 0, 0, 0, 350, 0, 7, 20 ]");
	assert_has(text, "\"total_ns\": [ 377, 370, 370, 350, 350, 7, 7, 20 ]");
	assert_has(text, "\"parent\": [ -1, 0, 1, 2, 3, 0, 5, 2 ]");
	assert_has(text, "\"count\": [ 0, 0, 0, 0, 2, 0, 1, 1 ]");
	free(text);
	text = text_of(run, flame_host);
	assert_has(text, "\"self_ns\": [ 0, 0, 45, 35, 15, 5 ]");
	assert_has(text, "\"total_ns\": [ 100, 100, 100, 50, 15, 5 ]");
	free(text);
	fake_run_free(run);
}

/* 0.1% of 10 ms is 10 us: two stacks with one inside one of them are below that. */
static void test_flame_small(void **state)
{
	struct run *run = fake_run_new();
	char *text;

	(void)state;
	fake_range(run, fake_site(run, "large", -1, -1, 0), 0, 10000000, 1, 0);
	fake_range(run, fake_site(run, "small", -1, -1, 0), 1000, 8000, 1, 1);
	fake_range(run, fake_site(run, "inside", -1, -1, 0), 2000, 3000, 1, 2);
	fake_range(run, fake_site(run, "also", -1, -1, 0), 9000, 9002, 1, 1);
	fake_range(run, fake_site(run, "just", -1, -1, 0), 20000, 30000, 1, 1);
	text = text_of(run, flame_host);
	assert_has(text, "\"least_ns\": 10000");
	assert_has(text, "\"merged\": 3");
	assert_has(text, "\"merged_ns\": 7002");
	assert_has(text, "\"total_ns\": [ 10000000, 10000000, 10000000, 10000 ]");
	assert_has(text, "\"merged\": [ 0, 0, 3, 0 ]");
	assert_has(text, "\"merged_ns\": [ 0, 0, 7002, 0 ]");
	assert_null(strstr(text, "inside"));
	free(text);
	fake_run_free(run);
}

/* How many nodes are shown. */
static size_t count_nodes(const char *text)
{
	const char *at = strstr(text, "\"parent\": ["), *end = strchr(at, ']');
	size_t n = 1;

	while ((at = strchr(at + 1, ',')) && at < end)
		n++;
	return n;
}

/* 60 threads, and 390 stacks in each that are as long as those of the others: all of a depth are small, or none. */
static void test_flame_many(void **state)
{
	struct run *run = fake_run_new();
	uint32_t site = fake_site(run, "r", -1, -1, 0);
	char *text;

	(void)state;
	for (uint32_t thread = 1; thread <= 60; thread++)
		for (int64_t i = 0; i < 390; i++)
			fake_range(run, site, i, 1000000 - i, thread, (uint16_t)i);
	text = text_of(run, flame_host);
	assert_int_equal(count_nodes(text), 1 + 60 * 333);
	assert_has(text, "\"merged\": 3480"); /* 60 * (391 - 333) */
	free(text);
	fake_run_free(run);
}

static void test_flame_deep(void **state)
{
	struct run *run = fake_run_new();
	uint32_t site = fake_site(run, "r", -1, -1, 0);
	char *text;

	(void)state;
	for (int64_t i = 0; i < 1000; i++)
		fake_range(run, site, i, 1000000 - i, 1, (uint16_t)i);
	text = text_of(run, flame_host);
	assert_int_equal(count_nodes(text), 401);
	assert_has(text, "\"merged\": 601");
	free(text);
	fake_run_free(run);
}

/* main, which ran 30 of 60 ns and then waited for a lock, and what it called; of another thread, before it. */
static struct run *sampled_run(void)
{
	struct run *run = fake_run_new();
	uint32_t main_name = fake_string(run, "main (a.py:1)");

	fake_span(run, 100, 1000);
	fake_add_stack(run, 0, &(struct row_stack){ .id = 1, .name = main_name });
	fake_add_stack(run, 0,
		       &(struct row_stack){ .id = 2,
					    .parent = 1,
					    .name = fake_string(run, "read (libc.so.6)") });
	fake_add_stack_sample(run, 0,
			      &(struct row_stack_sample){ .start_ns = 300,
							  .duration_ns = 60,
							  .thread = 7,
							  .stack = 1,
							  .cpu_ns = 30,
							  .samples = 1,
							  .wait = WAIT_LOCK });
	fake_add_stack_sample(run, 0,
			      &(struct row_stack_sample){ .start_ns = 200,
							  .duration_ns = 100,
							  .thread = 7,
							  .stack = 2,
							  .ready_ns = 10,
							  .samples = 3,
							  .wait = WAIT_FILE });
	fake_add_stack_sample(run, 0,
			      &(struct row_stack_sample){ .start_ns = 500,
							  .duration_ns = 5,
							  .thread = 6,
							  .stack = 9, /* nowhere */
							  .cpu_ns = 5,
							  .samples = 1 });
	return run;
}

static void test_speedscope_of_samples(void **state)
{
	struct run *run = sampled_run();
	char *text = text_of(run, export_speedscope_host);

	(void)state;
	assert_non_null(
		strstr(text, "\"profiles\":["
			     "{\"type\":\"sampled\",\"name\":\"rank 0, thread 6\",\"unit\":"
			     "\"nanoseconds\",\"startValue\":400,\"endValue\":405,\"samples\":[[]],"
			     "\"weights\":[5]},"
			     "{\"type\":\"sampled\",\"name\":\"rank 0, thread 7\",\"unit\":"
			     "\"nanoseconds\",\"startValue\":100,\"endValue\":260,\"samples\":["
			     "[0,1,2],[0,1,3],[0],[0,4]],\"weights\":[10,90,30,30]}],"));
	assert_non_null(strstr(text, "{\"name\":\"main (a.py:1)\"},"
				     "{\"name\":\"read (libc.so.6)\"},"
				     "{\"name\":\"(waiting: processor)\"},"
				     "{\"name\":\"(waiting: file)\"},"
				     "{\"name\":\"(waiting: lock)\"}]"));
	free(text);
	fake_run_free(run);

	run = fake_run_new();
	text = text_of(run, export_speedscope_host);
	assert_non_null(strstr(text, "\"profiles\":[],"));
	free(text);
	fake_run_free(run);
}

/* Whether some bytes are in a file of pprof's. */
static bool has_bytes(const char *file, size_t size, const char *bytes, size_t n)
{
	return memmem(file, size, bytes, n) != NULL;
}
#define HAS(literal) has_bytes(file, size, literal, sizeof(literal) - 1)

static void test_pprof_of_samples(void **state)
{
	struct run *run = sampled_run();
	struct err err = { "" };
	char *file = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&file, &size);

	(void)state;
	assert_int_equal(export_pprof_host(run, out, &err), 0);
	fclose(out);
	/* Its first string is empty; name, file and line of functions are apart. */
	assert_true(HAS("\x32\x00\x32\x07samples"));
	assert_true(HAS("\x32\x04main\x32\x04"
			"a.py"));
	assert_true(HAS("\x32\x04read\x32\x09libc.so.6"));
	/* main alone: one look, 30 ns on a processor; by locations 2 and 1, the thread. */
	assert_true(HAS("\x12\x09\x0a\x02\x02\x01\x12\x03\x01\x1e\x00"));
	/* The file that read waits for, 90 ns; it counts with the wait for a processor before. */
	assert_true(HAS("\x12\x03\x00\x00\x5a"));
	assert_true(HAS("\x12\x03\x03\x00\x0a"));
	free(file);
	fake_run_free(run);
}

static void build_id(struct run *run, const char *path, const char *id)
{
	char key[128];

	snprintf(key, sizeof(key), FACT_BUILD_ID "%s", path);
	fake_add_fact(
		run, 0,
		&(struct row_fact){ .key = fake_string(run, key), .value = fake_string(run, id) });
}

static void test_build_ids_in_pprof(void **state)
{
	struct run *run = sampled_run();
	struct err err = { "" };
	char *file = NULL;
	size_t size = 0;
	FILE *out;

	(void)state;
	build_id(run, "/lib/other.so", "77");
	build_id(run, "/lib/libc.so.6", "0badcafe");
	build_id(run, "/lib/libc.so.6", "0badcafe"); /* of another process */
	out = open_memstream(&file, &size);
	assert_int_equal(export_pprof_host(run, out, &err), 0);
	fclose(out);
	assert_true(HAS("\x32\x0e/lib/libc.so.6\x32\x08"
			"0badcafe"));
	assert_true(HAS("\x10\x02\x22")); /* read is in mapping 2 */
	free(file);

	/* Two files of that name: nobody knows which it was. */
	build_id(run, "/opt/libc.so.6", "1234");
	out = open_memstream(&file, &size);
	assert_int_equal(export_pprof_host(run, out, &err), 0);
	fclose(out);
	assert_false(HAS("0badcafe"));
	assert_false(HAS("\x10\x02\x22"));
	assert_true(HAS("/lib/other.so"));
	free(file);
	fake_run_free(run);
}

static void test_speedscope(void **state)
{
	struct run *run = fake_run_new();
	char *text;

	(void)state;
	fake_span(run, 100, 1000);
	fake_range(run, fake_site(run, "outer \"q\"", -1, -1, 0), 200, 300, 1, 0);
	fake_call(run, "call", 250, 300, 1);
	fake_range(run, fake_site(run, "next", -1, -1, 0), 300, 310, 1, 0);
	fake_add_mark(run, 0, &(struct row_mark){ .time_ns = 260, .thread = 1 });
	fake_kernel(run, "k", 400, 500, 1);
	fake_kernel(run, "crosses", 450, 600, 2);
	text = text_of(run, export_speedscope);
	assert_non_null(strstr(
		text, "\"profiles\":["
		      "{\"type\":\"evented\",\"name\":\"rank 0, thread 1\",\"unit\":"
		      "\"nanoseconds\",\"startValue\":100,\"endValue\":210,\"events\":["
		      "{\"type\":\"O\",\"at\":100,\"frame\":0},"
		      "{\"type\":\"O\",\"at\":150,\"frame\":1},"
		      "{\"type\":\"C\",\"at\":200,\"frame\":1},"
		      "{\"type\":\"C\",\"at\":200,\"frame\":0},"
		      "{\"type\":\"O\",\"at\":200,\"frame\":2},"
		      "{\"type\":\"C\",\"at\":210,\"frame\":2}]},"
		      "{\"type\":\"evented\",\"name\":\"rank 0, GPU 0 stream 7\",\"unit\":"
		      "\"nanoseconds\",\"startValue\":300,\"endValue\":400,\"events\":["
		      "{\"type\":\"O\",\"at\":300,\"frame\":3},"
		      "{\"type\":\"C\",\"at\":400,\"frame\":3}]},"
		      "{\"type\":\"evented\",\"name\":\"rank 0, GPU 0 stream 7 (2)\",\"unit\":"
		      "\"nanoseconds\",\"startValue\":350,\"endValue\":500,\"events\":["
		      "{\"type\":\"O\",\"at\":350,\"frame\":4},"
		      "{\"type\":\"C\",\"at\":500,\"frame\":4}]}],"
		      "\"shared\":{\"frames\":[{\"name\":\"outer \\\"q\\\"\"},{\"name\":\"call\"},"
		      "{\"name\":\"next\"},{\"name\":\"k\"},{\"name\":\"crosses\"}]}}"));
	free(text);
	fake_run_free(run);
}

static void test_empty(void **state)
{
	struct run *run = fake_run_new();
	char *text = text_of(run, export_folded);

	(void)state;
	assert_string_equal(text, "");
	free(text);
	text = text_of(run, export_folded_host);
	assert_string_equal(text, "");
	free(text);
	text = text_of(run, flame_host);
	assert_has(text, "\"parent\": [ -1 ]");
	free(text);
	text = text_of(run, export_speedscope);
	assert_non_null(strstr(text, "\"profiles\":[],\"shared\":{\"frames\":[]}}"));
	free(text);
	fake_run_free(run);
}

static void test_full_disk(void **state)
{
	int (*const all[])(const struct run *, FILE *,
			   struct err *) = { export_folded, export_folded_host, export_speedscope,
					     flame_host };
	struct run *run = fake_gpu_run();

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		FILE *full = fopen("/dev/full", "w");
		struct err err = { "" };

		assert_non_null(full);
		setbuf(full, NULL);
		assert_int_equal(all[i](run, full, &err), -ENOSPC);
		assert_true(err.message[0] != '\0');
		fclose(full);
	}
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walk),
		cmocka_unit_test(test_walk_many),
		cmocka_unit_test(test_folded),
		cmocka_unit_test(test_folded_ranks),
		cmocka_unit_test(test_speedscope),
		cmocka_unit_test(test_speedscope_of_samples),
		cmocka_unit_test(test_pprof_of_samples),
		cmocka_unit_test(test_build_ids_in_pprof),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_flame),
		cmocka_unit_test(test_flame_small),
		cmocka_unit_test(test_flame_deep),
		cmocka_unit_test(test_flame_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
