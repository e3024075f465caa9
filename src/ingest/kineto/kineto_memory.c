/* SPDX-License-Identifier: Apache-2.0
 *
 * What rows the events of PyTorch's allocator become. Each tells how much is allocated and reserved
 * after it: readings of the device. The first total, less the bytes of its event, is what was live
 * before the trace.
 */
#include "ingest/kineto/kineto_rows.h"
#include "moescope.h"

static void add_account(struct reader *r, const struct event *e, uint32_t device, uint64_t bytes,
			uint32_t *metric, const char *metric_name)
{
	struct row_sample row = { .time_ns = e->time_ns, .device = device, .value = (double)bytes };

	if (!*metric)
		*metric = part_text(r->part, metric_name);
	row.metric = *metric;
	part_add(r->part, RECORD_SAMPLE, &row);
}

int firsts_note(struct first_memory **firsts, size_t *n, size_t *capacity,
		const struct first_memory *first)
{
	for (size_t i = 0; i < *n; i++) {
		struct first_memory *f = &(*firsts)[i];

		if (f->device != first->device || f->lane != first->lane)
			continue;
		if (first->time_ns < f->time_ns)
			*f = *first;
		return 0;
	}
	if (array_grow(firsts, capacity, *n + 1, sizeof(**firsts)) < 0)
		return -ENOMEM;
	(*firsts)[(*n)++] = *first;
	return 0;
}

/* Our own traces have a record of it. */
static void note_first(struct reader *r, const struct event *e, uint32_t device, uint64_t allocated,
		       int64_t bytes)
{
	struct first_memory first = { .time_ns = e->time_ns,
				      .device = device,
				      .lane = (uint32_t)(r->lane - r->lanes) };

	if (r->own || allocated > INT64_MAX ||
	    __builtin_sub_overflow((int64_t)allocated, bytes, &first.before_bytes))
		return;
	if (firsts_note(&r->firsts, &r->n_firsts, &r->firsts_capacity, &first) < 0)
		r->failed = -ENOMEM;
}

void rows_add_firsts(struct reader *r, const struct first_memory *firsts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct row_memory row = { .time_ns = firsts[i].time_ns,
					  .event = MOESCOPE_EVENT_BEFORE,
					  .bytes = (uint64_t)firsts[i].before_bytes,
					  .device = (int32_t)firsts[i].device };

		if (firsts[i].before_bytes < 0) {
			intake_note(r->intake,
				    "device %u: the first total of the allocator is less than the "
				    "allocation that it follows: what was live before is unknown",
				    firsts[i].device);
			continue;
		}
		lane_choose(r, firsts[i].lane);
		part_add(r->part, RECORD_MEMORY, &row);
	}
}

/* An allocation (bytes above 0) or a free (below). Before 2022 no addresses were told; frees then have
 * no allocation that they end. The host's totals begin at 0 with the profiler, and what is freed while
 * it is off stays in them: they say nothing of what was live before. */
void rows_add_memory(struct reader *r, const struct event *e, const struct args *args)
{
	bool on_host = number(args, ARG_DEVICE_TYPE, 0) == 0;
	int64_t bytes = (int64_t)number(args, ARG_BYTES, 0);
	uint32_t device = number32(args, ARG_DEVICE, 0);

	if (!has_arg(args, ARG_BYTES)) {
		event_damaged(r, e, "a memory event without its bytes");
		return;
	}
	if (has_arg(args, ARG_ADDRESS)) {
		struct row_memory row = {
			.time_ns = e->time_ns,
			.event = bytes < 0 ? MOESCOPE_EVENT_FREE : MOESCOPE_EVENT_ALLOC,
			.address = args->number[ARG_ADDRESS],
			.bytes = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes,
			.device = on_host ? -1 : (int32_t)device,
			.thread = thread_of(e),
		};

		if (r->own && bytes < 0)
			row.bytes = 0; /* told when the run had it */
		fill_extra(r, e, args, RECORD_MEMORY, &row);
		part_add(r->part, RECORD_MEMORY, &row);
	} else {
		r->known.without_address++;
	}
	if (on_host)
		return;
	r->known.allocated |= device < DEVICES_MAPPED ? UINT64_C(1) << device : 0;
	if (has_arg(args, ARG_ALLOCATED)) {
		add_account(r, e, device, args->number[ARG_ALLOCATED], &r->lane->allocated_metric,
			    "allocated_bytes");
		if (has_arg(args, ARG_ADDRESS))
			note_first(r, e, device, args->number[ARG_ALLOCATED], bytes);
	}
	if (has_arg(args, ARG_RESERVED))
		add_account(r, e, device, args->number[ARG_RESERVED], &r->lane->reserved_metric,
			    "reserved_bytes");
}
