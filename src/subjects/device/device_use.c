/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices in the time of the steps; see device_use.h. Pure, any thread.
 */
#include "subjects/device/device_use.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cmp.h"
#include "subjects/device/data_idle.h"
#include "subjects/device/device_samples.h"
#include "subjects/shared/steady.h"
#include "subjects/transfers/transfers.h"

#define OUTSIDE_SHARE 0.01 /* of a window outside the steady part: less does not matter */
enum { MEMORY_PAGEABLE = 1 };

/* From the first steady step of the process to its last one; false: it has none. */
static bool steps_window(const struct run *run, const struct selection *sel, const bool *starting,
			 struct timeline_window *window)
{
	const struct table_step *step = &run->step;
	bool any = false;

	for (size_t i = 0; i < step->n; i++) {
		int64_t start = step->start_ns[i], end = start + step->duration_ns[i];

		if (step->shard[i] != window->shard || !step_is_timed(step, i) || starting[i] ||
		    !selection_has_step(sel, step->step[i]))
			continue;
		window->start_ns = any && window->start_ns < start ? window->start_ns : start;
		window->end_ns = any && window->end_ns > end ? window->end_ns : end;
		any = true;
	}
	return any;
}

static void count_steps(const struct run *run, const struct selection *sel, const bool *starting,
			struct device_use *use)
{
	const struct table_step *step = &run->step;
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < step->n; i++) {
		if (step->unfinished[i] || !selection_has_step(sel, step->step[i]))
			continue;
		use->starting_steps += starting[i];
		sum += starting[i] ? 0 : (double)step->duration_ns[i];
		n += !starting[i];
	}
	use->step_ns = n ? sum / (double)n : 0;
}

/* Windows of the devices by the steps of their process; those of a process without steps by the
 * steps of all others that have a device. How many. */
static size_t step_windows(const struct run *run, const struct selection *sel, const bool *starting,
			   const struct timeline *timeline, struct timeline_window *windows)
{
	int64_t first = INT64_MAX, last = INT64_MIN;
	size_t n = 0;

	for (size_t i = 0; i < timeline->n; i++) {
		const struct timeline_device *d = &timeline->devices[i];
		struct timeline_window *window = &windows[i];

		*window = (struct timeline_window){ 0, 0, d->device, d->shard };
		if (!steps_window(run, sel, starting, window))
			continue;
		first = window->start_ns < first ? window->start_ns : first;
		last = window->end_ns > last ? window->end_ns : last;
	}
	for (size_t i = 0; i < timeline->n; i++) {
		const struct timeline_device *d = &timeline->devices[i];
		struct timeline_window window = windows[i];

		if (window.end_ns == window.start_ns) {
			window.start_ns = d->start_ns > first ? d->start_ns : first;
			window.end_ns = d->end_ns < last ? d->end_ns : last;
		}
		if (window.end_ns > window.start_ns)
			windows[n++] = window;
	}
	return n;
}

/* What the windows leave out; false: next to nothing. */
static bool leave_out(const struct timeline *timeline, const struct timeline_window *windows,
		      size_t n, struct device_use *use)
{
	bool much = false;

	for (size_t i = 0, w = 0; i < timeline->n; i++) {
		const struct timeline_device *d = &timeline->devices[i];
		double ends = 0, between = 0;
		size_t first = w;

		for (; w < n && windows[w].shard == d->shard && windows[w].device == d->device; w++)
			between += w > first ? (double)(windows[w].start_ns - windows[w - 1].end_ns)
					     : 0;
		much |= w == first;
		if (w == first)
			continue;
		if (windows[first].start_ns > d->start_ns)
			ends += (double)(windows[first].start_ns - d->start_ns);
		if (windows[w - 1].end_ns < d->end_ns)
			ends += (double)(d->end_ns - windows[w - 1].end_ns);
		use->aside_ns += ends;
		use->prepare_ns += between;
		much |= ends + between > OUTSIDE_SHARE * (double)(d->end_ns - d->start_ns);
	}
	return much;
}

static const struct timeline_device *timeline_device_of(const struct timeline *timeline,
							uint16_t shard, uint32_t device)
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
		const struct timeline_device *d = timeline_device_of(timeline, copy->shard[i],
								     copy->device[i]);

		if (!d || copy->untimed[i] || copy->start_ns[i] < d->start_ns ||
		    copy->start_ns[i] >= d->end_ns)
			continue;
		use->copies++;
		use->small_copies += copy->bytes[i] < TRANSFER_SMALL_BYTES;
		use->copy_bytes += copy->bytes[i] == BYTES_NOT_TOLD ? 0 : copy->bytes[i];
		use->copy_ns += copy->duration_ns[i];
		if (copy->duration_ns[i] > use->longest_copy.end_ns - use->longest_copy.start_ns)
			use->longest_copy =
				(struct span){ .start_ns = copy->start_ns[i],
					       .end_ns = copy->start_ns[i] + copy->duration_ns[i],
					       .device = d->device,
					       .shard = d->shard };
		if (copy->source_memory[i] == MEMORY_PAGEABLE ||
		    copy->target_memory[i] == MEMORY_PAGEABLE)
			use->pageable_ns += copy->duration_ns[i];
	}
}

/* Of several devices the one where it took the longest. */
static void take_longest(const struct timeline_device *d, const struct timeline_longest *longest,
			 int64_t *most_ns, struct span *to)
{
	if (longest->ns <= *most_ns)
		return;
	*most_ns = longest->ns;
	*to = (struct span){ .start_ns = longest->start_ns,
			     .end_ns = longest->end_ns,
			     .device = d->device,
			     .shard = d->shard };
}

static void find_longest(const struct timeline *timeline, const struct data_idle *data_idle,
			 struct device_use *use)
{
	int64_t most[IDLE_CAUSES] = { 0 }, most_data = 0;

	for (size_t i = 0; i < timeline->n; i++) {
		const struct timeline_device *d = &timeline->devices[i];

		for (int c = 0; c < IDLE_CAUSES; c++)
			take_longest(d, &d->longest[c], &most[c], &use->longest_idle[c]);
		take_longest(d, &data_idle[i].longest, &most_data, &use->longest_data);
	}
}

static void add_device_use(struct device_use *use, const struct timeline_device *d,
			   int64_t data_idle)
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
	use->queued_ns += (double)idle[IDLE_QUEUED];
	use->unknown_ns += (double)idle[IDLE_UNKNOWN];
	use->copy_alone_ns += (double)(d->copy_ns - d->overlap_ns);
	use->short_gaps += d->short_gaps;
}

static int numbers_ascending(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return CMP(*x, *y);
}

static bool has_number(const uint32_t *sorted, size_t n, uint32_t number)
{
	return n && bsearch(&number, sorted, n, sizeof(*sorted), numbers_ascending);
}

/* Processes beside those of the run on devices that one of these was listed on, too. */
static int count_others(const struct run *run, size_t *ret_others)
{
	const struct table_process *t = &run->process;
	uint32_t *own = calloc(run->n_shards + 1, sizeof(*own));
	uint32_t *devices = calloc(t->n + 1, sizeof(*devices));
	uint32_t *pids = calloc(t->n + 1, sizeof(*pids));
	size_t n_devices = 0, n = 0;
	int r = own && devices && pids ? 0 : -ENOMEM;

	if (r >= 0) {
		for (size_t s = 0; s < run->n_shards; s++)
			own[s] = run->shards[s].pid;
		qsort(own, run->n_shards, sizeof(*own), numbers_ascending);
		for (size_t i = 0; i < t->n; i++)
			if (has_number(own, run->n_shards, t->pid[i]))
				devices[n_devices++] = t->device[i];
		qsort(devices, n_devices, sizeof(*devices), numbers_ascending);
		for (size_t i = 0; i < t->n; i++)
			if (!t->kind[i] && !has_number(own, run->n_shards, t->pid[i]) &&
			    has_number(devices, n_devices, t->device[i]))
				pids[n++] = t->pid[i];
		qsort(pids, n, sizeof(*pids), numbers_ascending);
		for (size_t i = 0; i < n; i++)
			*ret_others += !i || pids[i] != pids[i - 1];
	}
	free(own);
	free(devices);
	free(pids);
	return r;
}

static int measure_use(const struct run *run, const struct timeline *timeline,
		       struct device_use *use)
{
	struct data_idle *data_idle = calloc(timeline->n + 1, sizeof(*data_idle));
	int r = data_idle ? data_idle_measure(run, timeline, data_idle) : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < timeline->n; i++)
		add_device_use(use, &timeline->devices[i], data_idle[i].ns);
	if (r >= 0)
		find_longest(timeline, data_idle, use);
	free(data_idle);
	device_samples_summarize(run, timeline, use);
	count_copies(run, timeline, use);
	return r < 0 ? r : count_others(run, &use->others);
}

static int plain_windows(const struct run *run, const struct timeline *timeline,
			 struct timeline_window *windows, size_t *ret_n)
{
	int r = 0;

	*ret_n = 0;
	for (size_t i = 0; r >= 0 && i < timeline->n; i++) {
		size_t n = 0;

		r = steady_windows(run, &timeline->devices[i], windows + *ret_n, &n);
		*ret_n += n;
	}
	return r;
}

/* Windows of the steady part of each device; *ret_n 0: all of the timeline. */
static int choose_windows(const struct run *run, const struct selection *sel,
			  const struct timeline *timeline, struct timeline_window *windows,
			  size_t *ret_n, struct device_use *use)
{
	bool *starting = calloc(run->step.n + 1, sizeof(*starting));
	bool chosen = selection_is_window(sel);
	int r = starting ? 0 : -ENOMEM;
	size_t n = 0;

	if (r >= 0 && !chosen)
		r = steady_steps(run, sel, starting);
	if (r >= 0)
		n = step_windows(run, sel, starting, timeline, windows);
	/* Steps of a process without a device say nothing about the others' windows. */
	use->of_steps = n > 0;
	if (n)
		count_steps(run, sel, starting, use);
	else if (r >= 0)
		r = plain_windows(run, timeline, windows, &n);
	*ret_n = r >= 0 && !chosen && leave_out(timeline, windows, n, use) ? n : 0;
	free(starting);
	return r;
}

static size_t most_windows(const struct timeline *timeline)
{
	size_t most = timeline->n;

	for (size_t i = 0; i < timeline->n; i++)
		most += timeline->devices[i].n_long_gaps;
	return most;
}

int device_use_analyze(const struct attribution *at, const struct device_lanes *lanes,
		       const struct selection *sel, const struct timeline *timeline,
		       struct device_use *ret_use)
{
	const struct run *run = at->run;
	struct device_use use = { .dram_pct = value_absent("no device records"),
				  .tensor_pct = value_absent("no device records") };
	struct timeline_window *windows;
	struct timeline steady = { 0 };
	size_t n = 0;
	int r;

	if (!timeline->n) {
		*ret_use = use;
		return 0;
	}
	windows = calloc(most_windows(timeline), sizeof(*windows));
	r = windows ? choose_windows(run, sel, timeline, windows, &n, &use) : -ENOMEM;
	if (r >= 0 && n)
		r = timeline_analyze_in(at, lanes, windows, n, &steady);
	if (r >= 0)
		r = measure_use(run, n ? &steady : timeline, &use);
	timeline_release(&steady);
	free(windows);
	if (r < 0)
		return r;
	if (use.window_ns <= 0)
		use.devices = 0;
	use.cut = n && !use.of_steps;
	use.no_steady = use.window_ns < STEADY_LEFT_NS * (double)use.devices &&
			use.window_ns <
				STEADY_CUT * (use.window_ns + use.aside_ns + use.prepare_ns);
	*ret_use = use;
	return 0;
}
