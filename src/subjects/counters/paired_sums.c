/* SPDX-License-Identifier: Apache-2.0
 *
 * See paired_sums.h.
 */
#include "subjects/counters/paired_sums.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/text/scaled_units.h"

struct launch_time {
	uint32_t shard, profile;
	double ns;
};

static int by_launch(const void *a, const void *b)
{
	const struct launch_time *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->profile, y->profile);
}

static int by_kernel_and_metric(const void *a, const void *b)
{
	const struct paired_sum *x = a, *y = b;

	return CMP(x->kernel, y->kernel) ?: CMP(x->metric, y->metric);
}

bool metric_number(const struct run *run, size_t i, const char *unit, double *ret_value)
{
	const struct table_metric *t = &run->metric;
	const char *own = run_string(run, t->unit[i]);
	int power;

	if (t->text[i] || !scaled_unit_power(*own ? own : unit, unit, &power))
		return false;
	*ret_value = scaled_by_power(t->value[i], power);
	return isfinite(*ret_value);
}

enum peak_dtype tensor_metric_dtype(const char *name)
{
	const char *source = tensor_metric_source(name);
	int dtype = 0;

	/* Of one kind of instruction: its rate is that of the widest. */
	if (source && !strncmp(source, "fp4_fp6_fp8_", strlen("fp4_fp6_fp8_")))
		return PEAK_FP8;

	while (dtype < PEAK_DTYPES) {
		const char *word = peak_dtype_name((enum peak_dtype)dtype);
		size_t length = strlen(word);

		if (source && !strncmp(source, word, length) && strchr("_.", source[length]))
			break;
		dtype++;
	}
	return (enum peak_dtype)dtype;
}

/* free() them. */
static int list_times(const struct run *run, struct launch_time **ret_times, size_t *ret_n)
{
	const struct table_metric *t = &run->metric;
	struct launch_time *times = NULL;
	size_t n = 0, capacity = 0;

	for (size_t i = 0; i < t->n; i++) {
		double ns;

		if (strcmp(run_string(run, t->name[i]), TIME_METRIC) != 0 ||
		    !metric_number(run, i, "ns", &ns) || !(ns > 0))
			continue;
		if (array_grow(&times, &capacity, n + 1, sizeof(*times)) < 0) {
			free(times);
			return -ENOMEM;
		}
		times[n++] = (struct launch_time){ t->shard[i], t->profile[i], ns };
	}
	if (n)
		qsort(times, n, sizeof(*times), by_launch);
	*ret_times = times;
	*ret_n = n;
	return 0;
}

/* The unit of an amount that is wanted; NULL: it is not. */
static const char *amount_unit(const char *name)
{
	if (!strncmp(name, DRAM_METRIC, strlen(DRAM_METRIC)))
		return "byte";
	return strncmp(name, TENSOR_METRIC, strlen(TENSOR_METRIC)) != 0 ? NULL : "";
}

/* A pair for each row, still apart. */
static int list_pairs(const struct run *run, const struct launch_time *times, size_t n_times,
		      struct paired_sums *sums)
{
	const struct table_metric *t = &run->metric;
	size_t capacity = 0;

	for (size_t i = 0; n_times && i < t->n; i++) {
		const struct launch_time key = { t->shard[i], t->profile[i], 0 }, *time;
		const char *unit = amount_unit(run_string(run, t->name[i]));
		double amount;

		if (!unit || !metric_number(run, i, unit, &amount))
			continue;
		time = bsearch(&key, times, n_times, sizeof(key), by_launch);
		if (!time)
			continue;
		if (array_grow(&sums->all, &capacity, sums->n + 1, sizeof(*sums->all)) < 0)
			return -ENOMEM;
		sums->all[sums->n++] = (struct paired_sum){ run_launch(run, t->launch[i]).name,
							    t->name[i], amount, time->ns };
	}
	return 0;
}

int paired_sums_make(const struct run *run, struct paired_sums *ret_sums)
{
	struct paired_sums sums = { 0 };
	struct launch_time *times;
	size_t n_times, kept = 0;
	int r = list_times(run, &times, &n_times);

	if (r < 0)
		return r;
	r = list_pairs(run, times, n_times, &sums);
	free(times);
	if (r < 0) {
		paired_sums_release(&sums);
		return r;
	}
	if (sums.n)
		qsort(sums.all, sums.n, sizeof(*sums.all), by_kernel_and_metric);
	for (size_t i = 0; i < sums.n; i++) {
		if (!kept || by_kernel_and_metric(&sums.all[kept - 1], &sums.all[i]) != 0) {
			sums.all[kept++] = sums.all[i];
			continue;
		}
		sums.all[kept - 1].amount += sums.all[i].amount;
		sums.all[kept - 1].time_ns += sums.all[i].time_ns;
	}
	sums.n = kept;
	*ret_sums = sums;
	return 0;
}

void paired_sums_release(struct paired_sums *sums)
{
	free(sums->all);
	*sums = (struct paired_sums){ 0 };
}

const struct paired_sum *paired_sums_find(const struct paired_sums *sums, uint32_t kernel,
					  uint32_t metric)
{
	const struct paired_sum key = { .kernel = kernel, .metric = metric };

	return sums->n ? bsearch(&key, sums->all, sums->n, sizeof(key), by_kernel_and_metric)
		       : NULL;
}
