/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay of allocations: by hand, and the map of live blocks against a plain array.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "fake_run.h"
#include "moescope.h"
#include "subjects/memory/memory.h"
#include "subjects/memory/memory_live.h"
#include "subjects/numbers/stats.h"

static void event(struct run *run, int64_t time_ns, uint8_t kind, uint64_t address, uint64_t bytes,
		  int32_t device, uint8_t use, const char *site)
{
	fake_add_memory(run, 0,
			&(struct row_memory){ .time_ns = time_ns,
					      .event = kind,
					      .address = address,
					      .bytes = bytes,
					      .device = device,
					      .use = use,
					      .site = fake_string(run, site) });
}

static struct memory analyzed(const struct run *run)
{
	struct memory memory;

	assert_int_equal(memory_analyze(run, 0, &memory), 0);
	return memory;
}

static void reading(struct run *run, int64_t time_ns, const char *metric, double value)
{
	fake_add_sample(run, 0,
			&(struct row_sample){ .time_ns = time_ns,
					      .device = 1,
					      .metric = fake_string(run, metric),
					      .value = value });
}

/* An allocator that tells its totals: they are the live bytes, also where an event is missing. */
static void test_before(void **state)
{
	struct run *run = fake_run_new();
	const struct memory_device *d;
	struct memory m;

	(void)state;
	event(run, 10, MOESCOPE_EVENT_ALLOC, 0xA, 100, 1, 0, "a");
	event(run, 10, MOESCOPE_EVENT_BEFORE, 0, 900, 1, 0, "");
	event(run, 20, MOESCOPE_EVENT_FREE, 0xF, 300, 1, 0, "");
	event(run, 30, MOESCOPE_EVENT_ALLOC, 0xB, 50, 1, MOESCOPE_MEMORY_CACHE, "b");
	event(run, 30, MOESCOPE_EVENT_FREE, 0xA, 100, 1, 0, "");
	event(run, 40, MOESCOPE_EVENT_FREE, 0xE, 0, 1, 0, "");
	reading(run, 10, "allocated_bytes", 1000);
	reading(run, 10, "reserved_bytes", 2000);
	reading(run, 20, "allocated_bytes", 700);
	reading(run, 30, "allocated_bytes", 1750); /* 1000 more than the events say */
	reading(run, 30, "allocated_bytes", 1650);
	reading(run, 30, "reserved_bytes", 4000);
	reading(run, 40, "reserved_bytes", 3000);
	m = analyzed(run);
	assert_int_equal(m.n, 1);
	d = &m.devices[0];
	assert_true(d->before_bytes.v == 900 && d->before_freed_bytes.v == 300);
	assert_int_equal(d->peak_bytes, 1750);
	assert_int_equal(d->peak_ns, 30);
	assert_true(d->before_at_peak_bytes.v == 1600);
	assert_int_equal(d->use_at_peak[0], 100);
	assert_int_equal(d->use_at_peak[MOESCOPE_MEMORY_CACHE], 50);
	/* No reading, and no bytes: nothing is known to have changed. */
	assert_int_equal(d->live_bytes, 1650);
	assert_int_equal(d->unmatched_frees, 1);
	assert_true(d->reserved_bytes.v == 3000 && d->peak_reserved_bytes.v == 4000);
	assert_true(d->cache_slack_pct.v == 45);
	assert_false(d->segments.known || d->fragmentation_pct.known);
	assert_int_equal(d->n_points, 4);
	assert_true(d->points[1].reserved_bytes.v == 2000 && d->points[2].reserved_bytes.v == 4000);
	memory_release(&m);
	fake_run_free(run);

	/* Readings alone, as programs take them at their steps, are no totals of events. */
	run = fake_run_new();
	event(run, 10, MOESCOPE_EVENT_ALLOC, 0xA, 100, 1, 0, "a");
	reading(run, 10, "allocated_bytes", 1000);
	m = analyzed(run);
	assert_int_equal(m.devices[0].peak_bytes, 100);
	assert_false(m.devices[0].before_bytes.known || m.devices[0].reserved_bytes.known);
	memory_release(&m);
	fake_run_free(run);
}

static void test_replay(void **state)
{
	struct run *run = fake_run_new();
	const struct memory_device *d;
	struct memory m;

	(void)state;
	/* Not in order of time: two threads. */
	event(run, 30, 1, 0xA, 0, -1, 0, "");
	event(run, 10, 0, 0xA, 100, -1, MOESCOPE_MEMORY_PARAMETERS, "p");
	event(run, 20, 0, 0xB, 50, -1, MOESCOPE_MEMORY_ACTIVATIONS, "a");
	event(run, 40, 0, 0xC, 70, -1, 200, "unknown use");
	event(run, 50, 1, 0xD, 0, -1, 0, "");
	event(run, 60, 0, 0xB, 10, -1, MOESCOPE_MEMORY_CACHE, "c");
	event(run, 15, 0, 0xA, 7, 0, 0, "gpu");
	m = analyzed(run);
	assert_int_equal(m.n, 2);
	d = &m.devices[0];
	assert_int_equal(d->device, -1);
	assert_int_equal(d->peak_bytes, 150);
	assert_int_equal(d->peak_ns, 20);
	assert_int_equal(d->use_at_peak[MOESCOPE_MEMORY_PARAMETERS], 100);
	assert_int_equal(d->use_at_peak[MOESCOPE_MEMORY_ACTIVATIONS], 50);
	assert_int_equal(d->order_at_peak[0], MOESCOPE_MEMORY_PARAMETERS);
	assert_int_equal(d->live_bytes, 80);
	assert_int_equal(d->live_allocations, 2);
	assert_int_equal(d->use_at_end[0], 70);
	assert_int_equal(d->use_at_end[MOESCOPE_MEMORY_CACHE], 10);
	assert_int_equal(d->unmatched_frees, 1);
	assert_int_equal(d->replaced, 1);
	assert_int_equal(d->allocations, 4);
	assert_int_equal(d->allocated_bytes, 230);
	assert_int_equal(d->n_points, 6);
	assert_int_equal(d->points[1].live_bytes, 150);
	assert_false(d->leaks_known.known);
	assert_false(d->fragmentation_pct.known);
	assert_int_equal(m.devices[1].live_bytes, 7);
	memory_release(&m);
	fake_run_free(run);
}

static void test_series_is_short_and_keeps_the_peak(void **state)
{
	struct run *run = fake_run_new();
	uint64_t largest = 0;
	struct memory m;

	(void)state;
	for (uint64_t i = 0; i < 5000; i++) {
		event(run, (int64_t)i * 10, 0, 0x1000 + i, i == 2500 ? 100000 : 1, -1, 0, "x");
		event(run, (int64_t)i * 10 + 5, 1, 0x1000 + i, 0, -1, 0, "x");
	}
	m = analyzed(run);
	assert_true(m.devices[0].n_points <= 512 && m.devices[0].n_points > 400);
	for (size_t i = 0; i < m.devices[0].n_points; i++)
		if (m.devices[0].points[i].live_bytes > largest)
			largest = m.devices[0].points[i].live_bytes;
	assert_int_equal(largest, 100000);
	assert_int_equal(m.devices[0].live_bytes, 0);
	memory_release(&m);
	fake_run_free(run);
}

static void test_leaks(void **state)
{
	struct run *run = fake_run_new();
	struct memory m;

	(void)state;
	event(run, 1, 0, 0x1, 1000000, -1, 0, "slow");
	for (int64_t step = 0; step < 14; step++) {
		fake_step(run, step, step * 100, step * 100 + 100, 1);
		/* grows every step; grows every step by far too little; grows every other step;
		 * is freed again. */
		event(run, step * 100 + 10, 0, 0x1000 + (uint64_t)step, 64, -1, 0, "leak");
		event(run, step * 100 + 20, 0, 0x2000 + (uint64_t)step, 1, -1, 0, "slow");
		if (step % 2)
			event(run, step * 100 + 30, 0, 0x3000 + (uint64_t)step, 64, -1, 0, "half");
		event(run, step * 100 + 40, 0, 0x4000, 64, -1, 0, "fine");
		event(run, step * 100 + 50, 1, 0x4000, 0, -1, 0, "");
	}
	m = analyzed(run);
	assert_true(m.devices[0].leaks_known.known);
	assert_int_equal(m.devices[0].n_leaks, 1);
	assert_string_equal(run_string(run, m.devices[0].leaks[0].site), "leak");
	assert_int_equal(m.devices[0].leaks[0].grew_steps, 10);
	assert_true(m.devices[0].leaks[0].bytes_per_step == 64);
	assert_int_equal(m.devices[0].leaks[0].last_bytes, 14 * 64);
	memory_release(&m);
	fake_run_free(run);
}

#define MOMENT_EVENTS 400
#define MOMENT_BLOCKS 20

struct recount {
	uint64_t live_bytes, use[MEMORY_USES];
	size_t blocks;
};

/* All events up to a moment, with an array of the blocks; of those at the moment the one that leaves the most. */
static struct recount recounted(const struct run *run, int64_t time_ns)
{
	const struct table_memory *t = &run->memory;
	struct recount now = { 0 }, found = { 0 };
	uint64_t bytes[MOMENT_BLOCKS] = { 0 };
	uint8_t use[MOMENT_BLOCKS] = { 0 };
	bool at_it = false;

	for (size_t i = 0; i < t->n && t->time_ns[i] <= time_ns; i++) {
		size_t block = t->address[i];

		now.live_bytes -= bytes[block];
		now.use[use[block]] -= bytes[block];
		now.blocks -= bytes[block] > 0;
		bytes[block] = t->event[i] == MOESCOPE_EVENT_ALLOC ? t->bytes[i] : 0;
		use[block] = t->use[i];
		now.live_bytes += bytes[block];
		now.use[use[block]] += bytes[block];
		now.blocks += bytes[block] > 0;
		if (t->time_ns[i] < time_ns || !at_it || now.live_bytes >= found.live_bytes)
			found = now;
		at_it = t->time_ns[i] == time_ns;
	}
	return found;
}

static void check_moment(const struct run *run, int64_t ns, uint64_t *ret_live_bytes)
{
	struct recount wanted = recounted(run, ns + run->start_ns);
	uint64_t by_site = 0, by_block = 0;
	const struct memory_then *then;
	struct memory m;

	assert_int_equal(memory_analyze_at(run, 0, (struct given_moment){ true, ns }, &m), 0);
	then = &m.devices[0].then;
	assert_null(then->absent);
	assert_int_equal(then->live_bytes, wanted.live_bytes);
	assert_int_equal(then->n_blocks, wanted.blocks);
	for (unsigned int u = 0; u < MEMORY_USES; u++)
		assert_int_equal(then->use[u], wanted.use[u]);
	for (size_t i = 0; i < then->n_sites; i++)
		by_site += then->sites[i].bytes;
	for (size_t i = 0; i < then->n_blocks; i++) {
		assert_true(!i || then->blocks[i].of.bytes <= then->blocks[i - 1].of.bytes);
		by_block += then->blocks[i].of.bytes;
	}
	assert_int_equal(by_site, wanted.live_bytes);
	assert_int_equal(by_block, wanted.live_bytes);
	*ret_live_bytes = then->live_bytes;
	memory_release(&m);
}

static void test_moments(void **state)
{
	struct run *run = fake_run_new();
	uint64_t random = 5, live_bytes;
	struct memory m;

	(void)state;
	/* Several at a moment, and moments without one. */
	for (int i = 0, time_ns = 100; i < MOMENT_EVENTS; i++) {
		char site[16];

		time_ns += (int)(stats_random(&random) % 3) * 5;
		snprintf(site, sizeof(site), "site %d", i % 7);
		event(run, time_ns, stats_random(&random) % 2,
		      stats_random(&random) % MOMENT_BLOCKS, 1 + stats_random(&random) % 1000, 0,
		      (uint8_t)(i % 6), site);
	}
	fake_span(run, 100, 10000);
	m = analyzed(run);
	assert_string_equal(m.devices[0].then.absent, "no moment was asked for");
	for (size_t i = 0; i < m.devices[0].n_points; i++) {
		const struct memory_point *point = &m.devices[0].points[i];

		check_moment(run, point->time_ns - run->start_ns, &live_bytes);
		assert_int_equal(live_bytes, point->live_bytes);
	}
	for (int64_t ns = 0; ns < 2100; ns += 13)
		check_moment(run, ns, &live_bytes);
	memory_release(&m);
	assert_int_equal(memory_analyze_at(run, 0, (struct given_moment){ true, 9901 }, &m), 0);
	assert_string_equal(m.devices[0].then.absent, "the run had ended by then");
	memory_release(&m);
	fake_run_free(run);
}

/* What lived before the first record is told beside the uses. */
static void test_moment_with_before(void **state)
{
	struct run *run = fake_run_new();
	struct memory m;

	(void)state;
	event(run, 10, MOESCOPE_EVENT_BEFORE, 0, 900, 1, 0, "");
	event(run, 10, MOESCOPE_EVENT_ALLOC, 0xA, 100, 1, 0, "a");
	event(run, 20, MOESCOPE_EVENT_FREE, 0xF, 300, 1, 0, "");
	reading(run, 10, "allocated_bytes", 1000);
	reading(run, 20, "allocated_bytes", 700);
	fake_span(run, 0, 100);
	for (int64_t ns = 5; ns < 30; ns += 10) {
		const uint64_t live[] = { 900, 1000, 700 }, before[] = { 900, 900, 600 };
		const struct memory_then *then;

		assert_int_equal(memory_analyze_at(run, 0, (struct given_moment){ true, ns }, &m),
				 0);
		then = &m.devices[0].then;
		assert_int_equal(then->live_bytes, live[ns / 10]);
		assert_true(then->before_bytes.v == (double)before[ns / 10]);
		assert_int_equal(then->n_blocks, ns > 10);
		memory_release(&m);
	}
	fake_run_free(run);
}

#define ADDRESSES 300

static void test_live_map_against_array(void **state)
{
	struct live_map map = { 0 };
	uint64_t bytes[ADDRESSES] = { 0 }, random = 3;
	size_t live = 0;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint64_t address = stats_random(&random) % ADDRESSES;
		struct live_block block;
		/* Addresses that collide: far apart by a large power of two. */
		uint64_t wide = address << 44;

		if (live_map_take(&map, wide, &block)) {
			assert_int_equal(block.bytes, bytes[address]);
			assert_int_not_equal(bytes[address], 0);
			bytes[address] = 0;
			live--;
		} else {
			assert_int_equal(bytes[address], 0);
			bytes[address] = (uint64_t)i + 1;
			assert_int_equal(
				live_map_put(&map, &(struct live_block){ .address = wide,
									 .bytes = bytes[address] }),
				0);
			live++;
		}
		assert_int_equal(map.n, live);
	}
	live_map_release(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_before),
		cmocka_unit_test(test_replay),
		cmocka_unit_test(test_series_is_short_and_keeps_the_peak),
		cmocka_unit_test(test_leaks),
		cmocka_unit_test(test_moments),
		cmocka_unit_test(test_moment_with_before),
		cmocka_unit_test(test_live_map_against_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
