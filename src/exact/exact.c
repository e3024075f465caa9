/* SPDX-License-Identifier: Apache-2.0
 *
 * libmoescope-exact.so: what `run --counters SET|METRIC,...` has the driver load in place of libmoescope.so, which it is
 * linked with. Kernels are counted where the program launches them, and there are no other records of the GPU: neither
 * goes with the other. Nothing of this is in a process that is not counted.
 *
 * Threads: the program's, in CUPTI's callbacks around its launches. A launch that is counted holds the lock from its
 * begin to its end. Who waits longer than PATIENCE_MS for it goes on, and counting ends for good: a kernel may be waiting
 * for what that thread is about to launch. Before a window begins no such kernel runs, and whoever went on would launch
 * beside CUPTI's change of counters: there they wait longer. Likewise while a kernel is replayed, which has ended alone
 * before. What the program does in a handler of a signal inside one of these calls is left alone: the lock may be its own.
 *
 * Not counted: kernels that talk to other GPUs or ranks (they would wait for those that are not running), any beside
 * them, graphs, and whatever is launched while a stream is captured. Not replayed: see replay.h.
 */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters/api.h"
#include "counters/sets.h"
#include "exact/calls.h"
#include "exact/chosen.h"
#include "exact/patience.h"
#include "exact/pc_samples.h"
#include "exact/ranges.h"
#include "exact/replay.h"
#include "exact/streams.h"
#include "moescope.h"
#include "probe/gpu/launch_metrics.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PATIENCE_MS 1000
/* So often, while the metrics of another group are set, in 0.3 s and more: no counted kernel runs then. */
#define CHANGE_PATIENCES 10
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t process;
static _Atomic bool ended; /* nothing is counted any more */
static _Atomic bool gave_up;
static _Atomic bool changing; /* the lock is held to begin a window */
static _Atomic uint64_t capturing;
static _Atomic uint64_t graphs;
static bool replays; /* some group; set at the begin */
#define OF_THREAD static __thread __attribute__((tls_model("initial-exec")))
OF_THREAD bool holds;	       /* the lock, for a launch */
OF_THREAD unsigned int nested; /* launches inside of that */
OF_THREAD bool inside;	       /* of a callback */

/* With the lock. */
static uint64_t left_to_count, to_count, counted, unmatched, valueless, partial;
static uint64_t talking, in_captures, elsewhere, nameless, beside;
static uint64_t not_replayed[REPLAY_ANSWERS];
static uint32_t groups_seen; /* a bit for each that a launch was counted with */
static CUcontext first_context;
static uint32_t numbered; /* launches that were to be counted */
static bool begun;
static size_t window_most; /* launches in one */
/* Launches that were not chosen, since the last that was; FAR: more than can share a window, or one that must not. And how
 * many in a row were chosen before that, in windows of their own. */
#define FAR (PASSED_MOST + 1)
static unsigned int passed, near;
static bool shares;	  /* these have windows together */
static bool never_shares; /* the driver launches something between them */
static uint64_t between;  /* launches that were not chosen, in windows */
static size_t turns;	  /* that groups have taken */
static size_t turn_left;  /* launches of the present one */
static size_t turn_group;
static _Atomic bool window_open; /* changed with the lock */
static struct {
	CUcontext context;
	size_t group;
	uint32_t device;
	struct launched launches[RANGES_MOST];
	size_t n, room;
	size_t chosen; /* of them */
} window;
static moescope_name units[RANGES_GROUPS_MOST][EXACT_METRICS_MOST],
	names[RANGES_GROUPS_MOST][EXACT_METRICS_MOST], sections[RANGES_GROUPS_MOST];
static size_t
	time_at[RANGES_GROUPS_MOST]; /* which of the metrics is the kernel's time; SIZE_MAX: none */

/* Not in a forked child: CUPTI would hang there. Nor in a handler of a signal that came inside of a launch. */
static bool hold(void)
{
	bool free = false;

	if (holds || getpid() != process)
		return false;
	replay_waits(true);
	for (int tries = 0; !free && (!tries || (tries < CHANGE_PATIENCES &&
						 (atomic_load(&changing) || replay_goes_on())));
	     tries++)
		free = lock_within(&lock, PATIENCE_MS);
	replay_waits(false);
	if (free)
		return true;
	atomic_store(&gave_up, true);
	atomic_store(&ended, true);
	return false;
}

static void stop_for_good(const struct err *err)
{
	if (!atomic_exchange(&ended, true))
		moescope_info("counters of kernels", err->message);
}

/* ---- windows: some launches in a row, counted together */

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

static void record(size_t i, const double *values)
{
	struct launched *launched = &window.launches[i];
	struct row_metric rows[EXACT_METRICS_MOST];
	size_t n, kept = 0;

	ranges_metrics(window.group, &n);
	counted++;
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
	valueless += n - kept;
	moescope_launch_metrics(&launched->launch, rows, kept);
	if (ranges_passes(window.group) == 1 && time_at[window.group] < n &&
	    values[time_at[window.group]] > launched->kernel->alone_ns)
		launched->kernel->alone_ns = values[time_at[window.group]];
}

static void close_window(void)
{
	double values[EXACT_METRICS_MOST];
	struct err err = { "" };
	size_t n = 0;
	int r;

	if (!atomic_load(&window_open))
		return;
	atomic_store(&window_open, false);
	left_to_count -= window.chosen < left_to_count ? window.chosen : left_to_count;
	r = ranges_stop(&n, &err);
	if (r == -EAGAIN) {
		partial += window.chosen;
		return;
	}
	/* The driver has kernels of its own: then nobody knows which is which. */
	if (r == 0 && n != window.n) {
		unmatched += window.chosen;
		never_shares = true;
		window_most = chosen_by_kernel() ? 1 : window_most;
	}
	between += window.n - window.chosen;
	for (size_t i = 0; r == 0 && n == window.n && i < n; i++) {
		if (!window.launches[i].kernel)
			continue;
		r = ranges_values(i, values, &err);
		if (r == 0)
			record(i, values);
	}
	if (r < 0)
		stop_for_good(&err);
	moescope_launches_counted(counted, to_count, (uint32_t)__builtin_popcount(groups_seen),
				  (uint32_t)ranges_groups());
}

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
		not_replayed[replay_of_kernel(kernel, turn_group)]++;
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
		atomic_store(&changing, true);
		r = ranges_start(data->context, group, room_for(group), &err);
		atomic_store(&changing, false);
	}
	if (r == -EBUSY)
		elsewhere++;
	else if (r < 0)
		stop_for_good(&err);
	if (r < 0)
		return false;
	atomic_store(&window_open, true);
	window.context = data->context;
	window.group = group;
	window.n = window.chosen = 0;
	window.room = room_for(group);
	window.device = 0;
	counter_api.cuptiGetDeviceId(data->context, &window.device);
	return true;
}

/* ---- launches */

/* With the lock; a kernel that may be replayed also has the driver for itself, to the end of its launch. */
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

static void add_launch(const CUpti_CallbackData *data, struct kernel *kernel, enum call_use use)
{
	struct launched *launched = &window.launches[window.n++];

	window.chosen++;
	turn_left -= turn_left > 0;
	*launched = (struct launched){ .kernel = kernel,
				       .launch.name = kernel->name,
				       .context = data->contextUid,
				       .number = ++numbered };
	call_shape(use, data->functionParams, &launched->launch);
	moescope_launch_begins(&launched->launch, launched->number);
}

/* One that was not chosen. What may be waiting for something is not in a window for the sake of others. */
static void pass(const CUpti_CallbackData *data, const struct kernel *kernel)
{
	bool harmless = kernel && !kernel->talks && !kernel->unknown && !never_shares;

	passed = harmless && passed < FAR ? passed + 1 : FAR;
	if (atomic_load(&window_open) && window.context == data->context && passed < FAR &&
	    window.n + 1 < window.room)
		window.launches[window.n++].kernel = NULL;
	else
		close_window();
}

static void note_chosen(void)
{
	near = window_most == 1 && numbered && passed < FAR ? near + 1 : 0;
	passed = 0;
	if (near < NEAR_MOST || never_shares || left_to_count <= NEAR_MOST)
		return;
	shares = true;
	window_most = ranges_for(to_count);
}

/* What must not come between the launches of a window. */
static void come_between(void)
{
	if (!hold())
		return;
	passed = FAR;
	close_window();
	pthread_mutex_unlock(&lock);
}

/* What others do about it: kernels that may wait for other GPUs, ranks or the host run until their streams have ended. */
static void note_launch(const CUpti_CallbackData *data, enum call_use use,
			const struct kernel *kernel)
{
	if (!first_context)
		first_context = data->context;
	if (first_context != data->context || (kernel && kernel->talks))
		replay_process_shares();
	if (!kernel || kernel->talks)
		streams_mark(data->context, call_stream(use, data->functionParams));
}

/* The window for it; false: it is not counted. */
static bool has_window(const CUpti_CallbackData *data, enum call_use use,
		       const struct kernel *kernel)
{
	enum replay_answer answer = REPLAY_FIT;
	size_t group;

	if (atomic_load(&window_open)) {
		elsewhere += window.context != data->context;
		return window.context == data->context;
	}
	/* A window waits for what runs, and the rank that this waits for may wait for us. */
	if (!streams_marked_ended(data->context)) {
		beside++;
		return false;
	}
	group = group_for(kernel);
	if (ranges_passes(group) > 1)
		answer = replay_of_launch_begun(data, use, kernel, group);
	if (answer != REPLAY_FIT) {
		turn_left -= turn_left > 0;
		not_replayed[answer]++;
		return false;
	}
	return open_window(data, group);
}

/* With the lock. */
static void count_launch(const CUpti_CallbackData *data, enum call_use use)
{
	bool recorded = (__atomic_load_n(&moescope_gate, __ATOMIC_RELAXED) & 0xff) >=
			MOESCOPE_TRACE;
	struct kernel *kernel = atomic_load(&ended) || !data->symbolName
					? NULL
					: chosen_kernel(data->symbolName);

	/* A stream that is captured runs nothing, and asking about streams would break that. */
	if (atomic_load(&capturing)) {
		if (kernel && kernel->talks)
			replay_process_shares();
		in_captures += recorded;
		close_window();
		return;
	}
	note_launch(data, use, kernel);
	if (!recorded || (!chosen_filters() && chosen_skipped())) {
		close_window();
		return;
	}
	nameless += !kernel && data->symbolName && !atomic_load(&ended);
	if (!kernel || !kernel->wanted || !chosen_place() ||
	    (chosen_filters() && !kernel->talks && chosen_skipped())) {
		pass(data, kernel);
		return;
	}
	talking += kernel->talks;
	if (kernel->talks) {
		close_window();
		return;
	}
	if (!has_window(data, use, kernel))
		return;
	note_chosen();
	kernel->next_group = (uint8_t)((window.group + 1) % ranges_groups());
	add_launch(data, kernel, use);
}

static void launch_begins(const CUpti_CallbackData *data, enum call_use use)
{
	if (holds) {
		nested++;
		return;
	}
	if (!hold())
		return;
	holds = true;
	count_launch(data, use);
}

static bool is_full(void)
{
	return window.n >= window.room || window.chosen >= left_to_count ||
	       ranges_passes(window.group) > 1 || (ranges_groups() > 1 && !turn_left);
}

static void launch_ends(const CUpti_CallbackData *data)
{
	const CUresult *result = data->functionReturnValue;
	bool failed = result && *result != CUDA_SUCCESS, was_ended = atomic_load(&ended);

	if (nested) {
		nested--;
		return;
	}
	if (!holds)
		return;
	/* It never ran: there is no range of it. */
	if (atomic_load(&window_open) && window.n && window.context == data->context && failed) {
		window.n--;
		window.chosen -= window.launches[window.n].kernel != NULL;
		if (replay_goes_on())
			stop_for_good(
				&(struct err){ "a launch failed while it was to be replayed" });
	}
	if (atomic_load(&window_open) && is_full())
		close_window();
	replay_ends();
	if (!left_to_count)
		atomic_store(&ended, true);
	if (atomic_load(&ended)) { /* also if somebody has given up waiting */
		close_window();
		/* Not while somebody may be launching. */
		if (!was_ended)
			ranges_end();
	}
	holds = false;
	pthread_mutex_unlock(&lock);
}

static void graph_begins(const CUpti_CallbackData *data, enum call_use use)
{
	atomic_fetch_add(&graphs, 1);
	if (!hold())
		return;
	passed = FAR;
	close_window();
	/* It may have any kernel. */
	if (use != COOPERATIVE_GPUS)
		streams_mark(data->context, call_stream(use, data->functionParams));
	else
		replay_process_shares();
	pthread_mutex_unlock(&lock);
}

static void capture_call(enum call_use use, bool begins, bool failed)
{
	if (use == CAPTURE_BEGINS && begins) {
		atomic_fetch_add(&capturing, 1);
		come_between();
	}
	if (((use == CAPTURE_ENDS && !begins) || (use == CAPTURE_BEGINS && failed)) &&
	    atomic_load(&capturing))
		atomic_fetch_sub(&capturing, 1);
}

static void stream_call(enum call_use use, const CUpti_CallbackData *data, bool begins, bool failed)
{
	const cuStreamCreate_params *created = data->functionParams;
	const cuStreamCreateWithPriority_params *with_priority = data->functionParams;
	const cuStreamDestroy_params *old = data->functionParams;
	const cuStreamDestroy_v2_params *destroyed = data->functionParams;
	bool adds = use == STREAM_BEGINS || use == STREAM_BEGINS_WITH_PRIORITY;

	/* Added when it is there, forgotten before it goes. */
	if (begins == adds || failed || !hold())
		return;
	if (use == STREAM_BEGINS)
		streams_add(data->context, *created->phStream);
	else if (use == STREAM_BEGINS_WITH_PRIORITY)
		streams_add(data->context, *with_priority->phStream);
	else
		streams_forget(use == STREAM_ENDS ? destroyed->hStream : old->hStream);
	pthread_mutex_unlock(&lock);
}

static void use_call(enum call_use use, const CUpti_CallbackData *data)
{
	bool begins = data->callbackSite == CUPTI_API_ENTER;
	const CUresult *result = data->functionReturnValue;
	bool failed = !begins && result && *result != CUDA_SUCCESS;

	if (use <= LAUNCHES && begins)
		launch_begins(data, use);
	else if (use <= LAUNCHES)
		launch_ends(data);
	else if (use == GRAPH || use == GRAPH_OF_THREAD || use == COOPERATIVE_GPUS) {
		if (begins)
			graph_begins(data, use);
	} else if (use == CAPTURE_BEGINS || use == CAPTURE_ENDS)
		capture_call(use, begins, failed);
	else if (use == SHARES_MEMORY)
		replay_process_shares();
	else
		stream_call(use, data, begins, failed);
}

/* Of whatever kind: while a kernel is replayed, nobody else may change memory. */
static void driver_called(CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	bool begins = data->callbackSite == CUPTI_API_ENTER;

	if (replays && begins) {
		replay_call_begins();
		if (replay_goes_on() && hold())
			pthread_mutex_unlock(&lock);
	}
	for (size_t i = 0; i < n_calls; i++)
		if (calls[i].id == id)
			use_call(calls[i].use, data);
	if (replays && !begins)
		replay_call_ends();
}

static void context_ends(CUcontext context)
{
	if (!hold())
		return;
	if (atomic_load(&window_open) && window.context == context)
		close_window();
	ranges_forget(context);
	streams_forget_context(context);
	pthread_mutex_unlock(&lock);
}

static void CUPTIAPI called_back(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
				 const void *given)
{
	int saved = errno;

	(void)user;
	/* What we call ourselves, and handlers of signals that came meanwhile. */
	if (inside)
		return;
	inside = true;
	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING && !atomic_load(&ended))
			context_ends(((const CUpti_ResourceData *)given)->context);
	} else if (!atomic_load(&ended) || holds) {
		driver_called(id, given);
	}
	inside = false;
	errno = saved;
}

/* ---- begin and end */

static void tell(void)
{
	char text[1600];
	int n = snprintf(text, sizeof(text), "%llu launches counted", (unsigned long long)counted);
	const struct {
		uint64_t number;
		const char *what;
	} others[] = {
		{ talking, "of communication" },
		{ beside, "while communication or a graph ran" },
		{ atomic_load(&graphs), "of graphs" },
		{ in_captures, "into graphs" },
		{ elsewhere, "on other GPUs meanwhile" },
		{ unmatched, "beside kernels of the driver" },
		{ partial, "in all passes" },
		{ nameless, "for want of room for their names" },
	};

	for (size_t i = 0; i < COUNT(others); i++)
		if (others[i].number && n < (int)sizeof(text))
			n += snprintf(text + n, sizeof(text) - (size_t)n, "; not counted: %llu %s",
				      (unsigned long long)others[i].number, others[i].what);
	for (enum replay_answer i = REPLAY_FIT + 1; i < REPLAY_ANSWERS; i++)
		if (not_replayed[i] && n < (int)sizeof(text))
			n += snprintf(text + n, sizeof(text) - (size_t)n, "; not replayed: %llu %s",
				      (unsigned long long)not_replayed[i], replay_words(i));
	if (valueless && n < (int)sizeof(text))
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      "; %llu metrics of them have no value",
			      (unsigned long long)valueless);
	if (between && n < (int)sizeof(text))
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      "; %llu others between them ran one by one, too",
			      (unsigned long long)between);
	if (atomic_load(&gave_up) && n < (int)sizeof(text))
		snprintf(text + n, sizeof(text) - (size_t)n,
			 "; ended early: a launch waited too long for another");
	moescope_info("kernels counted", text);
}

/* Besides, kernels that are counted run one by one. */
static void tell_time(void)
{
	struct ranges_time took = ranges_time();
	char text[200];

	if (!took.starts)
		return;
	snprintf(
		text, sizeof(text),
		"launches were held up for %.1f ms to begin counting %zu time%s, %.1f ms to end it, %.1f ms to "
		"read the values and %.1f ms to give the counters back",
		(double)took.start_ns / 1e6, took.starts, took.starts == 1 ? "" : "s",
		(double)took.stop_ns / 1e6, (double)took.values_ns / 1e6,
		(double)took.end_ns / 1e6);
	moescope_info("time for counting", text);
}

static void at_exit(void)
{
	if (!hold())
		return;
	atomic_store(&ended, true);
	close_window();
	tell();
	tell_time();
	pthread_mutex_unlock(&lock);
}

static int subscribe(struct err *err)
{
	CUpti_SubscriberHandle subscriber;
	CUptiResult result = counter_api.cuptiSubscribe(&subscriber, called_back, NULL);

	for (size_t i = 0; result == CUPTI_SUCCESS && i < n_calls; i++)
		result = counter_api.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
							 calls[i].id);
	if (result == CUPTI_SUCCESS)
		result = counter_api.cuptiEnableCallback(
			1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
			CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
	if (result == CUPTI_SUCCESS && replays)
		result = counter_api.cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
	return counter_error(err, result, "launches cannot be followed");
}

static int begin(struct err *err)
{
	int r = ranges_plan(getenv("MOESCOPE_EXACT"), err);

	process = getpid();
	for (size_t g = 0; r == 0 && g < ranges_groups(); g++)
		replays = replays || ranges_passes(g) > 1;
	if (r == 0)
		r = counter_api_open_exact(err);
	if (r == 0)
		r = counter_api_open_inside(replays, err);
	if (r == 0)
		r = chosen_begin(&to_count, err);
	if (r < 0)
		return r;
	left_to_count = to_count;
	window_most = chosen_by_kernel() ? 1 : ranges_for(to_count);
	replay_begin();
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
	return subscribe(err);
}

MOESCOPE_API int InitializeInjection(void);

int InitializeInjection(void)
{
	void *symbol = dlsym(RTLD_NEXT, "InitializeInjection");
	int (*probe)(void);
	const char *what = getenv("MOESCOPE_EXACT");
	struct err err = { "" };

	if (symbol) {
		memcpy(&probe, &symbol, sizeof(probe));
		probe();
	}
	/* Ends before the session does, whose end was registered earlier. */
	if (what && !strcmp(what, EXACT_PC)) {
		if (pc_samples_begin() == 0)
			atexit(pc_samples_end);
	} else if (what && begin(&err) < 0) {
		stop_for_good(&err);
	} else if (what) {
		atexit(at_exit);
	}
	return 1;
}
