/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches of several passes beside those of one; see replayed.h.
 */
#include "subjects/counters/replayed.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"
#include "subjects/counters/paired_sums.h"

#define CLOCK_METRIC "gpc__cycles_elapsed.avg.per_second"

enum witness { TIME, CLOCK };

struct reading {
	uint32_t kernel, launch, section; /* section 0: of one pass */
	enum witness witness;
	double value;
};

bool replayed_section(const struct run *run, uint32_t section)
{
	return section &&
	       !strncmp(run_string(run, section), "replayed in ", strlen("replayed in "));
}

static int by_shape(const void *a, const void *b)
{
	const struct reading *x = a, *y = b;

	return CMP(x->kernel, y->kernel) ?: CMP(x->witness, y->witness) ?:
	       CMP(x->launch, y->launch) ?: CMP(x->section, y->section);
}

static size_t read_witnesses(const struct run *run, struct reading *readings)
{
	const struct table_metric *t = &run->metric;
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		const char *name = run_string(run, t->name[i]);
		bool is_time = !strcmp(name, TIME_METRIC), is_clock = !strcmp(name, CLOCK_METRIC);

		if ((!is_time && !is_clock) || t->text[i] || !isfinite(t->value[i]) ||
		    (t->section[i] && !replayed_section(run, t->section[i])))
			continue;
		readings[n++] = (struct reading){ .kernel = run_launch(run, t->launch[i]).name,
						  .launch = t->launch[i],
						  .section = t->section[i],
						  .witness = is_time ? TIME : CLOCK,
						  .value = t->value[i] };
	}
	return n;
}

static void note_outside(struct replayed *replayed, const struct reading *reading, double pct)
{
	struct replayed_kernel *row = NULL;
	double *worst;

	for (size_t i = replayed->n; i-- > 0 && !row;)
		if (replayed->all[i].kernel == reading->kernel &&
		    replayed->all[i].section == reading->section)
			row = &replayed->all[i];
	if (!row) {
		row = &replayed->all[replayed->n++];
		*row = (struct replayed_kernel){ .kernel = reading->kernel,
						 .section = reading->section };
	}
	worst = reading->witness == TIME ? &row->time_pct : &row->clock_pct;
	if (fabs(pct) > fabs(*worst))
		*worst = pct;
}

/* Readings of one shape, those of one pass first. */
static void compare_shape(struct replayed *replayed, const struct reading *readings, size_t n)
{
	double least = INFINITY, most = -INFINITY; /* of one pass */

	for (size_t i = 0, end; i < n; i = end) {
		double sum = 0, mean, pct = 0;

		for (end = i; end < n && readings[end].section == readings[i].section; end++) {
			sum += readings[end].value;
			if (!readings[i].section) {
				least = fmin(least, readings[end].value);
				most = fmax(most, readings[end].value);
			}
		}
		if (!readings[i].section || !isfinite(least))
			continue;
		mean = sum / (double)(end - i);
		if (least > 0 && mean < least)
			pct = 100 * (mean / least - 1);
		else if (most > 0 && mean > most)
			pct = 100 * (mean / most - 1);
		note_outside(replayed, &readings[i], isfinite(pct) ? pct : 0);
	}
}

int replayed_compare(const struct run *run, struct replayed *ret_replayed)
{
	struct reading *readings;
	size_t n;

	*ret_replayed = (struct replayed){ 0 };
	if (!run->metric.n)
		return 0;
	readings = calloc(run->metric.n, sizeof(*readings));
	ret_replayed->all = calloc(run->metric.n, sizeof(*ret_replayed->all));
	if (!readings || !ret_replayed->all) {
		free(readings);
		replayed_release(ret_replayed);
		return -ENOMEM;
	}
	n = read_witnesses(run, readings);
	qsort(readings, n, sizeof(*readings), by_shape);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && readings[end].kernel == readings[i].kernel &&
				  readings[end].witness == readings[i].witness &&
				  readings[end].launch == readings[i].launch;)
			end++;
		compare_shape(ret_replayed, &readings[i], end - i);
	}
	free(readings);
	return 0;
}

void replayed_release(struct replayed *replayed)
{
	free(replayed->all);
	*replayed = (struct replayed){ 0 };
}

const struct replayed_kernel *replayed_find(const struct replayed *replayed, uint32_t kernel,
					    uint32_t section)
{
	for (size_t i = 0; i < replayed->n; i++)
		if (replayed->all[i].kernel == kernel && replayed->all[i].section == section)
			return &replayed->all[i];
	return NULL;
}
