/* SPDX-License-Identifier: Apache-2.0
 *
 * Traffic of the devices' memory by its counters; see device_counters.h. Pure, any thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/counters/device_counters.h"
#include "subjects/efficiency/efficiency.h"

/* The counters that are shares of the memory's bandwidth. */
enum share { READ_SHARE, WRITE_SHARE, BOTH_SHARES, SHARES };
static const char *const share_names[SHARES] = { "dram_read_pct", "dram_write_pct",
						 "dram_bandwidth_pct" };

/* Of a device, by one reader. */
struct sums {
	uint32_t device;
	bool sampled;
	double sum[SHARES];
	uint64_t n[SHARES];
	uint8_t *steps; /* rows of run->step that have samples */
};

struct work {
	struct sums *all;
	size_t n, capacity;
};

static struct sums *find_sums(struct work *work, const struct run *run, uint32_t device,
			      bool sampled)
{
	struct sums sums = { .device = device, .sampled = sampled };

	for (size_t i = 0; i < work->n; i++)
		if (work->all[i].device == device && work->all[i].sampled == sampled)
			return &work->all[i];
	sums.steps = calloc(run->step.n + 1, 1);
	if (!sums.steps ||
	    array_grow(&work->all, &work->capacity, work->n + 1, sizeof(*work->all)) < 0) {
		free(sums.steps);
		return NULL;
	}
	work->all[work->n] = sums;
	return &work->all[work->n++];
}

static bool is_usable(const struct run *run, const struct selection *sel, size_t row)
{
	return row != SIZE_MAX && step_is_timed(&run->step, row) &&
	       (!selection_is_window(sel) || selection_has_step(sel, run->step.step[row]));
}

static int add_samples(const struct run *run, const struct selection *sel,
		       const struct step_index *index, uint16_t shard, struct work *work)
{
	const struct table_sample *t = &run->sample;
	size_t hint = index->n;

	for (size_t i = 0; i < t->n; i++) {
		const char *name = run_string(run, t->metric[i]);
		struct sums *sums;
		size_t row, share = 0;

		while (share < SHARES && strcmp(name, share_names[share]) != 0)
			share++;
		if (share == SHARES)
			continue;
		row = step_index_find_near(index, run, shard, t->time_ns[i], &hint);
		if (!is_usable(run, sel, row))
			continue;
		sums = find_sums(work, run, t->device[i],
				 run->shards[t->shard[i]].role == ROLE_COUNTERS);
		if (!sums)
			return -ENOMEM;
		sums->sum[share] += t->value[i];
		sums->n[share]++;
		sums->steps[row] = 1;
	}
	return 0;
}

/* Several processes have steps: nobody knows whose tokens a device worked on. */
static bool is_one_of_several(const struct run *run)
{
	for (size_t i = 1; i < run->step.n; i++)
		if (run->step.shard[i] != run->step.shard[0])
			return true;
	return false;
}

/* The steps that have samples: their time, and their tokens in the row. */
static double take_steps(const struct run *run, const struct sums *sums, struct device_traffic *row)
{
	double time_ns = 0, tokens = 0;
	bool told = true;

	for (size_t i = 0; i < run->step.n; i++) {
		if (!sums->steps[i])
			continue;
		row->steps++;
		time_ns += (double)run->step.duration_ns[i];
		tokens += (double)run->step.tokens[i];
		told = told && run->step.tokens_known[i];
	}
	row->tokens = is_one_of_several(run) ? value_absent("several processes have steps")
		      : !told || !(tokens > 0)
			      ? value_absent("the steps did not report their tokens")
			      : value_of(tokens);
	return time_ns;
}

static struct device_traffic make_row(const struct run *run, const struct peaks_file *peaks,
				      const struct sums *sums)
{
	struct device_traffic row = { .device = sums->device, .sampled = sums->sampled };
	double time_ns = take_steps(run, sums, &row), share = 0;
	struct value rate = value_absent("the run does not say what the device is");

	for (size_t i = 0; i < SHARES; i++)
		share += sums->n[i] ? sums->sum[i] / (double)sums->n[i] : 0;
	for (size_t i = 0; i < run->device.n; i++)
		if (run->device.device[i] == sums->device) {
			rate = efficiency_device_of(run, peaks, run->device.shard[i], sums->device)
				       .memory_bytes_per_s;
			break;
		}
	row.dram_bytes_per_s = rate.known ? value_of(share / 100 * rate.v) : rate;
	row.dram_bytes_per_token = !rate.known	       ? rate
				   : !row.tokens.known ? row.tokens
						       : value_of(row.dram_bytes_per_s.v * time_ns /
								  1e9 / row.tokens.v);
	return row;
}

/* Either both directions, or their sum. */
static bool is_whole(const struct sums *sums)
{
	return (sums->n[READ_SHARE] && sums->n[WRITE_SHARE]) ||
	       (sums->n[BOTH_SHARES] && !sums->n[READ_SHARE] && !sums->n[WRITE_SHARE]);
}

static int by_device(const void *a, const void *b)
{
	const struct device_traffic *x = a, *y = b;

	return CMP(x->device, y->device) ?: CMP(y->sampled, x->sampled);
}

int device_traffic_fill(const struct run *run, const struct peaks_file *peaks,
			const struct selection *sel, const struct step_index *index, uint16_t shard,
			struct device_counters *counters)
{
	struct work work = { 0 };
	size_t kept = 0;
	int r = add_samples(run, sel, index, shard, &work);

	if (r == 0 && work.n) {
		counters->traffic = calloc(work.n, sizeof(*counters->traffic));
		r = counters->traffic ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < work.n; i++) {
		if (r == 0 && is_whole(&work.all[i]))
			counters->traffic[counters->n_traffic++] = make_row(run, peaks,
									    &work.all[i]);
		free(work.all[i].steps);
	}
	free(work.all);
	if (r < 0 || !counters->n_traffic)
		return r;
	qsort(counters->traffic, counters->n_traffic, sizeof(*counters->traffic), by_device);
	/* Of two readers of a device the one that looks more often. */
	for (size_t i = 0; i < counters->n_traffic; i++)
		if (!kept || counters->traffic[kept - 1].device != counters->traffic[i].device)
			counters->traffic[kept++] = counters->traffic[i];
	counters->n_traffic = kept;
	return 0;
}
