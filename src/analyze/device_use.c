/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices in the time of the steps; see device_use.h. Pure, any thread.
 */
#include "analyze/device_use.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/data_idle.h"
#include "analyze/device_samples.h"
#include "analyze/transfers.h"

#define OUTSIDE_SHARE 0.01 /* of a window outside all steps: less does not matter */
enum { MEMORY_PAGEABLE = 1 };

/* The selection that goes from the first finished step to the last one; false: there is none. */
static bool steps_window(const struct run *run, const struct selection *sel,
			 struct selection *ret_sel, int64_t *ret_start, int64_t *ret_end)
{
	const struct table_step *step = &run->step;
	bool any = false;

	*ret_sel = *sel;
	for (size_t i = 0; i < step->n; i++) {
		int64_t end = step->start_ns[i] + step->duration_ns[i];

		if (step->unfinished[i] || !selection_has_step(sel, step->step[i]))
			continue;
		if (!any || step->step[i] < ret_sel->step_first)
			ret_sel->step_first = step->step[i];
		if (!any || step->step[i] > ret_sel->step_last)
			ret_sel->step_last = step->step[i];
		*ret_start = any && *ret_start < step->start_ns[i] ? *ret_start : step->start_ns[i];
		*ret_end = any && *ret_end > end ? *ret_end : end;
		any = true;
	}
	return any;
}

static bool much_outside(const struct timeline *timeline, int64_t start, int64_t end)
{
	for (size_t i = 0; i < timeline->n; i++) {
		const struct timeline_device *d = &timeline->devices[i];
		double outside = 0;

		outside += d->start_ns < start ? (double)(start - d->start_ns) : 0;
		outside += d->end_ns > end ? (double)(d->end_ns - end) : 0;
		if (outside > OUTSIDE_SHARE * (double)(d->end_ns - d->start_ns))
			return true;
	}
	return false;
}

static const struct timeline_device *device_of(const struct timeline *timeline, uint16_t shard,
					       uint32_t device)
{
	for (size_t i = 0; i < timeline->n; i++)
		if (timeline->devices[i].shard == shard && timeline->devices[i].device == device)
			return &timeline->devices[i];
	return NULL;
}

static void count_copies(const struct run *run, const struct timeline *timeline,
			 struct device_use *use)
{
	const struct table_copy *copy = &run->copy;

	for (size_t i = 0; i < copy->n; i++) {
		const struct timeline_device *d = device_of(timeline, copy->shard[i],
							    copy->device[i]);

		if (!d || copy->untimed[i] || copy->start_ns[i] < d->start_ns ||
		    copy->start_ns[i] >= d->end_ns)
			continue;
		use->copies++;
		use->small_copies += copy->bytes[i] < TRANSFER_SMALL_BYTES;
		use->copy_bytes += copy->bytes[i];
		use->copy_ns += copy->duration_ns[i];
		if (copy->source_memory[i] == MEMORY_PAGEABLE ||
		    copy->target_memory[i] == MEMORY_PAGEABLE)
			use->pageable_ns += copy->duration_ns[i];
	}
}

static void add_device(struct device_use *use, const struct timeline_device *d, int64_t data_idle)
{
	const int64_t *idle = d->idle_by_cause;
	double host = (double)(idle[IDLE_HOST] - d->short_host_ns);
	double sync = (double)idle[IDLE_SYNC], data = (double)data_idle;

	/* What is in no cause of the host (a copy in the data phase) is not data's to explain. */
	data = data > host + sync ? host + sync : data;
	use->devices++;
	use->window_ns += (double)(d->window_ns - idle[IDLE_PROFILER]);
	use->busy_ns += (double)d->busy_ns;
	use->kernel_ns += (double)d->kernel_ns;
	use->launch_ns += (double)(idle[IDLE_LAUNCH] + d->short_host_ns);
	use->data_ns += data;
	use->host_ns += data < host ? host - data : 0;
	use->sync_ns += data < host ? sync : sync - (data - host);
	use->copy_wait_ns += (double)idle[IDLE_COPY];
	use->copy_alone_ns += (double)(d->copy_ns - d->overlap_ns);
	use->short_gaps += d->short_gaps;
}

static int measure(const struct run *run, const struct timeline *timeline,
		   const struct coverage *coverage, struct device_use *use)
{
	int64_t *data_idle = calloc(timeline->n + 1, sizeof(*data_idle));
	int r = data_idle ? data_idle_measure(run, timeline, coverage, data_idle) : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < timeline->n; i++)
		add_device(use, &timeline->devices[i], data_idle[i]);
	free(data_idle);
	device_samples_summarize(run, timeline, use);
	count_copies(run, timeline, use);
	return r;
}

int device_use_analyze(const struct run *run, const struct selection *sel,
		       const struct timeline *timeline, const struct coverage *coverage,
		       struct device_use *ret_use)
{
	struct device_use use = { .dram_pct = value_absent("no device records"),
				  .tensor_pct = value_absent("no device records") };
	struct timeline stepped = { 0 };
	struct selection steps;
	int64_t start = 0, end = 0;
	int r = 0;

	use.of_steps = timeline->n && steps_window(run, sel, &steps, &start, &end);
	if (use.of_steps && !selection_is_window(sel) && much_outside(timeline, start, end))
		r = timeline_analyze(run, &steps, &stepped);
	/* Steps of a process without a device say nothing about the others' windows. */
	if (r >= 0 && stepped.devices && !stepped.n)
		use.of_steps = false;
	if (r >= 0 && timeline->n)
		r = measure(run, stepped.n ? &stepped : timeline, coverage, &use);
	timeline_release(&stepped);
	if (r < 0)
		return r;
	if (use.window_ns <= 0)
		use.devices = 0;
	*ret_use = use;
	return 0;
}
