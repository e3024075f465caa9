/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels by name, class or place; see kernels.h. Pure, any thread.
 *
 * A first pass gives each kernel its row, a second one lays the durations of a row side by side
 * for the percentiles.
 */
#include "analyze/kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/attribution.h"
#include "analyze/coverage.h"
#include "analyze/kernel_name.h"
#include "analyze/occupancy.h"
#include "base/buf.h"

#define NO_ROW UINT32_MAX

/* What rows are kept apart by. major, minor: as `by` needs them. */
struct key {
	uint64_t major, minor;
	const char *class;    /* told apart by its address */
	const char *no_place; /* likewise */
};

struct builder {
	const struct run *run;
	const struct selection *sel;
	enum kernels_by by;
	const struct kernel_classes *classes;
	struct demangler demangler;
	const struct attribution *at; /* NULL: places are not looked up */
	struct attribution_cursor cursor;
	bool placed; /* places are asked for, if there are kernels */
	struct kernel_row *rows;
	struct key *keys;
	size_t n, rows_capacity, keys_capacity;
	uint32_t *slots; /* hash of keys: row + 1; 0: free */
	size_t n_slots;
	bool by_launch;	  /* what a kernel counts to follows from its launch alone */
	uint32_t *row_of; /* of each launch id, or of each kernel */
	size_t row_of_capacity;
	const char **class_of; /* by string id, NULL: not asked for yet */
	size_t class_capacity;
	bool long_ones; /* a duration that does not fit into 32 bits, or a negative one */
	uint64_t without_call, outside;
};

static uint64_t hash_key(const struct key *key)
{
	uint64_t h = (key->major ^ (uintptr_t)key->no_place ^ (uintptr_t)key->class) *
		     UINT64_C(0x9E3779B97F4A7C15);

	h = ((h ^ h >> 32) + key->minor) * UINT64_C(0x9E3779B97F4A7C15);
	return h ^ h >> 32;
}

static size_t find_slot(const struct builder *b, const uint32_t *slots, size_t n_slots,
			const struct key *key)
{
	size_t at = hash_key(key) & (n_slots - 1);

	while (slots[at]) {
		const struct key *other = &b->keys[slots[at] - 1];

		if (other->major == key->major && other->minor == key->minor &&
		    other->class == key->class && other->no_place == key->no_place)
			break;
		at = (at + 1) & (n_slots - 1);
	}
	return at;
}

static int grow_hash(struct builder *b)
{
	size_t n_slots = b->n_slots ? b->n_slots * 2 : 1024;
	uint32_t *slots = calloc(n_slots, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++)
		slots[find_slot(b, slots, n_slots, &b->keys[i])] = (uint32_t)i + 1;
	free(b->slots);
	b->slots = slots;
	b->n_slots = n_slots;
	return 0;
}

static uint32_t name_of(const struct builder *b, size_t i)
{
	return run_launch(b->run, b->run->kernel.launch[i]).name;
}

/* The class of a name, matched once: patterns cost more than everything else here. */
static int class_of(struct builder *b, uint32_t name, const char **ret_class)
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

		if (demangler_name(&b->demangler, run_string(b->run, name), &text) < 0)
			return -ENOMEM;
		b->class_of[name] = kernel_class_of(b->classes, text);
		free(text);
	}
	*ret_class = b->class_of[name];
	return 0;
}

static bool known_place(enum kernels_by by, const struct place *place, struct key *key)
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

/* False: the selection leaves the kernel out. */
static bool place_key(struct builder *b, size_t i, struct key *key)
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

static int key_of(struct builder *b, size_t i, struct key *ret_key, bool *ret_selected)
{
	const struct table_kernel *kernel = &b->run->kernel;
	struct key key = { 0 };
	const char *class;
	int r = 0;

	*ret_selected = !b->at || place_key(b, i, &key);
	switch (b->by) {
	case KERNELS_BY_NAME:
		key = (struct key){ .major = name_of(b, i) };
		break;
	case KERNELS_BY_CLASS:
		r = class_of(b, name_of(b, i), &class);
		if (r >= 0)
			key = (struct key){ .class = class };
		break;
	case KERNELS_BY_STREAM:
	case KERNELS_BY_DEVICE:
		key = (struct key){
			.major = (uint64_t)kernel->shard[i] << 32 | kernel->device[i],
			.minor = b->by == KERNELS_BY_STREAM ? kernel->stream[i] : 0,
		};
		break;
	case KERNELS_BY_GRAPH:
		key = (struct key){ .no_place = "not launched by a CUDA graph" };
		if (kernel->graph[i])
			key = (struct key){ .major = (uint64_t)kernel->shard[i] << 32 |
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

static int named_row(struct builder *b, uint32_t name, struct kernel_row *row)
{
	const char *text = name ? run_string(b->run, name) : "(no name)", *class;

	if (demangler_name(&b->demangler, text, &row->name) < 0 ||
	    kernel_short_name(row->name, &row->short_name) < 0 || class_of(b, name, &class) < 0)
		return -ENOMEM;
	row->name_id = name;
	row->class = strdup(class);
	return row->class ? 0 : -ENOMEM;
}

static int describe(struct builder *b, const struct key *key, struct kernel_row *row)
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

static int find_row(struct builder *b, const struct key *key, uint32_t *ret_row)
{
	size_t slot;

	if (b->n * 2 >= b->n_slots && grow_hash(b) < 0)
		return -ENOMEM;
	slot = find_slot(b, b->slots, b->n_slots, key);
	if (!b->slots[slot]) {
		if (array_grow(&b->rows, &b->rows_capacity, b->n + 1, sizeof(*b->rows)) < 0 ||
		    array_grow(&b->keys, &b->keys_capacity, b->n + 1, sizeof(*b->keys)) < 0)
			return -ENOMEM;
		b->keys[b->n] = *key;
		b->rows[b->n] = (struct kernel_row){ .layer = -1, .expert = -1 };
		b->n++;
		b->slots[slot] = (uint32_t)b->n;
		if (describe(b, key, &b->rows[b->n - 1]) < 0)
			return -ENOMEM;
	}
	*ret_row = b->slots[slot] - 1;
	return 0;
}

static int row_of_kernel(struct builder *b, size_t i, uint32_t *ret_row)
{
	struct key key;
	bool selected;
	int r = key_of(b, i, &key, &selected);

	*ret_row = NO_ROW;
	return r < 0 || !selected ? r : find_row(b, &key, ret_row);
}

/* Launches are few, and each is looked at once. */
static int row_of_launch(struct builder *b, size_t i, uint32_t *ret_row)
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

static uint32_t row_at(const struct builder *b, size_t i)
{
	return b->row_of[b->by_launch ? b->run->kernel.launch[i] : i];
}

static int assign_rows(struct builder *b)
{
	const struct table_kernel *kernel = &b->run->kernel;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < kernel->n; i++) {
		uint32_t row;

		if (b->by_launch)
			r = row_of_launch(b, i, &row);
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

/* The durations of a row side by side, from next[row] on; next[row] is then its end. */
#define LAY_OUT(b, next, durations)                                                                \
	for (size_t i = 0; i < (b)->run->kernel.n; i++) {                                          \
		uint32_t row = row_at(b, i);                                                       \
		if (row != NO_ROW && !(b)->run->kernel.untimed[i])                                 \
			(durations)[(next)[row]++] = (b)->run->kernel.duration_ns[i];              \
	}

static int summarize_doubles(struct builder *b, size_t *next)
{
	double *durations = array_new(b->run->kernel.n, sizeof(*durations));
	size_t first = 0;

	if (!durations)
		return -ENOMEM;
	LAY_OUT(b, next, durations)
	for (size_t i = 0; i < b->n; first = next[i++])
		b->rows[i].summary = stats_summarize(durations + first, next[i] - first);
	free(durations);
	return 0;
}

/* Nearly always durations are below four seconds: half of the memory. */
static int summarize_words(struct builder *b, size_t *next)
{
	uint32_t *durations = array_new(b->run->kernel.n, sizeof(*durations)), *room;
	size_t first = 0, most = 1;

	for (size_t i = 0; i < b->n; i++)
		most = b->rows[i].count > most ? (size_t)b->rows[i].count : most;
	room = array_new(most, sizeof(*room));
	if (!durations || !room) {
		free(durations);
		free(room);
		return -ENOMEM;
	}
	LAY_OUT(b, next, durations)
	for (size_t i = 0; i < b->n; first = next[i++])
		b->rows[i].summary = stats_summarize_words(durations + first, next[i] - first,
							   room);
	free(durations);
	free(room);
	return 0;
}

/* With one kind of device the launch says all: its time is summed up, and looked at once. */
static int add_occupancy_by_launch(struct builder *b, struct occupancy_lookup *lookup,
				   struct occupancy_mean *means)
{
	const struct table_kernel *kernel = &b->run->kernel;
	size_t *first = calloc(lookup->n_launches, sizeof(*first)); /* its first kernel + 1 */
	int64_t *time_ns = calloc(lookup->n_launches, sizeof(*time_ns));
	int r = first && time_ns ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < kernel->n; i++) {
		uint32_t launch = kernel->launch[i];

		if (kernel->untimed[i])
			continue;
		time_ns[launch] += kernel->duration_ns[i];
		if (!first[launch])
			first[launch] = i + 1;
	}
	for (size_t i = 0; r >= 0 && i < lookup->n_launches; i++)
		if (first[i] && b->row_of[i] != NO_ROW)
			occupancy_mean_add(&means[b->row_of[i]],
					   occupancy_lookup_kernel(lookup, first[i] - 1),
					   time_ns[i]);
	free(first);
	free(time_ns);
	return r;
}

static int add_occupancy(struct builder *b)
{
	const struct table_kernel *kernel = &b->run->kernel;
	struct occupancy_mean *means = calloc(b->n ? b->n : 1, sizeof(*means));
	struct occupancy_lookup lookup;
	int r = means ? occupancy_lookup_init(&lookup, b->run) : -ENOMEM;

	if (r < 0) {
		free(means);
		return r;
	}
	if (b->by_launch && lookup.n_kinds <= 1)
		r = add_occupancy_by_launch(b, &lookup, means);
	else
		for (size_t i = 0; i < kernel->n; i++)
			if (row_at(b, i) != NO_ROW && !kernel->untimed[i])
				occupancy_mean_add(&means[row_at(b, i)],
						   occupancy_lookup_kernel(&lookup, i),
						   kernel->duration_ns[i]);
	for (size_t i = 0; r >= 0 && i < b->n; i++) {
		b->rows[i].occupancy_pct = occupancy_mean_pct(&means[i]);
		b->rows[i].occupancy_limiter = occupancy_mean_limiter(&means[i]);
	}
	occupancy_lookup_release(&lookup);
	free(means);
	return r;
}

static int summarize(struct builder *b)
{
	size_t *next = calloc(b->n + 1, sizeof(*next));
	int r;

	if (!next)
		return -ENOMEM;
	for (size_t i = 0; i + 1 < b->n; i++)
		next[i + 1] = next[i] + (size_t)(b->rows[i].count - b->rows[i].untimed);
	r = b->long_ones ? summarize_doubles(b, next) : summarize_words(b, next);
	free(next);
	return r;
}

static int by_time(const void *a, const void *b)
{
	const struct kernel_row *x = a, *y = b;
	int order;

	if (x->time_ns != y->time_ns)
		return x->time_ns > y->time_ns ? -1 : 1;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	order = strcmp(x->name ? x->name : "", y->name ? y->name : "");
	if (!order)
		order = strcmp(x->class ? x->class : "", y->class ? y->class : "");
	if (!order)
		order = strcmp(x->range ? x->range : "", y->range ? y->range : "");
	if (order)
		return order;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	if (x->expert != y->expert)
		return x->expert < y->expert ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->graph != y->graph)
		return x->graph < y->graph ? -1 : 1;
	return x->stream < y->stream ? -1 : x->stream > y->stream;
}

static void sum_whole_steps(struct kernels *kernels)
{
	static const char none[] = "no step of these kernels was covered wholly";
	double count = 0, time_ns = 0;

	for (size_t i = 0; i < kernels->n; i++) {
		if (!kernels->rows[i].whole_step)
			continue;
		kernels->whole_steps++;
		count += (double)kernels->rows[i].count;
		time_ns += (double)kernels->rows[i].time_ns;
	}
	kernels->step_count_mean = kernels->whole_steps
					   ? value_of(count / (double)kernels->whole_steps)
					   : value_absent(none);
	kernels->step_time_mean_ns = kernels->whole_steps
					     ? value_of(time_ns / (double)kernels->whole_steps)
					     : value_absent(none);
}

static void finish(const struct builder *b, struct kernels *kernels)
{
	static const char not_asked[] = "kernels were not looked up by their place in the program";

	for (size_t i = 0; i < kernels->n; i++) {
		kernels->count += kernels->rows[i].count;
		kernels->untimed += kernels->rows[i].untimed;
		kernels->time_ns += kernels->rows[i].time_ns;
	}
	for (size_t i = 0; i < kernels->n; i++)
		kernels->rows[i].share_pct = kernels->time_ns > 0
						     ? 100.0 * (double)kernels->rows[i].time_ns /
							       (double)kernels->time_ns
						     : 0;
	if (kernels->n)
		qsort(kernels->rows, kernels->n, sizeof(*kernels->rows), by_time);
	sum_whole_steps(kernels);
	kernels->without_call = b->placed ? value_of((double)b->without_call)
					  : value_absent(not_asked);
	kernels->outside_ranges = b->placed ? value_of((double)b->outside)
					    : value_absent(not_asked);
}

/* Steps that several ranks took together are one row: whole when all of them were covered. */
static int mark_whole_steps(struct builder *b)
{
	const struct table_step *step = &b->run->step;
	struct coverage coverage;
	int r = coverage_analyze(b->run, &coverage);

	if (r < 0)
		return r;
	for (size_t i = 0; i < b->n; i++)
		b->rows[i].whole_step = !b->rows[i].no_place;
	for (size_t i = 0; b->n && i < step->n; i++) {
		struct key key = { .major = (uint64_t)step->step[i] };
		size_t slot = find_slot(b, b->slots, b->n_slots, &key);

		if (b->slots[slot] && !coverage_has_step(&coverage, b->run, i))
			b->rows[b->slots[slot] - 1].whole_step = false;
	}
	coverage_release(&coverage);
	return 0;
}

bool kernels_need_places(const struct kernels_options *options)
{
	return options->by >= KERNELS_BY_RANGE && options->by <= KERNELS_BY_STEP;
}

static int build(struct builder *b)
{
	int r;

	if (!b->run->kernel.n)
		return 0;
	b->by_launch = !b->at && (b->by == KERNELS_BY_NAME || b->by == KERNELS_BY_CLASS);
	if (!b->by_launch) {
		b->row_of = array_new(b->run->kernel.n, sizeof(*b->row_of));
		if (!b->row_of)
			return -ENOMEM;
	}
	r = assign_rows(b);
	if (r >= 0 && b->by == KERNELS_BY_STEP)
		r = mark_whole_steps(b);
	if (r >= 0)
		r = add_occupancy(b);
	return r < 0 ? r : summarize(b);
}

static int analyze(struct builder *b, struct kernels *ret_kernels)
{
	struct kernels kernels;
	int r;

	demangler_init(&b->demangler);
	r = build(b);
	kernels = (struct kernels){ .rows = b->rows, .n = b->n };
	if (r >= 0)
		finish(b, &kernels);
	else
		kernels_release(&kernels);
	demangler_release(&b->demangler);
	free(b->keys);
	free(b->slots);
	free(b->row_of);
	free(b->class_of);
	if (r < 0)
		return r;
	*ret_kernels = kernels;
	return 0;
}

int kernels_analyze_at(const struct attribution *at, const struct selection *sel,
		       const struct kernels_options *options, struct kernels *ret_kernels)
{
	struct builder b = { .run = at->run, .sel = sel, .by = options->by };
	struct kernel_classes *own = NULL;
	int r = options->classes ? 0 : kernel_classes_new(NULL, &own, NULL);

	if (r < 0)
		return r;
	b.placed = attribution_needed(b.run, sel) || kernels_need_places(options);
	b.at = b.placed ? at : NULL;
	b.classes = own ? own : options->classes;
	r = analyze(&b, ret_kernels);
	kernel_classes_free(own);
	return r;
}

int kernels_analyze(const struct run *run, const struct selection *sel,
		    const struct kernels_options *options, struct kernels *ret_kernels)
{
	struct attribution at = { .run = run };
	int r = 0;

	if (run->kernel.n && (attribution_needed(run, sel) || kernels_need_places(options)))
		r = attribution_init(&at, run);
	if (r >= 0)
		r = kernels_analyze_at(&at, sel, options, ret_kernels);
	attribution_release(&at);
	return r;
}

void kernels_release(struct kernels *kernels)
{
	for (size_t i = 0; i < kernels->n; i++) {
		free(kernels->rows[i].name);
		free(kernels->rows[i].short_name);
		free(kernels->rows[i].class);
		free(kernels->rows[i].range);
	}
	free(kernels->rows);
	*kernels = (struct kernels){ 0 };
}
