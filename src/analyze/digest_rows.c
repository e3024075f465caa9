/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels, and operations and ranges of the host, by name and step for a comparison. A name that
 * does not run in a step has 0 there. See digest.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/digest_inside.h"
#include "analyze/kernel_name.h"
#include "analyze/nesting.h"
#include "base/buf.h"

/* Time of one name in one step: of one record, then of all of them. */
struct part {
	uint64_t key; /* name, and in bit 0 whether it is an operation */
	size_t step;
	double time_ns;
	uint64_t count;
};

static int by_key_step(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->step < y->step ? -1 : x->step > y->step;
}

/* Parts as they come: records of a name in one step mostly follow each other, so that few parts are
 * left to sort. */
struct parts {
	struct part *list;
	size_t n, capacity;
	size_t *last; /* by key: 1 + the last part of it, 0: none */
	size_t n_last;
};

static int add_part(struct parts *p, struct part part)
{
	struct part *last;

	if (part.key >= p->n_last) {
		size_t old = p->n_last;

		if (array_grow(&p->last, &p->n_last, (size_t)part.key + 1, sizeof(*p->last)) < 0)
			return -ENOMEM;
		memset(p->last + old, 0, (p->n_last - old) * sizeof(*p->last));
	}
	last = p->last[part.key] ? &p->list[p->last[part.key] - 1] : NULL;
	if (last && last->step == part.step) {
		last->time_ns += part.time_ns;
		last->count += part.count;
		return 0;
	}
	if (array_grow(&p->list, &p->capacity, p->n + 1, sizeof(*p->list)) < 0)
		return -ENOMEM;
	p->list[p->n++] = part;
	p->last[part.key] = p->n;
	return 0;
}

static void parts_release(struct parts *p)
{
	free(p->list);
	free(p->last);
}

/* Parts of the same name and step become one; how many remain. */
static size_t merge(struct part *parts, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(parts, n, sizeof(*parts), by_key_step);
	for (size_t i = 0; i < n; i++) {
		if (kept && !by_key_step(&parts[kept - 1], &parts[i])) {
			parts[kept - 1].time_ns += parts[i].time_ns;
			parts[kept - 1].count += parts[i].count;
		} else {
			parts[kept++] = parts[i];
		}
	}
	return kept;
}

/* The n parts of one name, over `steps` steps of `ranks` ranks. */
static struct digest_row sum_row(const struct part *parts, size_t n, size_t steps, double ranks)
{
	struct moment_sums s = { .n = steps, .constant = n == steps };
	struct digest_row row = { .is_op = parts->key & 1 };
	double shift = n == steps ? parts[0].time_ns / ranks : 0;

	/* Around the first figure where every step has one: see moments_of. */
	for (size_t i = 0; i < n; i++) {
		double v = parts[i].time_ns / ranks - shift;

		s.x += v;
		s.xx += v * v;
		/* Steps without the name have 0 and add nothing. */
		for (size_t j = i + 1; j < n && parts[j].step <= parts[i].step + 2; j++)
			*(parts[j].step == parts[i].step + 1 ? &s.lag1 : &s.lag2) +=
				v * (parts[j].time_ns / ranks - shift);
		s.constant = s.constant && v == 0;
		if (parts[i].step < 2)
			s.head[parts[i].step] = v;
		if (parts[i].step + 2 >= steps)
			s.tail[steps - 1 - parts[i].step] = v;
		row.count += (double)parts[i].count;
	}
	row.time = moments_from_sums(&s);
	row.time.mean += shift;
	row.count /= (double)steps * ranks;
	return row;
}

static int by_name(const void *a, const void *b)
{
	const struct digest_row *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (int)y->is_op - (int)x->is_op;
}

typedef int (*name_row)(const struct run *run, const void *context, uint64_t key,
			struct digest_row *row);

/* Rows of the same text but different ids stay apart only inside a run, which has each text once. */
static int make_rows(struct digest_builder *b, struct part *parts, size_t n, size_t steps,
		     name_row name, const void *context, struct digest_rows *ret)
{
	size_t rows = 0;

	n = merge(parts, n);
	for (size_t i = 0; i < n; i++)
		rows += !i || parts[i].key != parts[i - 1].key;
	ret->steps = steps;
	ret->rows = calloc(rows + 1, sizeof(*ret->rows));
	if (!ret->rows)
		return -ENOMEM;
	for (size_t i = 0, end; i < n; i = end) {
		struct digest_row *row = &ret->rows[ret->n++];

		for (end = i; end < n && parts[end].key == parts[i].key;)
			end++;
		*row = sum_row(parts + i, end - i, steps, (double)b->ranks);
		if (name(b->run, context, parts[i].key, row) < 0)
			return -ENOMEM;
	}
	if (ret->n)
		qsort(ret->rows, ret->n, sizeof(*ret->rows), by_name);
	return 0;
}

static int name_kernel(const struct run *run, const void *context, uint64_t key,
		       struct digest_row *row)
{
	uint32_t id = (uint32_t)(key >> 1);

	if (demangler_name(context, id ? run_string(run, id) : "(no name)", &row->name) < 0)
		return -ENOMEM;
	return kernel_short_name(row->name, &row->short_name);
}

static int tell_apart(struct digest_rows *rows)
{
	struct kernel_alias *aliases = array_new(rows->n, sizeof(*aliases));
	int r;

	if (!aliases)
		return -ENOMEM;
	for (size_t i = 0; i < rows->n; i++)
		aliases[i] = (struct kernel_alias){ rows->rows[i].name, &rows->rows[i].short_name };
	r = kernel_aliases_tell_apart(aliases, rows->n);
	free(aliases);
	return r;
}

int digest_kernels(struct digest_builder *b)
{
	const struct table_kernel *t = &b->run->kernel;
	struct demangler demangler;
	struct parts parts = { 0 };
	int r = 0;

	b->digest->kernels.reason = b->digest->missing[COMPARE_KERNEL_TIME];
	if (!b->kernel_at)
		return 0;
	for (size_t i = 0; r >= 0 && i < t->n; i++)
		if (b->kernel_at[i] != NO_UNIT)
			r = add_part(
				&parts,
				(struct part){ (uint64_t)run_launch(b->run, t->launch[i]).name << 1,
					       b->kernel_at[i],
					       t->untimed[i] ? 0 : (double)t->duration_ns[i], 1 });
	demangler_init(&demangler);
	if (r >= 0)
		r = make_rows(b, parts.list, parts.n, b->n_covered, name_kernel, &demangler,
			      &b->digest->kernels);
	if (r >= 0)
		r = tell_apart(&b->digest->kernels);
	demangler_release(&demangler);
	parts_release(&parts);
	return r;
}

static int name_host(const struct run *run, const void *context, uint64_t key,
		     struct digest_row *row)
{
	(void)context;
	row->name = strdup(run_string(run, (uint32_t)(key >> 1)));
	row->short_name = strdup(run_string(run, (uint32_t)(key >> 1)));
	return row->name && row->short_name ? 0 : -ENOMEM;
}

static size_t recorded_of(const struct digest_builder *b, const struct nested *item)
{
	size_t row = step_index_find(&b->index, b->run, item->shard, item->start_ns);
	size_t unit = row == SIZE_MAX ? NO_UNIT : b->unit_of[row];

	return unit == NO_UNIT ? NO_UNIT : b->recorded_at[unit];
}

/* The duration of each record without that of its direct children. list: by start; open: room for
 * as many. */
static void self_times(const struct nested *list, size_t n, double *self, size_t *open)
{
	size_t depth = 0;

	for (size_t i = 0; i < n; i++) {
		const struct nested *item = &list[i];

		while (depth && (list[open[depth - 1]].shard != item->shard ||
				 list[open[depth - 1]].thread != item->thread ||
				 list[open[depth - 1]].end_ns < item->end_ns ||
				 list[open[depth - 1]].end_ns <= item->start_ns))
			depth--;
		self[i] = (double)(item->end_ns - item->start_ns);
		if (depth)
			self[open[depth - 1]] -= self[i];
		open[depth++] = i;
	}
}

static int add_host(const struct digest_builder *b, const struct nested *list, size_t n,
		    const double *self, struct parts *parts)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		const struct nested *item = &list[i];
		struct site site = run_site(b->run, item->is_op ? b->run->op.site[item->row]
								: b->run->range.site[item->row]);
		size_t step = recorded_of(b, item);

		if (step != NO_UNIT)
			r = add_part(parts, (struct part){ (uint64_t)site.name << 1 | item->is_op,
							   step, self[i], 1 });
	}
	return r;
}

int digest_host(struct digest_builder *b)
{
	struct digest_rows *host = &b->digest->host;
	struct parts parts = { 0 };
	struct nested *list;
	size_t n, *open;
	double *self;
	int r;

	host->reason = !b->n_units ? b->digest->missing[COMPARE_STEP_TIME]
				   : "no ranges or operations in recorded steps";
	if (!b->n_recorded)
		return 0;
	r = nesting_collect(b->run, NESTING_BY_START, &list, &n);
	if (r < 0 || !n)
		return r;
	self = calloc(n, sizeof(*self));
	open = calloc(n, sizeof(*open));
	r = self && open ? 0 : -ENOMEM;
	if (r >= 0) {
		self_times(list, n, self, open);
		r = add_host(b, list, n, self, &parts);
	}
	if (r >= 0 && parts.n) {
		host->reason = NULL;
		r = make_rows(b, parts.list, parts.n, b->n_recorded, name_host, NULL, host);
	}
	parts_release(&parts);
	free(list);
	free(self);
	free(open);
	return r;
}
