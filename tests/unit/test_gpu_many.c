/* SPDX-License-Identifier: Apache-2.0
 *
 * As many kernels of a CUDA graph as a long run has: all are in the run or counted as lost, and the
 * program's memory does not grow with them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gears_child.h"

#define BATCH 4096u
#define SETTLED 2000000u /* kernels, then memory stays */
#define GROWTH_KB (64u << 10)

static uint32_t many(void)
{
	uint32_t millions = SANITIZED ? 1 : 30;

	return (millions * 1000000 + BATCH - 1) / BATCH * BATCH;
}

static uint64_t resident_kb(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	unsigned long long kb = 0;
	char line[128];

	CHECK(f);
	while (fgets(line, sizeof(line), f) && sscanf(line, "VmRSS: %llu", &kb) != 1)
		;
	fclose(f);
	CHECK(kb);
	return kb;
}

static void graph_kernels(void)
{
	static struct fake_record records[BATCH];
	uint64_t time_ns;
	uint32_t n = 0;

	start_at(MOESCOPE_TRACE);
	time_ns = cupti->now();
	for (uint32_t i = 0; i < BATCH; i++) {
		records[i] = kernel_record("some_kernel", 0);
		records[i].kernel.graphId = 1;
		records[i].kernel.graphNodeId = 100 + i % 900;
	}
	while (n < many()) {
		for (uint32_t i = 0; i < BATCH; i++) {
			records[i].kernel.correlationId = ++n;
			records[i].kernel.start = time_ns += 700 + i % 13;
			records[i].kernel.end = records[i].kernel.start + 600 + i % 7;
		}
		cupti->deliver(0, records, BATCH, 0);
		if (n >= SETTLED && !shared->rss_kb[0])
			shared->rss_kb[0] = resident_kb();
	}
	shared->rss_kb[1] = resident_kb();
	moescope_stop();
}

static void test_graph_kernels(void **state)
{
	const struct run_want want = { .kinds = 0 }; /* counts are enough: the rows are large */
	char *path = path_in(directory, "run.mscope");
	struct err err = { "" };
	struct run *run;

	(void)state;
	assert_int_equal(in_child(graph_kernels), 0);
	assert_int_equal(run_load(path, &want, &run, &err), 0);
	free(path);
	assert_int_equal(run_rows(run, RECORD_KERNEL) + loss_total(&run->loss), many());
	/* The library's thread waits for the drain, so there is no reason to lose any. */
	assert_int_equal(loss_total(&run->loss), 0);
	if (!SANITIZED)
		assert_true(shared->rss_kb[1] < shared->rss_kb[0] + GROWTH_KB);
	run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_graph_kernels),
	};

	return share_memory() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
