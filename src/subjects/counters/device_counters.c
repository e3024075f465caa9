/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of devices over time; see device_counters.h. Pure, any thread.
 */
#include "subjects/counters/device_counters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "device/driver/gpu_devices.h"

/* What has been added up of a counter of a device: of a step since it began, or of all that is outside the steps. */
struct sum {
	uint32_t device, counter;
	bool sampled, outside;
	int64_t step;
	uint64_t n;
	double sum, min, max;
};

struct sums {
	struct sum *all;
	size_t n, capacity, last;
	size_t rows_capacity;
	bool by_step;
};

static struct sum *find_sum(struct sums *sums, uint32_t device, uint32_t counter, bool sampled,
			    bool outside)
{
	/* Samples come in rounds: the next one is nearly always that after the last. */
	for (size_t k = 0; k < sums->n; k++) {
		size_t i = (sums->last + 1 + k) % sums->n;

		if (sums->all[i].device == device && sums->all[i].counter == counter &&
		    sums->all[i].sampled == sampled && sums->all[i].outside == outside) {
			sums->last = i;
			return &sums->all[i];
		}
	}
	if (array_grow(&sums->all, &sums->capacity, sums->n + 1, sizeof(*sums->all)) < 0)
		return NULL;
	sums->last = sums->n;
	sums->all[sums->n] = (struct sum){
		.device = device, .counter = counter, .sampled = sampled, .outside = outside
	};
	return &sums->all[sums->n++];
}

static int end_sum(struct sums *sums, struct sum *sum, struct device_counters *counters)
{
	if (!sum->n)
		return 0;
	if (array_grow(&counters->rows, &sums->rows_capacity, counters->n + 1,
		       sizeof(*counters->rows)) < 0)
		return -ENOMEM;
	counters->rows[counters->n++] = (struct device_counter_row){
		.device = sum->device,
		.counter = sum->counter,
		.sampled = sum->sampled,
		.step = !sums->by_step
				? value_absent("over the whole run: --by-step tells steps apart")
			: sum->outside ? value_absent("outside the steps")
				       : value_of((double)sum->step),
		.samples = sum->n,
		.mean = sum->sum / (double)sum->n,
		.min = sum->min,
		.max = sum->max,
	};
	sum->n = 0;
	return 0;
}

static void add(struct sum *sum, double value)
{
	if (!sum->n++) {
		sum->sum = 0;
		sum->min = sum->max = value;
	}
	sum->sum += value;
	sum->min = value < sum->min ? value : sum->min;
	sum->max = value > sum->max ? value : sum->max;
}

/* The first process with steps; run->n_shards: none has any. */
static uint16_t shard_of_steps(const struct run *run)
{
	uint16_t first = (uint16_t)run->n_shards;

	for (size_t i = 0; i < run->step.n; i++)
		if (run->step.shard[i] < first)
			first = run->step.shard[i];
	return first;
}

static int by_place(const void *a, const void *b)
{
	const struct device_counter_row *x = a, *y = b;
	double sx = x->step.known ? x->step.v : -1, sy = y->step.known ? y->step.v : -1;

	return CMP(sx, sy) ?: CMP(x->device, y->device) ?:
	       CMP(y->sampled, x->sampled) ?: CMP(x->counter, y->counter);
}

/* The last name is kept: samples have few. */
struct gpm {
	uint32_t last;
	bool is;
};

static bool is_gpm(const struct run *run, struct gpm *gpm, uint32_t metric)
{
	static const char *const names[] = {
#define COUNTER(id, metric) #metric,
		GPU_COUNTERS(COUNTER)
#undef COUNTER
	};

	if (metric == gpm->last)
		return gpm->is;
	*gpm = (struct gpm){ .last = metric };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		gpm->is = gpm->is || !strcmp(names[i], run_string(run, metric));
	return gpm->is;
}

static int sum_up(const struct run *run, const struct selection *sel,
		  const struct step_index *index, struct sums *sums,
		  struct device_counters *counters)
{
	const struct table_sample *t = &run->sample;
	uint16_t shard = shard_of_steps(run);
	size_t hint = index->n;
	struct gpm gpm = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < t->n; i++) {
		struct sum *sum;
		size_t row;
		int64_t step;
		bool sampled = run->shards[t->shard[i]].role == ROLE_COUNTERS;

		if (!sampled && !is_gpm(run, &gpm, t->metric[i]))
			continue;
		row = step_index_find_near(index, run, shard, t->time_ns[i], &hint);
		step = row == SIZE_MAX ? 0 : run->step.step[row];
		if (selection_is_window(sel) && (row == SIZE_MAX || !selection_has_step(sel, step)))
			continue;
		sum = find_sum(sums, t->device[i], t->metric[i], sampled,
			       sums->by_step && row == SIZE_MAX);
		if (!sum)
			return -ENOMEM;
		if (sums->by_step && sum->step != step)
			r = end_sum(sums, sum, counters);
		sum->step = step;
		add(sum, t->value[i]);
		counters->samples++;
	}
	for (size_t i = 0; r == 0 && i < sums->n; i++)
		r = end_sum(sums, &sums->all[i], counters);
	return r;
}

int device_counters_analyze(const struct run *run, const struct peaks_file *peaks,
			    const struct selection *sel, bool by_step,
			    struct device_counters *ret_counters)
{
	struct device_counters counters = { 0 };
	struct sums sums = { .by_step = by_step };
	struct step_index index = { 0 };
	int r = step_index_init(&index, run);

	if (r == 0)
		r = sum_up(run, sel, &index, &sums, &counters);
	if (r == 0 && counters.n)
		r = device_traffic_fill(run, peaks, sel, &index, shard_of_steps(run), &counters);
	step_index_release(&index);
	free(sums.all);
	if (r < 0)
		device_counters_release(&counters);
	else if (counters.n)
		qsort(counters.rows, counters.n, sizeof(*counters.rows), by_place);
	*ret_counters = counters;
	return r;
}

void device_counters_release(struct device_counters *counters)
{
	free(counters->rows);
	free(counters->traffic);
	*counters = (struct device_counters){ 0 };
}
