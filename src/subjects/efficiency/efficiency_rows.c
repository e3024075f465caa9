/* SPDX-License-Identifier: Apache-2.0
 *
 * Work against the roof, by kernel class or operation; see efficiency.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/text/demangle.h"
#include "device/sheets/kernel_class.h"
#include "subjects/efficiency/efficiency.h"
#include "subjects/shared/attribution.h"

#define NO_OP UINT32_MAX
#define LEFT_OUT (UINT32_MAX - 1)

/* A class while it is summed up. */
struct sum {
	const char *class; /* told apart by its address */
	uint64_t count;
	int64_t time_ns;
	double flops, bytes, flops_ns, bytes_ns; /* *_ns: time of the kernels that have them */
};

struct builder {
	const struct run *run;
	const struct selection *sel;
	const struct kernel_classes *classes;
	struct efficiency *out;
	struct attribution at;
	struct attribution_cursor cursor;
	bool placed;
	/* When placed. By kernel: row of run->op, NO_OP, or LEFT_OUT by the selection. */
	uint32_t *op_of;
	int64_t *op_time; /* by row of run->op: device time launched directly in it */
	size_t *class_of; /* by launch: index into sums + 1 */
	size_t n_launches;
	struct sum *sums;
	size_t n_sums, sums_capacity;
};

static bool ops_tell(const struct run *run)
{
	for (size_t i = 0; i < run->op.n; i++)
		if (run->op.flops[i] || run->op.bytes[i])
			return true;
	return false;
}

static int class_index(struct builder *b, uint32_t launch, size_t *ret_index)
{
	const char *class;
	size_t i = 0;
	char *text;

	if (!b->class_of[launch]) {
		if (demangled(run_string(b->run, run_launch(b->run, launch).name), &text) < 0)
			return -ENOMEM;
		class = kernel_class_of(b->classes, text);
		free(text);
		if (!class)
			return -ENOMEM;
		while (i < b->n_sums && b->sums[i].class != class)
			i++;
		if (i == b->n_sums) {
			if (array_grow(&b->sums, &b->sums_capacity, i + 1, sizeof(*b->sums)) < 0)
				return -ENOMEM;
			b->sums[b->n_sums++] = (struct sum){ .class = class };
		}
		b->class_of[launch] = i + 1;
	}
	*ret_index = b->class_of[launch] - 1;
	return 0;
}

static uint32_t place_kernel(struct builder *b, size_t i)
{
	const struct table_kernel *t = &b->run->kernel;
	struct device_work work = { t->correlation[i], t->graph_node[i], t->start_ns[i],
				    t->shard[i] };
	const struct nested *item;
	struct place place;

	if (!attribution_find_near(&b->at, &b->cursor, &work, b->at.kernel_call[i], &place))
		return selection_is_all(b->sel) ? NO_OP : LEFT_OUT;
	if (!attribution_selects(&b->at, b->sel, &place))
		return LEFT_OUT;
	item = place.range == NO_RANGE ? NULL : &b->at.ranges[place.range];
	return item && item->is_op && item->row < LEFT_OUT ? (uint32_t)item->row : NO_OP;
}

/* The kernel's part of what its operation told. */
static void add_op_share(const struct builder *b, size_t i, struct sum *sum)
{
	const struct table_op *op = &b->run->op;
	uint32_t row = b->op_of[i];
	double share, ns = (double)b->run->kernel.duration_ns[i];

	if (row == NO_OP || b->op_time[row] <= 0)
		return;
	share = ns / (double)b->op_time[row];
	if (!(op->unknown[row] & OP_FLOPS_UNKNOWN) && op->flops[row]) {
		sum->flops += share * (double)op->flops[row];
		sum->flops_ns += ns;
	}
	if (!(op->unknown[row] & OP_BYTES_UNKNOWN) && op->bytes[row]) {
		sum->bytes += share * (double)op->bytes[row];
		sum->bytes_ns += ns;
	}
}

static int sum_classes(struct builder *b)
{
	const struct table_kernel *t = &b->run->kernel;
	int r = 0;

	for (size_t i = 0; b->placed && i < t->n; i++) {
		b->op_of[i] = place_kernel(b, i);
		if (b->op_of[i] < LEFT_OUT && !t->untimed[i])
			b->op_time[b->op_of[i]] += t->duration_ns[i];
	}
	for (size_t i = 0; r >= 0 && i < t->n; i++) {
		size_t index;

		if (t->untimed[i] || (b->placed && b->op_of[i] == LEFT_OUT))
			continue;
		r = class_index(b, t->launch[i], &index);
		if (r < 0)
			break;
		b->sums[index].count++;
		b->sums[index].time_ns += t->duration_ns[i];
		if (b->placed)
			add_op_share(b, i, &b->sums[index]);
	}
	return r;
}

static struct value over(double amount, double ns, const char *reason)
{
	return amount > 0 && ns > 0 ? value_of(amount * 1e9 / ns) : value_absent(reason);
}

/* peak, rate: of what the row ran on. */
static void put_roof(struct efficiency_row *row, struct value peak, struct value rate)
{
	struct value *intensity = &row->flops_per_byte;
	double by_memory;

	*intensity = row->flops.known && row->bytes.known && row->bytes.v > 0
			     ? value_of(row->flops.v / row->bytes.v)
			     : value_absent("FLOPs and bytes were not both reported");
	row->roof_flops_per_s = row->roof_pct = value_absent(!intensity->known ? intensity->reason
							     : !peak.known     ? peak.reason
									       : rate.reason);
	if (!intensity->known || !peak.known || !rate.known)
		return;
	by_memory = intensity->v * rate.v;
	row->bound = by_memory < peak.v ? "memory" : "compute";
	row->roof_flops_per_s = value_of(by_memory < peak.v ? by_memory : peak.v);
	if (row->flops_per_s.known && row->roof_flops_per_s.v > 0)
		row->roof_pct = value_of(100 * row->flops_per_s.v / row->roof_flops_per_s.v);
}

static int add_class(const struct builder *b, const struct sum *sum)
{
	static const char none[] = "no operation that launched them reported it";
	struct efficiency *e = b->out;
	struct efficiency_row *row = &e->rows[e->n];

	*row = (struct efficiency_row){
		.name = strdup(sum->class),
		.count = sum->count,
		.time_ns = sum->time_ns,
		.flops = sum->flops > 0 ? value_of(sum->flops) : value_absent(none),
		.bytes = sum->bytes > 0 ? value_of(sum->bytes) : value_absent(none),
		.covered_pct = sum->time_ns > 0
				       ? value_of(100 * sum->flops_ns / (double)sum->time_ns)
				       : value_absent("no execution was timed"),
		.flops_per_s = over(sum->flops, sum->flops_ns, none),
		.bytes_per_s = over(sum->bytes, sum->bytes_ns, none),
	};
	if (!row->name)
		return -ENOMEM;
	e->n++;
	put_roof(row, e->roof_flops_per_s, e->roof_bytes_per_s);
	return 0;
}

static int efficiency_rows_by_time(const void *a, const void *b)
{
	const struct efficiency_row *x = a, *y = b;

	return CMP(y->time_ns, x->time_ns) ?: strcmp(x->name, y->name);
}

static int class_rows(struct builder *b)
{
	const struct table_kernel *t = &b->run->kernel;
	int r = 0;

	bool place = ops_tell(b->run) || attribution_needed(b->run, b->sel);

	for (size_t i = 0; i < t->n; i++)
		if (t->launch[i] >= b->n_launches)
			b->n_launches = (size_t)t->launch[i] + 1;
	b->class_of = calloc(b->n_launches + 1, sizeof(*b->class_of));
	b->op_of = calloc(place ? t->n + 1 : 1, sizeof(*b->op_of));
	b->op_time = calloc(b->run->op.n + 1, sizeof(*b->op_time));
	if (!b->class_of || !b->op_of || !b->op_time)
		r = -ENOMEM;
	if (r >= 0 && place)
		r = attribution_init(&b->at, b->run);
	b->placed = place && r >= 0;
	if (r >= 0)
		r = sum_classes(b);
	if (b->placed)
		attribution_release(&b->at);
	if (r < 0)
		return r;
	b->out->rows = calloc(b->n_sums + 1, sizeof(*b->out->rows));
	if (!b->out->rows)
		return -ENOMEM;
	for (size_t i = 0; r >= 0 && i < b->n_sums; i++)
		r = add_class(b, &b->sums[i]);
	return r;
}

/* Without devices: operations by the time of their threads. */
static int op_rows(const struct run *run, const struct ops *ops, struct efficiency *e)
{
	static const char untold[] = "the operation did not report it";

	e->rows = calloc(ops->n + 1, sizeof(*e->rows));
	if (!e->rows)
		return -ENOMEM;
	for (size_t i = 0; i < ops->n; i++) {
		const struct op_row *op = &ops->rows[i];
		struct efficiency_row *row = &e->rows[e->n];
		double told = op->count ? 1 - (double)op->no_flops / (double)op->count : 0;

		if (!op->is_op || (!op->flops && !op->bytes) || op->time_ns <= 0)
			continue;
		*row = (struct efficiency_row){
			.name = strdup(run_string(run, op->name)),
			.count = op->count,
			.time_ns = op->time_ns,
			.covered_pct = value_of(100 * told),
			.flops = op->flops ? value_of((double)op->flops) : value_absent(untold),
			.bytes = op->bytes ? value_of((double)op->bytes) : value_absent(untold),
			/* Records that told nothing would make the rest look slow. */
			.flops_per_s =
				op->no_flops ? value_absent("not every one reported its FLOPs")
					     : over((double)op->flops, (double)op->time_ns, untold),
			.bytes_per_s =
				op->no_bytes ? value_absent("not every one reported its bytes")
					     : over((double)op->bytes, (double)op->time_ns, untold),
		};
		if (!row->name)
			return -ENOMEM;
		e->n++;
		put_roof(row, e->roof_flops_per_s, e->roof_bytes_per_s);
	}
	return 0;
}

static struct value per_core(struct value whole, double cores)
{
	if (!whole.known)
		return whole;
	return cores >= 1 ? value_of(whole.v / cores) : value_absent("its cores were not counted");
}

static bool same_roof(const struct efficiency_device *a, const struct efficiency_device *b)
{
	return a->peak_flops_per_s.known == b->peak_flops_per_s.known &&
	       a->memory_bytes_per_s.known == b->memory_bytes_per_s.known &&
	       a->peak_flops_per_s.v == b->peak_flops_per_s.v &&
	       a->memory_bytes_per_s.v == b->memory_bytes_per_s.v;
}

static void find_roof(struct efficiency *e)
{
	const struct efficiency_device *d = e->devices;

	e->roof_flops_per_s = e->roof_bytes_per_s = value_absent("no device was used");
	if (!e->n_devices)
		return;
	e->roof_flops_per_s = d->peak_flops_per_s;
	e->roof_bytes_per_s = d->memory_bytes_per_s;
	for (size_t i = 1; i < e->n_devices; i++)
		if (!same_roof(d, &e->devices[i]))
			e->roof_flops_per_s = e->roof_bytes_per_s =
				value_absent("the devices of the run differ");
	if (e->on_device)
		return;
	e->roof_flops_per_s = per_core(d->peak_flops_per_s, d->peaks.cores);
	e->roof_bytes_per_s = per_core(d->memory_bytes_per_s, d->peaks.cores);
}

static int list_points(struct efficiency *e)
{
	e->points = calloc(e->n + 1, sizeof(*e->points));
	if (!e->points)
		return -ENOMEM;
	for (size_t i = 0; i < e->n; i++) {
		const struct efficiency_row *row = &e->rows[i];

		if (row->flops_per_byte.known && row->flops_per_s.known)
			e->points[e->n_points++] = (struct roofline_point){
				row->name, row->flops_per_byte.v, row->flops_per_s.v, row->time_ns
			};
	}
	return 0;
}

int efficiency_rows_fill(const struct run *run, const struct selection *sel,
			 const struct kernel_classes *classes, const struct ops *ops,
			 struct efficiency *e)
{
	struct builder b = { .run = run, .sel = sel, .classes = classes, .out = e };
	int r;

	find_roof(e);
	r = e->on_device ? class_rows(&b) : op_rows(run, ops, e);
	free(b.class_of);
	free(b.op_of);
	free(b.op_time);
	free(b.sums);
	if (r >= 0 && e->n)
		qsort(e->rows, e->n, sizeof(*e->rows), efficiency_rows_by_time);
	return r < 0 ? r : list_points(e);
}
