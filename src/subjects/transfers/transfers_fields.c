/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of copies and sets; see fields.h.
 */
#include "subjects/transfers/transfers.h"

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct transfer_row, member)
#define TEXT(member) MEMBER_AS(FIELD_TEXT_INSIDE, struct transfer_row, member)

static const char *no_source(const struct field_row *at)
{
	return ((const struct transfer_row *)at->item)->is_set ? "a set has no source" : NULL;
}

/* Where some tell their bytes and others do not, the sum of the former. */
static const char *untold(uint64_t not_told, uint64_t count)
{
	return not_told && not_told == count ? NOT_IN_FILE : NULL;
}

static const char *no_bytes(const struct field_row *at)
{
	const struct transfer_row *row = at->item;

	return untold(row->bytes_not_told, row->count);
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

#define OF_ALL(member) MEMBER(struct transfers, member)
#define OF_STAGED(member) MEMBER(struct staged_row, member)

static const char *no_copy_bytes(const struct field_row *at)
{
	const struct transfers *all = at->item;

	return untold(all->bytes_not_told, all->count);
}

static const char *no_set_bytes(const struct field_row *at)
{
	const struct transfers *all = at->item;

	return untold(all->set_bytes_not_told, all->sets);
}

static struct cell small_limit(const struct field_row *at)
{
	(void)at;
	return cell_uint(TRANSFER_SMALL_BYTES);
}

static const struct field pair_fields[] = {
	{ "src", NULL, UNIT_INT, OF_STAGED(src) },
	{ "dst", NULL, UNIT_INT, OF_STAGED(dst) },
	{ "count", NULL, UNIT_INT, OF_STAGED(count) },
	{ "bytes", NULL, UNIT_BYTES, OF_STAGED(bytes) },
	{ "time_ns", NULL, UNIT_NS, OF_STAGED(time_ns) },
};

static const struct field_group pairs = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(pair_fields),
	.items = { ITEMS(struct transfers, staged, n_staged) },
};

static const struct field staged_fields[] = {
	{ "count", NULL, UNIT_INT, OF_ALL(staged_count) },
	{ "bytes", NULL, UNIT_BYTES, OF_ALL(staged_bytes) },
	{ "pairs", .of = &pairs },
};

static const struct field_group staged = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(staged_fields) };

static const struct field total_fields[] = {
	{ "count", NULL, UNIT_INT, OF_ALL(count) },
	{ "bytes", NULL, UNIT_BYTES, OF_ALL(bytes), .absent = no_copy_bytes },
	{ "bytes_not_told", NULL, UNIT_INT, OF_ALL(bytes_not_told) },
	{ "time_ns", NULL, UNIT_NS, OF_ALL(time_ns) },
	{ "small", NULL, UNIT_INT, OF_ALL(small) },
	{ "small_limit_bytes", NULL, UNIT_BYTES, .read = small_limit },
	{ "untimed", NULL, UNIT_INT, OF_ALL(untimed) },
	{ "sets", NULL, UNIT_INT, OF_ALL(sets) },
	{ "set_bytes", NULL, UNIT_BYTES, OF_ALL(set_bytes), .absent = no_set_bytes },
	{ "set_bytes_not_told", NULL, UNIT_INT, OF_ALL(set_bytes_not_told) },
	{ "set_time_ns", NULL, UNIT_NS, OF_ALL(set_time_ns) },
	{ "sets_untimed", NULL, UNIT_INT, OF_ALL(sets_untimed) },
	{ "without_call", NULL, UNIT_INT, OF_ALL(without_call) },
	{ "staged", .of = &staged },
};

const struct field_set transfers_total = { FIELDS(total_fields) };
