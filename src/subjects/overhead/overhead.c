/* SPDX-License-Identifier: Apache-2.0
 *
 * What the profiler costs; see overhead.h for the estimate. Pure, any thread.
 */
#include "subjects/overhead/overhead.h"

#include <errno.h>
#include <stdlib.h>

#include "subjects/numbers/stats.h"
#include "subjects/shared/selection.h"

#define RESAMPLES 2000
#define SEED UINT64_C(0x6D6F6573636F7065)

enum { PROBE_ON = 1, PROBE_OFF = 2 };

struct pairs {
	double *on, *off;
	size_t n;
};

/* Neighbours in time of one shard, one of each sort; a step is in one pair at most. */
static int collect_pairs(const struct run *run, struct pairs *ret_pairs)
{
	const struct table_step *step = &run->step;
	struct step_index index;
	double *numbers = calloc(step->n ? step->n * 2 : 1, sizeof(*numbers));
	struct pairs pairs = { 0 };
	int r = numbers ? step_index_init(&index, run) : -ENOMEM;

	if (r < 0) {
		free(numbers);
		return r;
	}
	pairs.on = numbers;
	pairs.off = numbers + step->n;
	for (size_t i = 0; i + 1 < index.n; i++) {
		size_t a = index.rows[i], b = index.rows[i + 1];

		if (step->shard[a] != step->shard[b] || step->unfinished[a] ||
		    step->unfinished[b] || !step->probe[a] || !step->probe[b] ||
		    step->probe[a] == step->probe[b])
			continue;
		pairs.on[pairs.n] = (double)step->duration_ns[step->probe[a] == PROBE_ON ? a : b];
		pairs.off[pairs.n++] =
			(double)step->duration_ns[step->probe[a] == PROBE_OFF ? a : b];
		i++;
	}
	step_index_release(&index);
	*ret_pairs = pairs;
	return 0;
}

/* Median difference over median off, in percent; scratch: 2n numbers. pick NULL: all pairs. */
static double estimate(const struct pairs *p, const size_t *pick, double *scratch)
{
	double off;

	for (size_t i = 0; i < p->n; i++) {
		size_t at = pick ? pick[i] : i;

		scratch[i] = p->on[at] - p->off[at];
		scratch[p->n + i] = p->off[at];
	}
	off = stats_median(scratch + p->n, p->n);
	return off > 0 ? 100 * stats_median(scratch, p->n) / off : 0;
}

static int bootstrap(const struct pairs *p, double *ret_low, double *ret_high)
{
	double *scratch = calloc(2 * p->n + RESAMPLES, sizeof(*scratch));
	size_t *pick = calloc(p->n, sizeof(*pick));
	double *results;
	uint64_t state = SEED;

	if (!scratch || !pick) {
		free(scratch);
		free(pick);
		return -ENOMEM;
	}
	results = scratch + 2 * p->n;
	for (size_t i = 0; i < RESAMPLES; i++) {
		for (size_t j = 0; j < p->n; j++)
			pick[j] = (size_t)(stats_random(&state) % p->n);
		results[i] = estimate(p, pick, scratch);
	}
	stats_sort(results, RESAMPLES);
	*ret_low = stats_percentile_sorted(results, RESAMPLES, 2.5);
	*ret_high = stats_percentile_sorted(results, RESAMPLES, 97.5);
	free(scratch);
	free(pick);
	return 0;
}

static int measure_pairs(const struct pairs *p, struct overhead *out)
{
	double *scratch, low, high;
	int r;

	out->pairs = p->n;
	if (p->n < OVERHEAD_PAIRS_MIN) {
		out->measured_pct =
			value_absent(p->n ? "fewer than 8 pairs of steps with recording "
					    "on and off"
					  : "no overhead check in this run");
		out->low_pct = out->high_pct = out->off_median_ns = out->on_median_ns =
			out->measured_pct;
		return 0;
	}
	scratch = calloc(2 * p->n, sizeof(*scratch));
	if (!scratch)
		return -ENOMEM;
	out->measured_pct = value_of(estimate(p, NULL, scratch));
	/* estimate() leaves the off times sorted in the second half. */
	out->off_median_ns = value_of(stats_percentile_sorted(scratch + p->n, p->n, 50));
	for (size_t i = 0; i < p->n; i++)
		scratch[i] = p->on[i];
	out->on_median_ns = value_of(stats_median(scratch, p->n));
	free(scratch);
	r = bootstrap(p, &low, &high);
	if (r < 0)
		return r;
	out->low_pct = value_of(low);
	out->high_pct = value_of(high);
	return 0;
}

static void sum_own_cost(const struct run *run, struct overhead *out)
{
	const struct table_cost *t = &run->cost;
	int64_t start_ns = run->gone.any && run->gone.since_ns > run->start_ns ? run->gone.since_ns
									       : run->start_ns;
	double wall_ns = (double)(run->end_ns - start_ns), cpu_ns = 0;

	if (!t->n) {
		out->own_cpu_pct = value_absent("the profiler's cost was not recorded");
		out->own_cpu_ns = out->own_cpu_pct;
		return;
	}
	for (size_t i = 0; i < t->n; i++) {
		cpu_ns += (double)t->drain_cpu_ns[i];
		out->records += t->records[i];
		out->bytes += t->bytes[i];
	}
	out->own_cpu_ns = value_of(cpu_ns);
	out->own_cpu_pct = wall_ns > 0 ? value_of(100 * cpu_ns / wall_ns)
				       : value_absent("the run has no duration");
}

/* Over the time of the processes that have such records. */
static int sum_device_cost(const struct run *run, struct overhead *out)
{
	const struct table_device_cost *t = &run->device_cost;
	bool *counted = calloc(run->n_shards ? run->n_shards : 1, sizeof(*counted));
	double wall_ns = 0;

	if (!counted)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		size_t s = t->shard[i];

		out->cupti_ns += t->cupti_ns[i];
		out->translate_ns += t->translate_ns[i];
		out->held_ns += t->held_ns[i];
		out->switch_ns += t->switch_ns[i];
		out->device_kernels += t->kernels[i];
		out->device_calls += t->calls[i];
		if (!counted[s])
			wall_ns += (double)(run->shards[s].end_ns - run_since(run, s));
		counted[s] = true;
	}
	free(counted);
	if (!t->n)
		out->device_account_pct = value_absent("no cost of device records in this run");
	else if (wall_ns <= 0)
		out->device_account_pct = value_absent("the run has no duration");
	else
		out->device_account_pct = value_of(100.0 *
						   (double)(out->cupti_ns + out->translate_ns +
							    out->held_ns + out->switch_ns) /
						   wall_ns);
	return 0;
}

int overhead_analyze(const struct run *run, struct overhead *ret_overhead)
{
	struct overhead out = { 0 };
	struct pairs pairs;
	int r = collect_pairs(run, &pairs);

	if (r < 0)
		return r;
	r = measure_pairs(&pairs, &out);
	free(pairs.on);
	if (r < 0)
		return r;
	sum_own_cost(run, &out);
	r = sum_device_cost(run, &out);
	if (r < 0)
		return r;
	*ret_overhead = out;
	return 0;
}
