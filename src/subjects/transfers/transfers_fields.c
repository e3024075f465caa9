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

static const char *transfer_untimed(const struct field_row *at)
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
	{ "kind", "kind", UNIT_TEXT, OF(kind), .meaning = "HtoD, DtoH, DtoD, PtoP… or memset" },
	{ "memory", "memory", UNIT_TEXT, OF(memory),
	  .meaning = "pageable, pinned, device…: the host's side where there is one" },
	{ "src", "from", UNIT_TEXT, TEXT(src_name), .absent = no_source,
	  .meaning = "host or gpu N; a set has none" },
	{ "dst", "to", UNIT_TEXT, TEXT(dst_name), .meaning = "host or gpu N" },
	{ "count", "count", UNIT_INT, OF(count), .meaning = "records" },
	{ "bytes", "bytes", UNIT_BYTES, OF(bytes), .absent = no_bytes,
	  .meaning = "moved by those that report it; null: none does", .metric = NO_METRIC },
	{ "time_ns", "time", UNIT_NS, OF(time_ns), .absent = transfer_untimed,
	  .meaning = "device time of the timed ones", .metric = "kernel_time" },
	{ "bandwidth_bytes_per_s", "per s", UNIT_BYTES, OF(bandwidth_bytes_per_s),
	  .meaning = "bytes / device time of the timed ones that report their bytes" },
	{ "overlap_pct", "overlap", UNIT_PCT, OF(overlap_pct),
	  .meaning = "at once with kernels of the device, of their own length" },
	{ "small", NULL, UNIT_INT, OF(small), .meaning = "under small_limit_bytes" },
	{ "asynchronous", NULL, UNIT_INT, OF(asynchronous), .absent = no_asynchronous,
	  .meaning = "asynchronous ones" },
	{ "untimed", NULL, UNIT_INT, OF(untimed) },
	{ "limit_bytes_per_s", NULL, UNIT_BYTES, OF(limit_bytes_per_s),
	  .meaning = "the most that this way can do" },
	{ "limit_pct", NULL, UNIT_PCT, OF(limit_pct), .meaning = "bandwidth of it" },
	{ "bytes_not_told", NULL, UNIT_INT, OF(bytes_not_told),
	  .meaning = "those of unknown size in the imported file" },
};

const struct field_set transfers_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct transfers, rows, n) } },
	.levels = 1,
	.meaning = "kind of copy or set between two places",
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
	{ "src", NULL, UNIT_INT, OF_STAGED(src), .meaning = "device" },
	{ "dst", NULL, UNIT_INT, OF_STAGED(dst), .meaning = "device" },
	{ "count", NULL, UNIT_INT, OF_STAGED(count), .meaning = "moves" },
	{ "bytes", NULL, UNIT_BYTES, OF_STAGED(bytes), .meaning = "once, not out and in",
	  .metric = "staged" },
	{ "time_ns", NULL, UNIT_NS, OF_STAGED(time_ns),
	  .meaning = "from the begin of the copy out to the end of the copy in",
	  .metric = "staged" },
};

static const struct field_group pairs = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(pair_fields),
	.items = { ITEMS(struct transfers, staged, n_staged) },
	PART("staged_pair", "Moves between two devices by way of the host."),
};

static const struct field staged_fields[] = {
	{ "count", NULL, UNIT_INT, OF_ALL(staged_count), .meaning = "moves" },
	{ "bytes", NULL, UNIT_BYTES, OF_ALL(staged_bytes), .meaning = "once, not out and in",
	  .metric = "staged" },
	{ "pairs", .of = &pairs, .meaning = "by devices", .metric = "staged" },
};

static const struct field_group staged = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(staged_fields),
					   PART("staged",
						"Moves between devices by way of the host.") };

static const struct field total_fields[] = {
	{ "count", NULL, UNIT_INT, OF_ALL(count), .meaning = "copies", .grows = true },
	{ "bytes", NULL, UNIT_BYTES, OF_ALL(bytes), .absent = no_copy_bytes,
	  .meaning = "copied, by those that report it; null: none does", .metric = NO_METRIC,
	  .grows = true },
	{ "bytes_not_told", NULL, UNIT_INT, OF_ALL(bytes_not_told),
	  .meaning = "copies of unknown size in the imported file" },
	{ "time_ns", NULL, UNIT_NS, OF_ALL(time_ns), .meaning = "device time of the timed copies",
	  .metric = "kernel_time", .grows = true },
	{ "small", NULL, UNIT_INT, OF_ALL(small), .meaning = "copies under small_limit_bytes" },
	{ "small_limit_bytes", NULL, UNIT_BYTES, READ(U64, small_limit), .meaning = "the limit" },
	{ "untimed", NULL, UNIT_INT, OF_ALL(untimed), .meaning = "copies without times" },
	{ "sets", NULL, UNIT_INT, OF_ALL(sets), .meaning = "memory sets", .grows = true },
	{ "set_bytes", NULL, UNIT_BYTES, OF_ALL(set_bytes), .absent = no_set_bytes,
	  .meaning = "set by those that report it; null: none does", .grows = true },
	{ "set_bytes_not_told", NULL, UNIT_INT, OF_ALL(set_bytes_not_told),
	  .meaning = "sets of unknown size in the imported file" },
	{ "set_time_ns", NULL, UNIT_NS, OF_ALL(set_time_ns),
	  .meaning = "device time of the timed sets", .grows = true },
	{ "sets_untimed", NULL, UNIT_INT, OF_ALL(sets_untimed), .meaning = "sets without times" },
	{ "without_call", NULL, UNIT_INT, OF_ALL(without_call),
	  .meaning = "left out: no call says their step" },
	{ "staged", .of = &staged },
};

const struct field_set transfers_total = { FIELDS(total_fields),
					   .meaning = "Copies and memory sets." };
