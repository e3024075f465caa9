/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of calls into libraries; see fields.h.
 */
#include "subjects/calls/library_calls.h"

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct call_row, member)

static struct cell library(const struct field_row *at)
{
	const struct call_row *row = at->item;

	return cell_text(row->key.library ? run_string(at->run, row->key.library) : "osrt");
}

static struct cell sizes(const struct field_row *at)
{
	const struct call_row *row = at->item;

	return *row->sizes ? cell_text(row->sizes)
			   : cell_absent("it has none, or --by-size was not asked for");
}

static const char *no_status(const struct field_row *at)
{
	const struct call_row *row = at->item;

	if (!row->key.library)
		return "of libraries alone";
	return row->not_told ? NOT_IN_FILE : NULL;
}

static const char *no_product(const struct field_row *at)
{
	const struct call_key *key = &((const struct call_row *)at->item)->key;

	return key->m || key->n || key->k
		       ? NULL
		       : "no product of matrices, or --by-size was not asked for";
}

static const char *no_elements(const struct field_row *at)
{
	return ((const struct call_row *)at->item)->key.elements
		       ? NULL
		       : "no collective, or --by-size was not asked for";
}

static const struct field fields[] = {
	{ "name", "call", UNIT_TEXT, MEMBER_AS(FIELD_STRING, struct call_row, key.name),
	  .flexible = true, .none = "without a name", .meaning = "of the function" },
	{ "library", "library", UNIT_TEXT, READ(TEXT, library),
	  .meaning = "osrt (the operating system), cublas, cudnn or nccl",
	  .titled = CALLS_DEVICE_BY_NAME },
	{ "sizes", "sizes", UNIT_TEXT, MAY_READ(TEXT, sizes),
	  .meaning = "with --by-size: m x n x k and type, elements and type, or the kind of file",
	  .titled = CALLS_BY_SIZE | CALLS_DEVICE_BY_SIZE },
	{ "count", "count", UNIT_INT, OF(count), .meaning = "calls" },
	{ "recorded", NULL, UNIT_INT, OF(recorded),
	  .meaning = "calls with a record of their own; others were too short" },
	{ "time_ns", "time", UNIT_NS, OF(time_ns), .meaning = "thread time", .metric = NO_METRIC },
	{ "share_pct", "share", UNIT_PCT, OF(share_pct), .meaning = "of the time of all rows",
	  .metric = NO_METRIC, .titled = CALLS_BY_NAME | CALLS_BY_SIZE | CALLS_DEVICE_BY_NAME },
	{ "p50_ns", "median", UNIT_NS, OF(p50_ns), .meaning = "of those recorded",
	  .metric = NO_METRIC },
	{ "p95_ns", NULL, UNIT_NS, OF(p95_ns), .meaning = "of those recorded",
	  .metric = NO_METRIC },
	{ "max_ns", "max", UNIT_NS, OF(max_ns), .metric = NO_METRIC,
	  .titled = CALLS_BY_NAME | CALLS_BY_SIZE | CALLS_DEVICE_BY_NAME },
	{ "bytes", "bytes", UNIT_BYTES, OF(bytes), .meaning = "that they have moved",
	  .metric = NO_METRIC, .titled = CALLS_BY_NAME | CALLS_BY_SIZE },
	{ "errors", NULL, UNIT_INT, OF(errors), .absent = no_status,
	  .meaning = "calls that returned another status than 0" },
	{ "gemm_m", NULL, UNIT_INT, OF(key.m), .absent = no_product,
	  .meaning = "rows of the product" },
	{ "gemm_n", NULL, UNIT_INT, OF(key.n), .absent = no_product,
	  .meaning = "columns of the product" },
	{ "gemm_k", NULL, UNIT_INT, OF(key.k), .absent = no_product,
	  .meaning = "length of its sums" },
	{ "batch", NULL, UNIT_INT, OF(key.batch), .absent = no_product,
	  .meaning = "products in a call" },
	{ "elements", NULL, UNIT_INT, OF(key.elements), .absent = no_elements,
	  .meaning = "of a collective" },
	{ "device_ns", "on device", UNIT_NS, OF(device_ns),
	  .meaning = "kernels that were launched inside", .metric = NO_METRIC,
	  .titled = CALLS_DEVICE_BY_NAME | CALLS_DEVICE_BY_SIZE },
	{ "flops_per_s", NULL, UNIT_FLOPS, OF(flops_per_s),
	  .meaning = "of the products, over the time on the device", .metric = NO_METRIC },
};

const struct field_set calls_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct library_calls, rows, n) } },
	.levels = 1,
	.meaning = "function of the operating system or of a library",
};

#define OF_ALL(member) MEMBER(struct library_calls, member)

static const struct field total_fields[] = {
	{ "count", NULL, UNIT_INT, OF_ALL(count), .meaning = "calls", .grows = true },
	{ "recorded", NULL, UNIT_INT, OF_ALL(recorded),
	  .meaning = "calls with a record of their own", .grows = true },
	{ "names", NULL, UNIT_INT, OF_ALL(n), .meaning = "rows" },
	{ "time_ns", NULL, UNIT_NS, OF_ALL(time_ns), .meaning = "thread time in them",
	  .metric = NO_METRIC, .grows = true },
};

const struct field_set calls_total = { FIELDS(total_fields) };
