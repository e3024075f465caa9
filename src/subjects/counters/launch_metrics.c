/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics of single launches by kernel; see launch_metrics.h. Pure, any thread.
 */
#include "subjects/counters/launch_metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/text/demangle.h"
#include "base/text/scaled_units.h"
#include "device/sheets/kernel_name.h"
#include "subjects/counters/replayed.h"

/* A row of the table with what it is grouped by. */
struct entry {
	uint32_t kernel, section, metric;
	uint32_t unit; /* the first that measures the same */
	uint32_t shard, profile;
	size_t i;
};

/* A unit with the first one of the table that measures the same: profilers that choose prefixes by the
 * value would tear a metric apart. */
struct unit_of {
	uint32_t unit, like;
};

struct units {
	struct unit_of *all;
	size_t n, capacity, last;
};

/* 0 or -ENOMEM. */
static int unit_like(const struct run *run, struct units *units, uint32_t unit, uint32_t *ret_like)
{
	struct unit_of found = { unit, unit };

	if (units->n && units->all[units->last].unit == unit) {
		*ret_like = units->all[units->last].like;
		return 0;
	}
	for (size_t i = 0; i < units->n; i++) {
		int power;

		if (units->all[i].unit == unit) {
			units->last = i;
			*ret_like = units->all[i].like;
			return 0;
		}
		if (found.like == unit &&
		    scaled_unit_power(run_string(run, unit), run_string(run, units->all[i].unit),
				      &power))
			found.like = units->all[i].like;
	}
	if (array_grow(&units->all, &units->capacity, units->n + 1, sizeof(*units->all)) < 0)
		return -ENOMEM;
	units->last = units->n;
	units->all[units->n++] = found;
	*ret_like = found.like;
	return 0;
}

static int by_group(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return CMP(x->kernel, y->kernel) ?: CMP(x->section, y->section) ?:
	       CMP(x->metric, y->metric) ?: CMP(x->unit, y->unit) ?: CMP(x->i, y->i);
}

static int by_launch(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->profile, y->profile);
}

static int by_file(const void *a, const void *b)
{
	const struct launch_metric_row *x = a, *y = b;

	return CMP(x->kernel_first, y->kernel_first) ?: CMP(x->attribute, y->attribute) ?:
	       CMP(x->first, y->first);
}

static bool same_group(const struct entry *x, const struct entry *y)
{
	return x->kernel == y->kernel && x->section == y->section && x->metric == y->metric &&
	       x->unit == y->unit;
}

/* The value of a row in a unit that measures the same as its own. */
static double metric_in_unit(const struct run *run, size_t i, uint32_t unit)
{
	const struct table_metric *t = &run->metric;
	int power;

	if (t->unit[i] == unit ||
	    !scaled_unit_power(run_string(run, t->unit[i]), run_string(run, unit), &power))
		return t->value[i];
	return scaled_by_power(t->value[i], power);
}

static struct launch_metric_row make_row(const struct run *run, const struct entry *entries,
					 size_t n)
{
	const struct table_metric *t = &run->metric;
	struct launch_metric_row row = { .kernel = entries->kernel,
					 .section = entries->section,
					 .metric = entries->metric,
					 .unit = t->unit[entries->i],
					 .launches = n,
					 .first = entries->i };
	double sum = 0, min = INFINITY, max = -INFINITY;
	bool several = false;

	row.attribute = !strncmp(run_string(run, row.metric), "device__attribute_",
				 strlen("device__attribute_"));
	for (size_t k = 0; k < n; k++) {
		size_t i = entries[k].i;
		double value = metric_in_unit(run, i, row.unit);

		if (t->text[i]) {
			several = several || (row.text && row.text != t->text[i]);
			row.text = t->text[i];
		} else if (isfinite(value)) {
			row.numbers++;
			sum += value;
			min = fmin(min, value);
			max = fmax(max, value);
		}
	}
	if (several)
		row.text = 0;
	row.no_text = several ? "several texts" : "its values are numbers";
	/* The sum of large doubles may not be one. */
	row.mean = !row.numbers	   ? value_absent("its values are no numbers")
		   : isfinite(sum) ? value_of(sum / (double)row.numbers)
				   : value_absent("the sum is too large");
	row.min = row.numbers ? value_of(min) : row.mean;
	row.max = row.numbers ? value_of(max) : row.mean;
	return row;
}

/* Shares of a peak and of a whole cannot be more, but for what counters round. */
#define SHARE_MOST 100.5

static bool is_share(const char *metric)
{
	size_t length = strlen(metric);

	return strstr(metric, ".pct_of_peak") ||
	       (length > 4 && strcmp(metric + length - 4, ".pct") == 0);
}

static void doubt_row(const struct run *run, const struct replayed *replayed,
		      struct launch_metric_row *row)
{
	const struct replayed_kernel *kernel;

	row->no_doubt = "it was counted in one pass, or by another profiler";
	if (!replayed_section(run, row->section))
		return;
	row->no_doubt =
		"its passes were like launches of one pass, or there are none to compare with";
	kernel = replayed_find(replayed, row->kernel, row->section);
	if (row->max.known && row->max.v > SHARE_MOST && is_share(run_string(run, row->metric)))
		snprintf(row->doubt, sizeof(row->doubt),
			 "more than 100%%: the passes do not fit together");
	else if (kernel && fabs(kernel->clock_pct) > REPLAYED_CLOCK_PCT)
		snprintf(row->doubt, sizeof(row->doubt),
			 "the clock was %.0f%% %s than in launches of one pass",
			 fabs(kernel->clock_pct), kernel->clock_pct < 0 ? "lower" : "higher");
	else if (kernel && fabs(kernel->time_pct) > REPLAYED_TIME_PCT)
		snprintf(row->doubt, sizeof(row->doubt),
			 "the kernel took %.0f%% %s than in launches of one pass",
			 fabs(kernel->time_pct), kernel->time_pct < 0 ? "less" : "longer");
}

static int doubt_rows(const struct run *run, struct launch_metrics *m)
{
	struct replayed replayed;
	int r = replayed_compare(run, &replayed);

	for (size_t i = 0; r >= 0 && i < m->n; i++) {
		doubt_row(run, &replayed, &m->rows[i]);
		m->doubted += m->rows[i].doubt[0] != '\0';
	}
	replayed_release(&replayed);
	return r;
}

/* Of the kernel of all n rows, which is kept in ret_whole. */
static int name_kernel(const struct run *run, struct launch_metric_row *rows, size_t n,
		       char **ret_whole)
{
	char *whole, *name, cut[LAUNCH_METRIC_NAME_MOST + 1] = "";
	size_t length;
	int r = demangled(run_string(run, rows->kernel), &whole);

	if (r < 0)
		return r;
	*ret_whole = whole;
	r = kernel_short_name(whole, &name);
	if (r < 0)
		return r;
	length = strlen(name);
	if (length > LAUNCH_METRIC_NAME_MOST) {
		length = LAUNCH_METRIC_NAME_MOST - 2;
		/* Not inside a character. */
		while (length && ((unsigned char)name[length] & 0xc0) == 0x80)
			length--;
		strcpy(name + length, "..");
		length += 2;
	}
	memcpy(cut, name, length);
	free(name);
	for (size_t i = 0; i < n; i++) {
		rows[i].name = whole;
		memcpy(rows[i].short_name, cut, sizeof(cut));
	}
	return 0;
}

static size_t count_launches(struct entry *entries, size_t n)
{
	size_t launches = 0;

	qsort(entries, n, sizeof(*entries), by_launch);
	for (size_t i = 0; i < n; i++)
		launches += !i || by_launch(&entries[i - 1], &entries[i]) != 0;
	return launches;
}

/* free() them. */
static int make_entries(const struct run *run, struct entry **ret_entries)
{
	const struct table_metric *t = &run->metric;
	struct entry *entries = calloc(t->n, sizeof(*entries));
	struct units units = { 0 };
	int r = entries ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < t->n; i++) {
		entries[i] = (struct entry){ .kernel = run_launch(run, t->launch[i]).name,
					     .section = t->section[i],
					     .metric = t->name[i],
					     .shard = t->shard[i],
					     .profile = t->profile[i],
					     .i = i };
		r = unit_like(run, &units, t->unit[i], &entries[i].unit);
	}
	free(units.all);
	if (r < 0)
		free(entries);
	else
		*ret_entries = entries;
	return r;
}

/* Rows of a kernel are side by side. */
static int name_kernels(const struct run *run, struct launch_metrics *m)
{
	int r = 0;

	m->names = calloc(m->n, sizeof(*m->names));
	if (!m->names)
		return -ENOMEM;
	for (size_t i = 0, end; r >= 0 && i < m->n; i = end) {
		size_t first = m->rows[i].first;

		for (end = i; end < m->n && m->rows[end].kernel == m->rows[i].kernel; end++)
			first = m->rows[end].first < first ? m->rows[end].first : first;
		for (size_t k = i; k < end; k++)
			m->rows[k].kernel_first = first;
		r = name_kernel(run, &m->rows[i], end - i, &m->names[m->kernels++]);
	}
	return r;
}

int launch_metrics_analyze(const struct run *run, struct launch_metrics *ret_metrics)
{
	const struct table_metric *t = &run->metric;
	struct launch_metrics m = { .values = t->n };
	struct entry *entries;
	size_t groups = 0;
	int r;

	*ret_metrics = m;
	if (!t->n)
		return 0;
	r = make_entries(run, &entries);
	if (r < 0)
		return r;
	qsort(entries, t->n, sizeof(*entries), by_group);
	for (size_t i = 0; i < t->n; i++)
		groups += !i || !same_group(&entries[i - 1], &entries[i]);
	m.rows = calloc(groups, sizeof(*m.rows));
	if (!m.rows) {
		free(entries);
		return -ENOMEM;
	}
	for (size_t i = 0, end; i < t->n; i = end) {
		for (end = i + 1; end < t->n && same_group(&entries[i], &entries[end]);)
			end++;
		m.rows[m.n++] = make_row(run, &entries[i], end - i);
	}
	r = name_kernels(run, &m);
	if (r >= 0)
		r = doubt_rows(run, &m);
	qsort(m.rows, m.n, sizeof(*m.rows), by_file);
	m.launches = count_launches(entries, t->n);
	free(entries);
	if (r < 0) {
		launch_metrics_release(&m);
		return r;
	}
	*ret_metrics = m;
	return 0;
}

void launch_metrics_release(struct launch_metrics *metrics)
{
	for (size_t i = 0; metrics->names && i < metrics->kernels; i++)
		free(metrics->names[i]);
	free(metrics->names);
	free(metrics->rows);
	*metrics = (struct launch_metrics){ 0 };
}
