/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of real-time MoE profilers: a row for each moment, kernel, or layer and step.
 */
#include <stdio.h>

#include "exports/tools/tool_files.h"
#include "subjects/memory/memory_history.h"
#include "subjects/shared/kernel_stream.h"

#define NO_COUNTERS "empty: needs hardware counters of the kernel, which were not collected"
#define WHEN "seconds since 1970, with the nanoseconds"
#define OF_RANGE "of the innermost range around the launch that names one"

/* Seconds of nanoseconds since 1970. Records are of our time; of a broken clock the digits do not
 * matter. */
static struct cell timestamp(int64_t realtime_ns)
{
	return realtime_ns < 0 ? cell_real((double)realtime_ns / 1e9)
			       : cell_decimal(realtime_ns, 9);
}

static struct cell moment_time(const struct field_row *at)
{
	return timestamp(((const struct memory_moment *)at->item)->realtime_ns);
}

/* The bytes of the member. */
static struct cell megabytes(const struct field_row *at)
{
	const struct field bytes = { .type = at->field->type, .offset = at->field->offset };
	struct cell cell = field_read(&bytes, at);

	return cell.kind == CELL_REAL ? cell_real(cell.d / 1e6) : cell;
}

static struct cell not_over_time(const struct field_row *at)
{
	(void)at;
	return cell_absent("unknown over time");
}

#define OF(member) MEMBER(struct memory_moment, member)

static const struct field moment_fields[] = {
	{ "timestamp", NULL, UNIT_RATIO, READ(REAL, moment_time), .meaning = WHEN },
	{ "allocated_mb", NULL, UNIT_RATIO, OF(allocated_bytes), .read = megabytes,
	  .meaning = "live bytes of the program's allocator / 1e6, replayed; the most in its "
		     "part of the time, or PyTorch's own count" },
	{ "reserved_mb", NULL, UNIT_RATIO, OF(reserved_bytes), .read = megabytes,
	  .meaning = "what PyTorch's allocator held then / 1e6; empty: not reported" },
	{ "peak_mb", NULL, UNIT_RATIO, OF(peak_bytes), .read = megabytes,
	  .meaning = "the most of allocated_mb so far" },
	{ "fragmentation_percent", NULL, UNIT_PCT, MAY_READ(REAL, not_over_time),
	  .meaning = "empty: replayed for the whole run (memory.csv), not over time" },
	{ "rank", NULL, UNIT_INT, OF(rank), .meaning = "of the process" },
	{ "device", NULL, UNIT_DEVICE, OF(device),
	  .meaning = "-1: the host; empty: the program does not say" },
};
#undef OF

const struct field_set memory_stats_file = {
	FIELDS(moment_fields),
	.rows = { { ITEMS(struct memory_history, rows, n) } },
	.levels = 1,
};

static struct cell kernel_time(const struct field_row *at)
{
	return timestamp(((const struct kernel_event *)at->item)->realtime_ns);
}

static struct cell kernel_length(const struct field_row *at)
{
	const struct kernel_event *e = at->item;

	return e->untimed ? cell_absent("untimed") : cell_decimal(e->duration_ns, 6);
}

static struct cell no_counters(const struct field_row *at)
{
	(void)at;
	return cell_absent(NO_COUNTERS);
}

static struct cell place(const struct field_row *at)
{
	int32_t number =
		*(const int32_t *)(const void *)((const char *)at->item + at->field->offset);

	return number < 0 ? cell_absent("no range names one") : cell_int(number);
}

#define OF(member) MEMBER(struct kernel_event, member)

static const struct field kernel_fields[] = {
	{ "timestamp", NULL, UNIT_RATIO, READ(REAL, kernel_time),
	  .meaning = WHEN ", of its start on the device" },
	{ "kernel_name", NULL, UNIT_TEXT, OF(name),
	  .meaning = "demangled name of the device's record" },
	{ "execution_time_ms", NULL, UNIT_RATIO, MAY_READ(REAL, kernel_length),
	  .meaning = "end - start on the device; empty: the device gave no times" },
	{ "occupancy_percent", NULL, UNIT_PCT, MAY_READ(REAL, no_counters),
	  .meaning = NO_COUNTERS },
	{ "memory_bandwidth_gbps", NULL, UNIT_RATIO, MAY_READ(REAL, no_counters),
	  .meaning = NO_COUNTERS },
	{ "expert_id", NULL, UNIT_INT, OF(expert), .read = place, .meaning = OF_RANGE },
	{ "operation_type", NULL, UNIT_TEXT, OF(class),
	  .meaning = "class of the kernel by its name ('moescope explain kernel_class')" },
	{ "layer", NULL, UNIT_INT, OF(layer), .read = place, .meaning = OF_RANGE },
};
#undef OF

static int each_kernel(const struct field_row *from, field_visit visit, void *data)
{
	struct field_row row = *from;
	struct kernel_stream stream;
	struct kernel_event event;
	int r = kernel_stream_init(&stream, from->run, from->item);

	if (r < 0)
		return r;
	row.in = from;
	row.item = &event;
	for (row.index = 0; (r = kernel_stream_next(&stream, &event)) > 0; row.index++) {
		r = visit(&row, data);
		if (r)
			break;
	}
	kernel_stream_release(&stream);
	return r;
}

const struct field_set kernel_stats_file = { FIELDS(kernel_fields), .each = each_kernel };

static struct cell step_time(const struct field_row *at)
{
	return timestamp(((const struct routing_step *)at->item)->realtime_ns);
}

static const char *no_load(const struct field_row *at)
{
	return ((const struct routing_step *)at->item)->load.known ? NULL : "no assignments";
}

static struct cell layer_phase(const struct field_row *at)
{
	return cell_text(phase_name(((const struct routing_layer *)at->item)->phase));
}

/* As many as the layer with the most has: every row has the same columns. */
static size_t count_experts(const struct field_row *in)
{
	const struct routing *routing;
	size_t most = 0;

	while (in->in)
		in = in->in;
	routing = in->item;
	for (size_t i = 0; i < routing->n; i++)
		most = routing->layers[i].experts > most ? routing->layers[i].experts : most;
	return most;
}

static const void *step_at(const struct field_row *in, size_t i)
{
	(void)i;
	return in->item;
}

static const char *expert_name(const struct field_row *at, char *room, size_t size)
{
	snprintf(room, size, "expert_%zu", at->index);
	return room;
}

static struct cell expert_load(const struct field_row *at)
{
	const struct routing_step *step = at->item;
	const struct routing_layer *layer = at->in->in->item;

	return at->index < layer->experts ? cell_uint(step->n[at->index])
					  : cell_absent("no expert");
}

static const struct field expert_field = { .unit = UNIT_INT, MAY_READ(U64, expert_load) };

static const struct field_group experts = {
	FIELD_BESIDE,
	.fields = &expert_field,
	.items = { .item = step_at, .count = count_experts },
	.name = expert_name,
};

#define OF(member) MEMBER(struct routing_step, member)

static const struct field step_fields[] = {
	{ "timestamp", NULL, UNIT_RATIO, READ(REAL, step_time),
	  .meaning = WHEN ", of the last record of the layer in the step" },
	{ "token_count", NULL, UNIT_INT, OF(tokens), .meaning = "valid tokens" },
	{ "active_experts", NULL, UNIT_INT, OF(load.unique),
	  .meaning = "experts with at least one assignment" },
	{ "load_balance_score", NULL, UNIT_RATIO, OF(load.cv), .absent = no_load,
	  .meaning = "legacy name of cv: population std / mean of the assignments" },
	{ "step", NULL, UNIT_INT, OF(step), .meaning = "" },
	{ "layer", NULL, UNIT_INT, MEMBER(struct routing_layer, layer), .up = 1, .meaning = "" },
	{ "phase", NULL, UNIT_TEXT, READ(TEXT, layer_phase), .up = 1, .meaning = "" },
	{ "expert_N", .of = &experts,
	  .meaning = "assignments of expert N; empty: the layer has fewer experts" },
};
#undef OF

const struct field_set expert_routing_file = {
	FIELDS(step_fields),
	.rows = { { ITEMS(struct routing, layers, n) },
		  { ITEMS(struct routing_layer, steps, n_steps) } },
	.levels = 2,
};
