/* SPDX-License-Identifier: Apache-2.0
 *
 * libmoescope-exact.so: what `run --counters SET|METRIC,...` has the driver load in place of libmoescope.so, which it is
 * linked with. Kernels are counted where the program launches them, and there are no other records of the GPU: neither
 * goes with the other. Nothing of this is in a process that is not counted.
 *
 * Threads: the program's, in CUPTI's callbacks around its launches. A launch that is counted holds the lock from its
 * begin to its end. Who waits PATIENCE_MS for it while no window begins goes on, and counting ends for good: a kernel may
 * be waiting for what that thread is about to launch. Before a window begins no such kernel runs, and whoever went on
 * would launch beside CUPTI's change of counters: there they wait longer. Likewise while a kernel is replayed, which has
 * ended alone before. What the program does in a handler of a signal inside one of these calls is left alone: the lock
 * may be its own.
 *
 * Not counted: kernels that talk to other GPUs or ranks (they would wait for those that are not running), any beside
 * them, graphs, and whatever is launched while a stream is captured. Not replayed: see replay.h.
 */
#include <dlfcn.h>
#include <errno.h>
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
#include "exact/windows.h"
#include "moescope.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PATIENCE_MS 1000
/* So often, while the metrics of another group are set, in 0.3 s and more: no counted kernel runs then. */
#define CHANGE_PATIENCES 10

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t process;
static _Atomic bool gave_up;
static _Atomic uint64_t capturing;
static _Atomic uint64_t graphs;
static bool replays; /* some group; set at the begin */
#define OF_THREAD static __thread __attribute__((tls_model("initial-exec")))
OF_THREAD bool holds;	       /* the lock, for a launch */
OF_THREAD unsigned int nested; /* launches inside of that */
OF_THREAD bool inside;	       /* of a callback */

/* With the lock. */
static uint64_t talking, in_captures, nameless;
static CUcontext first_context;

/* Whether to wait for longer: a window began meanwhile or is about to, or a kernel is replayed. */
static bool waits_on(int tries, unsigned int changes)
{
	unsigned int now = windows_changes();

	return tries < CHANGE_PATIENCES && (now % 2 || now != changes || replay_goes_on());
}

/* Not in a forked child: CUPTI would hang there. Nor in a handler of a signal that came inside of a launch. */
static bool hold(void)
{
	bool free = false, waits = true;

	if (holds || getpid() != process)
		return false;
	replay_waits(true);
	for (int tries = 1; waits; tries++) {
		unsigned int changes = windows_changes();

		free = lock_within(&lock, PATIENCE_MS);
		waits = !free && waits_on(tries, changes);
	}
	replay_waits(false);
	if (free)
		return true;
	atomic_store(&gave_up, true);
	windows_stop(NULL);
	return false;
}

/* ---- launches */

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

/* With the lock. */
static void count_launch(const CUpti_CallbackData *data, enum call_use use)
{
	bool recorded = (__atomic_load_n(&moescope_gate, __ATOMIC_RELAXED) & 0xff) >=
			MOESCOPE_TRACE;
	struct kernel *kernel = windows_stopped() || !data->symbolName
					? NULL
					: chosen_kernel(data->symbolName);

	/* A stream that is captured runs nothing, and asking about streams would break that. */
	if (atomic_load(&capturing)) {
		if (kernel && kernel->talks)
			replay_process_shares();
		in_captures += recorded;
		windows_close();
		return;
	}
	note_launch(data, use, kernel);
	if (!recorded || (!chosen_filters() && chosen_skipped())) {
		windows_close();
		return;
	}
	nameless += !kernel && data->symbolName && !windows_stopped();
	if (!kernel || !kernel->wanted || !chosen_place() ||
	    (chosen_filters() && !kernel->talks && chosen_skipped())) {
		windows_pass(data, kernel);
		return;
	}
	talking += kernel->talks;
	if (kernel->talks) {
		windows_close();
		return;
	}
	windows_add(data, use, kernel);
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

static void launch_ends(const CUpti_CallbackData *data)
{
	const CUresult *result = data->functionReturnValue;
	bool failed = result && *result != CUDA_SUCCESS, was_stopped = windows_stopped();

	if (nested) {
		nested--;
		return;
	}
	if (!holds)
		return;
	windows_launched(data, failed);
	replay_ends();
	if (windows_stopped()) { /* also if somebody has given up waiting */
		windows_close();
		/* Not while somebody may be launching. */
		if (!was_stopped)
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
	windows_break();
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
		if (hold()) {
			windows_break();
			pthread_mutex_unlock(&lock);
		}
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
	windows_forget(context);
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
		if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING && !windows_stopped())
			context_ends(((const CUpti_ResourceData *)given)->context);
	} else if (!windows_stopped() || holds) {
		driver_called(id, given);
	}
	inside = false;
	errno = saved;
}

/* ---- begin and end */

static void tell(void)
{
	const struct windows_counts *counts = windows_counts();
	char text[1600];
	int n = snprintf(text, sizeof(text), "%llu launches counted",
			 (unsigned long long)counts->counted);
	const struct {
		uint64_t number;
		const char *what;
	} others[] = {
		{ talking, "of communication" },
		{ counts->beside, "while communication or a graph ran" },
		{ atomic_load(&graphs), "of graphs" },
		{ in_captures, "into graphs" },
		{ counts->elsewhere, "on other GPUs meanwhile" },
		{ counts->unmatched, "beside kernels of the driver" },
		{ counts->partial, "in all passes" },
		{ nameless, "for want of room for their names" },
	};

	for (size_t i = 0; i < COUNT(others); i++)
		if (others[i].number && n < (int)sizeof(text))
			n += snprintf(text + n, sizeof(text) - (size_t)n, "; not counted: %llu %s",
				      (unsigned long long)others[i].number, others[i].what);
	for (enum replay_answer i = REPLAY_FIT + 1; i < REPLAY_ANSWERS; i++)
		if (counts->not_replayed[i] && n < (int)sizeof(text))
			n += snprintf(text + n, sizeof(text) - (size_t)n, "; not replayed: %llu %s",
				      (unsigned long long)counts->not_replayed[i], replay_words(i));
	if (counts->valueless && n < (int)sizeof(text))
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      "; %llu metrics of them have no value",
			      (unsigned long long)counts->valueless);
	if (counts->between && n < (int)sizeof(text))
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      "; %llu others between them ran one by one, too",
			      (unsigned long long)counts->between);
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
	windows_stop(NULL);
	windows_close();
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
	uint64_t launches;

	process = getpid();
	for (size_t g = 0; r == 0 && g < ranges_groups(); g++)
		replays = replays || ranges_passes(g) > 1;
	if (r == 0)
		r = counter_api_open_exact(err);
	if (r == 0)
		r = counter_api_open_inside(replays, err);
	if (r == 0)
		r = chosen_begin(&launches, err);
	if (r < 0)
		return r;
	replay_begin();
	windows_begin(launches);
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
		windows_stop(&err);
	} else if (what) {
		atexit(at_exit);
	}
	return 1;
}
