/* SPDX-License-Identifier: Apache-2.0
 *
 * profiler_report.json of real-time MoE profilers: the whole run in the keys of one GPU and one layer.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exports/tools/tool_files.h"
#include "subjects/pages/section.h"
#include "subjects/transfers/transfers.h"

#define NO_COUNTERS "needs hardware counters, which were not collected"
#define NO_ROUTING "the program reports no routing"
#define NONE_TIMED "none was timed"

/* Kinds of copies that this file names; it leaves out the others. */
static const char *const kinds[MOVED_KINDS] = { "HtoD", "DtoH", "DtoD", "PtoP" };

static struct value scaled(struct value value, double factor)
{
	return value.known ? value_of(value.v * factor) : value;
}

static void make_start(const struct run *run, struct profiler_report *out)
{
	time_t seconds = (time_t)(run->info.started_realtime_ns / 1000000000);
	struct tm local;

	if (!run->info.started_realtime_ns || !localtime_r(&seconds, &local) ||
	    !strftime(out->timestamp, sizeof(out->timestamp), "%Y-%m-%d_%H:%M:%S", &local))
		out->timestamp[0] = '\0';
}

static void make_memory(struct profiler_report *out)
{
	const struct memory_device *d = out->overview->memory;
	struct value none = value_absent("the program reports no allocations");

	if (!d) {
		out->peak_mb = out->live_mb = out->reserved_mb = none;
		out->fragmentation_pct = out->allocation_efficiency = out->device = none;
		return;
	}
	out->peak_mb = value_of((double)d->peak_bytes / 1e6);
	out->live_mb = value_of((double)d->live_bytes / 1e6);
	out->reserved_mb = scaled(d->reserved_bytes, 1e-6);
	out->fragmentation_pct = d->fragmentation_pct;
	out->device = value_of(d->device);
	if (!d->reserved_bytes.known)
		out->allocation_efficiency = value_absent(d->reserved_bytes.reason);
	else if (d->reserved_bytes.v <= 0)
		out->allocation_efficiency = value_absent("nothing is reserved");
	else
		out->allocation_efficiency = value_of(
			100 *
			(1 - (d->reserved_bytes.v - (double)d->live_bytes) / d->reserved_bytes.v));
}

static int by_number(const void *a, const void *b)
{
	const struct expert_kernels *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

/* Experts of the same number in several layers are one here: the keys know no layers. */
static int make_experts(const struct kernels *kernels, struct profiler_report *out)
{
	size_t n = 0;

	out->experts = calloc(kernels->n + 1, sizeof(*out->experts));
	if (!out->experts)
		return -ENOMEM;
	for (size_t i = 0; i < kernels->n; i++) {
		const struct kernel_row *row = &kernels->rows[i];

		if (!row->no_place && row->expert >= 0)
			out->experts[n++] = (struct expert_kernels){ row->expert, row->count,
								     row->summary.n, row->time_ns };
	}
	qsort(out->experts, n, sizeof(*out->experts), by_number);
	for (size_t i = 0; i < n; i++) {
		const struct expert_kernels *e = &out->experts[i];
		struct expert_kernels *last;

		if (!i || out->experts[out->n_experts - 1].number != e->number) {
			out->experts[out->n_experts++] = *e;
			continue;
		}
		last = &out->experts[out->n_experts - 1];
		last->calls += e->calls;
		last->timed += e->timed;
		last->time_ns += e->time_ns;
	}
	return 0;
}

static void make_slowest(const struct kernels *kernels, struct profiler_report *out)
{
	for (size_t i = 0; i < kernels->n; i++) {
		const struct kernel_row *row = &kernels->rows[i];

		if (row->summary.n &&
		    (!out->slowest || row->summary.mean > out->slowest->summary.mean))
			out->slowest = row;
	}
}

static void make_moved(const struct run *run, const struct transfers *t,
		       struct profiler_report *out)
{
	double link_bytes = 0, link_ns = 0;
	uint64_t bytes[MOVED_KINDS] = { 0 };

	for (size_t i = 0; i < t->n; i++) {
		const struct transfer_row *row = &t->rows[i];

		for (size_t k = 0; k < MOVED_KINDS; k++) {
			if (strcmp(row->kind, kinds[k]) != 0)
				continue;
			out->moved[k].count += row->count;
			bytes[k] += row->bytes;
		}
		if (row->bandwidth_bytes_per_s.known &&
		    (!strcmp(row->kind, "HtoD") || !strcmp(row->kind, "DtoH"))) {
			/* Bytes of the timed ones alone. */
			link_bytes += row->bandwidth_bytes_per_s.v * (double)row->time_ns / 1e9;
			link_ns += (double)row->time_ns;
		}
	}
	for (size_t k = 0; k < MOVED_KINDS; k++)
		out->moved[k].mb = (double)bytes[k] / 1e6;
	out->link_gbps = link_ns > 0 ? value_of(link_bytes / link_ns)
				     : value_absent("no copy from or to the host was timed");
	out->dram_gbps = scaled(out->overview->dram_bytes_per_s, 1e-9);
	out->total_mb = scene_has_device(run) ? value_of((double)t->bytes / 1e6)
					      : value_absent("no device records in this run");
}

static void make_routing(struct profiler_report *out)
{
	const struct load_metrics *load = &out->overview->load;

	out->cv = out->routing_efficiency = out->tokens_mean = value_absent(NO_ROUTING);
	if (!load->known)
		return;
	out->cv = value_of(load->cv);
	out->routing_efficiency = value_of(routing_legacy_efficiency(load->cv));
	out->tokens_mean = value_of(load->mean);
}

int profiler_report_make(const struct run *run, const struct answers *answers,
			 const struct kernels *by_expert, const struct overview *overview,
			 struct profiler_report *ret_report)
{
	*ret_report = (struct profiler_report){ .overview = overview };
	make_start(run, ret_report);
	make_memory(ret_report);
	make_slowest(answer_kernels(answers), ret_report);
	make_moved(run, answer_transfers(answers), ret_report);
	make_routing(ret_report);
	return make_experts(by_expert, ret_report);
}

void profiler_report_release(struct profiler_report *report)
{
	free(report->experts);
	report->experts = NULL;
}

static const void *overview_of(const struct field_row *at)
{
	return ((const struct profiler_report *)at->item)->overview;
}

static const void *kernels_of(const struct field_row *at)
{
	return answer_kernels(at->answers);
}

static struct cell no_counters(const struct field_row *at)
{
	(void)at;
	return cell_absent(NO_COUNTERS);
}

#define OF(member) MEMBER(struct profiler_report, member)

static struct cell expert_megabytes(const struct field_row *at)
{
	const struct value *bytes = at->item;

	return bytes->known ? cell_real(bytes->v / 1e6) : cell_absent(bytes->reason);
}

static const struct field expert_mb = { .unit = UNIT_RATIO, MAY_READ(REAL, expert_megabytes) };

static const struct field_group expert_memory = {
	FIELD_ARRAY,
	.fields = &expert_mb,
	.items = { ITEMS(struct overview, expert_bytes, experts) },
};

static const char *no_expert_memory(const struct field_row *at)
{
	const struct overview *o = overview_of(at);

	return o->experts ? field_unknown(o->expert_bytes[0]) : NO_ROUTING;
}

static const struct field memory_keys[] = {
	{ "peak_memory_mb", NULL, UNIT_RATIO, OF(peak_mb) },
	{ "current_allocated_mb", NULL, UNIT_RATIO, OF(live_mb) },
	{ "reserved_mb", NULL, UNIT_RATIO, OF(reserved_mb) },
	{ "fragmentation_percent", NULL, UNIT_PCT, OF(fragmentation_pct) },
	{ "allocation_efficiency", NULL, UNIT_PCT, OF(allocation_efficiency) },
	{ "expert_memory_distribution", .from = overview_of, .of = &expert_memory,
	  .absent = no_expert_memory,
	  .meaning = "weights of the experts with that number over all layers / 1e6, as the "
		     "program reported" },
	{ "device", NULL, UNIT_DEVICE, OF(device) },
};

static const struct field_group memory = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(memory_keys) };

static const char *kernel_name(const struct field_row *at, char *room, size_t size)
{
	(void)room;
	(void)size;
	return ((const struct kernel_row *)at->item)->name;
}

static struct cell kernel_mean(const struct field_row *at)
{
	const struct kernel_row *row = at->item;

	return row->summary.n ? cell_real(row->summary.mean / 1e6) : cell_absent(NONE_TIMED);
}

static const struct field kernel_ms = { .unit = UNIT_RATIO, MAY_READ(REAL, kernel_mean) };

static const struct field_group kernel_times = {
	FIELD_MAP,
	FIELD_SPREAD_OUT,
	.fields = &kernel_ms,
	.items = { ITEMS(struct kernels, rows, n) },
	.name = kernel_name,
};

static const char *expert_name(const struct field_row *at, char *room, size_t size)
{
	snprintf(room, size, "%d", ((const struct expert_kernels *)at->item)->number);
	return room;
}

static struct cell expert_mean(const struct field_row *at)
{
	const struct expert_kernels *e = at->item;

	return e->timed ? cell_real((double)e->time_ns / 1e6 / (double)e->timed)
			: cell_absent(NONE_TIMED);
}

static const struct field expert_fields[] = {
	{ "avg_time_ms", NULL, UNIT_RATIO, MAY_READ(REAL, expert_mean) },
	{ "total_calls", NULL, UNIT_INT, MEMBER(struct expert_kernels, calls) },
};

static const struct field_group expert_object = { FIELD_OBJECT, FIELD_ON_ONE_LINE,
						  FIELDS(expert_fields) };
static const struct field expert_field = { .of = &expert_object };

static const struct field_group expert_times = {
	FIELD_MAP,
	FIELD_SPREAD_OUT,
	.fields = &expert_field,
	.items = { ITEMS(struct profiler_report, experts, n_experts) },
	.name = expert_name,
};

static struct cell slowest_name(const struct field_row *at)
{
	const struct profiler_report *report = at->item;

	if (report->slowest)
		return cell_text(report->slowest->name);
	return cell_absent(answer_kernels(at->answers)->count ? NONE_TIMED
							      : "no kernels in this run");
}

static const struct field kernel_keys[] = {
	{ "average_kernel_times", .from = kernels_of, .of = &kernel_times },
	{ "expert_performance", .of = &expert_times },
	{ "total_kernels_profiled", NULL, UNIT_INT, MEMBER(struct kernels, count),
	  .from = kernels_of },
	{ "slowest_kernel", NULL, UNIT_TEXT, MAY_READ(TEXT, slowest_name) },
	{ "occupancy_percent", NULL, UNIT_PCT, MAY_READ(REAL, no_counters) },
};

static const struct field_group kernel = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(kernel_keys) };

static const struct field moved_fields[] = {
	{ "count", NULL, UNIT_INT, MEMBER(struct moved, count) },
	{ "mb", NULL, UNIT_RATIO, MEMBER(struct moved, mb) },
};

static const struct field_group moved_object = { FIELD_OBJECT, FIELD_ON_ONE_LINE,
						 FIELDS(moved_fields) };

static const char *none_moved(const struct field_row *at)
{
	const char *moved = (const char *)at->item + at->field->offset;

	return ((const struct moved *)(const void *)moved)->count ? NULL : "none";
}

#define MOVED(kind)                                                                                \
	.offset = offsetof(struct profiler_report, moved[kind]), .of = &moved_object,              \
	.absent = none_moved, .optional = true

/* In the order of the kinds. */
static const struct field breakdown_keys[] = {
	{ "host_to_device", MOVED(0) },
	{ "device_to_host", MOVED(1) },
	{ "device_to_device", MOVED(2) },
	{ "peer_to_peer", MOVED(3) },
};

static const struct field_group breakdown = { FIELD_OBJECT, FIELD_SPREAD_OUT,
					      FIELDS(breakdown_keys) };

static const struct field movement_keys[] = {
	{ "pcie_bandwidth_gbps", NULL, UNIT_RATIO, OF(link_gbps) },
	{ "gpu_memory_bandwidth_gbps", NULL, UNIT_RATIO, OF(dram_gbps),
	  .meaning = "mean share of the peak by hardware counters, times the peak of the device" },
	{ "total_transfers_mb", NULL, UNIT_RATIO, OF(total_mb) },
	{ "cache_hit_rate", NULL, UNIT_PCT, MAY_READ(REAL, no_counters) },
	{ "transfer_breakdown", .of = &breakdown },
};

static const struct field_group movement = { FIELD_OBJECT, FIELD_SPREAD_OUT,
					     FIELDS(movement_keys) };

static const char *no_routing(const struct field_row *at)
{
	const struct overview *o = overview_of(at);

	return o->load.known ? NULL : NO_ROUTING;
}

static struct cell use_of_expert(const struct field_row *at)
{
	const struct overview *o = at->in->item;

	return cell_real(100 * (double)o->n[at->index] / (double)o->load.total);
}

static const struct field expert_use = { .unit = UNIT_PCT, READ(REAL, use_of_expert) };

static const struct field_group utilization = {
	FIELD_ARRAY,
	.fields = &expert_use,
	.items = { ITEMS(struct overview, n, experts) },
};

static const void *imbalanced_at(const struct field_row *in, size_t e)
{
	const struct overview *o = in->item;
	double n = (double)o->n[e], mean = o->load.mean;

	return n < 0.5 * mean || n > 1.5 * mean ? &o->n[e] : NULL;
}

static size_t expert_count(const struct field_row *in)
{
	return ((const struct overview *)in->item)->experts;
}

static struct cell expert_number(const struct field_row *at)
{
	return cell_uint(at->index);
}

static const struct field imbalanced_expert = { .unit = UNIT_INT, READ(U32, expert_number) };

static const struct field_group imbalanced = {
	FIELD_ARRAY,
	.fields = &imbalanced_expert,
	.items = { .item = imbalanced_at, .count = expert_count },
};

static const struct field routing_keys[] = {
	{ "expert_utilization", .from = overview_of, .of = &utilization, .absent = no_routing },
	{ "imbalanced_experts", .from = overview_of, .of = &imbalanced, .absent = no_routing },
	{ "load_balance_score", NULL, UNIT_RATIO, OF(cv) },
	{ "routing_efficiency", NULL, UNIT_PCT, OF(routing_efficiency) },
	{ "avg_tokens_per_expert", NULL, UNIT_RATIO, OF(tokens_mean) },
	{ "total_routing_decisions", NULL, UNIT_INT, MEMBER(struct overview, load.total),
	  .from = overview_of },
};

static const struct field_group routing = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(routing_keys) };

static const struct field stats_fields[] = {
	{ "memory", .of = &memory,
	  .meaning = "the device (or host) with the highest peak, as in memory.csv, / 1e6" },
	{ "kernel", .of = &kernel,
	  .meaning = "kernels.csv: mean time in ms by name and by expert" },
	{ "data_movement", .of = &movement,
	  .meaning = "transfers.csv: bytes / device time of timed copies" },
	{ "expert_routing", .of = &routing,
	  .meaning = "routing.csv summed over layers, by expert number; load_balance_score (cv) "
		     "and routing_efficiency (100 - 10 cv) are legacy" },
};

static const struct field_group stats = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(stats_fields) };

static const char *no_start(const struct field_row *at)
{
	return ((const struct profiler_report *)at->item)->timestamp[0] ? NULL
									: "the start is unknown";
}

static struct cell run_seconds(const struct field_row *at)
{
	return cell_real((double)(at->run->end_ns - at->run->start_ns) / 1e9);
}

static const void *info_of(const struct field_row *at)
{
	return &at->run->info;
}

static const struct field report_fields[] = {
	{ "timestamp", NULL, UNIT_TEXT,
	  MEMBER_AS(FIELD_TEXT_INSIDE, struct profiler_report, timestamp), .absent = no_start,
	  .meaning = "start of the run, local time" },
	{ "profiling_duration", NULL, UNIT_RATIO, READ(REAL, run_seconds),
	  .meaning = "seconds from the first to the last sign of life" },
	{ "run", NULL, UNIT_TEXT, MEMBER(struct run_info, path), .from = info_of },
	{ "stats", .of = &stats },
};

const struct field_set profiler_report_file = { FIELDS(report_fields) };
