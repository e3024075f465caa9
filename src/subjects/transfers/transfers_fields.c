/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of copies and sets; see transfers_fields.h.
 */
#include "subjects/transfers/transfers_fields.h"

#define OF(member) MEMBER(struct transfer_row, member)
#define TEXT(member) MEMBER_AS(FIELD_TEXT_INSIDE, struct transfer_row, member)

static const char *no_source(const struct field_row *at)
{
	return ((const struct transfer_row *)at->item)->is_set ? "a set has no source" : NULL;
}

/* Where some tell their bytes and others do not, the sum of the former. */
static const char *no_bytes(const struct field_row *at)
{
	const struct transfer_row *row = at->item;

	return row->bytes_not_told && row->bytes_not_told == row->count ? NOT_IN_FILE : NULL;
}

static const char *untimed(const struct field_row *at)
{
	const struct transfer_row *row = at->item;

	return row->count > row->untimed ? NULL : "none was timed";
}

static const char *no_asynchronous(const struct field_row *at)
{
	const struct transfer_row *row = at->item;

	if (row->is_set)
		return "sets do not say";
	return row->not_told ? NOT_IN_FILE : NULL;
}

static const struct field fields[] = {
	{ "kind", "kind", UNIT_TEXT, OF(kind) },
	{ "memory", "memory", UNIT_TEXT, OF(memory) },
	{ "src", "from", UNIT_TEXT, TEXT(src_name), .absent = no_source },
	{ "dst", "to", UNIT_TEXT, TEXT(dst_name) },
	{ "count", "count", UNIT_INT, OF(count) },
	{ "bytes", "bytes", UNIT_BYTES, OF(bytes), .absent = no_bytes },
	{ "time_ns", "time", UNIT_NS, OF(time_ns), .absent = untimed },
	{ "bandwidth_bytes_per_s", "per s", UNIT_BYTES, OF(bandwidth_bytes_per_s) },
	{ "overlap_pct", "overlap", UNIT_PCT, OF(overlap_pct) },
	{ "small", NULL, UNIT_INT, OF(small) },
	{ "asynchronous", NULL, UNIT_INT, OF(asynchronous), .absent = no_asynchronous },
	{ "untimed", NULL, UNIT_INT, OF(untimed) },
	{ "limit_bytes_per_s", NULL, UNIT_BYTES, OF(limit_bytes_per_s) },
	{ "limit_pct", NULL, UNIT_PCT, OF(limit_pct) },
	{ "bytes_not_told", NULL, UNIT_INT, OF(bytes_not_told) },
};

const struct field_set transfers_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct transfers, rows, n) } },
	.levels = 1,
};
