/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of operations and ranges; see fields.h.
 */
#include "subjects/ops/ops.h"

#include <string.h>

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct op_row, member)
#define UNTOLD "not reported for all of these operations"
#define STRING(member) MEMBER_AS(FIELD_STRING, struct op_row, member)

static struct cell name(const struct field_row *at)
{
	const struct op_row *row = at->item;

	return cell_text(row->name ? run_string(at->run, row->name) : "(no name)");
}

static struct cell kind(const struct field_row *at)
{
	return cell_text(((const struct op_row *)at->item)->is_op ? "op" : "range");
}

static const char *no_gpu(const struct field_row *at)
{
	return field_unknown(((const struct ops *)at->in->item)->gpu_ns);
}

/* A sum that lacks some of the records is none. */
static const char *untold(const struct op_row *row, uint64_t records)
{
	if (!row->is_op)
		return "a range carries no arithmetic";
	return records ? UNTOLD : NULL;
}

static const char *no_flops(const struct field_row *at)
{
	return untold(at->item, ((const struct op_row *)at->item)->no_flops);
}

static const char *no_bytes(const struct field_row *at)
{
	return untold(at->item, ((const struct op_row *)at->item)->no_bytes);
}

static const char *no_stack(const struct field_row *at)
{
	return ((const struct op_row *)at->item)->stack ? NULL : "no stack was recorded";
}

static struct cell caller(const struct field_row *at)
{
	const char *stack = run_string(at->run, ((const struct op_row *)at->item)->stack);
	const char *last = strrchr(stack, ';');

	return cell_text(last ? last + 1 : stack);
}

#define NAMED (OPS_BY_NAME | OPS_ON_DEVICE)

/* clang-format off */
static const struct field fields[] = {
	{ "name", "name", UNIT_TEXT, READ(TEXT, name), .flexible = true,
	  .meaning = "of the operation or range" },
	{ "kind", NULL, UNIT_TEXT, READ(TEXT, kind), .meaning = "op or range" },
	{ "count", "count", UNIT_INT, OF(count), .meaning = "records" },
	{ "self_cpu_ns", "self", UNIT_NS, OF(self_cpu_ns),
	  .meaning = "duration without direct children of the same thread" },
	{ "self_cpu_pct", "self %", UNIT_PCT, OF(self_share_pct),
	  .meaning = "share of the self time of all rows" },
	{ "cpu_ns", "total", UNIT_NS, OF(cpu_ns), .titled = NAMED,
	  .meaning = "duration with children; recursion counts once" },
	{ "self_gpu_ns", "gpu self", UNIT_NS, OF(self_gpu_ns), .titled = OPS_ON_DEVICE, .absent = no_gpu,
	  .meaning = "device time launched inside and not inside a child" },
	{ "gpu_ns", "gpu total", UNIT_NS, OF(gpu_ns), .titled = OPS_ON_DEVICE, .absent = no_gpu,
	  .meaning = "device time launched inside, children included" },
	{ "flops", NULL, UNIT_COUNT, OF(flops), .absent = no_flops,
	  .meaning = "reported by the program" },
	{ "flops_per_s", "speed", UNIT_FLOPS, OF(flops_per_s), .titled = OPS_BY_NAME | OPS_BY_SHAPE,
	  .meaning = "flops / total time" },
	{ "self_bytes", "bytes", UNIT_BYTES, OF(bytes), .titled = OPS_BY_NAME, .absent = no_bytes,
	  .meaning = "reported by the program" },
	{ "unfinished", NULL, UNIT_INT, OF(unfinished) },
	{ "shapes", "shape", UNIT_TEXT, STRING(shape), .forms = OPS_BY_SHAPE, .flexible = true,
	  .none = "the program gave no shape", .meaning = "of the operands, with --by-shape" },
	{ "shapes", NULL, UNIT_TEXT, STRING(shape), .forms = ~OPS_BY_SHAPE, .optional = true,
	  .none = "the program gave no shape" },
	{ "stack", "called from", UNIT_TEXT, STRING(stack), .forms = OPS_BY_STACK, .flexible = true,
	  .absent = no_stack,
	  .meaning = "calls that it was made from, outermost first, with --by-stack" },
	{ "stack", "called from", UNIT_TEXT, READ(TEXT, caller), .forms = OPS_BY_CALLER,
	  .flexible = true, .absent = no_stack },
	{ "stack", NULL, UNIT_TEXT, STRING(stack), .forms = NAMED | OPS_BY_SHAPE, .optional = true,
	  .absent = no_stack },
};
/* clang-format on */

const struct field_set ops_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct ops, rows, n) } },
	.levels = 1,
	.meaning = "operation or range",
};

#define OF_ALL(member) MEMBER(struct ops, member)

static const char *no_flops_of_all(const struct field_row *at)
{
	return ((const struct ops *)at->item)->no_flops ? UNTOLD : NULL;
}

static const char *no_bytes_of_all(const struct field_row *at)
{
	return ((const struct ops *)at->item)->no_bytes ? UNTOLD : NULL;
}

static const struct field total_fields[] = {
	{ "count", NULL, UNIT_INT, OF_ALL(count), .meaning = "records", .grows = true },
	{ "names", NULL, UNIT_INT, OF_ALL(n), .meaning = "rows" },
	{ "self_cpu_ns", NULL, UNIT_NS, OF_ALL(self_cpu_ns), .meaning = "self time on the threads",
	  .grows = true },
	{ "self_gpu_ns", NULL, UNIT_NS, OF_ALL(gpu_ns),
	  .meaning = "device time launched inside any of the rows" },
	{ "gpu_outside_ns", NULL, UNIT_NS, OF_ALL(gpu_outside_ns),
	  .meaning = "device time launched outside all ranges" },
	{ "gpu_unplaced_ns", NULL, UNIT_NS, OF_ALL(gpu_unplaced_ns),
	  .meaning = "device time without a record of its launch" },
	{ "flops", NULL, UNIT_COUNT, OF_ALL(flops), .absent = no_flops_of_all,
	  .meaning = "floating-point operations reported by the program" },
	{ "self_bytes", NULL, UNIT_BYTES, OF_ALL(bytes), .absent = no_bytes_of_all,
	  .meaning = "bytes reported by the program" },
	{ "unfinished", NULL, UNIT_INT, OF_ALL(unfinished) },
};

const struct field_set ops_total = { FIELDS(total_fields) };
