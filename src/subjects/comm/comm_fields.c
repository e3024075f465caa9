/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of communication; see fields.h.
 */
#include "subjects/comm/comm.h"

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct comm_row, member)
#define WHOLE(member) MEMBER_AS(FIELD_WHOLE, struct comm_row, member)
#define STRING(member) MEMBER_AS(FIELD_STRING, struct comm_row, member)

#define NOT_TOLD "it was not told"

static struct cell transport(const struct field_row *at)
{
	return cell_text(comm_transport_name(((const struct comm_row *)at->item)->transport));
}

static const char *untimed(const struct field_row *at)
{
	const struct comm_row *row = at->item;

	return row->count > row->untimed ? NULL : "none was timed";
}

static const struct field fields[] = {
	{ "name", "collective", UNIT_TEXT, OF(name), .flexible = true },
	{ "transport", "by", UNIT_TEXT, .read = transport },
	{ "group", NULL, UNIT_TEXT, STRING(group), .none = NOT_TOLD },
	{ "group_size", "ranks", UNIT_INT, OF(group_size), .none = NOT_TOLD },
	{ "type", NULL, UNIT_TEXT, STRING(type), .none = NOT_TOLD },
	{ "count", "count", UNIT_INT, OF(count) },
	{ "time_ns", "time", UNIT_NS, OF(sum_ns), .absent = untimed },
	{ "share_pct", NULL, UNIT_PCT, OF(share_pct) },
	{ "mean_ns", "mean", UNIT_NS, OF(mean_ns) },
	{ "max_ns", NULL, UNIT_NS, OF(max_ns), .absent = untimed },
	{ "collective_bytes", NULL, UNIT_BYTES, WHOLE(bytes) },
	{ "algorithm_bytes_per_s", NULL, UNIT_BYTES, OF(algorithm_bytes_per_s) },
	{ "bus_bytes_per_s", "bus per s", UNIT_BYTES, OF(bus_bytes_per_s) },
	{ "matched", NULL, UNIT_INT, OF(skew.matched) },
	{ "skew_mean_ns", "skew", UNIT_NS, OF(skew.mean_ns) },
	{ "skew_max_ns", NULL, UNIT_NS, WHOLE(skew.max_ns) },
	{ "wait_ns", NULL, UNIT_NS, WHOLE(skew.wait_ns) },
	{ "late_rank", NULL, UNIT_INT, WHOLE(skew.late_rank) },
	{ "late_pct", NULL, UNIT_PCT, OF(skew.late_pct) },
	{ "untimed", NULL, UNIT_INT, OF(untimed) },
};

const struct field_set comm_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct comm, rows, n) } },
	.levels = 1,
};

#define OF_DEVICE(member) MEMBER(struct comm_device, member)
#define WHOLE_OF_DEVICE(member) MEMBER_AS(FIELD_WHOLE, struct comm_device, member)

static const char *no_steps(const struct field_row *at)
{
	return ((const struct comm_device *)at->item)->of_steps ? NULL : "no recorded step";
}

static const struct field device_fields[] = {
	{ "rank", "rank", UNIT_INT, OF_DEVICE(rank) },
	{ "device", "gpu", UNIT_INT, OF_DEVICE(device) },
	{ "window_ns", "window", UNIT_NS, WHOLE_OF_DEVICE(window_ns) },
	{ "busy_ns", NULL, UNIT_NS, OF_DEVICE(busy_ns) },
	{ "idle_ns", "idle", UNIT_NS, WHOLE_OF_DEVICE(idle_ns) },
	{ "compute_ns", "compute", UNIT_NS, OF_DEVICE(all.others_ns) },
	{ "non_compute_ns", NULL, UNIT_NS, OF_DEVICE(non_compute_ns) },
	{ "comm_ns", "comm", UNIT_NS, OF_DEVICE(all.time_ns) },
	{ "overlap_ns", NULL, UNIT_NS, OF_DEVICE(all.overlap_ns) },
	{ "comm_overlap_pct", "hidden", UNIT_PCT, OF_DEVICE(all.overlap_pct) },
	{ "exposed_ns", "exposed", UNIT_NS, OF_DEVICE(all.exposed_ns) },
	{ "exposed_window_pct", "of window", UNIT_PCT, OF_DEVICE(exposed_window_pct) },
	{ "exposed_pct", NULL, UNIT_PCT, OF_DEVICE(exposed_pct) },
	{ "step_window_ns", NULL, UNIT_NS, OF_DEVICE(step_window_ns), .absent = no_steps },
	{ "step_exposed_ns", NULL, UNIT_NS, OF_DEVICE(step_exposed_ns), .absent = no_steps },
};

const struct field_set comm_devices_fields = {
	FIELDS(device_fields),
	.rows = { { ITEMS(struct comm, devices, n_devices) } },
	.levels = 1,
};

#define OF_PART(member) MEMBER(struct comm_part, member)

static const void *transport_at(const struct field_row *in, size_t i)
{
	const struct comm_part *part = &((const struct comm_device *)in->item)->of[i];

	return part->count ? part : NULL;
}

static size_t transport_count(const struct field_row *in)
{
	(void)in;
	return COMM_TRANSPORTS;
}

static struct cell transport_name(const struct field_row *at)
{
	return cell_text(comm_transport_name((enum comm_transport)at->index));
}

static const struct field transport_fields[] = {
	{ "rank", "rank", UNIT_INT, OF_DEVICE(rank), .up = 1 },
	{ "device", "gpu", UNIT_INT, OF_DEVICE(device), .up = 1 },
	{ "transport", "by", UNIT_TEXT, .read = transport_name },
	{ "count", "kernels", UNIT_INT, OF_PART(count) },
	{ "comm_ns", "comm", UNIT_NS, OF_PART(time_ns) },
	{ "others_ns", NULL, UNIT_NS, OF_PART(others_ns) },
	{ "overlap_ns", NULL, UNIT_NS, OF_PART(overlap_ns) },
	{ "comm_overlap_pct", "beside others", UNIT_PCT, OF_PART(overlap_pct) },
	{ "exposed_ns", "alone", UNIT_NS, OF_PART(exposed_ns) },
	{ "untimed", NULL, UNIT_INT, OF_PART(untimed) },
};

const struct field_set comm_transports_fields = {
	FIELDS(transport_fields),
	.rows = { { ITEMS(struct comm, devices, n_devices) },
		  { .item = transport_at, .count = transport_count } },
	.levels = 2,
};

#define OF_ALL(member) MEMBER(struct comm, member)
#define WHOLE_OF_ALL(member) MEMBER_AS(FIELD_WHOLE, struct comm, member)

static const struct field_group devices = { FIELD_LIST, FIELD_LINE_EACH,
					    .table = &comm_devices_fields };
static const struct field_group transports = { FIELD_LIST, FIELD_LINE_EACH,
					       .table = &comm_transports_fields };

static const struct field total_fields[] = {
	{ "count", NULL, UNIT_INT, OF_ALL(all.count) },
	{ "records", NULL, UNIT_INT, OF_ALL(records) },
	{ "host_count", NULL, UNIT_INT, OF_ALL(host_count) },
	{ "host_time_ns", NULL, UNIT_NS, OF_ALL(host_ns) },
	{ "without_kernel", NULL, UNIT_INT, OF_ALL(without_kernel) },
	{ "without_call", NULL, UNIT_INT, OF_ALL(without_call) },
	{ "untimed", NULL, UNIT_INT, OF_ALL(all.untimed) },
	{ "time_ns", NULL, UNIT_NS, OF_ALL(all.sum_ns) },
	{ "window_ns", NULL, UNIT_NS, WHOLE_OF_ALL(window_ns) },
	{ "busy_ns", NULL, UNIT_NS, OF_ALL(busy_ns) },
	{ "idle_ns", NULL, UNIT_NS, WHOLE_OF_ALL(idle_ns) },
	{ "compute_ns", NULL, UNIT_NS, OF_ALL(all.others_ns) },
	{ "non_compute_ns", NULL, UNIT_NS, OF_ALL(non_compute_ns) },
	{ "comm_ns", NULL, UNIT_NS, OF_ALL(all.time_ns) },
	{ "overlap_ns", NULL, UNIT_NS, OF_ALL(all.overlap_ns) },
	{ "comm_overlap_pct", NULL, UNIT_PCT, OF_ALL(all.overlap_pct) },
	{ "exposed_ns", NULL, UNIT_NS, OF_ALL(all.exposed_ns) },
	{ "exposed_pct", NULL, UNIT_PCT, OF_ALL(exposed_pct) },
	{ "exposed_of_steps", NULL, UNIT_INT, OF_ALL(of_steps) },
	{ "matched", NULL, UNIT_INT, OF_ALL(skew.matched) },
	{ "skew_mean_ns", NULL, UNIT_NS, OF_ALL(skew.mean_ns) },
	{ "skew_max_ns", NULL, UNIT_NS, WHOLE_OF_ALL(skew.max_ns) },
	{ "wait_ns", NULL, UNIT_NS, WHOLE_OF_ALL(skew.wait_ns) },
	{ "wait_pct", NULL, UNIT_PCT, OF_ALL(wait_pct) },
	{ "late_rank", NULL, UNIT_INT, WHOLE_OF_ALL(skew.late_rank) },
	{ "late_pct", NULL, UNIT_PCT, OF_ALL(skew.late_pct) },
	{ "devices", .of = &devices },
	{ "transports", .of = &transports },
};

const struct field_set comm_total = { FIELDS(total_fields) };
