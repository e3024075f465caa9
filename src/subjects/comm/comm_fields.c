/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of communication; see fields.h.
 */
#include "subjects/comm/comm.h"

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct comm_row, member)
#define WHOLE(member) MEMBER_AS(FIELD_WHOLE, struct comm_row, member)
#define STRING(member) MEMBER_AS(FIELD_STRING, struct comm_row, member)

#define NOT_TOLD "it was not reported"

static struct cell transport(const struct field_row *at)
{
	return cell_text(comm_transport_name(((const struct comm_row *)at->item)->transport));
}

static const char *comm_untimed(const struct field_row *at)
{
	const struct comm_row *row = at->item;

	return row->count > row->untimed ? NULL : "none was timed";
}

static const struct field fields[] = {
	{ "name", "collective", UNIT_TEXT, OF(name), .flexible = true,
	  .meaning = "of the collective record, else of the kernel" },
	{ "transport", "by", UNIT_TEXT, READ(TEXT, transport) },
	{ "group", NULL, UNIT_TEXT, STRING(group), .none = NOT_TOLD,
	  .meaning = "of ranks, as the record names it" },
	{ "group_size", "ranks", UNIT_INT, OF(group_size), .none = NOT_TOLD,
	  .meaning = "ranks in it" },
	{ "type", NULL, UNIT_TEXT, STRING(type), .none = NOT_TOLD, .meaning = "of an element" },
	{ "count", "count", UNIT_INT, OF(count), .meaning = "kernels" },
	{ "time_ns", "time", UNIT_NS, OF(sum_ns), .absent = comm_untimed,
	  .meaning = "sum of the durations", .metric = "kernel_time" },
	{ "share_pct", NULL, UNIT_PCT, OF(share_pct), .meaning = "of the sum of all rows" },
	{ "mean_ns", "mean", UNIT_NS, OF(mean_ns), .meaning = "mean time of a kernel" },
	{ "max_ns", NULL, UNIT_NS, OF(max_ns), .absent = comm_untimed,
	  .meaning = "longest time of a kernel" },
	{ "collective_bytes", NULL, UNIT_BYTES, WHOLE(bytes) },
	{ "algorithm_bytes_per_s", NULL, UNIT_BYTES, OF(algorithm_bytes_per_s),
	  .meaning = "bytes / time_ns" },
	{ "bus_bytes_per_s", "bus per s", UNIT_BYTES, OF(bus_bytes_per_s),
	  .meaning = "by the formulas of NCCL's tests" },
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
	.meaning = "collective, by name, transport, group and type",
};

#define OF_DEVICE(member) MEMBER(struct comm_device, member)
#define WHOLE_OF_DEVICE(member) MEMBER_AS(FIELD_WHOLE, struct comm_device, member)

static const char *no_steps(const struct field_row *at)
{
	return ((const struct comm_device *)at->item)->of_steps ? NULL : "no recorded step";
}

static const struct field device_fields[] = {
	{ "rank", "rank", UNIT_INT, OF_DEVICE(rank) },
	{ "device", "gpu", UNIT_INT, OF_DEVICE(device), .meaning = "number of the device" },
	{ "window_ns", "window", UNIT_NS, WHOLE_OF_DEVICE(window_ns),
	  .meaning = "from its first to its last record" },
	{ "busy_ns", NULL, UNIT_NS, OF_DEVICE(busy_ns) },
	{ "idle_ns", "idle", UNIT_NS, WHOLE_OF_DEVICE(idle_ns) },
	{ "compute_ns", "compute", UNIT_NS, OF_DEVICE(all.others_ns) },
	{ "non_compute_ns", NULL, UNIT_NS, OF_DEVICE(non_compute_ns) },
	{ "comm_ns", "comm", UNIT_NS, OF_DEVICE(all.time_ns) },
	{ "overlap_ns", NULL, UNIT_NS, OF_DEVICE(all.overlap_ns) },
	{ "comm_overlap_pct", "hidden", UNIT_PCT, OF_DEVICE(all.overlap_pct) },
	{ "exposed_ns", "exposed", UNIT_NS, OF_DEVICE(all.exposed_ns) },
	{ "exposed_window_pct", "of window", UNIT_PCT, OF_DEVICE(exposed_window_pct),
	  .meaning = "exposed_ns of window_ns" },
	{ "exposed_pct", NULL, UNIT_PCT, OF_DEVICE(exposed_pct),
	  .meaning = "step_exposed_ns of step_window_ns; without steps, as exposed_window_pct" },
	{ "step_window_ns", NULL, UNIT_NS, OF_DEVICE(step_window_ns), .absent = no_steps,
	  .meaning = "from the begin of the first step to the end of the last one" },
	{ "step_exposed_ns", NULL, UNIT_NS, OF_DEVICE(step_exposed_ns), .absent = no_steps,
	  .meaning = "what is exposed in that time" },
};

const struct field_set comm_devices_fields = {
	FIELDS(device_fields),
	.rows = { { ITEMS(struct comm, devices, n_devices) } },
	.levels = 1,
	PART("comm_device", "One device of a process."),
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
	{ "device", "gpu", UNIT_INT, OF_DEVICE(device), .up = 1,
	  .meaning = "number of the device" },
	{ "transport", "by", UNIT_TEXT, READ(TEXT, transport_name) },
	{ "count", "kernels", UNIT_INT, OF_PART(count), .meaning = "kernels" },
	{ "comm_ns", "comm", UNIT_NS, OF_PART(time_ns), .meaning = "union of these kernels" },
	{ "others_ns", NULL, UNIT_NS, OF_PART(others_ns),
	  .meaning = "union of all other kernels of the device" },
	{ "overlap_ns", NULL, UNIT_NS, OF_PART(overlap_ns), .meaning = "both at once" },
	{ "comm_overlap_pct", "beside others", UNIT_PCT, OF_PART(overlap_pct) },
	{ "exposed_ns", "alone", UNIT_NS, OF_PART(exposed_ns),
	  .meaning = "these kernels and no others" },
	{ "untimed", NULL, UNIT_INT, OF_PART(untimed) },
};

const struct field_set comm_transports_fields = {
	FIELDS(transport_fields),
	.rows = { { ITEMS(struct comm, devices, n_devices) },
		  { .item = transport_at, .count = transport_count } },
	.levels = 2,
	PART("comm_transport", "What moved the data of one device."),
};

#define OF_ALL(member) MEMBER(struct comm, member)
#define WHOLE_OF_ALL(member) MEMBER_AS(FIELD_WHOLE, struct comm, member)

static const struct field_group devices = { FIELD_LIST, FIELD_LINE_EACH,
					    .table = &comm_devices_fields };
static const struct field_group transports = { FIELD_LIST, FIELD_LINE_EACH,
					       .table = &comm_transports_fields };

static const struct field total_fields[] = {
	{ "count", NULL, UNIT_INT, OF_ALL(all.count), .meaning = "communication kernels" },
	{ "records", NULL, UNIT_INT, OF_ALL(records), .meaning = "collective records that count" },
	{ "host_count", NULL, UNIT_INT, OF_ALL(host_count),
	  .meaning = "collectives of processors (gloo, MPI, UCC): in the rows, in no figure of a "
		     "device" },
	{ "host_time_ns", NULL, UNIT_NS, OF_ALL(host_ns), .meaning = "sum of their durations" },
	{ "without_kernel", NULL, UNIT_INT, OF_ALL(without_kernel),
	  .meaning = "records of devices without a kernel: in the rows, in no union" },
	{ "without_call", NULL, UNIT_INT, OF_ALL(without_call),
	  .meaning = "device records left out: no call says their step" },
	{ "untimed", NULL, UNIT_INT, OF_ALL(all.untimed) },
	{ "time_ns", NULL, UNIT_NS, OF_ALL(all.sum_ns), .meaning = "sum of the durations",
	  .metric = "kernel_time" },
	{ "window_ns", NULL, UNIT_NS, WHOLE_OF_ALL(window_ns),
	  .meaning = "as of a device, sum over the devices; likewise those that follow" },
	{ "busy_ns", NULL, UNIT_NS, OF_ALL(busy_ns) },
	{ "idle_ns", NULL, UNIT_NS, WHOLE_OF_ALL(idle_ns) },
	{ "compute_ns", NULL, UNIT_NS, OF_ALL(all.others_ns) },
	{ "non_compute_ns", NULL, UNIT_NS, OF_ALL(non_compute_ns) },
	{ "comm_ns", NULL, UNIT_NS, OF_ALL(all.time_ns) },
	{ "overlap_ns", NULL, UNIT_NS, OF_ALL(all.overlap_ns) },
	{ "comm_overlap_pct", NULL, UNIT_PCT, OF_ALL(all.overlap_pct) },
	{ "exposed_ns", NULL, UNIT_NS, OF_ALL(all.exposed_ns) },
	{ "exposed_pct", NULL, UNIT_PCT, OF_ALL(exposed_pct),
	  .meaning = "of the time of the steps; without steps, of window_ns" },
	{ "exposed_of_steps", NULL, UNIT_INT, OF_ALL(of_steps),
	  .meaning = "exposed_pct is of the time of the steps" },
	{ "matched", NULL, UNIT_INT, OF_ALL(skew.matched) },
	{ "skew_mean_ns", NULL, UNIT_NS, OF_ALL(skew.mean_ns) },
	{ "skew_max_ns", NULL, UNIT_NS, WHOLE_OF_ALL(skew.max_ns) },
	{ "wait_ns", NULL, UNIT_NS, WHOLE_OF_ALL(skew.wait_ns) },
	{ "wait_pct", NULL, UNIT_PCT, OF_ALL(wait_pct), .meaning = "of the time of exposed_pct" },
	{ "late_rank", NULL, UNIT_INT, WHOLE_OF_ALL(skew.late_rank) },
	{ "late_pct", NULL, UNIT_PCT, OF_ALL(skew.late_pct) },
	{ "devices", .of = &devices, .meaning = "one a device of a process" },
	{ "transports", .of = &transports, .meaning = "one a transport of a device" },
};

const struct field_set comm_total = { FIELDS(total_fields),
				      .meaning = "All devices and collectives." };
