/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics of single launches by kernel; see launch_metrics.h. Pure, any thread.
 */
#include "analyze/launch_metrics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/kernel_name.h"

/* A row of the table with what it is grouped by. */
struct entry {
	uint32_t kernel, section, metric, unit;
	uint32_t shard, profile;
	size_t i;
};

static int by_group(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->kernel != y->kernel)
		return x->kernel < y->kernel ? -1 : 1;
	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->metric != y->metric)
		return x->metric < y->metric ? -1 : 1;
	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	return x->i < y->i ? -1 : x->i > y->i;
}

static int by_launch(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return x->profile < y->profile ? -1 : x->profile > y->profile;
}

static int by_file(const void *a, const void *b)
{
	const struct launch_metric_row *x = a, *y = b;

	if (x->kernel_first != y->kernel_first)
		return x->kernel_first < y->kernel_first ? -1 : 1;
	if (x->attribute != y->attribute)
		return x->attribute ? 1 : -1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static bool same_group(const struct entry *x, const struct entry *y)
{
	return x->kernel == y->kernel && x->section == y->section && x->metric == y->metric &&
	       x->unit == y->unit;
}

static struct launch_metric_row make_row(const struct run *run, const struct entry *entries,
					 size_t n)
{
	const struct table_metric *t = &run->metric;
	struct launch_metric_row row = { .kernel = entries->kernel,
					 .section = entries->section,
					 .metric = entries->metric,
					 .unit = entries->unit,
					 .launches = n,
					 .first = entries->i };
	double sum = 0, min = INFINITY, max = -INFINITY;
	bool several = false;

	row.attribute = !strncmp(run_string(run, row.metric), "device__attribute_",
				 strlen("device__attribute_"));
	for (size_t k = 0; k < n; k++) {
		size_t i = entries[k].i;

		if (t->text[i]) {
			several = several || (row.text && row.text != t->text[i]);
			row.text = t->text[i];
		} else if (isfinite(t->value[i])) {
			row.numbers++;
			sum += t->value[i];
			min = fmin(min, t->value[i]);
			max = fmax(max, t->value[i]);
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

/* Of the kernel of all n rows. */
static int name_kernel(const struct run *run, struct launch_metric_row *rows, size_t n)
{
	char *name, cut[LAUNCH_METRIC_NAME_MOST + 1] = "";
	size_t length;
	int r = kernel_short_name(run_string(run, rows->kernel), &name);

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
	for (size_t i = 0; i < n; i++)
		memcpy(rows[i].short_name, cut, sizeof(cut));
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

int launch_metrics_analyze(const struct run *run, struct launch_metrics *ret_metrics)
{
	const struct table_metric *t = &run->metric;
	struct launch_metrics m = { .values = t->n };
	struct entry *entries;
	size_t groups = 0;
	int r = 0;

	*ret_metrics = m;
	if (!t->n)
		return 0;
	entries = calloc(t->n, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++)
		entries[i] = (struct entry){ run_launch(run, t->launch[i]).name,
					     t->section[i],
					     t->name[i],
					     t->unit[i],
					     t->shard[i],
					     t->profile[i],
					     i };
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
	/* Rows of a kernel are side by side now. */
	for (size_t i = 0, end; r >= 0 && i < m.n; i = end) {
		size_t first = m.rows[i].first;

		for (end = i; end < m.n && m.rows[end].kernel == m.rows[i].kernel; end++)
			first = m.rows[end].first < first ? m.rows[end].first : first;
		for (size_t k = i; k < end; k++)
			m.rows[k].kernel_first = first;
		r = name_kernel(run, &m.rows[i], end - i);
		m.kernels++;
	}
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
	free(metrics->rows);
	*metrics = (struct launch_metrics){ 0 };
}
