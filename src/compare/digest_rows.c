/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a comparison by name and step: kernels by name, class and range of their launch, collectives,
 * operations and ranges of the host. A name that does not run in a step has 0 there. See digest.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/demangle.h"
#include "compare/digest_inside.h"
#include "device/sheets/kernel_class.h"
#include "device/sheets/kernel_name.h"
#include "subjects/comm/comm_names.h"
#include "subjects/numbers/nesting.h"

/* Time of one name in one step: of one record, then of all of them. */
struct part {
	uint64_t key;
	size_t step;
	double time_ns;
	uint64_t count;
};

/* The times of the calls of one name, one after the other. */
struct calls {
	struct moment_sums sums;
	double shift, last[2]; /* around the first; the two before */
};

static int by_key_step(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->step < y->step ? -1 : x->step > y->step;
}

/* What is kept of a key. */
struct part_key {
	size_t last; /* 1 + the last part of it, 0: none */
	struct calls calls;
};

/* Records of a table as they come: those of a name in one step mostly follow each other, so that few
 * parts are left to sort. Zero to begin with. */
struct parts {
	struct part *list;
	size_t n, capacity;
	struct part_key *keys;
	size_t n_keys;
};

/* Fills name and short_name of a row, which owns them. */
typedef int (*row_name)(const struct digest_builder *b, void *context, uint64_t key,
			struct digest_row *row);

static void add_call(struct calls *c, double time_ns)
{
	struct moment_sums *s = &c->sums;
	double v;

	if (!s->n) {
		c->shift = time_ns;
		s->constant = true;
	}
	v = time_ns - c->shift;
	s->x += v;
	s->xx += v * v;
	s->lag1 += s->n >= 1 ? v * c->last[0] : 0;
	s->lag2 += s->n >= 2 ? v * c->last[1] : 0;
	s->constant = s->constant && v == 0;
	if (s->n < 2)
		s->head[s->n] = v;
	c->last[1] = c->last[0];
	c->last[0] = v;
	s->n++;
}

static struct moments moments_of_calls(struct calls *c)
{
	struct moments m;

	memcpy(c->sums.tail, c->last, sizeof(c->sums.tail));
	m = moments_from_sums(&c->sums);
	m.mean += c->shift;
	return m;
}

static int add_part(struct parts *p, uint64_t key, size_t step, double time_ns, bool timed)
{
	struct part_key *k;
	struct part *last;

	if (key >= p->n_keys) {
		size_t old = p->n_keys;

		if (array_grow(&p->keys, &p->n_keys, (size_t)key + 1, sizeof(*p->keys)) < 0)
			return -ENOMEM;
		memset(p->keys + old, 0, (p->n_keys - old) * sizeof(*p->keys));
	}
	k = &p->keys[key];
	if (timed)
		add_call(&k->calls, time_ns);
	last = k->last ? &p->list[k->last - 1] : NULL;
	if (last && last->step == step) {
		last->time_ns += timed ? time_ns : 0;
		last->count++;
		return 0;
	}
	if (array_grow(&p->list, &p->capacity, p->n + 1, sizeof(*p->list)) < 0)
		return -ENOMEM;
	p->list[p->n++] = (struct part){ key, step, timed ? time_ns : 0, 1 };
	k->last = p->n;
	return 0;
}

static void parts_release(struct parts *p)
{
	free(p->list);
	free(p->keys);
}

/* Parts of the same name and step become one; how many remain. */
static size_t merge_digest_parts(struct part *parts, size_t n)
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
	struct digest_row row = { 0 };
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

static int by_digest_row_name(const void *a, const void *b)
{
	const struct digest_row *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (int)y->is_op - (int)x->is_op;
}

/* Rows of the same text but different ids stay apart only inside a run, which has each text once. */
static int make_rows(struct digest_builder *b, struct parts *p, size_t steps, row_name name,
		     void *context, enum compare_table table)
{
	struct digest_rows *ret = &b->digest->tables[table];
	struct part *parts = p->list;
	size_t n = merge_digest_parts(parts, p->n), rows = 0;

	for (size_t i = 0; i < n; i++)
		rows += !i || parts[i].key != parts[i - 1].key;
	ret->steps = steps;
	ret->rows = calloc(rows + 1, sizeof(*ret->rows));
	if (!ret->rows)
		return -ENOMEM;
	ret->reason = NULL;
	for (size_t i = 0, end; i < n; i = end) {
		struct digest_row *row = &ret->rows[ret->n++];

		for (end = i; end < n && parts[end].key == parts[i].key;)
			end++;
		*row = sum_row(parts + i, end - i, steps, (double)b->ranks);
		row->call = moments_of_calls(&p->keys[parts[i].key].calls);
		if (name(b, context, parts[i].key, row) < 0)
			return -ENOMEM;
	}
	if (ret->n)
		qsort(ret->rows, ret->n, sizeof(*ret->rows), by_digest_row_name);
	return 0;
}

/* What names a kernel, a class or a collective. */
struct row_names {
	struct kernel_classes *classes;
	struct comm_names comm;
	const char **list; /* classes that occur */
	size_t n_list, list_capacity;
	uint32_t *class_of; /* by string id of the kernel's name: 1 + into list, 0: not looked at */
	size_t class_of_capacity;
};

static const char *raw_name(const struct digest_builder *b, uint32_t id)
{
	return id ? run_string(b->run, id) : "(no name)";
}

static int name_kernel(const struct digest_builder *b, void *context, uint64_t key,
		       struct digest_row *row)
{
	(void)context;
	if (demangled(raw_name(b, (uint32_t)key), &row->name) < 0)
		return -ENOMEM;
	return kernel_short_name(row->name, &row->short_name);
}

static int copy_name(struct digest_row *row, const char *name)
{
	row->name = strdup(name);
	row->short_name = strdup(name);
	return row->name && row->short_name ? 0 : -ENOMEM;
}

static int name_class(const struct digest_builder *b, void *context, uint64_t key,
		      struct digest_row *row)
{
	const struct row_names *names = context;

	(void)b;
	return copy_name(row, names->list[key]);
}

static int name_range(const struct digest_builder *b, void *context, uint64_t key,
		      struct digest_row *row)
{
	(void)context;
	if (!key)
		return copy_name(row, "(outside all ranges)");
	if (attribution_path_text(&b->at, (uint32_t)key, &row->name) < 0)
		return -ENOMEM;
	row->short_name = strdup(row->name);
	return row->short_name ? 0 : -ENOMEM;
}

/* Bit 0 of the key: a record, by the id of its name; else a kernel. */
static int name_collective(const struct digest_builder *b, void *context, uint64_t key,
			   struct digest_row *row)
{
	const struct row_names *names = context;

	return copy_name(row, key & 1 ? run_string(b->run, (uint32_t)(key >> 1))
				      : names->comm.texts[key >> 1]);
}

static int find_class(const struct digest_builder *b, struct row_names *names, uint32_t name,
		      uint32_t *ret)
{
	const char *class;
	char *text;
	size_t i = 0;

	if (name >= names->class_of_capacity) {
		size_t old = names->class_of_capacity;

		if (array_grow(&names->class_of, &names->class_of_capacity, (size_t)name + 1,
			       sizeof(*names->class_of)) < 0)
			return -ENOMEM;
		memset(names->class_of + old, 0,
		       (names->class_of_capacity - old) * sizeof(*names->class_of));
	}
	if (!names->class_of[name]) {
		if (demangled(raw_name(b, name), &text) < 0)
			return -ENOMEM;
		class = kernel_class_of(names->classes, text);
		free(text);
		if (!class)
			return -ENOMEM;
		while (i < names->n_list && names->list[i] != class)
			i++;
		if (i == names->n_list) {
			if (array_grow(&names->list, &names->list_capacity, i + 1,
				       sizeof(*names->list)) < 0)
				return -ENOMEM;
			names->list[names->n_list++] = class;
		}
		names->class_of[name] = (uint32_t)i + 1;
	}
	*ret = names->class_of[name] - 1;
	return 0;
}

/* The key of a kernel in a table; NO_KEY: it has no part in it. */
#define NO_KEY UINT64_MAX
static int kernel_key(const struct digest_builder *b, struct row_names *names,
		      enum compare_table table, size_t kernel, uint64_t *ret_key)
{
	uint32_t launch = b->run->kernel.launch[kernel];
	struct comm_launch comm;
	uint32_t class = 0;
	int r;

	switch (table) {
	case COMPARE_CLASSES:
		r = find_class(b, names, run_launch(b->run, launch).name, &class);
		*ret_key = class;
		return r;
	case COMPARE_RANGES:
		*ret_key = b->kernel_path[kernel];
		return 0;
	case COMPARE_COLLECTIVES:
		r = comm_names_launch(&names->comm, launch, &comm);
		/* NCCL's have records where anything has; those are taken below. */
		*ret_key = r < 0 || comm.transport == COMM_NONE ||
					   (comm.transport == COMM_NCCL && b->run->collective.n)
				   ? NO_KEY
				   : (uint64_t)comm.name << 1;
		return r;
	default:
		*ret_key = run_launch(b->run, launch).name;
		return 0;
	}
}

static int add_kernels(const struct digest_builder *b, struct row_names *names,
		       enum compare_table table, struct parts *parts)
{
	const struct table_kernel *t = &b->run->kernel;
	uint64_t key = NO_KEY;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < t->n; i++) {
		if (b->kernel_at[i] == NO_UNIT)
			continue;
		r = kernel_key(b, names, table, i, &key);
		if (r >= 0 && key != NO_KEY)
			r = add_part(parts, key, b->kernel_at[i], (double)t->duration_ns[i],
				     !t->untimed[i]);
	}
	return r;
}

static int add_records(const struct digest_builder *b, struct parts *parts)
{
	const struct table_collective *t = &b->run->collective;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < t->n; i++) {
		struct device_work work = { t->correlation[i], 0, t->start_ns[i], t->shard[i] };
		struct place place;
		size_t u = digest_covered_at(b, t->shard[i], t->start_ns[i]);

		if (!b->whole && attribution_find(&b->at, &work, &place) && place.step != NO_STEP)
			u = digest_covered_at(b, t->shard[i], b->run->step.start_ns[place.step]);
		if (u != NO_UNIT)
			r = add_part(parts, (uint64_t)t->name[i] << 1 | 1, u,
				     (double)t->duration_ns[i], true);
	}
	return r;
}

/* Short names that are the same get the words that differ. */
static int tell_rows_apart(struct digest_rows *rows)
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

static int make_kernel_rows(struct digest_builder *b, struct row_names *names,
			    enum compare_table table)
{
	static const row_name namers[] = { [COMPARE_KERNELS] = name_kernel,
					   [COMPARE_CLASSES] = name_class,
					   [COMPARE_RANGES] = name_range,
					   [COMPARE_COLLECTIVES] = name_collective };
	struct parts parts = { 0 };
	int r = add_kernels(b, names, table, &parts);

	if (r >= 0 && table == COMPARE_COLLECTIVES)
		r = add_records(b, &parts);
	if (r >= 0)
		r = make_rows(b, &parts, b->n_covered, namers[table], names, table);
	if (r >= 0 && table == COMPARE_KERNELS)
		r = tell_rows_apart(&b->digest->tables[table]);
	parts_release(&parts);
	return r;
}

int digest_kernels(struct digest_builder *b)
{
	struct row_names names = { 0 };
	struct err err;
	int r;

	for (int t = COMPARE_KERNELS; t <= COMPARE_COLLECTIVES; t++)
		b->digest->tables[t].reason = b->digest->missing[COMPARE_KERNEL_TIME];
	if (!b->kernel_at)
		return 0;
	r = kernel_classes_new(NULL, &names.classes, &err);
	if (r < 0)
		return r;
	comm_names_init(&names.comm, b->run, names.classes);
	for (int t = COMPARE_KERNELS; r >= 0 && t <= COMPARE_COLLECTIVES; t++)
		r = make_kernel_rows(b, &names, (enum compare_table)t);
	comm_names_release(&names.comm);
	kernel_classes_free(names.classes);
	free(names.list);
	free(names.class_of);
	/* Nothing below asks where kernels come from. */
	attribution_release(&b->at);
	free(b->kernel_path);
	b->kernel_path = NULL;
	return r;
}

/* Bit 0 of the key: an operation. */
static int name_host(const struct digest_builder *b, void *context, uint64_t key,
		     struct digest_row *row)
{
	const char *name = run_string(b->run, (uint32_t)(key >> 1));

	(void)context;
	row->is_op = key & 1;
	return copy_name(row, name);
}

static size_t recorded_of(const struct digest_builder *b, const struct nested *item)
{
	size_t row, unit;

	if (b->whole)
		return 0;
	row = step_index_find(&b->index, b->run, item->shard, item->start_ns);
	unit = row == SIZE_MAX ? NO_UNIT : b->unit_of[row];
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
			r = add_part(parts, (uint64_t)site.name << 1 | item->is_op, step, self[i],
				     true);
	}
	return r;
}

int digest_host(struct digest_builder *b)
{
	struct digest_rows *host = &b->digest->tables[COMPARE_HOST];
	struct parts parts = { 0 };
	struct nested *list;
	size_t n, *open;
	double *self;
	int r;

	host->reason = !b->n_units ? b->digest->missing[COMPARE_STEP_TIME]
		       : b->whole  ? "no ranges or operations were recorded"
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
	if (r >= 0 && parts.n)
		r = make_rows(b, &parts, b->n_recorded, name_host, NULL, COMPARE_HOST);
	parts_release(&parts);
	free(list);
	free(self);
	free(open);
	return r;
}
