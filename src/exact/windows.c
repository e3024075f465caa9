/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of launches; see windows.h.
 */
#include "exact/windows.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "counters/sets.h"
#include "exact/ranges.h"
#include "exact/streams.h"
#include "moescope.h"
#include "probe/gpu/launch_metrics.h"

#define TURNS_GROW 9  /* times, each to twice as many launches */
#define REPLAY_TURN 8 /* launches that are replayed before another group has its turn */
#define REPLAY_NS 2e9 /* for all passes of a kernel; less than others wait for a change */
/* Between launches that are counted may be others. A window stays open for so many in a row: they cost 0.1 ms each, another
 * window 55 ms, and one with room for a single launch 20 ms (H200). Kernels that are chosen by their names have one each,
 * until so many in a row came so soon after the last: to make room for more takes 0.8 s. */
#define PASSED_MOST 150
#define NEAR_MOST 25

struct launched {
	struct kernel *kernel; /* NULL: it only came between others */
	struct row_launch launch;
	uint32_t context, number;
};

static struct {
	bool open;
	CUcontext context;
	size_t group;
	uint32_t device;
	struct launched launches[RANGES_MOST];
	size_t n, room;
	size_t chosen; /* of them */
} window;
static size_t window_most; /* launches in one */
static uint64_t left_to_count, to_count;
static uint32_t numbered; /* launches that were to be counted */
static struct windows_counts counts;
static _Atomic bool stopped;
static _Atomic unsigned int changes;
static bool begun; /* the first */

/* Launches that were not chosen, since the last that was; FAR: more than can share a window, or one that must not. And how
 * many in a row were chosen before that, in windows of their own. */
#define FAR (PASSED_MOST + 1)
static unsigned int passed, near;
static bool shares;	  /* these have windows together */
static bool never_shares; /* the driver launches something between them */

static size_t turns;	 /* that groups have taken */
static size_t turn_left; /* launches of the present one */
static size_t turn_group;
static uint32_t groups_seen; /* a bit for each that a launch was counted with */
static moescope_name units[RANGES_GROUPS_MOST][EXACT_METRICS_MOST],
	names[RANGES_GROUPS_MOST][EXACT_METRICS_MOST], sections[RANGES_GROUPS_MOST];
static size_t
	time_at[RANGES_GROUPS_MOST]; /* which of the metrics is the kernel's time; SIZE_MAX: none */

void windows_stop(const struct err *why)
{
	if (!atomic_exchange(&stopped, true) && why)
		moescope_info("counters of kernels", why->message);
}

bool windows_stopped(void)
{
	return atomic_load(&stopped);
}

unsigned int windows_changes(void)
{
	return atomic_load(&changes);
}

const struct windows_counts *windows_counts(void)
{
	return &counts;
}

static const char *unit_of(const char *metric)
{
	if (strstr(metric, "pct"))
		return "%";
	if (strstr(metric, "time_duration"))
		return "ns";
	if (strstr(metric, "per_second"))
		return strstr(metric, "bytes") ? "byte/s" : "1/s";
	return strstr(metric, "bytes") && !strstr(metric, "per_") ? "byte" : "";
}

void windows_begin(uint64_t launches)
{
	left_to_count = to_count = launches;
	window_most = chosen_by_kernel() ? 1 : ranges_for(launches);
	for (size_t g = 0; g < ranges_groups(); g++) {
		size_t n;
		const char **metrics = ranges_metrics(g, &n);
		char section[48];

		snprintf(section, sizeof(section), EXACT_REPLAYED, ranges_passes(g));
		sections[g] = ranges_passes(g) > 1 ? moescope_intern(section) : 0;
		time_at[g] = SIZE_MAX;
		for (size_t m = 0; m < n; m++) {
			if (!strcmp(metrics[m], EXACT_TIME))
				time_at[g] = m;
			names[g][m] = moescope_intern(metrics[m]);
			units[g][m] = *unit_of(metrics[m]) ? moescope_intern(unit_of(metrics[m]))
							   : 0;
		}
	}
}

/* ---- the end of a window */

static void record(size_t i, const double *values)
{
	struct launched *launched = &window.launches[i];
	struct row_metric rows[EXACT_METRICS_MOST];
	size_t n, kept = 0;

	ranges_metrics(window.group, &n);
	counts.counted++;
	groups_seen |= UINT32_C(1) << window.group;
	for (size_t m = 0; m < n; m++)
		if (isfinite(values[m]))
			rows[kept++] = (struct row_metric){ .profile = launched->number,
							    .device = window.device,
							    .context = launched->context,
							    .section = sections[window.group],
							    .name = names[window.group][m],
							    .unit = units[window.group][m],
							    .value = values[m] };
	counts.valueless += n - kept;
	moescope_launch_metrics(&launched->launch, rows, kept);
	if (ranges_passes(window.group) == 1 && time_at[window.group] < n &&
	    values[time_at[window.group]] > launched->kernel->alone_ns)
		launched->kernel->alone_ns = values[time_at[window.group]];
}

void windows_close(void)
{
	double values[EXACT_METRICS_MOST];
	struct err err = { "" };
	size_t n = 0;
	int r;

	if (!window.open)
		return;
	window.open = false;
	left_to_count -= window.chosen < left_to_count ? window.chosen : left_to_count;
	r = ranges_stop(&n, &err);
	if (r == -EAGAIN) {
		counts.partial += window.chosen;
		return;
	}
	/* The driver has kernels of its own: then nobody knows which is which. */
	if (r == 0 && n != window.n) {
		counts.unmatched += window.chosen;
		never_shares = true;
		window_most = chosen_by_kernel() ? 1 : window_most;
	}
	counts.between += window.n - window.chosen;
	for (size_t i = 0; r == 0 && n == window.n && i < n; i++) {
		if (!window.launches[i].kernel)
			continue;
		r = ranges_values(i, values, &err);
		if (r == 0)
			record(i, values);
	}
	if (r < 0)
		windows_stop(&err);
	moescope_launches_counted(counts.counted, to_count,
				  (uint32_t)__builtin_popcount(groups_seen),
				  (uint32_t)ranges_groups());
}

void windows_break(void)
{
	passed = FAR;
	windows_close();
}

void windows_forget(CUcontext context)
{
	if (window.open && window.context == context)
		windows_close();
	ranges_forget(context);
}

/* ---- the begin of a window */

/* What is known of a kernel before it is launched. */
static enum replay_answer replay_of_kernel(const struct kernel *kernel, size_t group)
{
	if (replay_is_shared())
		return REPLAY_SHARED;
	if (kernel->unknown)
		return REPLAY_CLASS;
	if (kernel->alone_ns <= 0)
		return REPLAY_UNSEEN;
	return kernel->alone_ns * (double)ranges_passes(group) > REPLAY_NS ? REPLAY_LONG
									   : REPLAY_FIT;
}

/* A kernel that may be replayed also has the driver for itself, to the end of its launch. */
static enum replay_answer replay_of_launch_begun(const CUpti_CallbackData *data, enum call_use use,
						 const struct kernel *kernel, size_t group)
{
	struct replay_launch launch = call_launch(use, data->functionParams);
	enum replay_answer answer = replay_of_kernel(kernel, group);

	if (answer == REPLAY_FIT &&
	    counter_api.cuptiGetDeviceId(data->context, &launch.device) != CUPTI_SUCCESS)
		answer = REPLAY_MEMORY;
	if (answer == REPLAY_FIT)
		answer = replay_of_launch(&launch);
	return answer == REPLAY_FIT ? replay_alone(data->context) : answer;
}

/* Several groups take turns, since changing them takes long. A turn begins with the next group of its first kernel. Turns
 * grow, so that short programs have them all, too. */
static size_t group_for(const struct kernel *kernel)
{
	size_t round = turns / ranges_groups();

	if (turn_left)
		return turn_group;
	turn_left = (size_t)1 << (round < TURNS_GROW ? round : TURNS_GROW);
	turns++;
	turn_group = kernel->next_group;
	/* The first of a turn is counted; group 0 needs one pass. */
	while (ranges_passes(turn_group) > 1 &&
	       replay_of_kernel(kernel, turn_group) != REPLAY_FIT) {
		counts.not_replayed[replay_of_kernel(kernel, turn_group)]++;
		turn_group = (turn_group + 1) % ranges_groups();
	}
	if (ranges_passes(turn_group) > 1 && turn_left > REPLAY_TURN)
		turn_left = REPLAY_TURN;
	return turn_group;
}

/* Launches of the next window. */
static size_t room_for(size_t group)
{
	size_t most = ranges_passes(group) > 1 ? 1 : ranges_groups() > 1 ? turn_left : window_most;

	most = most < window_most ? most : window_most;
	return shares || most < left_to_count ? most : (size_t)left_to_count;
}

static bool open_window(const CUpti_CallbackData *data, size_t group)
{
	struct err err = { "" };
	int r = begun ? 0 : counter_api_begin_exact(&err);

	if (r == 0) {
		begun = true;
		atomic_fetch_add(&changes, 1);
		r = ranges_start(data->context, group, room_for(group), &err);
		atomic_fetch_add(&changes, 1);
	}
	if (r == -EBUSY)
		counts.elsewhere++;
	else if (r < 0)
		windows_stop(&err);
	if (r < 0)
		return false;
	window.open = true;
	window.context = data->context;
	window.group = group;
	window.n = window.chosen = 0;
	window.room = room_for(group);
	window.device = 0;
	counter_api.cuptiGetDeviceId(data->context, &window.device);
	return true;
}

/* The window for a launch; false: it is not counted. */
static bool has_window(const CUpti_CallbackData *data, enum call_use use,
		       const struct kernel *kernel)
{
	enum replay_answer answer = REPLAY_FIT;
	size_t group;

	if (window.open) {
		counts.elsewhere += window.context != data->context;
		return window.context == data->context;
	}
	/* A window waits for what runs, and the rank that this waits for may wait for us. */
	if (!streams_marked_ended(data->context)) {
		counts.beside++;
		return false;
	}
	group = group_for(kernel);
	if (ranges_passes(group) > 1)
		answer = replay_of_launch_begun(data, use, kernel, group);
	if (answer != REPLAY_FIT) {
		turn_left -= turn_left > 0;
		counts.not_replayed[answer]++;
		return false;
	}
	return open_window(data, group);
}

/* ---- launches */

static void note_chosen(void)
{
	near = window_most == 1 && numbered && passed < FAR ? near + 1 : 0;
	passed = 0;
	if (near < NEAR_MOST || never_shares || left_to_count <= NEAR_MOST)
		return;
	shares = true;
	window_most = ranges_for(to_count);
}

void windows_add(const CUpti_CallbackData *data, enum call_use use, struct kernel *kernel)
{
	struct launched *launched;

	if (!has_window(data, use, kernel))
		return;
	note_chosen();
	kernel->next_group = (uint8_t)((window.group + 1) % ranges_groups());
	launched = &window.launches[window.n++];
	window.chosen++;
	turn_left -= turn_left > 0;
	*launched = (struct launched){ .kernel = kernel,
				       .launch.name = kernel->name,
				       .context = data->contextUid,
				       .number = ++numbered };
	call_shape(use, data->functionParams, &launched->launch);
	moescope_launch_begins(&launched->launch, launched->number);
}

/* What may be waiting for something is not in a window for the sake of others. */
void windows_pass(const CUpti_CallbackData *data, const struct kernel *kernel)
{
	bool harmless = kernel && !kernel->talks && !kernel->unknown && !never_shares;

	passed = harmless && passed < FAR ? passed + 1 : FAR;
	if (window.open && window.context == data->context && passed < FAR &&
	    window.n + 1 < window.room)
		window.launches[window.n++].kernel = NULL;
	else
		windows_close();
}

static bool is_full(void)
{
	return window.n >= window.room || window.chosen >= left_to_count ||
	       ranges_passes(window.group) > 1 || (ranges_groups() > 1 && !turn_left);
}

void windows_launched(const CUpti_CallbackData *data, bool failed)
{
	/* It never ran: there is no range of it. */
	if (window.open && window.n && window.context == data->context && failed) {
		window.n--;
		window.chosen -= window.launches[window.n].kernel != NULL;
		if (replay_goes_on())
			windows_stop(
				&(struct err){ "a launch failed while it was to be replayed" });
	}
	if (window.open && is_full())
		windows_close();
	if (!left_to_count)
		windows_stop(NULL);
}
