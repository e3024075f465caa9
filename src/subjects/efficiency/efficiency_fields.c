/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of efficiency; see efficiency_fields.h.
 */
#include "subjects/efficiency/efficiency_fields.h"

#define OF(member) MEMBER(struct efficiency_row, member)

static struct cell bound(const struct field_row *at)
{
	const struct efficiency_row *row = at->item;

	return row->bound ? cell_text(row->bound) : cell_absent(row->roof_flops_per_s.reason);
}

static const struct field fields[] = {
	{ "name", "work", UNIT_TEXT, OF(name), .flexible = true },
	{ "count", NULL, UNIT_INT, OF(count) },
	{ "time_ns", "time", UNIT_NS, OF(time_ns) },
	{ "covered_pct", "covered", UNIT_PCT, OF(covered_pct) },
	{ "flops", NULL, UNIT_FLOPS, OF(flops) },
	{ "bytes", NULL, UNIT_BYTES, OF(bytes) },
	{ "flops_per_s", "rate", UNIT_FLOPS, OF(flops_per_s) },
	{ "bytes_per_s", NULL, UNIT_BYTES, OF(bytes_per_s) },
	{ "flops_per_byte", "FLOP/B", UNIT_RATIO, OF(flops_per_byte) },
	{ "roof_flops_per_s", NULL, UNIT_FLOPS, OF(roof_flops_per_s) },
	{ "roof_pct", "of roof", UNIT_PCT, OF(roof_pct) },
	{ "bound", "bound", UNIT_TEXT, .read = bound },
};

const struct field_set efficiency_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct efficiency, rows, n) } },
	.levels = 1,
};
