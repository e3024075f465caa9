/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels by name, class or place; see kernels.h. Pure, any thread.
 *
 * A first pass gives each kernel its row, a second one lays the durations of a row side by side
 * for the percentiles.
 */
#include "subjects/kernels/kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "device/sheets/kernel_name.h"
#include "subjects/kernels/kernels_inside.h"
#include "subjects/shared/coverage.h"
#include "subjects/shared/occupancy.h"

/* The durations of a row side by side, from next[row] on; next[row] is then its end. */
#define LAY_OUT(b, next, durations)                                                                \
	for (size_t i = 0; i < (b)->run->kernel.n; i++) {                                          \
		uint32_t row = kernels_row_at(b, i);                                               \
		if (row != NO_ROW && !(b)->run->kernel.untimed[i])                                 \
			(durations)[(next)[row]++] = (b)->run->kernel.duration_ns[i];              \
	}

static int summarize_doubles(struct kernels_builder *b, size_t *next)
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
static int summarize_words(struct kernels_builder *b, size_t *next)
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
static int add_occupancy_by_launch(struct kernels_builder *b, struct occupancy_lookup *lookup,
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

static int add_occupancy(struct kernels_builder *b)
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
			if (kernels_row_at(b, i) != NO_ROW && !kernel->untimed[i])
				occupancy_mean_add(&means[kernels_row_at(b, i)],
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

static int summarize_kernels(struct kernels_builder *b)
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

static int kernel_rows_by_time(const void *a, const void *b)
{
	const struct kernel_row *x = a, *y = b;

	return CMP(y->time_ns, x->time_ns) ?: CMP(y->count, x->count) ?:
	       strcmp(x->name ? x->name : "", y->name ? y->name : "") ?:
	       strcmp(x->class ? x->class : "", y->class ? y->class : "") ?:
	       strcmp(x->range ? x->range : "", y->range ? y->range : "") ?:
	       CMP(x->step, y->step) ?: CMP(x->layer, y->layer) ?: CMP(x->expert, y->expert) ?:
	       CMP(x->rank, y->rank) ?: CMP(x->device, y->device) ?: CMP(x->graph, y->graph) ?:
	       CMP(x->stream, y->stream);
}

static bool needs_places(enum kernels_by by)
{
	return by >= KERNELS_BY_RANGE && by <= KERNELS_BY_STEP;
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

static void finish_kernels(const struct kernels_builder *b, struct kernels *kernels)
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
		qsort(kernels->rows, kernels->n, sizeof(*kernels->rows), kernel_rows_by_time);
	sum_whole_steps(kernels);
	kernels->without_call = b->placed ? value_of((double)b->without_call)
					  : value_absent(not_asked);
	/* Steps that were not recorded have their kernels placed, too, but in no range. */
	kernels->outside_ranges = b->placed && (!selection_is_all(b->sel) || needs_places(b->by))
					  ? value_of((double)b->outside)
					  : value_absent(not_asked);
}

/* Steps that several ranks took together are one row: whole when all of them were covered. */
static int mark_whole_steps(struct kernels_builder *b)
{
	const struct table_step *step = &b->run->step;
	struct coverage coverage;
	int r = coverage_analyze(b->run, &coverage);

	if (r < 0)
		return r;
	for (size_t i = 0; i < b->n; i++)
		b->rows[i].whole_step = !b->rows[i].no_place;
	for (size_t i = 0; i < step->n; i++) {
		struct kernel_row *row = kernels_row_of_step(b, step->step[i]);

		if (row && !coverage_has_step(&coverage, b->run, i))
			row->whole_step = false;
	}
	coverage_release(&coverage);
	return 0;
}

/* Whether the name of any range or operation tells what its kernels do, or -ENOMEM. Names are few and
 * in many rows: those that were asked for last are remembered. */
static int ranges_tell(const struct run *run, const struct kernel_classes *classes)
{
	const uint32_t *const sites[] = { run->range.site, run->op.site };
	const size_t counts[] = { run->range.n, run->op.n };
	uint32_t asked[2048] = { 0 }; /* id 0 is "" */

	for (size_t t = 0; t < 2; t++)
		for (size_t i = 0; i < counts[t]; i++) {
			uint32_t name = run_site(run, sites[t][i]).name;
			uint32_t *kept = &asked[name % (sizeof(asked) / sizeof(asked[0]))];
			int rule;

			if (*kept == name)
				continue;
			*kept = name;
			rule = kernel_class_range(classes, run_string(run, name));
			if (rule < 0 && rule != KERNEL_RANGE_NONE)
				return rule;
			if (kernel_class_range_decides(rule))
				return true;
		}
	return false;
}

bool kernels_need_ranges(const struct kernels_options *options)
{
	return needs_places(options->by) || options->by == KERNELS_BY_CLASS;
}

int kernels_need_places(const struct run *run, const struct kernels_options *options,
			bool *ret_needed)
{
	struct kernel_classes *own = NULL;
	int r;

	if (options->by != KERNELS_BY_CLASS) {
		*ret_needed = needs_places(options->by);
		return 0;
	}
	r = options->classes ? 0 : kernel_classes_new(NULL, &own, NULL);
	if (r >= 0)
		r = ranges_tell(run, own ? own : options->classes);
	kernel_classes_free(own);
	if (r < 0)
		return r;
	*ret_needed = r;
	return 0;
}

static int label_rows(struct kernels_builder *b)
{
	struct kernel_alias *labels = array_new(b->n, sizeof(*labels));
	int r;

	if (!labels)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++)
		labels[i] = (struct kernel_alias){ b->rows[i].name, &b->rows[i].short_name };
	r = kernel_aliases_tell_apart(labels, b->n);
	free(labels);
	return r;
}

static int build_kernels(struct kernels_builder *b)
{
	int r;

	if (!b->run->kernel.n)
		return 0;
	if (b->class_by_range) {
		b->range_rule = calloc(b->at->n_paths + 1, sizeof(*b->range_rule));
		b->near = calloc(KERNELS_NEAR, sizeof(*b->near));
		if (!b->range_rule || !b->near)
			return -ENOMEM;
	}
	b->by_launch = !b->at && (b->by == KERNELS_BY_NAME || b->by == KERNELS_BY_CLASS);
	if (!b->by_launch) {
		b->row_of = array_new(b->run->kernel.n, sizeof(*b->row_of));
		if (!b->row_of)
			return -ENOMEM;
	}
	r = kernels_assign_rows(b);
	if (r >= 0 && b->by == KERNELS_BY_STEP)
		r = mark_whole_steps(b);
	if (r >= 0 && b->by == KERNELS_BY_NAME)
		r = label_rows(b);
	if (r >= 0)
		r = add_occupancy(b);
	return r < 0 ? r : summarize_kernels(b);
}

static int analyze_kernels(struct kernels_builder *b, struct kernels *ret_kernels)
{
	struct kernels kernels;
	int r;

	r = build_kernels(b);
	kernels = (struct kernels){ .rows = b->rows, .n = b->n };
	if (r >= 0)
		finish_kernels(b, &kernels);
	else
		kernels_release(&kernels);
	free(b->keys);
	hash_map_release(&b->map);
	free(b->row_of);
	free(b->class_of);
	free(b->range_rule);
	free(b->near);
	if (r < 0)
		return r;
	*ret_kernels = kernels;
	return 0;
}

int kernels_analyze_at(const struct attribution *at, const struct selection *sel,
		       const struct kernels_options *options, struct kernels *ret_kernels)
{
	struct kernels_builder b = { .run = at->run, .sel = sel, .by = options->by };
	struct kernel_classes *own = NULL;
	int r = options->classes ? 0 : kernel_classes_new(NULL, &own, NULL);

	if (r < 0)
		return r;
	b.classes = own ? own : options->classes;
	b.placed = attribution_needed(b.run, sel) || needs_places(options->by);
	b.class_by_range = options->by == KERNELS_BY_CLASS && at->n_paths;
	b.at = b.placed || b.class_by_range ? at : NULL;
	r = analyze_kernels(&b, ret_kernels);
	kernel_classes_free(own);
	return r;
}

int kernels_analyze(const struct run *run, const struct selection *sel,
		    const struct kernels_options *options, struct kernels *ret_kernels)
{
	struct attribution at = { .run = run };
	bool needed = false;
	int r = run->kernel.n ? kernels_need_places(run, options, &needed) : 0;

	if (r >= 0 && run->kernel.n && (needed || attribution_needed(run, sel)))
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
