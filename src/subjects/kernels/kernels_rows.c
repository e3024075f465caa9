/* SPDX-License-Identifier: Apache-2.0
 *
 * Which row a kernel counts to, by name, class or place; see kernels_inside.h. Pure, any thread.
 */
#include "base/text/demangle.h"
#include "device/sheets/kernel_name.h"
#include "subjects/kernels/kernels_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static uint32_t hash_key(const struct kernel_key *key)
{
	uintptr_t pointers = (uintptr_t)key->no_place ^ (uintptr_t)key->class;

	return (uint32_t)hash_mix(hash_mix(0, key->major ^ pointers), key->minor);
}

/* From 1; 0: there is none yet. */
static uint32_t row_number(const struct kernels_builder *b, const struct kernel_key *key,
			   uint32_t hash)
{
	struct hash_walk walk = hash_map_walk(&b->map, hash);
	uint32_t number;

	while ((number = hash_map_next(&b->map, &walk))) {
		const struct kernel_key *other = &b->keys[number - 1];

		if (other->major == key->major && other->minor == key->minor &&
		    other->class == key->class && other->no_place == key->no_place)
			break;
	}
	return number;
}

/* The class of a name, matched once: patterns cost more than everything else here. */
static int class_of(struct kernels_builder *b, uint32_t name, const char **ret_class)
{
	if (name >= b->class_capacity) {
		size_t old = b->class_capacity;

		if (array_grow(&b->class_of, &b->class_capacity, (size_t)name + 1,
			       sizeof(*b->class_of)) < 0)
			return -ENOMEM;
		memset(b->class_of + old, 0, (b->class_capacity - old) * sizeof(*b->class_of));
	}
	if (!b->class_of[name]) {
		char *text;

		if (demangled(run_string(b->run, name), &text) < 0)
			return -ENOMEM;
		b->class_of[name] = kernel_class_of(b->classes, text);
		free(text);
		if (!b->class_of[name])
			return -ENOMEM;
	}
	*ret_class = b->class_of[name];
	return 0;
}

/* The innermost range that says more than the name decides. NULL: no memory. */
static const char *class_in_path(const struct kernels_builder *b, const char *class, uint32_t path)
{
	const char *found = NULL;

	for (uint32_t p = path; p && !found; p = attribution_path_outer(b->at, p)) {
		int8_t *kept = &b->range_rule[p]; /* the rule and 2 */
		int rule = *kept - 2;

		if (!*kept) {
			rule = kernel_class_range(
				b->classes, run_string(b->run, attribution_path_name(b->at, p)));
			if (rule < 0 && rule != KERNEL_RANGE_NONE)
				return NULL;
			*kept = (int8_t)(rule + 2);
		}
		found = kernel_class_in_range(b->classes, class, rule);
	}
	return found ? found : class;
}

static bool known_place(enum kernels_by by, const struct place *place, struct kernel_key *key)
{
	static const char *const reasons[] = {
		[KERNELS_BY_RANGE] = "launched outside all ranges",
		[KERNELS_BY_LAYER] = "no range around the launch names a layer",
		[KERNELS_BY_EXPERT] = "no range around the launch names an expert",
		[KERNELS_BY_PHASE] = "no range around the launch names a phase",
		[KERNELS_BY_STEP] = "launched outside all steps",
	};
	bool known = by == KERNELS_BY_RANGE    ? place->path != 0
		     : by == KERNELS_BY_LAYER  ? place->layer >= 0
		     : by == KERNELS_BY_EXPERT ? place->expert >= 0
		     : by == KERNELS_BY_PHASE  ? place->phase != 0
					       : place->step != NO_STEP;

	if (!known)
		key->no_place = reasons[by];
	return known;
}

/* False: the selection leaves the kernel out. *ret_path: 0 when it has none. */
static bool place_key(struct kernels_builder *b, size_t i, struct kernel_key *key,
		      uint32_t *ret_path)
{
	const struct table_kernel *kernel = &b->run->kernel;
	struct device_work work = { kernel->correlation[i], kernel->graph_node[i],
				    kernel->start_ns[i], kernel->shard[i] };
	struct place place;

	if (!attribution_find_near(b->at, &b->cursor, &work, b->at->kernel_call[i], &place)) {
		b->without_call++;
		key->no_place = "its launch call was not recorded";
		return selection_is_all(b->sel);
	}
	if (!attribution_selects(b->at, b->sel, &place))
		return false;
	*ret_path = place.path;
	b->outside += place.path == 0;
	if (b->by < KERNELS_BY_RANGE || b->by > KERNELS_BY_STEP || !known_place(b->by, &place, key))
		return true;
	key->major = b->by == KERNELS_BY_RANGE	  ? place.path
		     : b->by == KERNELS_BY_LAYER  ? (uint64_t)place.layer
		     : b->by == KERNELS_BY_EXPERT ? (uint64_t)place.expert
		     : b->by == KERNELS_BY_PHASE  ? place.phase
						  : (uint64_t)b->run->step.step[place.step];
	if (b->by == KERNELS_BY_EXPERT)
		key->minor = (uint32_t)place.layer;
	return true;
}

static int class_key(struct kernels_builder *b, uint32_t name, uint32_t path,
		     struct kernel_key *ret_key)
{
	const char *class;
	int r = class_of(b, name, &class);

	if (r < 0)
		return r;
	if (path && b->class_by_range)
		class = class_in_path(b, class, path);
	if (!class)
		return -ENOMEM;
	*ret_key = (struct kernel_key){ .class = class };
	return 0;
}

static int kernel_key_of(struct kernels_builder *b, size_t i, struct kernel_key *ret_key,
			 bool *ret_selected)
{
	const struct table_kernel *kernel = &b->run->kernel;
	struct kernel_key key = { 0 };
	uint32_t path = 0;
	int r = 0;

	*ret_selected = !b->at || place_key(b, i, &key, &path);
	switch (b->by) {
	case KERNELS_BY_NAME:
		key = (struct kernel_key){ .major = run_kernel_name(b->run, i) };
		break;
	case KERNELS_BY_CLASS:
		r = class_key(b, run_kernel_name(b->run, i), path, &key);
		break;
	case KERNELS_BY_STREAM:
	case KERNELS_BY_DEVICE:
		key = (struct kernel_key){
			.major = (uint64_t)kernel->shard[i] << 32 | kernel->device[i],
			.minor = b->by == KERNELS_BY_STREAM ? kernel->stream[i] : 0,
		};
		break;
	case KERNELS_BY_GRAPH:
		key = (struct kernel_key){ .no_place = "not launched by a CUDA graph" };
		if (kernel->graph[i])
			key = (struct kernel_key){ .major = (uint64_t)kernel->shard[i] << 32 |
							    kernel->graph[i] };
		break;
	case KERNELS_BY_RANGE:
	case KERNELS_BY_LAYER:
	case KERNELS_BY_EXPERT:
	case KERNELS_BY_PHASE:
	case KERNELS_BY_STEP:
		break;
	}
	*ret_key = key;
	return r;
}

static int named_row(struct kernels_builder *b, uint32_t name, struct kernel_row *row)
{
	const char *text = name ? run_string(b->run, name) : "(no name)", *class;

	if (demangled(text, &row->name) < 0 || kernel_short_name(row->name, &row->short_name) < 0 ||
	    class_of(b, name, &class) < 0)
		return -ENOMEM;
	row->name_id = name;
	row->class = strdup(class);
	return row->class ? 0 : -ENOMEM;
}

static int describe_kernel_row(struct kernels_builder *b, const struct kernel_key *key,
			       struct kernel_row *row)
{
	row->no_place = key->no_place;
	if (key->no_place)
		return 0;
	switch (b->by) {
	case KERNELS_BY_NAME:
		return named_row(b, (uint32_t)key->major, row);
	case KERNELS_BY_CLASS:
		row->class = strdup(key->class);
		return row->class ? 0 : -ENOMEM;
	case KERNELS_BY_RANGE:
		return attribution_path_text(b->at, (uint32_t)key->major, &row->range);
	case KERNELS_BY_LAYER:
		row->layer = (int32_t)key->major;
		break;
	case KERNELS_BY_EXPERT:
		row->expert = (int32_t)key->major;
		row->layer = (int32_t)(uint32_t)key->minor;
		break;
	case KERNELS_BY_PHASE:
		row->phase = (uint8_t)key->major;
		break;
	case KERNELS_BY_STEP:
		row->step = (int64_t)key->major;
		break;
	case KERNELS_BY_STREAM:
	case KERNELS_BY_DEVICE:
		row->rank = b->run->shards[key->major >> 32].rank;
		row->device = (uint32_t)key->major;
		row->stream = (uint32_t)key->minor;
		break;
	case KERNELS_BY_GRAPH:
		row->rank = b->run->shards[key->major >> 32].rank;
		row->graph = (uint32_t)key->major;
		break;
	}
	return 0;
}

static int add_kernel_row(struct kernels_builder *b, const struct kernel_key *key, uint32_t hash)
{
	if (array_grow(&b->rows, &b->rows_capacity, b->n + 1, sizeof(*b->rows)) < 0 ||
	    array_grow(&b->keys, &b->keys_capacity, b->n + 1, sizeof(*b->keys)) < 0 ||
	    hash_map_add(&b->map, hash, (uint32_t)b->n + 1) < 0)
		return -ENOMEM;
	b->keys[b->n] = *key;
	b->rows[b->n] = (struct kernel_row){ .layer = -1, .expert = -1 };
	b->n++;
	return describe_kernel_row(b, key, &b->rows[b->n - 1]);
}

static int find_kernel_row(struct kernels_builder *b, const struct kernel_key *key,
			   uint32_t *ret_row)
{
	uint32_t hash = hash_key(key), number = row_number(b, key, hash);

	if (!number) {
		if (add_kernel_row(b, key, hash) < 0)
			return -ENOMEM;
		number = (uint32_t)b->n;
	}
	*ret_row = number - 1;
	return 0;
}

static int row_of_kernel(struct kernels_builder *b, size_t i, uint32_t *ret_row)
{
	struct kernel_key key;
	bool selected;
	int r = kernel_key_of(b, i, &key, &selected);

	*ret_row = NO_ROW;
	return r < 0 || !selected ? r : find_kernel_row(b, &key, ret_row);
}

/* By class, where the row follows from the launch and the ranges around it. */
static int row_in_ranges(struct kernels_builder *b, size_t i, uint32_t *ret_row)
{
	uint32_t launch = b->run->kernel.launch[i], path = 0;
	struct kernel_key key = { 0 };
	struct kernel_near *near;
	int r;

	*ret_row = NO_ROW;
	if (!place_key(b, i, &key, &path))
		return 0;
	near = &b->near[(launch ^ path * UINT32_C(0x9E3779B1) >> 16) % KERNELS_NEAR];
	if (!near->row || near->launch != launch || near->path != path) {
		r = class_key(b, run_kernel_name(b->run, i), path, &key);
		if (r >= 0)
			r = find_kernel_row(b, &key, ret_row);
		if (r < 0)
			return r;
		*near = (struct kernel_near){ launch, path, *ret_row + 1 };
	}
	*ret_row = near->row - 1;
	return 0;
}

/* Launches are few, and each is looked at once. */
static int row_of_launch(struct kernels_builder *b, size_t i, uint32_t *ret_row)
{
	uint32_t launch = b->run->kernel.launch[i];
	int r = 0;

	if (launch >= b->row_of_capacity) {
		size_t old = b->row_of_capacity;

		if (array_grow(&b->row_of, &b->row_of_capacity, (size_t)launch + 1,
			       sizeof(*b->row_of)) < 0)
			return -ENOMEM;
		memset(b->row_of + old, 0xff, (b->row_of_capacity - old) * sizeof(*b->row_of));
	}
	if (b->row_of[launch] == NO_ROW)
		r = row_of_kernel(b, i, &b->row_of[launch]);
	*ret_row = b->row_of[launch];
	return r;
}

int kernels_assign_rows(struct kernels_builder *b)
{
	const struct table_kernel *kernel = &b->run->kernel;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < kernel->n; i++) {
		uint32_t row = NO_ROW;

		if (b->by_launch)
			r = row_of_launch(b, i, &row);
		else if (b->near)
			r = row_in_ranges(b, i, &row);
		else
			r = row_of_kernel(b, i, &row);
		if (!b->by_launch)
			b->row_of[i] = row;
		if (r < 0 || row == NO_ROW)
			continue;
		b->rows[row].count++;
		if (kernel->untimed[i])
			b->rows[row].untimed++;
		else
			b->rows[row].time_ns += kernel->duration_ns[i];
		b->long_ones |= (uint64_t)kernel->duration_ns[i] > UINT32_MAX;
	}
	return r;
}

struct kernel_row *kernels_row_of_step(const struct kernels_builder *b, int64_t step)
{
	struct kernel_key key = { .major = (uint64_t)step };
	uint32_t number = row_number(b, &key, hash_key(&key));

	return number ? &b->rows[number - 1] : NULL;
}
