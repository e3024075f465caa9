/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of devices; see device_fields.h.
 */
#include "subjects/device/device_fields.h"

#include <stdio.h>

#include "device/sheets/clock_reasons.h"
#include "subjects/answers/answers.h"
#include "subjects/coverage/coverage_fields.h"
#include "subjects/device/device_state.h"
#include "subjects/device/timeline.h"

#define OF(member) MEMBER(struct timeline_device, member)

static const char *cause_key(const struct field_row *at, char *room, size_t size)
{
	snprintf(room, size, "%s_ns", idle_cause_name((enum idle_cause)at->index));
	return room;
}

static const struct field cause_field = { .unit = UNIT_NS, .type = FIELD_I64 };

static const struct field_group causes = {
	FIELD_BESIDE,
	.fields = &cause_field,
	.items = { .inside = true, .size = sizeof(int64_t), .most = IDLE_CAUSES },
	.name = cause_key,
};

static struct cell no_collective(const struct field_row *at)
{
	(void)at;
	return cell_absent("a device that waits for a collective runs its kernel");
}

static const struct field idle_fields[] = {
	{ "CAUSE_ns", .offset = offsetof(struct timeline_device, idle_by_cause), .of = &causes },
	{ "collective_ns", NULL, UNIT_NS, MAY_READ(I64, no_collective),
	  .meaning = "a device that waits for a collective runs its kernel" },
};

static const struct field_group idle_by_cause = { FIELD_OBJECT, FIELD_ON_ONE_LINE,
						  FIELDS(idle_fields),
						  PART("idle_by_cause", "Why a device was idle.") };

static const struct field overlap_fields[] = {
	{ "compute_copy_ns", NULL, UNIT_NS, OF(overlap_ns),
	  .meaning = "kernels and copies at once" },
	{ "compute_copy_pct", NULL, UNIT_PCT, OF(overlap_pct),
	  .meaning = "of the length of copies" },
};

static const struct field_group overlap = { FIELD_OBJECT, FIELD_ON_ONE_LINE, FIELDS(overlap_fields),
					    PART("overlap", "Work at once.") };

static const struct field timeline_device_fields[] = {
	{ "rank", NULL, UNIT_INT, OF(rank) },
	{ "device", NULL, UNIT_INT, OF(device) },
	{ "window_ns", NULL, UNIT_NS, OF(window_ns),
	  .meaning = "first to last work, without what was not covered" },
	{ "busy_ns", NULL, UNIT_NS, OF(busy_ns), .meaning = "union of kernels, copies and sets" },
	{ "idle_ns", NULL, UNIT_NS, OF(idle_ns), .meaning = "window - busy" },
	{ "busy_pct", NULL, UNIT_PCT, OF(busy_pct), .meaning = "100 busy / window" },
	{ "idle_by_cause", .of = &idle_by_cause, .meaning = "each moment has one" },
	{ "kernel_ns", NULL, UNIT_NS, OF(kernel_ns), .meaning = "union of kernels" },
	{ "copy_ns", NULL, UNIT_NS, OF(copy_ns), .meaning = "union of copies",
	  .metric = "gpu_busy" },
	{ "set_ns", NULL, UNIT_NS, OF(set_ns), .meaning = "union of sets" },
	{ "overlap", .of = &overlap, .meaning = "of kernels and copies" },
};

static const struct field_group timeline_devices = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(timeline_device_fields),
	.items = { ITEMS(struct timeline, devices, n) },
	PART("timeline_device", "One device of one process."),
};

static struct cell total_overlap(const struct field_row *at)
{
	const struct timeline *timeline = at->item;
	int64_t copy_ns = 0, overlap_ns = 0;

	for (size_t i = 0; i < timeline->n; i++) {
		copy_ns += timeline->devices[i].copy_ns;
		overlap_ns += timeline->devices[i].overlap_ns;
	}
	return copy_ns ? cell_real(100.0 * (double)overlap_ns / (double)copy_ns)
		       : cell_absent("nothing was copied");
}

static const struct field total_overlap_fields[] = {
	{ "compute_copy_pct", NULL, UNIT_PCT, MAY_READ(REAL, total_overlap),
	  .meaning = "of the length of copies" },
};

static const struct field_group overlap_of_all = { FIELD_OBJECT, FIELD_ON_ONE_LINE,
						   FIELDS(total_overlap_fields),
						   PART("total_overlap", "Over all devices.") };

static const struct field timeline_fields[] = {
	FIELD_SAMPLED,
	{ "devices", .of = &timeline_devices, .meaning = "by process" },
	{ "overlap", .of = &overlap_of_all, .meaning = "over all devices" },
	{ "untimed", NULL, UNIT_INT, MEMBER(struct timeline, untimed),
	  .meaning = "device records without times" },
};

static const struct field_group timeline = { FIELD_OBJECT, FIELD_SPREAD_OUT,
					     FIELDS(timeline_fields),
					     PART("timeline", "How busy the devices were.") };

static const void *timeline_of(const struct field_row *at)
{
	return answer_timeline(at->answers);
}

static const char *no_timeline(const struct field_row *at)
{
	if (answer_timeline(at->answers)->n)
		return NULL;
	return answer_timeline(at->answers)->untimed ? "no device record was timed"
						     : "no device records in this run";
}

#define OF_METRIC(member) MEMBER(struct metric_summary, member)

static const struct field metric_fields[] = {
	{ "samples", NULL, UNIT_INT, OF_METRIC(samples) },
	{ "mean", NULL, UNIT_RATIO, OF_METRIC(mean) },
	{ "min", NULL, UNIT_RATIO, OF_METRIC(min) },
	{ "max", NULL, UNIT_RATIO, OF_METRIC(max) },
};

static const struct field_group metric = {
	FIELD_OBJECT, FIELD_ON_ONE_LINE, FIELDS(metric_fields),
	PART("readings", "Readings of one figure; the unit is in the key that holds it.")
};

static const char *metric_key(const struct field_row *at, char *room, size_t size)
{
	(void)room;
	(void)size;
	return device_metric_key((enum device_metric)at->index);
}

static const char *no_samples(const struct field_row *at)
{
	return ((const struct metric_summary *)at->item)->samples ? NULL : "not sampled";
}

static const struct field metric_field = { .of = &metric, .absent = no_samples };

static const struct field_group metrics = {
	FIELD_BESIDE,
	.fields = &metric_field,
	.items = { .inside = true, .size = sizeof(struct metric_summary), .most = DEVICE_METRICS },
	.name = metric_key,
};

static const void *limit_at(const struct field_row *in, size_t i)
{
	const uint64_t *samples = &((const struct device_state *)in->item)->reasons[i];

	return *samples ? samples : NULL;
}

static size_t limit_count(const struct field_row *in)
{
	(void)in;
	return CLOCK_REASONS;
}

static const char *limit_key(const struct field_row *at, char *room, size_t size)
{
	const char *words = clock_reason_words((unsigned int)at->index);

	snprintf(room, size, "bit %zu", at->index);
	return words ? words : room;
}

static struct cell limit_share(const struct field_row *at)
{
	const struct device_state *device = at->in->item;
	double samples = (double)*(const uint64_t *)at->item;

	return cell_real(100.0 * samples / (double)device->reason_samples);
}

static const struct field limit_field = { .unit = UNIT_PCT, READ(REAL, limit_share) };

static const struct field_group clock_limits = {
	FIELD_MAP,
	.fields = &limit_field,
	.items = { .item = limit_at, .count = limit_count },
	.name = limit_key,
	PART("clock_limits",
	     "Share of the readings in which each reason held the clocks down, percent."),
};

static const char *no_limits(const struct field_row *at)
{
	return ((const struct device_state *)at->item)->reason_samples
		       ? NULL
		       : "the driver gave no reasons for its clocks";
}

static const struct field state_fields[] = {
	{ "rank", NULL, UNIT_INT, MEMBER(struct device_state, rank),
	  .meaning = "rank of the process that sampled" },
	{ "device", NULL, UNIT_INT, MEMBER(struct device_state, device) },
	{ "METRIC", .offset = offsetof(struct device_state, metrics), .of = &metrics },
	{ "clock_limits_pct", .of = &clock_limits, .absent = no_limits,
	  .meaning = "what held the clocks down" },
};

static const struct field_group states = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(state_fields),
	.items = { ITEMS(struct device_states, devices, n) },
	PART("device_state", "One device as the driver describes it."),
};

static const void *states_of(const struct field_row *at)
{
	return answer_device_states(at->answers);
}

static const char *no_states(const struct field_row *at)
{
	return answer_device_states(at->answers)->n ? NULL
						    : "no samples of power, clocks and temperature";
}

static const struct field fields[] = {
	{ "timeline", .from = timeline_of, .of = &timeline, .absent = no_timeline,
	  .meaning = "busy and idle devices" },
	{ "device_state", .from = states_of, .of = &states, .absent = no_states,
	  .meaning = "devices as the driver describes them" },
};

const struct field_set device_fields = { FIELDS(fields) };

#define IDLE(cause) OF(idle_by_cause[cause])

static const struct field columns[] = {
	{ "rank", NULL, UNIT_INT, OF(rank), .meaning = "of the process" },
	{ "device", NULL, UNIT_INT, OF(device), .meaning = "as the process numbers it" },
	{ "window_ns", NULL, UNIT_INT, OF(window_ns),
	  .meaning = "from the first to the last work, without what was not covered" },
	{ "busy_ns", NULL, UNIT_INT, OF(busy_ns), .meaning = "union of kernels, copies and sets" },
	{ "busy_pct", NULL, UNIT_PCT, OF(busy_pct), .meaning = "100 * busy / window" },
	{ "idle_ns", NULL, UNIT_INT, OF(idle_ns), .meaning = "window - busy" },
	{ "idle_host_ns", NULL, UNIT_INT, IDLE(IDLE_HOST),
	  .meaning = "nothing queued, the host was busy with its own code" },
	{ "idle_launch_ns", NULL, UNIT_INT, IDLE(IDLE_LAUNCH), .meaning = "being launched" },
	{ "idle_sync_ns", NULL, UNIT_INT, IDLE(IDLE_SYNC),
	  .meaning = "nothing queued after a wait of the host" },
	{ "idle_copy_ns", NULL, UNIT_INT, IDLE(IDLE_COPY),
	  .meaning = "a blocking copy, or a copy by another device" },
	{ "idle_queued_ns", NULL, UNIT_INT, IDLE(IDLE_QUEUED), .meaning = "queued, not begun" },
	{ "idle_profiler_ns", NULL, UNIT_INT, IDLE(IDLE_PROFILER),
	  .meaning = "at the edges of windows of records" },
	{ "idle_unknown_ns", NULL, UNIT_INT, IDLE(IDLE_UNKNOWN),
	  .meaning = "the calls that would explain it were not recorded" },
	{ "kernel_ns", NULL, UNIT_INT, OF(kernel_ns), .meaning = "union of kernels" },
	{ "copy_ns", NULL, UNIT_INT, OF(copy_ns), .meaning = "union of copies" },
	{ "set_ns", NULL, UNIT_INT, OF(set_ns), .meaning = "union of sets" },
	{ "overlap_ns", NULL, UNIT_INT, OF(overlap_ns), .meaning = "kernels and copies at once" },
	{ "overlap_pct", NULL, UNIT_PCT, OF(overlap_pct),
	  .meaning = "100 * overlap / copies; empty: nothing was copied" },
};
_Static_assert(IDLE_CAUSES == 7, "a column for each cause");

const struct field_set timeline_rows = {
	FIELDS(columns),
	.rows = { { ITEMS(struct timeline, devices, n) } },
	.levels = 1,
};
