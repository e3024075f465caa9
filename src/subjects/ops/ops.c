/* SPDX-License-Identifier: Apache-2.0
 *
 * Averages by name; see ops.h for the rules. Pure, any thread.
 *
 * One pass over the records of a thread from its end to its beginning, outer before inner: the
 * stack then holds the ancestors of the record at hand. A record pops what lies at its depth or
 * deeper and what begins after it, so that a lost parent cannot adopt a stranger.
 */
#include "subjects/ops/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"
#include "base/hash_map.h"
#include "subjects/numbers/nesting.h"
#include "subjects/ops/ops_gpu.h"

#define STACK_MAX 256 /* depth is one byte */
#define NO_ROW SIZE_MAX

struct frame {
	int64_t start_ns;
	size_t row; /* NO_ROW: not selected */
	uint8_t depth;
	bool counts; /* its own time does */
};

/* Frames of a row on the stack: all of them, and those whose own time counts. */
struct active {
	uint32_t frames, counted;
};

struct builder {
	const struct run *run;
	const struct selection *sel;
	const struct ops_options *options;
	struct step_index steps;
	struct ops_gpu gpu;
	struct op_row *rows;
	struct active *active; /* of each row */
	size_t n, capacity;
	struct hash_map map; /* of rows, by their keys */
};

static uint32_t hash_key(const struct op_row *key)
{
	uint64_t hash = hash_mix(key->is_op, (uint64_t)key->name << 32 | key->shape);

	hash = hash_mix(hash, (uint64_t)(uint32_t)key->layer << 32 | (uint32_t)key->expert);
	return (uint32_t)hash_mix(hash, (uint64_t)key->stack << 8 | key->phase);
}

static bool same_key(const struct op_row *a, const struct op_row *b)
{
	return a->name == b->name && a->shape == b->shape && a->stack == b->stack &&
	       a->layer == b->layer && a->expert == b->expert && a->phase == b->phase &&
	       a->is_op == b->is_op;
}

static int grow_rows(struct builder *b)
{
	size_t capacity = b->capacity ? b->capacity * 2 : 256;
	struct op_row *rows = reallocarray(b->rows, capacity, sizeof(*rows));
	struct active *active;

	if (!rows)
		return -ENOMEM;
	b->rows = rows;
	active = reallocarray(b->active, capacity, sizeof(*active));
	if (!active)
		return -ENOMEM;
	b->active = active;
	b->capacity = capacity;
	return 0;
}

static int find_op_row(struct builder *b, const struct op_row *key, size_t *ret_row)
{
	uint32_t hash = hash_key(key), number;
	struct hash_walk walk = hash_map_walk(&b->map, hash);

	while ((number = hash_map_next(&b->map, &walk))) {
		if (same_key(&b->rows[number - 1], key)) {
			*ret_row = number - 1;
			return 0;
		}
	}
	if ((b->n == b->capacity && grow_rows(b) < 0) ||
	    hash_map_add(&b->map, hash, (uint32_t)b->n + 1) < 0)
		return -ENOMEM;
	b->rows[b->n] = *key;
	b->rows[b->n].first_ns = INT64_MAX;
	b->active[b->n] = (struct active){ 0 };
	*ret_row = b->n++;
	return 0;
}

static bool in_window(const struct builder *b, const struct nested *item)
{
	size_t row;

	if (!selection_is_window(b->sel))
		return true;
	row = step_index_find(&b->steps, b->run, item->shard, item->start_ns);
	return row != SIZE_MAX && selection_has_step(b->sel, b->run->step.step[row]);
}

/* The row that a record adds to; NO_ROW when the selection leaves it out. A record outside the
 * window may still have device time in it, that of a graph made in it. */
static int row_of(struct builder *b, const struct nested *item, bool counts, size_t *ret_row)
{
	const struct ops_options *options = b->options;
	const struct table_op *op = &b->run->op;
	struct site site = run_site(b->run, item->is_op ? op->site[item->row]
							: b->run->range.site[item->row]);
	struct op_row key = {
		.name = site.name,
		.shape = item->is_op && options->by_shape ? op->shape[item->row] : 0,
		.stack = item->is_op && options->by_stack ? op->stack[item->row] : 0,
		.layer = options->by_layer ? site.layer : -1,
		.expert = options->by_expert ? site.expert : -1,
		.phase = options->by_phase ? site.phase : 0,
		.is_op = item->is_op,
	};

	*ret_row = NO_ROW;
	if ((options->without_ranges && !item->is_op) ||
	    !selection_has_place(b->sel, site.layer, site.phase) ||
	    (!counts && !ops_gpu_total(&b->gpu, item)))
		return 0;
	return find_op_row(b, &key, ret_row);
}

static void account_record(struct builder *b, const struct nested *item, bool counts, size_t index)
{
	struct op_row *row = &b->rows[index];
	int64_t duration = item->end_ns - item->start_ns;

	if (item->start_ns < row->first_ns)
		row->first_ns = item->start_ns;
	row->self_gpu_ns += ops_gpu_self(&b->gpu, item);
	if (!b->active[index].frames)
		row->gpu_ns += ops_gpu_total(&b->gpu, item);
	if (!counts)
		return;
	row->count++;
	row->self_cpu_ns += duration;
	row->time_ns += duration;
	if (!b->active[index].counted)
		row->cpu_ns += duration;
	if (item->is_op) {
		row->flops += b->run->op.flops[item->row];
		row->bytes += b->run->op.bytes[item->row];
		row->no_flops += (b->run->op.unknown[item->row] & OP_FLOPS_UNKNOWN) != 0;
		row->no_bytes += (b->run->op.unknown[item->row] & OP_BYTES_UNKNOWN) != 0;
		row->unfinished += b->run->op.unfinished[item->row] != 0;
	} else {
		row->unfinished += b->run->range.unfinished[item->row] != 0;
	}
}

static void pop_frame(struct builder *b, const struct frame *frame)
{
	if (frame->row == NO_ROW)
		return;
	b->active[frame->row].frames--;
	b->active[frame->row].counted -= frame->counts;
}

static int walk_records(struct builder *b, const struct nested *list, size_t n)
{
	struct frame stack[STACK_MAX];
	size_t top = 0;

	for (size_t i = 0; i < n; i++) {
		const struct nested *item = &list[i];
		bool new_thread = i == 0 || item[-1].thread != item->thread ||
				  item[-1].shard != item->shard;
		bool counts = in_window(b, item);
		size_t row;
		int r = row_of(b, item, counts, &row);

		if (r < 0)
			return r;
		while (top && (new_thread || stack[top - 1].depth >= item->depth ||
			       stack[top - 1].start_ns > item->start_ns))
			pop_frame(b, &stack[--top]);
		if (row != NO_ROW)
			account_record(b, item, counts, row);
		if (top && stack[top - 1].row != NO_ROW && stack[top - 1].counts)
			b->rows[stack[top - 1].row].self_cpu_ns -= item->end_ns - item->start_ns;
		/* Depths on the stack strictly grow, so it cannot hold more than 256 frames. */
		stack[top++] = (struct frame){ item->start_ns, row, item->depth, counts };
		if (row != NO_ROW) {
			b->active[row].frames++;
			b->active[row].counted += counts;
		}
	}
	while (top)
		pop_frame(b, &stack[--top]);
	return 0;
}

static int by_self(const void *a, const void *b)
{
	const struct op_row *x = a, *y = b;

	return CMP(y->self_cpu_ns, x->self_cpu_ns) ?: CMP(x->first_ns, y->first_ns) ?:
	       CMP(x->name, y->name) ?: CMP(x->layer, y->layer) ?: CMP(x->expert, y->expert) ?:
	       CMP(x->shape, y->shape) ?: CMP(x->stack, y->stack);
}

static void finish_rows(struct ops *ops)
{
	for (size_t i = 0; i < ops->n; i++) {
		struct op_row *row = &ops->rows[i];

		ops->count += row->count;
		ops->self_cpu_ns += row->self_cpu_ns;
		ops->flops += row->flops;
		ops->bytes += row->bytes;
		ops->no_flops += row->no_flops;
		ops->no_bytes += row->no_bytes;
		ops->unfinished += row->unfinished;
		if (!row->is_op)
			row->flops_per_s = value_absent("a range carries no arithmetic");
		else if (!row->flops || row->no_flops)
			row->flops_per_s = value_absent("the program gave no FLOPs");
		else if (row->time_ns <= 0)
			row->flops_per_s = value_absent("no time passed");
		else
			row->flops_per_s =
				value_of((double)row->flops * 1e9 / (double)row->time_ns);
	}
	for (size_t i = 0; i < ops->n; i++)
		ops->rows[i].self_share_pct = ops->self_cpu_ns > 0
						      ? 100.0 * (double)ops->rows[i].self_cpu_ns /
								(double)ops->self_cpu_ns
						      : 0;
	if (ops->n)
		qsort(ops->rows, ops->n, sizeof(*ops->rows), by_self);
}

static void sum_gpu(const struct ops_gpu *gpu, struct ops *ops)
{
	int64_t time_ns = 0;

	if (!gpu->known) {
		ops->gpu_ns = ops->gpu_outside_ns = ops->gpu_unplaced_ns =
			value_absent(gpu->reason);
		return;
	}
	for (size_t i = 0; i < ops->n; i++)
		time_ns += ops->rows[i].self_gpu_ns;
	ops->gpu_ns = value_of((double)time_ns);
	ops->gpu_outside_ns = value_of((double)gpu->outside_ns);
	ops->gpu_unplaced_ns = value_of((double)gpu->unplaced_ns);
}

int ops_analyze_at(const struct attribution *at, const struct selection *sel,
		   const struct ops_options *options, struct ops *ret_ops)
{
	const struct run *run = at->run;
	struct builder b = { .run = run, .sel = sel, .options = options };
	struct nested *list = NULL;
	size_t n = 0;
	int r;

	r = nesting_collect(run, NESTING_LATEST_FIRST, &list, &n);
	if (r >= 0 && selection_is_window(sel))
		r = step_index_init(&b.steps, run);
	if (r >= 0)
		r = ops_gpu_init(&b.gpu, at, sel, list, n);
	if (r >= 0)
		r = walk_records(&b, list, n);
	free(list);
	hash_map_release(&b.map);
	free(b.active);
	step_index_release(&b.steps);
	if (r >= 0) {
		*ret_ops = (struct ops){ .rows = b.rows, .n = b.n };
		finish_rows(ret_ops);
		sum_gpu(&b.gpu, ret_ops);
	} else {
		free(b.rows);
	}
	ops_gpu_release(&b.gpu);
	return r;
}

int ops_analyze(const struct run *run, const struct selection *sel,
		const struct ops_options *options, struct ops *ret_ops)
{
	struct attribution at = { .run = run };
	int r = ops_gpu_unknown(run) ? 0 : attribution_init(&at, run);

	if (r >= 0)
		r = ops_analyze_at(&at, sel, options, ret_ops);
	attribution_release(&at);
	return r;
}

void ops_release(struct ops *ops)
{
	free(ops->rows);
	*ops = (struct ops){ 0 };
}
