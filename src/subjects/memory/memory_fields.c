/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of memory; see memory_fields.h.
 */
#include "subjects/memory/memory_fields.h"

#define OF(member) MEMBER(struct memory_device, member)

static const char *no_peak(const struct field_row *at)
{
	const struct memory_device *device = at->item;

	return device->peak_bytes ? NULL : "nothing was allocated";
}

static const struct field fields[] = {
	{ "rank", "rank", UNIT_INT, OF(rank) },
	{ "device", "device", UNIT_DEVICE, OF(device) },
	{ "allocated_bytes", "live", UNIT_BYTES, OF(live_bytes) },
	{ "peak_allocated_bytes", "peak", UNIT_BYTES, OF(peak_bytes) },
	{ "peak_ns", "peak at", UNIT_NS, MEMBER_AS(FIELD_TIME, struct memory_device, peak_ns),
	  .absent = no_peak },
	{ "live_allocations", "blocks", UNIT_INT, OF(live_allocations) },
	{ "allocations", "allocs", UNIT_COUNT, OF(allocations) },
	{ "frees", "frees", UNIT_COUNT, OF(frees) },
	{ "unmatched_frees", NULL, UNIT_INT, OF(unmatched_frees) },
	{ "replaced", NULL, UNIT_INT, OF(replaced) },
	{ "allocated_total_bytes", "in all", UNIT_BYTES, OF(allocated_bytes) },
	{ "reserved_bytes", NULL, UNIT_BYTES, OF(reserved_bytes) },
	{ "device_used_bytes", NULL, UNIT_BYTES, OF(device_used_bytes) },
	{ "fragmentation_pct", NULL, UNIT_PCT, OF(fragmentation_pct) },
	{ "peak_reserved_bytes", NULL, UNIT_BYTES, OF(peak_reserved_bytes) },
	{ "cache_slack_pct", NULL, UNIT_PCT, OF(cache_slack_pct) },
	{ "fragmentation_at_peak_pct", NULL, UNIT_PCT, OF(fragmentation_at_peak_pct) },
	{ "free_at_peak_bytes", NULL, UNIT_BYTES, OF(free_at_peak_bytes) },
	{ "largest_free_at_peak_bytes", NULL, UNIT_BYTES, OF(largest_free_at_peak_bytes) },
	{ "device_total_bytes", NULL, UNIT_BYTES, OF(device_total_bytes) },
	{ "headroom_bytes", NULL, UNIT_BYTES, OF(headroom_bytes) },
	{ "oom_steps", NULL, UNIT_COUNT, OF(oom_steps) },
	{ "leak_suspects", NULL, UNIT_INT, OF(leaks_known) },
	{ "account_allocated_bytes", NULL, UNIT_BYTES, OF(account_allocated_bytes) },
	{ "account_reserved_bytes", NULL, UNIT_BYTES, OF(account_reserved_bytes) },
	{ "account_peak_allocated_bytes", NULL, UNIT_BYTES, OF(account_peak_allocated_bytes) },
	{ "account_peak_reserved_bytes", NULL, UNIT_BYTES, OF(account_peak_reserved_bytes) },
	{ "account_peak_requested_bytes", NULL, UNIT_BYTES, OF(account_peak_requested_bytes) },
	{ "segments", NULL, UNIT_INT, OF(segments) },
	{ "before_bytes", NULL, UNIT_BYTES, OF(before_bytes) },
	{ "before_at_peak_bytes", NULL, UNIT_BYTES, OF(before_at_peak_bytes) },
	{ "before_freed_bytes", NULL, UNIT_BYTES, OF(before_freed_bytes) },
};

const struct field_set memory_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct memory, devices, n) } },
	.levels = 1,
};
