/* SPDX-License-Identifier: Apache-2.0
 *
 * From device records to calls and ranges: by hand, and against a search of everything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_run.h"
#include "subjects/numbers/stats.h"
#include "subjects/shared/attribution.h"

static void assert_path(const struct attribution *at, struct place place, const char *wanted)
{
	char *text;

	assert_int_equal(attribution_path_text(at, place.path, &text), 0);
	assert_string_equal(text, wanted);
	free(text);
}

static void test_runtime_before_driver(void **state)
{
	struct run *run = fake_run_new();
	struct attribution at;
	struct row_api driver = {
		.start_ns = 105, .duration_ns = 10, .thread = 1, .correlation = 5, .driver = 1
	};

	(void)state;
	fake_add_api(run, 0, &driver);			 /* row 0, inside row 1 */
	fake_call(run, "cudaLaunchKernel", 100, 120, 5); /* row 1 */
	driver.correlation = 6;
	fake_add_api(run, 0, &driver); /* row 2: a driver call alone */
	assert_int_equal(attribution_init(&at, run), 0);
	assert_int_equal(attribution_call(&at, 0, 5, 200), 1);
	assert_int_equal(attribution_call(&at, 0, 6, 200), 2);
	assert_true(attribution_call(&at, 0, 7, 200) == NO_CALL);
	assert_true(attribution_call(&at, 1, 5, 200) == NO_CALL);
	/* The device's clock a little behind the host's. */
	assert_int_equal(attribution_call(&at, 0, 5, 99), 1);
	attribution_release(&at);
	fake_run_free(run);
}

/* Backward runs on a thread that knows no range: its work is that of the thread which leads. */
static void test_lent_phase(void **state)
{
	struct run *run = fake_run_new();
	uint32_t forward = fake_site(run, "forward", -1, -1, 1);
	uint32_t backward = fake_site(run, "backward", -1, -1, 2);
	uint32_t plain = fake_site(run, "log", -1, -1, 0), own = fake_site(run, "own", 3, -1, 0);
	struct row_api call = { .duration_ns = 5, .thread = 9, .correlation = 1 };
	static const struct {
		int64_t start_ns;
		const char *path;
		uint8_t phase;
	} calls[] = {
		{ 250, "backward", 2 },
		{ 350, "", 0 },	    /* the leader is in a range without a phase */
		{ 450, "", 0 },	    /* in none */
		{ 270, "own", 2 },  /* a range of its own, which names no phase */
		{ 150, "data", 4 }, /* one that does */
	};
	struct attribution at;

	(void)state;
	fake_range(run, forward, 100, 200, 1, 0);
	fake_range(run, backward, 200, 300, 1, 0);
	fake_range(run, plain, 300, 400, 1, 0);
	fake_range(run, own, 260, 280, 9, 0);
	fake_range(run, fake_site(run, "data", -1, -1, 4), 140, 160, 9, 0);
	/* Longer, but of one phase. */
	fake_range(run, forward, 0, 1000, 7, 0);
	for (size_t i = 0; i < 5; i++) {
		call.start_ns = calls[i].start_ns;
		call.correlation = i + 1;
		fake_add_api(run, 0, &call);
	}
	assert_int_equal(attribution_init(&at, run), 0);
	for (size_t i = 0; i < 5; i++) {
		struct place place = attribution_place(&at, i);

		assert_path(&at, place, calls[i].path);
		assert_int_equal(place.phase, calls[i].phase);
	}
	attribution_release(&at);
	fake_run_free(run);
}

static void test_ids_that_start_again(void **state)
{
	struct run *run = fake_run_new();
	struct row_api driver = {
		.start_ns = 1005, .duration_ns = 1, .thread = 1, .correlation = 1, .driver = 1
	};
	struct attribution at;

	(void)state;
	fake_call(run, "a", 0, 10, 1);
	fake_add_api(run, 0, &driver); /* a later window: its runtime call was not recorded */
	fake_call(run, "a", 2000, 2010, 1);
	assert_int_equal(attribution_init(&at, run), 0);
	assert_int_equal(attribution_call(&at, 0, 1, 50), 0);
	assert_int_equal(attribution_call(&at, 0, 1, 1500), 1);
	assert_int_equal(attribution_call(&at, 0, 1, 5000), 2);
	attribution_release(&at);
	fake_run_free(run);
}

static void test_places(void **state)
{
	struct run *run = fake_run_new();
	uint32_t outer = fake_site(run, "step", -1, -1, 1),
		 block = fake_site(run, "block", 3, -1, 0), mm = fake_site(run, "mm", -1, 7, 0);
	struct attribution at;
	struct place place;

	(void)state;
	fake_op(run, mm, 20, 30, 1, 2, 1);
	fake_range(run, block, 10, 40, 1, 1);
	fake_range(run, outer, 0, 100, 1, 0);
	fake_range(run, block, 0, 100, 2, 0); /* another thread */
	fake_call(run, "f", 25, 26, 1);
	fake_call(run, "f", 30, 31, 2); /* mm has ended */
	fake_call(run, "f", 60, 61, 3);
	fake_call(run, "f", 100, 101, 4); /* all have ended */
	fake_step(run, 42, 0, 70, 1);
	assert_int_equal(attribution_init(&at, run), 0);
	place = attribution_place(&at, 0);
	assert_path(&at, place, "step/block/mm");
	assert_int_equal(place.layer, 3);
	assert_int_equal(place.expert, 7);
	assert_int_equal(place.phase, 1);
	assert_int_equal(place.step, 0);
	place = attribution_place(&at, 1);
	assert_path(&at, place, "step/block");
	assert_int_equal(place.expert, -1);
	place = attribution_place(&at, 2);
	assert_path(&at, place, "step");
	assert_int_equal(place.layer, -1);
	place = attribution_place(&at, 3);
	assert_int_equal(place.path, 0);
	assert_int_equal(place.layer, -1);
	assert_int_equal(place.phase, 0);
	assert_true(place.step == NO_STEP);
	attribution_release(&at);
	fake_run_free(run);
}

struct item {
	int64_t start, end;
	uint32_t thread, name;
};

/* Children within [start, end), recorded before their parent; not always properly nested. */
static void grow_tree(struct run *run, const uint32_t *sites, struct item *items, size_t *n,
		      uint64_t *random, int64_t start, int64_t end, uint32_t thread, uint8_t depth)
{
	for (int64_t at = start; at < end && *n < 300;) {
		int64_t from = at + (int64_t)(stats_random(random) % 20);
		int64_t to = from + 1 + (int64_t)(stats_random(random) % 150);
		uint32_t name = (uint32_t)(stats_random(random) % 5);

		if (to > end)
			break;
		if (depth < 5 && stats_random(random) % 2)
			grow_tree(run, sites, items, n, random, from, to, thread,
				  (uint8_t)(depth + 1));
		items[(*n)++] = (struct item){ from, to, thread, name };
		if (name % 2)
			fake_op(run, sites[name], from, to, thread, depth, 1);
		else
			fake_range(run, sites[name], from, to, thread, depth);
		at = to;
	}
}

/* Those that hold the moment, the later they began and the earlier they end the further in. */
static void slow_path(const struct item *items, size_t n, uint32_t thread, int64_t time, char *out)
{
	bool used[400] = { false };

	*out = '\0';
	for (;;) {
		size_t best = n;

		for (size_t i = 0; i < n; i++) {
			if (used[i] || items[i].thread != thread || items[i].start > time ||
			    items[i].end <= time)
				continue;
			/* A parent comes after its children in the list. */
			if (best == n || items[i].start < items[best].start ||
			    (items[i].start == items[best].start &&
			     (items[i].end > items[best].end ||
			      (items[i].end == items[best].end && i > best))))
				best = i;
		}
		if (best == n)
			return;
		used[best] = true;
		sprintf(out + strlen(out), "%s%c", *out ? "/" : "", 'a' + (int)items[best].name);
	}
}

static void test_random_trees(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d", "e" };
	uint64_t random = 3, placed = 0;

	(void)state;
	for (int round = 0; round < 40; round++) {
		struct run *run = fake_run_new();
		struct item items[400];
		struct attribution at;
		uint32_t sites[5];
		size_t n = 0;

		for (int i = 0; i < 5; i++)
			sites[i] = fake_site(run, names[i], -1, -1, 0);
		for (uint32_t thread = 1; thread < 4; thread++)
			grow_tree(run, sites, items, &n, &random, 0, 1500, thread, 0);
		for (uint64_t c = 0; c < 300; c++)
			fake_add_api(run, 0,
				     &(struct row_api){
					     .start_ns = (int64_t)(stats_random(&random) % 1600),
					     .thread = (uint32_t)(stats_random(&random) % 5),
					     .correlation = c });
		assert_int_equal(attribution_init(&at, run), 0);
		for (size_t c = 0; c < run->api.n; c++) {
			struct place place = attribution_place(&at, c);
			char wanted[800];

			slow_path(items, n, run->api.thread[c], run->api.start_ns[c], wanted);
			assert_path(&at, place, wanted);
			assert_int_equal(place.path == 0, wanted[0] == '\0');
			placed += place.path != 0;
		}
		attribution_release(&at);
		fake_run_free(run);
	}
	assert_true(placed > 2000);
}

/* The rule of attribution.h, by looking at every call. */
static size_t slow_call(const struct run *run, uint64_t id, int64_t start)
{
	const struct table_api *api = &run->api;
	size_t last = SIZE_MAX, first = SIZE_MAX, best = SIZE_MAX;

	for (size_t i = 0; i < api->n; i++) {
		if (api->correlation[i] != id || !id)
			continue;
		if (first == SIZE_MAX || api->start_ns[i] < api->start_ns[first])
			first = i;
		if (api->start_ns[i] <= start &&
		    (last == SIZE_MAX || api->start_ns[i] >= api->start_ns[last]))
			last = i;
	}
	if (last == SIZE_MAX)
		return first;
	for (size_t i = 0; api->driver[last] && i < api->n; i++)
		if (api->correlation[i] == id && !api->driver[i] &&
		    api->start_ns[i] <= api->start_ns[last] &&
		    api->start_ns[i] + api->duration_ns[i] >= api->start_ns[last] &&
		    (best == SIZE_MAX || api->start_ns[i] >= api->start_ns[best]))
			best = i;
	return best == SIZE_MAX ? last : best;
}

static void test_random_calls(void **state)
{
	uint64_t random = 5;

	(void)state;
	for (int round = 0; round < 40; round++) {
		struct run *run = fake_run_new();
		struct attribution at;

		/* Distinct starts, so that "the last one" is one. */
		for (int64_t i = 0; i < 200; i++)
			fake_add_api(run, 0,
				     &(struct row_api){
					     .start_ns = (i * 77) % 200 * 10,
					     .duration_ns = (int64_t)(stats_random(&random) % 60),
					     .correlation = stats_random(&random) % 60,
					     .driver = stats_random(&random) % 2 });
		assert_int_equal(attribution_init(&at, run), 0);
		for (int i = 0; i < 300; i++) {
			uint64_t id = stats_random(&random) % 64;
			int64_t start = (int64_t)(stats_random(&random) % 2100) - 50;

			assert_true(attribution_call(&at, 0, id, start) ==
				    slow_call(run, id, start));
		}
		attribution_release(&at);
		fake_run_free(run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runtime_before_driver), cmocka_unit_test(test_lent_phase),
		cmocka_unit_test(test_ids_that_start_again),  cmocka_unit_test(test_places),
		cmocka_unit_test(test_random_trees),	      cmocka_unit_test(test_random_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
