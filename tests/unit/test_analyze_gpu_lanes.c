/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders, time lines and idle time of random small runs against counting every nanosecond and plain
 * sorting. A failure names the seed of its case.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "asking.h"
#include "fake_run.h"
#include "subjects/api/api_calls.h"
#include "subjects/device/timeline.h"
#include "subjects/kernels/kernels.h"
#include "subjects/numbers/order.h"
#include "subjects/numbers/stats.h"
#include "subjects/ops/ops.h"
#include "subjects/shared/coverage.h"
#include "subjects/shared/lanes.h"

/* TSan is there for the threads of test_answers_in_parallel; these have none. */
#ifdef __SANITIZE_THREAD__
#define CASES 300
#else
#define CASES 3000
#endif
#define TIME 200
#define MOST 60

static uint64_t seed, state_now;

static uint64_t below(uint64_t n)
{
	return stats_random(&state_now) % n;
}

static void begin_case(uint64_t number)
{
	seed = state_now = 0x5EED0000 + number;
}

#define same(got, expected)                                                                        \
	do {                                                                                       \
		int64_t got_value = (int64_t)(got), expected_value = (int64_t)(expected);          \
		if (got_value != expected_value)                                                   \
			fail_msg("seed %#" PRIx64 ": %s is %" PRId64 ", not %" PRId64, seed, #got, \
				 got_value, expected_value);                                       \
	} while (0)

/* ---- orders */

static const uint64_t *sort_keys;
static const int64_t *sort_then;
static uint64_t sort_flip;

static int plain_order(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t key_x = sort_keys[x] ^ sort_flip, key_y = sort_keys[y] ^ sort_flip;

	if (key_x != key_y)
		return key_x < key_y ? -1 : 1;
	if (sort_then && sort_then[x] != sort_then[y])
		return sort_then[x] < sort_then[y] ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Nearly sorted, equal, spread over all 64 bits, or one far from the others. */
static uint64_t random_key(unsigned int shape, size_t i)
{
	switch (shape) {
	case 0:
		return i * 10 + below(50);
	case 1:
		return below(3);
	case 2:
		return stats_random(&state_now);
	default:
		return below(40) ? below(30) : UINT64_MAX - below(5);
	}
}

static void test_orders(void **state)
{
	static const uint64_t flips[] = { 0, ORDER_SIGNED, ORDER_SIGNED_DOWN };
	static uint64_t keys[500];
	static int64_t then[500];
	static uint32_t got[500], expected[500];
	static uint16_t group[500];

	(void)state;
	for (uint64_t c = 0; c < CASES; c++) {
		size_t first, n;
		unsigned int shape;

		begin_case(c);
		n = below(400);
		first = below(100);
		shape = (unsigned int)below(4);
		for (size_t i = 0; i < first + n; i++) {
			keys[i] = random_key(shape, i);
			then[i] = (int64_t)below(4) - 2;
			group[i] = (uint16_t)below(3);
		}
		sort_keys = keys;
		sort_flip = flips[below(3)];
		sort_then = below(2) ? then : NULL;
		for (size_t i = 0; i < n; i++)
			expected[i] = (uint32_t)(first + i);
		qsort(expected, n, sizeof(*expected), plain_order);
		same(order_rows(&(struct order_keys){ keys, sort_flip, sort_then }, first, n, got),
		     0);
		for (size_t i = 0; i < n; i++)
			same(got[i], expected[i]);
		same(order_group(group, got, n), 0);
		for (size_t g = 0, at = 0; g < 3; g++)
			for (size_t i = 0; i < n; i++)
				if (group[expected[i]] == g)
					same(got[at++], expected[i]);
	}
}

static void test_find_from_any_hint(void **state)
{
	static int values[MOST];

	(void)state;
	for (uint64_t c = 0; c < CASES; c++) {
		size_t n, hint, low, expected = 0;
		int key;

		begin_case(c);
		n = below(MOST);
		hint = below(n + 2);
		for (size_t i = 0; i < n; i++)
			values[i] = (i ? values[i - 1] : 0) + (int)below(3);
		key = (int)below(MOST);
		while (expected < n && values[expected] < key)
			expected++;
		ORDER_FIND(low, n, hint, values[probe] < key);
		same(low, expected);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Whole numbers, fractions and negative ones, few and many, against a plain sort. */
static void test_percentiles(void **state)
{
	enum { MANY = 9000 };
	double *x = calloc(MANY, sizeof(*x)), *sorted = calloc(MANY, sizeof(*sorted));
	uint32_t *words = calloc(MANY, sizeof(*words)), *room = calloc(MANY, sizeof(*room));

	(void)state;
	for (uint64_t c = 0; c < 200; c++) {
		static const double shares[] = { 0, 12.5, 50, 95, 99, 100 };
		struct stats_summary summary, of_words;
		size_t n;
		bool whole;

		begin_case(c);
		n = 1 + (c % 2 ? below(300) : 4000 + below(MANY - 4000));
		whole = c % 3 != 0;
		for (size_t i = 0; i < n; i++) {
			words[i] = (uint32_t)below(c % 5 ? 100000 : UINT32_MAX);
			x[i] = whole ? (double)words[i] : ((double)below(2000) - 1000) / 7;
		}
		memcpy(sorted, x, n * sizeof(*x));
		qsort(sorted, n, sizeof(*sorted), by_value);
		for (size_t p = 0; p < 6; p++)
			if (stats_percentile(x, n, shares[p]) !=
			    stats_percentile_sorted(sorted, n, shares[p]))
				fail_msg("seed %#" PRIx64 ": percentile %g", seed, shares[p]);
		summary = stats_summarize(x, n);
		if (memcmp(x, sorted, n * sizeof(*x)) != 0)
			fail_msg("seed %#" PRIx64 ": not sorted", seed);
		if (!whole)
			continue;
		of_words = stats_summarize_words(words, n, room);
		if (memcmp(&summary, &of_words, sizeof(summary)) != 0)
			fail_msg("seed %#" PRIx64 ": words are summarised otherwise", seed);
	}
	free(x);
	free(sorted);
	free(words);
	free(room);
}

/* ---- time lines */

/* What ran when, by counting. */
struct counted {
	bool kind[LANE_KINDS][TIME];
};

static void count(struct counted *c, enum lane_kind kind, int64_t start_ns, int64_t duration_ns)
{
	for (int64_t t = start_ns; t < start_ns + duration_ns; t++)
		c->kind[kind][t] = true;
}

static bool is_busy(const struct counted *c, int64_t t)
{
	return c->kind[LANE_KERNEL][t] || c->kind[LANE_COPY][t] || c->kind[LANE_SET][t];
}

static void add_work(struct run *run, struct counted counted[2][2])
{
	size_t n = below(MOST);

	for (size_t i = 0; i < n; i++) {
		uint16_t shard = (uint16_t)below(run->n_shards);
		uint32_t device = (uint32_t)below(2);
		int64_t duration = (int64_t)below(12), start = (int64_t)below(TIME - 12);
		uint8_t untimed = below(10) == 0;
		enum lane_kind kind = (enum lane_kind)(below(5) < 3 ? 0 : 1 + below(2));
		uint64_t id = i + 1;

		if (kind == LANE_KERNEL)
			fake_add_kernel(run, shard,
					&(struct row_kernel){ .start_ns = start,
							      .duration_ns = duration,
							      .device = device,
							      .correlation = id,
							      .untimed = untimed });
		else if (kind == LANE_COPY)
			fake_add_copy(run, shard,
				      &(struct row_copy){ .start_ns = start,
							  .duration_ns = duration,
							  .kind = below(3) ? 1 : 10,
							  .device = device,
							  .source_device = device,
							  .target_device = 1 - device,
							  .correlation = id,
							  .untimed = untimed });
		else
			fake_add_set(run, shard,
				     &(struct row_set){ .start_ns = start,
							.duration_ns = duration,
							.device = device,
							.correlation = id,
							.untimed = untimed });
		if (!untimed)
			count(&counted[shard][device], kind, start, duration);
		if (below(4))
			fake_add_api(run, shard,
				     &(struct row_api){
					     .name = fake_string(run, below(3) ? "cudaLaunchKernel"
								      : below(2) ? "cudaMemcpy"
										 : "cudaStream"
										   "Synchronize"),
					     .start_ns = start - (int64_t)below(30),
					     .duration_ns = (int64_t)below(20),
					     .thread = 1,
					     .correlation = id,
				     });
	}
}

static void add_windows(struct run *run, uint16_t shard)
{
	int64_t at = (int64_t)below(60);

	for (int i = 0; i < 4; i++, at += 1 + (int64_t)below(60))
		fake_add_gear(
			run, shard,
			&(struct row_gear){ .time_ns = at, .gear = 2, .attached = i % 2 == 0 });
}

static struct run *random_run(struct counted counted[2][2])
{
	struct run *run = fake_run_new();

	memset(counted, 0, 4 * sizeof(counted[0][0]));
	if (below(2))
		fake_shard(run, 1, 77);
	for (size_t s = 0; s < run->n_shards; s++) {
		run->shards[s].start_ns = 0;
		run->shards[s].end_ns = TIME;
		if (below(3) == 0)
			add_windows(run, (uint16_t)s);
	}
	fake_span(run, 0, TIME);
	add_work(run, counted);
	if (below(2))
		fake_add_sync(run, 0,
			      &(struct row_sync){ .start_ns = (int64_t)below(100),
						  .duration_ns = (int64_t)below(50),
						  .type = 3 });
	return run;
}

static bool is_watched(const struct coverage *c, const struct timeline_device *d, int64_t t)
{
	if (t < d->start_ns || t >= d->end_ns)
		return false;
	for (size_t i = 0; d->governed && i < c->n_windows; i++)
		if (c->windows[i].shard == d->shard && t >= c->windows[i].start_ns &&
		    t < c->windows[i].end_ns)
			return true;
	return !d->governed;
}

static void check_device(const struct timeline_device *d, const struct counted *counted,
			 const struct coverage *coverage)
{
	int64_t length[LANE_KINDS] = { 0 }, window = 0, busy = 0, both = 0, causes = 0;
	int64_t first = TIME, last = 0;

	for (int64_t t = 0; t < TIME; t++) {
		if (is_busy(counted, t)) {
			first = t < first ? t : first;
			last = t + 1;
		}
		if (!is_watched(coverage, d, t))
			continue;
		window++;
		busy += is_busy(counted, t);
		both += counted->kind[LANE_KERNEL][t] && counted->kind[LANE_COPY][t];
		for (int k = 0; k < LANE_KINDS; k++)
			length[k] += counted->kind[k][t];
	}
	for (int i = 0; i < IDLE_CAUSES; i++)
		causes += d->idle_by_cause[i];
	same(d->start_ns, first);
	same(d->end_ns, last);
	same(d->window_ns, window);
	same(d->busy_ns, busy);
	same(d->busy_ns + d->idle_ns, d->window_ns);
	same(causes, d->idle_ns);
	same(d->kernel_ns, length[LANE_KERNEL]);
	same(d->copy_ns, length[LANE_COPY]);
	same(d->set_ns, length[LANE_SET]);
	same(d->overlap_ns, both);
}

static void test_time_lines(void **state)
{
	const struct selection sel = SELECT_ALL;

	(void)state;
	for (uint64_t c = 0; c < CASES; c++) {
		struct counted counted[2][2];
		struct coverage coverage;
		struct timeline timeline;
		struct run *run;
		size_t at = 0;

		begin_case(c);
		run = random_run(counted);
		same(coverage_analyze(run, &coverage), 0);
		same(timeline_analyze(run, &sel, &timeline), 0);
		for (size_t s = 0; s < run->n_shards; s++)
			for (uint32_t device = 0; device < 2; device++) {
				bool any = false;

				for (int64_t t = 0; t < TIME; t++)
					any = any || is_busy(&counted[s][device], t);
				if (!any)
					continue;
				same(at < timeline.n, true);
				same(timeline.devices[at].shard, s);
				same(timeline.devices[at].device, device);
				check_device(&timeline.devices[at++], &counted[s][device],
					     &coverage);
			}
		same(at, timeline.n);
		timeline_release(&timeline);
		coverage_release(&coverage);
		fake_run_free(run);
	}
}

/* The stretches of each kind, and of all, are those that counting shows. */
static void test_streams(void **state)
{
	(void)state;
	for (uint64_t c = 0; c < CASES; c++) {
		struct counted counted[2][2];
		struct device_lanes lanes;
		struct run *run;

		begin_case(c);
		run = random_run(counted);
		same(device_lanes_init(&lanes, run), 0);
		for (uint16_t s = 0; s < run->n_shards; s++) {
			for (uint32_t d = 0; d < 2; d++) {
				struct busy_stream stream = busy_stream(&lanes, s, d);
				struct lane_span span = { 0 };
				bool more = busy_stream_next(&stream, &span);

				for (int64_t t = 0; t < TIME; t++) {
					if (more && t == span.end_ns)
						more = busy_stream_next(&stream, &span);
					same(more && t >= span.start_ns,
					     is_busy(&counted[s][d], t));
					if (!more || t != span.start_ns)
						continue;
					same(lanes.of[span.kind].table.start_ns[span.row], t);
				}
			}
		}
		device_lanes_release(&lanes);
		fake_run_free(run);
	}
}

/* ---- all together */

/* Enough rows for several threads. */
static void test_answers_in_parallel(void **state)
{
	enum { KERNELS = 60000 };
	struct question question = { .sel = SELECT_ALL };
	struct kernels_options by_name = { .by = KERNELS_BY_NAME };
	struct ops_options plain = { 0 };
	struct run *run = fake_run_new();
	uint32_t site = fake_site(run, "work", 1, -1, 1);
	struct answers a;
	struct timeline timeline;
	struct kernels kernels;
	struct api_calls api;
	struct ops ops;

	(void)state;
	for (int64_t i = 0; i < KERNELS; i++) {
		int64_t at = i * 100;

		fake_call(run, "cudaLaunchKernel", at, at + 20, (uint64_t)i + 1);
		fake_kernel(run, i % 3 ? "one" : "two", at + 30, at + 60 + i % 7, (uint64_t)i + 1);
		if (i % 10 == 9)
			fake_range(run, site, at - 900, at + 90, 1, 0);
	}
	fake_span(run, 0, KERNELS * 100);
	a = answers_of(run, subjects_all, &question);
	/* Every kernel is launched in a range. */
	assert_int_equal(answer_kernels(&a)->count, KERNELS);
	assert_int_equal((int64_t)answer_ops(&a)->gpu_ns.v, answer_kernels(&a)->time_ns);
	assert_int_equal(kernels_analyze(run, &question.sel, &by_name, &kernels), 0);
	assert_int_equal(answer_kernels(&a)->time_ns, kernels.time_ns);
	assert_int_equal(timeline_analyze(run, &question.sel, &timeline), 0);
	assert_int_equal(answer_timeline(&a)->devices[0].n_watched, timeline.devices[0].n_watched);
	assert_int_equal(answer_timeline(&a)->devices[0].busy_ns, timeline.devices[0].busy_ns);
	assert_memory_equal(answer_timeline(&a)->devices[0].idle_by_cause,
			    timeline.devices[0].idle_by_cause,
			    sizeof(timeline.devices[0].idle_by_cause));
	assert_int_equal(api_calls_analyze(run, &question.sel, &api), 0);
	assert_int_equal(answer_api_calls(&a)->rows[0].count, KERNELS);
	assert_true(answer_api_calls(&a)->latency_ns.v == 30 && api.latency_ns.v == 30);
	assert_int_equal(ops_analyze(run, &question.sel, &plain, &ops), 0);
	assert_int_equal(answer_ops(&a)->rows[0].gpu_ns, ops.rows[0].gpu_ns);
	kernels_release(&kernels);
	timeline_release(&timeline);
	api_calls_release(&api);
	ops_release(&ops);
	answers_release(&a);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders),	    cmocka_unit_test(test_find_from_any_hint),
		cmocka_unit_test(test_percentiles), cmocka_unit_test(test_time_lines),
		cmocka_unit_test(test_streams),	    cmocka_unit_test(test_answers_in_parallel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
