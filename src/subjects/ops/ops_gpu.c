/* SPDX-License-Identifier: Apache-2.0
 *
 * Device time of ranges and operations; see ops_gpu.h. Pure, any thread; n log n.
 *
 * Work goes to the innermost record around its launch; then one walk from the inner records to
 * the outer ones adds up what their children have.
 */
#include "subjects/ops/ops_gpu.h"

#include <errno.h>
#include <stdlib.h>

#include "subjects/shared/attribution.h"

static void add_op_work(struct ops_gpu *gpu, const struct attribution *at,
			const struct selection *sel, struct attribution_cursor *cursor,
			const struct device_work *work, uint32_t call, int64_t duration_ns)
{
	const struct nested *item;
	struct place place;

	if (!attribution_find_near(at, cursor, work, call, &place)) {
		gpu->unplaced_ns += duration_ns;
		return;
	}
	if (selection_is_window(sel) &&
	    (place.step == NO_STEP || !selection_has_step(sel, at->run->step.step[place.step])))
		return;
	if (place.range == NO_RANGE) {
		gpu->outside_ns += duration_ns;
		return;
	}
	item = &at->ranges[place.range];
	*(item->is_op ? &gpu->op_self[item->row] : &gpu->range_self[item->row]) += duration_ns;
}

#define ADD_WORK(table, calls)                                                                     \
	for (size_t i = 0; i < (table)->n; i++)                                                    \
		if (!(table)->untimed[i])                                                          \
	add_op_work(gpu, at, sel, &cursor,                                                         \
		    &(struct device_work){ (table)->correlation[i], (table)->graph_node[i],        \
					   (table)->start_ns[i], (table)->shard[i] },              \
		    (calls)[i], (table)->duration_ns[i])

static void place_work(struct ops_gpu *gpu, const struct attribution *at,
		       const struct selection *sel)
{
	struct attribution_cursor cursor = { 0 };

	ADD_WORK(&at->run->kernel, at->kernel_call);
	ADD_WORK(&at->run->copy, at->copy_call);
	ADD_WORK(&at->run->set, at->set_call);
}

static int64_t *total_of(struct ops_gpu *gpu, const struct nested *item)
{
	return item->is_op ? &gpu->op_total[item->row] : &gpu->range_total[item->row];
}

/* From the last of the list on, which is inner before outer: the stack holds records whose parent
 * has not come yet. As in ops.c, what is deeper and begins no earlier is a child; no record goes
 * on and off the stack more than once. */
static int add_children(struct ops_gpu *gpu, const struct nested *list, size_t n)
{
	const struct nested **open = calloc(n + 1, sizeof(*open));
	size_t top = 0;

	if (!open)
		return -ENOMEM;
	for (size_t i = n; i-- > 0;) {
		const struct nested *item = &list[i];

		if (top &&
		    (open[top - 1]->shard != item->shard || open[top - 1]->thread != item->thread))
			top = 0;
		*total_of(gpu, item) += ops_gpu_self(gpu, item);
		while (top && open[top - 1]->depth > item->depth &&
		       open[top - 1]->start_ns >= item->start_ns)
			*total_of(gpu, item) += *total_of(gpu, open[--top]);
		open[top++] = item;
	}
	free(open);
	return 0;
}

const char *ops_gpu_unknown(const struct run *run)
{
	if (!run->kernel.n && !run->copy.n && !run->set.n)
		return "no device records in this run";
	if (!run->api.n && !run->graph_node.n)
		return "the calls that launched the device's work were not recorded";
	return NULL;
}

int ops_gpu_init(struct ops_gpu *gpu, const struct attribution *at, const struct selection *sel,
		 const struct nested *list, size_t n)
{
	const struct run *run = at->run;
	int r;

	*gpu = (struct ops_gpu){ .reason = ops_gpu_unknown(run) };
	if (gpu->reason)
		return 0;
	gpu->known = true;
	gpu->range_self = calloc(run->range.n + 1, sizeof(*gpu->range_self));
	gpu->range_total = calloc(run->range.n + 1, sizeof(*gpu->range_total));
	gpu->op_self = calloc(run->op.n + 1, sizeof(*gpu->op_self));
	gpu->op_total = calloc(run->op.n + 1, sizeof(*gpu->op_total));
	r = gpu->range_self && gpu->range_total && gpu->op_self && gpu->op_total ? 0 : -ENOMEM;
	if (r >= 0) {
		place_work(gpu, at, sel);
		r = add_children(gpu, list, n);
	}
	if (r < 0)
		ops_gpu_release(gpu);
	return r;
}

void ops_gpu_release(struct ops_gpu *gpu)
{
	free(gpu->range_self);
	free(gpu->range_total);
	free(gpu->op_self);
	free(gpu->op_total);
	*gpu = (struct ops_gpu){ 0 };
}
