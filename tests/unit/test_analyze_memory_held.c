/* SPDX-License-Identifier: Apache-2.0
 *
 * What the allocator holds, fragmentation, what was live at the peak, layers and experts, and how
 * far a device is from full: by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "asking.h"
#include "fake_run.h"
#include "moescope.h"
#include "subjects/memory/device_memory.h"
#include "subjects/memory/memory.h"
#include "subjects/memory/memory_history.h"
#include "verdicts/rules.h"

static void block(struct run *run, int64_t time_ns, uint8_t event, uint64_t address, uint64_t bytes,
		  int32_t device, uint32_t thread, const char *site)
{
	fake_add_memory(run, 0,
			&(struct row_memory){ .time_ns = time_ns,
					      .event = event,
					      .address = address,
					      .bytes = bytes,
					      .device = device,
					      .use = MOESCOPE_MEMORY_ACTIVATIONS,
					      .site = fake_string(run, site),
					      .thread = thread });
}

static void driver(struct run *run, int64_t time_ns, uint8_t event, uint64_t address,
		   uint64_t bytes, uint64_t pool)
{
	fake_add_device_memory(run, 0,
			       &(struct row_device_memory){ .time_ns = time_ns,
							    .event = event,
							    .address = address,
							    .bytes = bytes,
							    .memory = event ? 0 : 3,
							    .pool = pool });
}

/* All of them, for the verdicts. */
static struct answers analyzed(const struct run *run)
{
	return answers_of(run, subjects_all, &(struct question){ .sel = SELECT_ALL });
}

static void near(struct value value, double expected)
{
	if (!value.known)
		fail_msg("absent: %s", value.reason);
	assert_true(fabs(value.v - expected) < 1e-9 * (1 + fabs(expected)));
}

static void absent(struct value value, const char *word)
{
	assert_false(value.known);
	assert_non_null(strstr(value.reason, word));
}

/* Two segments, one allocation of a library beside them. */
static struct run *segments_run(void)
{
	struct run *run = fake_run_new();

	driver(run, 10, 0, 1000, 1000, 0);
	driver(run, 11, 0, 9000, 500, 0);
	driver(run, 12, 0, 20000, 700, 0);
	block(run, 20, 0, 1000, 300, 0, 1, "a");
	block(run, 21, 0, 1500, 200, 0, 1, "b");
	block(run, 22, 0, 9000, 500, 0, 1, "c"); /* the peak: 1000 */
	block(run, 30, 1, 1500, 0, 0, 1, "");
	return run;
}

static void test_fragmentation_by_hand(void **state)
{
	struct run *run = segments_run();
	struct answers a = analyzed(run);
	const struct memory_device *d = &answer_memory(&a)->devices[0];

	(void)state;
	assert_int_equal(d->peak_bytes, 1000);
	near(d->reserved_bytes, 1500); /* not the library's 700 */
	near(d->peak_reserved_bytes, 1500);
	near(d->segments, 2);
	near(d->cache_slack_pct, 100.0 * 700 / 1500);
	/* At the peak free: 1300..1500 and 1700..2000. */
	near(d->free_at_peak_bytes, 500);
	near(d->largest_free_at_peak_bytes, 300);
	near(d->fragmentation_at_peak_pct, 40);
	/* At the end one hole: 1300..2000. */
	near(d->fragmentation_pct, 0);
	near(d->points[d->n_points - 1].reserved_bytes, 1500);
	answers_release(&a);
	fake_run_free(run);
}

static void test_segments_come_and_go(void **state)
{
	struct run *run = segments_run();
	struct answers a;

	(void)state;
	block(run, 31, 1, 9000, 0, 0, 1, "");
	driver(run, 32, 1, 9000, 0, 0);
	/* The same address again, larger, and at once a block in it. */
	driver(run, 40, 0, 9000, 4000, 0);
	block(run, 40, 0, 9100, 100, 0, 1, "d");
	a = analyzed(run);
	near(answer_memory(&a)->devices[0].reserved_bytes, 5000);
	near(answer_memory(&a)->devices[0].peak_reserved_bytes, 5000);
	/* Free: 700 of the first; 100 and 3800 around the block. */
	near(answer_memory(&a)->devices[0].fragmentation_pct, 100 * (1 - 3800.0 / 4600));
	answers_release(&a);
	fake_run_free(run);
}

static void test_no_segments_no_figure(void **state)
{
	struct run *run = fake_run_new();
	struct answers a;

	(void)state;
	/* Addresses that are none of the device's; one out of a pool of the driver; the host. */
	driver(run, 10, 0, 1000, 1000, 0);
	driver(run, 10, 0, 5000, 1000, 77);
	block(run, 20, 0, UINT64_C(3) << 62, 300, 0, 1, "made up");
	block(run, 21, 0, 5000, 10, 0, 1, "pool");
	block(run, 22, 0, 1000, 100, -1, 1, "host");
	a = analyzed(run);
	absent(answer_memory(&a)->devices[0].fragmentation_pct, "malloc");
	absent(answer_memory(&a)->devices[1].fragmentation_pct, "none of the driver's allocations");
	absent(answer_memory(&a)->devices[1].reserved_bytes, "none of the driver's allocations");
	absent(answer_memory(&a)->devices[1].oom_steps, "not sampled");
	answers_release(&a);
	fake_run_free(run);
}

static void test_blocks_elsewhere_make_it_unknown(void **state)
{
	struct run *run = segments_run();
	struct answers a;

	(void)state;
	block(run, 22, 0, UINT64_C(3) << 62, 100, 0, 1, "made up"); /* of 1100: more than 1% */
	a = analyzed(run);
	absent(answer_memory(&a)->devices[0].fragmentation_at_peak_pct, "do not lie");
	near(answer_memory(&a)->devices[0].reserved_bytes, 1500);
	answers_release(&a);
	fake_run_free(run);
}

static void test_counters_of_a_framework(void **state)
{
	struct run *run = fake_run_new();
	static const double reserved[] = { 1000, 4000, 2000 };
	struct answers a;

	(void)state;
	block(run, 20, 0, UINT64_C(3) << 62, 300, 0, 1, "parameters");
	for (int i = 0; i < 3; i++) {
		fake_add_counter(
			run, 0,
			&(struct row_counter){ .time_ns = 100 + i,
					       .name = fake_string(run, "torch allocated_bytes"),
					       .value = 500 });
		fake_add_counter(
			run, 0,
			&(struct row_counter){ .time_ns = 100 + i,
					       .name = fake_string(run, "torch reserved_bytes"),
					       .value = reserved[i] });
	}
	a = analyzed(run);
	near(answer_memory(&a)->devices[0].reserved_bytes, 2000);
	near(answer_memory(&a)->devices[0].peak_reserved_bytes, 4000);
	absent(answer_memory(&a)->devices[0].segments, "the sum of its segments only");
	near(answer_memory(&a)->devices[0].cache_slack_pct, 75);
	absent(answer_memory(&a)->devices[0].fragmentation_pct, "driver");
	answers_release(&a);
	fake_run_free(run);
}

static void test_live_at_the_peak_and_parts(void **state)
{
	struct run *run = fake_run_new();
	struct answers a;
	const struct memory_device *d;

	(void)state;
	fake_range(run, fake_site(run, "forward", -1, -1, MOESCOPE_FORWARD), 0, 100, 1, 0);
	fake_range(run, fake_site(run, "block", 3, -1, 0), 10, 90, 1, 1);
	fake_op(run, fake_site(run, "expert", -1, 5, 0), 20, 40, 1, 2, 0);
	fake_range(run, fake_site(run, "other thread", 9, -1, 0), 0, 100, 2, 0);
	block(run, 5, 0, 1, 10, -1, 1, "x");   /* forward alone */
	block(run, 15, 0, 2, 20, -1, 1, "x");  /* layer 3 */
	block(run, 25, 0, 3, 40, -1, 1, "x");  /* layer 3, expert 5 */
	block(run, 30, 0, 4, 80, -1, 1, "x");  /* likewise */
	block(run, 35, 1, 4, 0, -1, 1, "");    /* gone before the peak */
	block(run, 40, 0, 5, 160, -1, 1, "x"); /* the operation has ended: layer 3 */
	block(run, 60, 0, 6, 7, -1, 2, "y");   /* the peak: 237 */
	block(run, 95, 1, 5, 0, -1, 1, "");
	block(run, 200, 0, 7, 1, -1, 1, "x"); /* outside all ranges, not at the peak */
	a = analyzed(run);
	d = &answer_memory(&a)->devices[0];
	assert_int_equal(d->peak_bytes, 237);
	assert_int_equal(d->n_sites, 4);
	/* Layer 3: 20 at 15 and 160 at 40, seen at 60. */
	assert_int_equal(d->sites[0].bytes, 180);
	assert_int_equal(d->sites[0].count, 2);
	assert_int_equal(d->sites[0].layer, 3);
	assert_int_equal(d->sites[0].expert, -1);
	assert_int_equal(d->sites[0].phase, MOESCOPE_FORWARD);
	assert_int_equal(d->sites[0].oldest_ns, 45);
	assert_int_equal(d->sites[0].youngest_ns, 20);
	assert_int_equal(d->sites[1].bytes, 40);
	assert_int_equal(d->sites[1].expert, 5);
	assert_int_equal(d->sites[2].layer, -1);
	assert_int_equal(d->sites[3].layer, 9);
	assert_int_equal(d->sites[3].phase, 0);
	assert_int_equal(d->n_parts, 3);
	assert_int_equal(d->parts[0].layer, 3);
	assert_int_equal(d->parts[0].expert, -1);
	assert_int_equal(d->parts[0].allocated_bytes, 180);
	assert_int_equal(d->parts[1].expert, 5);
	assert_int_equal(d->parts[1].allocations, 2);
	assert_int_equal(d->parts[1].allocated_bytes, 120);
	assert_int_equal(d->parts[1].at_peak_bytes, 40);
	assert_int_equal(d->parts[1].peak_use[MOESCOPE_MEMORY_ACTIVATIONS], 40);
	assert_int_equal(d->parts[2].layer, 9);
	answers_release(&a);
	fake_run_free(run);
}

static void test_many_parts_are_merged(void **state)
{
	struct run *run = fake_run_new();
	struct answers a;

	(void)state;
	for (int32_t layer = 0; layer < 3; layer++)
		fake_range(run, fake_site(run, "block", layer, -1, 0), layer * 10000,
			   layer * 10000 + 9999, 1, 0);
	for (int i = 0; i < 30000; i++)
		if (i % 10000 != 9999)
			block(run, i, 0, (uint64_t)i + 1, 2, -1, 1, "x");
	a = analyzed(run);
	assert_int_equal(answer_memory(&a)->devices[0].n_parts, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(answer_memory(&a)->devices[0].parts[i].allocations, 9999);
		assert_int_equal(answer_memory(&a)->devices[0].parts[i].allocated_bytes, 19998);
	}
	answers_release(&a);
	fake_run_free(run);
}

static void sample(struct run *run, int64_t time_ns, double used)
{
	fake_add_sample(run, 0,
			&(struct row_sample){ .time_ns = time_ns,
					      .metric = fake_string(run, "memory_used_bytes"),
					      .value = used });
}

static bool has_verdict(const struct run *run, const struct answers *answers, const char *id)
{
	struct verdicts verdicts;
	bool found = false;

	assert_int_equal(verdicts_analyze(run, answers, &verdicts), 0);
	for (size_t i = 0; i < verdicts.n; i++)
		found = found || !strcmp(verdicts.items[i].id, id);
	verdicts_release(&verdicts);
	return found;
}

/* used: at the peak, which is at 25; total 0: not told. */
static struct answers device_of(struct run **ret_run, double used, uint64_t total)
{
	struct run *run = segments_run();

	if (total)
		fake_add_device(run, 0, &(struct row_device){ .memory_bytes = total });
	sample(run, 5, 100);
	sample(run, 25, used);
	sample(run, 35, 2000);
	driver(run, 33, 1, 20000, 0, 0);
	*ret_run = run;
	return analyzed(run);
}

static void test_how_far_from_full(void **state)
{
	struct run *run;
	struct answers a = device_of(&run, 2500, 10000);
	const struct device_used *used = &answer_device_memory(&a)->used[0];

	(void)state;
	near(used->total_bytes, 10000);
	near(used->headroom_bytes, 7500);
	near(used->peak_pct, 25);
	near(used->driver_at_peak_bytes, 2200); /* with the library's, which goes at 33 */
	near(used->outside_bytes, 300);
	near(answer_memory(&a)->devices[0].headroom_bytes, 7500);
	near(answer_memory(&a)->devices[0].device_used_bytes, 2000);
	absent(answer_memory(&a)->devices[0].oom_steps, "fewer than 11");
	assert_false(has_verdict(run, &a, "memory-pressure"));
	assert_false(has_verdict(run, &a, "outside-allocator"));
	assert_false(has_verdict(run, &a, "fragmentation"));
	answers_release(&a);
	fake_run_free(run);
	a = device_of(&run, 2500, 0);
	absent(answer_device_memory(&a)->used[0].headroom_bytes, "does not say");
	absent(answer_memory(&a)->devices[0].oom_steps, "does not say");
	answers_release(&a);
	/* NVML stands in for a record of the device. */
	fake_add_sample(run, 0,
			&(struct row_sample){ .time_ns = 6,
					      .metric = fake_string(run, "memory_total_bytes"),
					      .value = 5000 });
	a = analyzed(run);
	near(answer_device_memory(&a)->used[0].headroom_bytes, 2500);
	answers_release(&a);
	fake_run_free(run);
}

static void test_verdicts_of_a_full_device(void **state)
{
	struct run *run;
	/* 2750 of 3000 used: 91.7%; outside 550 of 3000; wasted 200 of 3000, 40% fragmented. */
	struct answers a = device_of(&run, 2750, 3000);

	(void)state;
	assert_true(has_verdict(run, &a, "memory-pressure"));
	assert_true(has_verdict(run, &a, "outside-allocator"));
	assert_true(has_verdict(run, &a, "fragmentation"));
	answers_release(&a);
	fake_run_free(run);
}

static void test_steps_until_full(void **state)
{
	struct run *run = fake_run_new();
	struct answers a;

	(void)state;
	fake_add_device(run, 0, &(struct row_device){ .memory_bytes = 5000 });
	for (int i = 0; i < 12; i++) {
		block(run, i * 10 + 5, 0, (uint64_t)(100 + i), 50, 0, 1, "list");
		fake_step(run, i, i * 10, i * 10 + 9, 0);
	}
	sample(run, 200, 4000);
	a = analyzed(run);
	near(answer_memory(&a)->devices[0].oom_steps, 20); /* 1000 left, 50 a step */
	answers_release(&a);
	fake_run_free(run);
}

/* The allocator says itself what it took and gave back, and what its account is: the driver's
 * allocations do not matter then. */
static void test_told(void **state)
{
	struct run *run = fake_run_new();
	struct memory_history history;
	struct answers a;
	const struct memory_device *d;
	static const double peaks[] = { 600, 900, 700 };

	(void)state;
	driver(run, 5, 0, 1000, 5000, 0);
	block(run, 10, MOESCOPE_EVENT_RESERVE, 1000, 1000, 0, 0, "");
	block(run, 11, MOESCOPE_EVENT_RESERVE, 3000, 400, 0, 0, "");
	block(run, 20, MOESCOPE_EVENT_ALLOC, 1000, 300, 0, 0, "a");
	block(run, 30, MOESCOPE_EVENT_ALLOC, 1500, 100, 0, 0, "a");
	block(run, 40, MOESCOPE_EVENT_RELEASE, 3000, 400, 0, 0, "");
	block(run, 50, MOESCOPE_EVENT_FREE, 1500, 0, 0, 0, "");
	for (size_t i = 0; i < 3; i++)
		fake_add_sample(
			run, 0,
			&(struct row_sample){ .time_ns = 60 + (int64_t)i,
					      .metric = fake_string(run, "peak_allocated_bytes"),
					      .value = peaks[i] });
	a = analyzed(run);
	d = &answer_memory(&a)->devices[0];
	assert_int_equal(d->peak_bytes, 400);
	assert_int_equal(d->frees, 1);
	assert_int_equal(d->unmatched_frees, 0);
	near(d->reserved_bytes, 1000);
	near(d->peak_reserved_bytes, 1400);
	near(d->segments, 1); /* the other was given back */
	/* At the peak: 1300 to 1500, 1600 to 2000 and all of the second segment are free. */
	near(d->free_at_peak_bytes, 1000);
	near(d->largest_free_at_peak_bytes, 400);
	near(d->fragmentation_at_peak_pct, 60);
	near(d->account_peak_allocated_bytes, 900);
	absent(d->account_reserved_bytes, "no account");
	assert_int_equal(memory_history_make(run, answer_memory(&a), &history), 0);
	assert_true(history.n > 1);
	near(history.rows[0].reserved_bytes, 1400);
	near(history.rows[history.n - 1].reserved_bytes, 1000);
	memory_history_release(&history);
	answers_release(&a);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fragmentation_by_hand),
		cmocka_unit_test(test_segments_come_and_go),
		cmocka_unit_test(test_no_segments_no_figure),
		cmocka_unit_test(test_blocks_elsewhere_make_it_unknown),
		cmocka_unit_test(test_counters_of_a_framework),
		cmocka_unit_test(test_live_at_the_peak_and_parts),
		cmocka_unit_test(test_many_parts_are_merged),
		cmocka_unit_test(test_how_far_from_full),
		cmocka_unit_test(test_verdicts_of_a_full_device),
		cmocka_unit_test(test_steps_until_full),
		cmocka_unit_test(test_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
