/* SPDX-License-Identifier: Apache-2.0
 *
 * Unions and intersections of intervals against counting every nanosecond.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "subjects/numbers/intervals.h"
#include "subjects/numbers/stats.h"

#define TIME 300
#define SPANS 40
#define LANES 6

static struct span lane_of(unsigned int lane)
{
	return (struct span){ .group = lane & 1,
			      .shard = (uint16_t)(lane >> 1 & 1),
			      .device = lane >> 2 };
}

static void test_by_hand(void **state)
{
	struct span spans[] = { { 5, 9, 0, 0, 0 },   { 0, 5, 0, 0, 0 }, { 20, 30, 0, 0, 0 },
				{ 22, 25, 0, 0, 0 }, { 7, 7, 0, 0, 0 }, { 3, 4, 0, 1, 0 } };
	struct span other[] = { { 8, 24, 0, 0, 0 } };
	size_t n = spans_merge(spans, 6), in_lane;

	(void)state;
	/* 0..9 and 20..30 of device 0, 3..4 of device 1. */
	assert_int_equal(n, 3);
	assert_int_equal(spans[0].start_ns, 0);
	assert_int_equal(spans[0].end_ns, 9);
	assert_int_equal(spans_length(spans, 2), 19);
	assert_int_equal(spans_overlap(spans, 2, other, 1), 1 + 4);
	assert_int_equal(spans_overlap(spans, 2, NULL, 0), 0);
	assert_ptr_equal(spans_lane(spans, n, &(struct span){ .device = 1 }, &in_lane), spans + 2);
	assert_int_equal(in_lane, 1);
	assert_null(spans_lane(spans, n, &(struct span){ .device = 2 }, &in_lane));
	assert_int_equal(in_lane, 0);
	assert_int_equal(spans_merge(spans, 0), 0);
}

#define CASES 5000

#define same(got, expected)                                                                        \
	do {                                                                                       \
		if ((got) != (expected))                                                           \
			fail_msg("seed %llu: %s is %lld, not %lld", (unsigned long long)seed,      \
				 #got, (long long)(got), (long long)(expected));                   \
	} while (0)

static void check_case(uint64_t seed)
{
	uint64_t state = seed, *random = &state;
	uint8_t busy[LANES][TIME];
	struct span spans[SPANS];
	size_t n = stats_random(random) % SPANS;

	memset(busy, 0, sizeof(busy));
	for (size_t i = 0; i < n; i++) {
		unsigned int lane = (unsigned int)(stats_random(random) % LANES);

		spans[i] = lane_of(lane);
		spans[i].start_ns = (int64_t)(stats_random(random) % (TIME - 40));
		spans[i].end_ns = spans[i].start_ns + (int64_t)(stats_random(random) % 40);
		for (int64_t t = spans[i].start_ns; t < spans[i].end_ns; t++)
			busy[lane][t] = 1;
	}
	n = spans_merge(spans, n);
	for (unsigned int a = 0; a < LANES; a++)
		for (unsigned int b = 0; b < LANES; b++) {
			struct span x = lane_of(a), y = lane_of(b);
			int64_t length = 0, both = 0;
			size_t n_x, n_y;
			const struct span *in_x = spans_lane(spans, n, &x, &n_x);
			const struct span *in_y = spans_lane(spans, n, &y, &n_y);

			for (int t = 0; t < TIME; t++) {
				length += busy[a][t];
				both += busy[a][t] && busy[b][t];
			}
			same(spans_length(in_x, n_x), length);
			same(spans_overlap(in_x, n_x, in_y, n_y), both);
		}
	/* Sorted by lane and start, not empty, not touching. */
	for (size_t i = 0; i < n; i++) {
		same(spans[i].start_ns < spans[i].end_ns, true);
		same(!i || span_lane_order(&spans[i - 1], &spans[i]) < 0 ||
			     (span_lane_order(&spans[i - 1], &spans[i]) == 0 &&
			      spans[i - 1].end_ns < spans[i].start_ns),
		     true);
	}
	for (size_t i = 0, size, lanes = 0; i < n; i += size, lanes++) {
		size = spans_lane_size(spans, n, i);
		same(lanes < LANES, true);
		same(i + size == n || span_lane_order(&spans[i], &spans[i + size]) < 0, true);
	}
}

static void test_against_every_nanosecond(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= CASES; seed++)
		check_case(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_against_every_nanosecond),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
