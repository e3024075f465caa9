/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels, their classes and ranges, collectives, operations of two groups of runs by name: new, gone,
 * changed, and how much of the difference each explains. See compare.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare.h"

static const struct digest_rows *rows_of_table(const struct run_digest *run,
					       enum compare_table table)
{
	return &run->tables[table];
}

static int order_rows(const struct digest_row *x, const struct digest_row *y)
{
	int order = strcmp(x->name, y->name);

	return order ? order : (int)y->is_op - (int)x->is_op;
}

static int by_row_name(const void *a, const void *b)
{
	return order_rows(*(const struct digest_row *const *)a,
			  *(const struct digest_row *const *)b);
}

/* Every row of the groups' runs, once. *ret_rows: free() it. */
static int list_names(const struct compare_pair *pair, enum compare_table table,
		      const struct digest_row ***ret_rows, size_t *ret_n)
{
	const struct compare_group *groups[] = { pair->base, pair->other };
	const struct digest_row **rows;
	size_t n = 0, kept = 0;

	for (size_t g = 0; g < 2; g++)
		for (size_t i = 0; i < groups[g]->n; i++)
			n += rows_of_table(&groups[g]->runs[i], table)->n;
	rows = calloc(n + 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	n = 0;
	for (size_t g = 0; g < 2; g++)
		for (size_t i = 0; i < groups[g]->n; i++)
			for (size_t j = 0; j < rows_of_table(&groups[g]->runs[i], table)->n; j++)
				rows[n++] = &rows_of_table(&groups[g]->runs[i], table)->rows[j];
	if (n)
		qsort(rows, n, sizeof(*rows), by_row_name);
	for (size_t i = 0; i < n; i++)
		if (!kept || order_rows(rows[kept - 1], rows[i]))
			rows[kept++] = rows[i];
	*ret_rows = rows;
	*ret_n = kept;
	return 0;
}

static const struct digest_row *find_row(const struct digest_rows *rows,
					 const struct digest_row *name)
{
	size_t low = 0, high = rows->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = order_rows(&rows->rows[middle], name);

		if (!order)
			return &rows->rows[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* One name in all runs of a group that have rows at all. */
struct side {
	struct moments steps; /* of all runs, end to end */
	struct moments calls; /* likewise: the time of one */
	double *means, count; /* time of each run; count a step, mean over the runs */
	size_t n;
	bool found;
};

static void gather_side(const struct compare_group *group, enum compare_table table,
			const struct digest_row *name, struct side *s)
{
	for (size_t i = 0; i < group->n; i++) {
		const struct digest_rows *rows = rows_of_table(&group->runs[i], table);
		const struct digest_row *row;
		struct moments none = { .n = rows->steps, .n_eff = (double)rows->steps };

		if (rows->reason)
			continue;
		row = find_row(rows, name);
		s->found = s->found || row;
		s->count += row ? row->count : 0;
		s->means[s->n++] = row ? row->time.mean : 0;
		s->steps = moments_pooled(&s->steps, row ? &row->time : &none);
		if (row)
			s->calls = moments_pooled(&s->calls, &row->call);
	}
	s->count /= s->n ? (double)s->n : 1;
}

/* The time of one call against that of the other side. */
static struct difference compare_calls(const struct side *a, const struct side *b)
{
	struct difference d = difference_absent("there is none on one side");
	struct contrast c;

	if (a->calls.n)
		d.a = value_of(a->calls.mean);
	if (b->calls.n)
		d.b = value_of(b->calls.mean);
	if (!a->calls.n || !b->calls.n)
		return d;
	d.by_runs = false;
	d.n_a = a->calls.n;
	d.n_b = b->calls.n;
	if (a->calls.n < COMPARE_STEPS_MIN || b->calls.n < COMPARE_STEPS_MIN) {
		difference_untested(&d, a->calls.mean, b->calls.mean, COMPARE_FEW);
	} else {
		c = contrast_means(&a->calls, &b->calls);
		difference_of_contrast(&d, &c);
	}
	return d;
}

static struct compare_row compare_name(const struct compare_pair *pair, enum compare_table table,
				       const struct digest_row *name, double *work)
{
	struct side a = { .means = work }, b = { .means = work + pair->base->n };
	struct compare_row row = { .name = name->name,
				   .short_name = name->short_name,
				   .is_op = name->is_op };
	struct contrast c;

	gather_side(pair->base, table, name, &a);
	gather_side(pair->other, table, name, &b);
	row.call = compare_calls(&a, &b);
	row.is_new = !a.found;
	row.is_gone = !b.found;
	row.count_a = value_of(a.count);
	row.count_b = value_of(b.count);
	row.d.by_runs = a.n >= COMPARE_RUNS_MIN && b.n >= COMPARE_RUNS_MIN;
	row.d.n_a = row.d.by_runs ? a.n : a.steps.n;
	row.d.n_b = row.d.by_runs ? b.n : b.steps.n;
	if (row.d.by_runs) {
		a.steps = moments_of_runs(a.means, a.n);
		b.steps = moments_of_runs(b.means, b.n);
	}
	if (!row.d.by_runs && (a.steps.n < COMPARE_STEPS_MIN || b.steps.n < COMPARE_STEPS_MIN)) {
		difference_untested(&row.d, a.steps.mean, b.steps.mean,
				    pair->whole ? COMPARE_WHOLE_UNTESTED : COMPARE_FEW);
		if (pair->whole && row.d.diff.v == 0)
			row.d.verdict = COMPARE_SAME;
	} else {
		c = contrast_means(&a.steps, &b.steps);
		difference_of_contrast(&row.d, &c);
	}
	return row;
}

static int by_size(const void *a, const void *b)
{
	const struct compare_row *x = a, *y = b;
	double dx = fabs(x->d.diff.v), dy = fabs(y->d.diff.v);
	int order;

	if (dx != dy)
		return dx > dy ? -1 : 1;
	if (x->d.b.v != y->d.b.v)
		return x->d.b.v > y->d.b.v ? -1 : 1;
	order = strcmp(x->name, y->name);
	return order ? order : (int)y->is_op - (int)x->is_op;
}

/* Of the mean step time: sums over kernels are to be compared with a sum over steps. Of whole runs of
 * the kernel time, of which the rows are the parts; it has no noise that could be told. */
static void explain(const struct compare_pair *pair, enum compare_table table,
		    struct compare_rows *rows)
{
	enum compare_metric_id metric = pair->whole ? COMPARE_KERNEL_TIME : COMPARE_STEP_TIME_MEAN;
	struct value total = value_absent(pair->whole ? "kernel times were not compared"
						      : "step times were not compared");

	for (size_t i = 0; i < pair->n; i++) {
		const struct difference *d = &pair->figures[i].d;

		if (pair->figures[i].metric != metric)
			continue;
		if (pair->whole)
			total = d->diff.known && d->diff.v != 0
					? d->diff
					: value_absent("the kernel times do not differ");
		else
			total = d->verdict == COMPARE_BETTER || d->verdict == COMPARE_WORSE
					? d->diff
					: value_absent("the difference of the step times is noise");
	}
	if (pair->whole && table == COMPARE_HOST)
		total = value_absent("operations of the host are no part of the kernel time");
	for (size_t i = 0; i < rows->n; i++)
		rows->rows[i].explains_pct =
			total.known ? value_of(100 * rows->rows[i].d.diff.v / total.v) : total;
}

static int judge_rows(struct compare_rows *rows)
{
	struct difference **family = calloc(rows->n + 1, sizeof(*family));
	int r;

	if (!family)
		return -ENOMEM;
	for (size_t i = 0; i < rows->n; i++)
		family[i] = &rows->rows[i].d;
	r = differences_judge(family, rows->n, false);
	for (size_t i = 0; i < rows->n; i++)
		family[i] = &rows->rows[i].call;
	if (r >= 0)
		r = differences_judge(family, rows->n, false);
	free(family);
	return r;
}

static const char *why_none(const struct compare_group *group, enum compare_table table)
{
	for (size_t i = 0; i < group->n; i++)
		if (!rows_of_table(&group->runs[i], table)->reason)
			return NULL;
	return rows_of_table(&group->runs[0], table)->reason;
}

static int fill_compared_rows(struct compare_pair *pair, enum compare_table table)
{
	struct compare_rows *rows = &pair->tables[table];
	const struct digest_row **names = NULL;
	double *work;
	size_t n;
	int r;

	rows->reason = why_none(pair->base, table);
	if (!rows->reason)
		rows->reason = why_none(pair->other, table);
	if (rows->reason)
		return 0;
	r = list_names(pair, table, &names, &n);
	if (r < 0)
		return r;
	work = calloc(pair->base->n + pair->other->n, sizeof(*work));
	rows->rows = calloc(n + 1, sizeof(*rows->rows));
	r = work && rows->rows ? 0 : -ENOMEM;
	for (size_t i = 0; r >= 0 && i < n; i++)
		rows->rows[rows->n++] = compare_name(pair, table, names[i], work);
	free(names);
	free(work);
	if (r >= 0)
		r = judge_rows(rows);
	if (r < 0)
		return r;
	explain(pair, table, rows);
	if (rows->n)
		qsort(rows->rows, rows->n, sizeof(*rows->rows), by_size);
	return 0;
}

int compare_fill_rows(struct compare_pair *pair)
{
	int r = 0;

	for (int t = 0; r >= 0 && t < COMPARE_TABLES; t++)
		r = fill_compared_rows(pair, (enum compare_table)t);
	return r;
}
