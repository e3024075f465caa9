/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels by name, class and range of their launch, and collectives, for a comparison. See digest.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "compare/digest_inside.h"
#include "device/sheets/kernel_class.h"
#include "device/sheets/kernel_name.h"
#include "subjects/comm/comm_inside.h"

/* What names a kernel, a class or a collective. */
struct names {
	struct demangler demangler;
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
	const struct names *names = context;

	if (demangler_name(&names->demangler, raw_name(b, (uint32_t)key), &row->name) < 0)
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
	const struct names *names = context;

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
	const struct names *names = context;

	return copy_name(row, key & 1 ? run_string(b->run, (uint32_t)(key >> 1))
				      : names->comm.texts[key >> 1]);
}

static int find_class(const struct digest_builder *b, struct names *names, uint32_t name,
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
		if (demangler_name(&names->demangler, raw_name(b, name), &text) < 0)
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
static int key_of(const struct digest_builder *b, struct names *names, enum compare_table table,
		  size_t kernel, uint64_t *ret_key)
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

static int add_kernels(const struct digest_builder *b, struct names *names,
		       enum compare_table table, struct digest_parts *parts)
{
	const struct table_kernel *t = &b->run->kernel;
	uint64_t key = NO_KEY;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < t->n; i++) {
		if (b->kernel_at[i] == NO_UNIT)
			continue;
		r = key_of(b, names, table, i, &key);
		if (r >= 0 && key != NO_KEY)
			r = digest_part(parts, key, b->kernel_at[i], (double)t->duration_ns[i],
					!t->untimed[i]);
	}
	return r;
}

static int add_records(const struct digest_builder *b, struct digest_parts *parts)
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
			r = digest_part(parts, (uint64_t)t->name[i] << 1 | 1, u,
					(double)t->duration_ns[i], true);
	}
	return r;
}

/* Short names that are the same get the words that differ. */
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

static int fill(struct digest_builder *b, struct names *names, enum compare_table table)
{
	static const digest_name namers[] = { [COMPARE_KERNELS] = name_kernel,
					      [COMPARE_CLASSES] = name_class,
					      [COMPARE_RANGES] = name_range,
					      [COMPARE_COLLECTIVES] = name_collective };
	struct digest_parts parts = { 0 };
	int r = add_kernels(b, names, table, &parts);

	if (r >= 0 && table == COMPARE_COLLECTIVES)
		r = add_records(b, &parts);
	if (r >= 0)
		r = digest_make_rows(b, &parts, b->n_covered, namers[table], names, table);
	if (r >= 0 && table == COMPARE_KERNELS)
		r = tell_apart(&b->digest->tables[table]);
	digest_parts_release(&parts);
	return r;
}

int digest_kernels(struct digest_builder *b)
{
	struct names names = { 0 };
	struct err err;
	int r;

	for (int t = COMPARE_KERNELS; t <= COMPARE_COLLECTIVES; t++)
		b->digest->tables[t].reason = b->digest->missing[COMPARE_KERNEL_TIME];
	if (!b->kernel_at)
		return 0;
	r = kernel_classes_new(NULL, &names.classes, &err);
	if (r < 0)
		return r;
	demangler_init(&names.demangler);
	comm_names_init(&names.comm, b->run, names.classes);
	for (int t = COMPARE_KERNELS; r >= 0 && t <= COMPARE_COLLECTIVES; t++)
		r = fill(b, &names, (enum compare_table)t);
	comm_names_release(&names.comm);
	demangler_release(&names.demangler);
	kernel_classes_free(names.classes);
	free(names.list);
	free(names.class_of);
	/* Nothing below asks where kernels come from. */
	attribution_release(&b->at);
	free(b->kernel_path);
	b->kernel_path = NULL;
	return r;
}
