/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI: the library, what is asked of it, attaching and detaching; see cupti.h. The lock is held
 * for every change of state; a callback on the program's thread only tries it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/cupti_names.h"
#include "base/dynlib.h"
#include "moescope.h"
#include "probe/clients.h"
#include "probe/cupti_inside.h"
#include "probe/gears.h"
#include "probe/gpu.h"

#define QUIET_POLLS 3		     /* without a record, then all that was under way has come */
#define LEAVE_NS INT64_C(1000000000) /* then what is still under way stays untimed */
#define IDLE_MOMENT_NS INT64_C(200000000) /* that long a wait for the device is waited for */
#define UNUSED_NS INT64_C(2000000000)
#define NO_MOMENT_NS INT64_C(1500000000) /* so long, and so many calls, without a safe moment */
#define NO_MOMENT_CALLS 1000
#define NO_MOMENT_DOUBLINGS 4 /* of the windows that end without waiting for one again */
#define DEVICE_BUFFER_BYTES (UINT64_C(4) << 20) /* what one of CUPTI's takes of a device, about */
#define DEVICE_BUFFERS_MIN 4

struct cupti_api cupti_api;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic enum cupti_state state;
static struct cupti_wish wish;
static bool graphs_proved;
static uint32_t version;
static _Atomic int64_t leave_since_ns;
static int64_t leave_flushed_ns;
static bool records_on, was_finalized;
static _Atomic int64_t off_ns; /* when they were switched off */
static uint64_t leave_delivered;
static unsigned int leave_quiet;
static _Atomic bool leave_disabled; /* records are off already */
static bool leave_at_once;	    /* no moment to detach is waited for */
static unsigned int moments_missed; /* more of them than found, of late */
static unsigned int leaves_at_once; /* still to come */

static const CUpti_ActivityKind kinds[] = {
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
	CUPTI_ACTIVITY_KIND_MEMCPY2,	       CUPTI_ACTIVITY_KIND_MEMSET,
	CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,   CUPTI_ACTIVITY_KIND_DEVICE,
};
static const CUpti_ActivityKind full_kinds[] = {
	CUPTI_ACTIVITY_KIND_MEMORY2,
	CUPTI_ACTIVITY_KIND_MEMORY_POOL,
	CUPTI_ACTIVITY_KIND_OVERHEAD,
};

static const struct clients_hooks hooks = { .arrives = gears_yield,
					    .leaves = gears_resume,
					    .completed = cupti_buffer_completed };
static void *library;

static bool load(void)
{
	static const char *const names[] = { CUPTI_LIBRARY_NAMES, NULL };
	const struct dynlib_symbol needed[] = {
#define FUNCTION(name) { #name, &cupti_api.name },
		CUPTI_FUNCTIONS(FUNCTION)
	};
	const struct dynlib_symbol optional[] = { CUPTI_OPTIONAL(FUNCTION)
#undef FUNCTION
	};
	static bool loaded; /* once: a late buffer of an earlier session may be using the calls */

	if (loaded)
		return true;
	library = dynlib_open(names, "MOESCOPE_CUPTI");
	loaded = library && dynlib_symbols(library, needed, COUNT(needed)) == 0;
	if (loaded) {
		dynlib_symbols(library, optional, COUNT(optional));
		cupti_choose_calls();
	}
	return loaded;
}

static const char *words_of(CUptiResult result)
{
	const char *text = NULL;

	return cupti_api.cuptiGetResultString(result, &text) == CUPTI_SUCCESS && text
		       ? text
		       : "unknown error";
}

static const char *remedy(CUptiResult result)
{
	switch (result) {
	case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
		return "set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module";
	default:
		return "it may not fit the driver: set MOESCOPE_CUPTI to the path of another libcupti";
	}
}

static void disable(void)
{
	cupti_chosen_calls(false);
	for (size_t i = 0; i < COUNT(kinds); i++)
		cupti_api.cuptiActivityDisable(kinds[i]);
	for (size_t i = 0; wish.full && i < COUNT(full_kinds); i++)
		cupti_api.cuptiActivityDisable(full_kinds[i]);
	if (records_on)
		atomic_store(&off_ns, clock_monotonic_ns());
	records_on = false;
}

/* All of it or, when CUPTI refuses, nothing: what stays on slows the program down. */
static CUptiResult enable(void)
{
	CUptiResult result = CUPTI_SUCCESS;

	for (size_t i = 0; result == CUPTI_SUCCESS && i < COUNT(kinds); i++)
		result = cupti_api.cuptiActivityEnable(kinds[i]);
	for (size_t i = 0; result == CUPTI_SUCCESS && wish.full && i < COUNT(full_kinds); i++)
		result = cupti_api.cuptiActivityEnable(full_kinds[i]);
	if (result == CUPTI_SUCCESS) {
		cupti_chosen_calls(true);
		records_on = true;
	} else {
		disable();
	}
	return result;
}

/* Before the first context is made, or CUPTI has its buffers already. */
static void limit_device_buffers(void)
{
	size_t limit = (size_t)(wish.allowance_bytes / 2 / DEVICE_BUFFER_BYTES),
	       size = sizeof(limit);

	if (!cupti_api.cuptiActivitySetAttribute || !wish.allowance_bytes)
		return;
	if (limit < DEVICE_BUFFERS_MIN)
		limit = DEVICE_BUFFERS_MIN;
	cupti_api.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, &size,
					    &limit);
}

static CUptiResult attach(void)
{
	CUptiResult result;

	/* Each time: libraries that use CUPTI may have been loaded since. */
	clients_watch(library, &hooks);
	if (clients_active())
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	cupti_clock_start();
	cupti_records_start();
	/* The kernel's thread ids, as in the ranges. */
	if (cupti_api.cuptiSetThreadIdType)
		cupti_api.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
	limit_device_buffers();
	/* Once finalised CUPTI gives no records of calls any more: callbacks do, then. */
	result = cupti_subscribe(wish.may_leave || was_finalized, state == CUPTI_OFF);
	/* One that is idle keeps its subscription; records can be had without. */
	if (result != CUPTI_SUCCESS && !clients_hold_subscription())
		return result;
	result = cupti_api.cuptiActivityRegisterCallbacks(cupti_buffer_requested,
							  cupti_buffer_completed);
	if (result == CUPTI_SUCCESS)
		result = enable();
	if (result != CUPTI_SUCCESS)
		cupti_unsubscribe();
	return result;
}

int cupti_attach(const struct cupti_wish *wanted, char *words, size_t size)
{
	int64_t start_ns = clock_monotonic_ns();
	CUptiResult result = CUPTI_SUCCESS;

	if (!load()) {
		const char *given = getenv("MOESCOPE_CUPTI");

		if (given && *given)
			snprintf(words, size,
				 "GPU collection off: MOESCOPE_CUPTI names no usable libcupti; "
				 "unset it or give another path than '%s'",
				 given);
		else
			snprintf(words, size,
				 "GPU collection off: no usable libcupti; install the CUDA toolkit "
				 "or the nvidia-cuda-cupti package, or set MOESCOPE_CUPTI to its "
				 "path");
		return -ENOENT;
	}
	pthread_mutex_lock(&lock);
	/* The session before may have left it to a thread that has not come since. */
	atomic_store(&cupti_leave_wanted, false);
	if (state != CUPTI_ON) {
		wish = *wanted;
		result = attach();
		if (result == CUPTI_SUCCESS)
			atomic_store(&state, CUPTI_ON);
	}
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&cupti_added.attach_ns, (uint64_t)(clock_monotonic_ns() - start_ns));
	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
		char name[128];

		clients_name_holder(name, sizeof(name));
		snprintf(words, size, "GPU records are left to %s while it uses CUPTI", name);
		return -EBUSY;
	}
	if (result != CUPTI_SUCCESS) {
		snprintf(words, size, "GPU collection off: CUPTI says %s; %s", words_of(result),
			 remedy(result));
		return -EIO;
	}
	if (!version)
		cupti_api.cuptiGetVersion(&version);
	snprintf(words, size, "GPU records by CUPTI API version %u", version);
	return 0;
}

enum cupti_state cupti_state(void)
{
	return atomic_load(&state);
}

int64_t cupti_off_ns(void)
{
	return atomic_load(&off_ns);
}

uint32_t cupti_version(void)
{
	return version;
}

static void flush(bool forced)
{
	atomic_store(&cupti_closing, forced);
	cupti_api.cuptiActivityFlushAll(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
	atomic_store(&cupti_closing, false);
}

void cupti_flush(void)
{
	pthread_mutex_lock(&lock);
	if (state == CUPTI_ON || state == CUPTI_LEAVING) {
		flush(false);
		cupti_clock_measure();
	}
	pthread_mutex_unlock(&lock);
}

/* It would take another client's subscription away as well. */
static bool can_finalize(void)
{
	return cupti_api.cuptiFinalize && !clients_hold_subscription();
}

/* The lock is held, and records are off. What it took is told before the state: whoever sees that
 * may ask. */
static void finalize(int64_t start_ns, bool held)
{
	cupti_api.cuptiFinalize();
	was_finalized = true;
	if (moments_missed)
		moments_missed--;
	cupti_subscription_ended();
	clients_after_finalize();
	start_ns = clock_monotonic_ns() - start_ns;
	atomic_fetch_add(&cupti_added.detach_ns, (uint64_t)start_ns);
	if (held)
		atomic_fetch_add(&cupti_added.held_ns, (uint64_t)start_ns);
	atomic_store(&cupti_leave_wanted, false);
	atomic_store(&state, CUPTI_OFF);
}

static void rest(void)
{
	atomic_store(&cupti_leave_wanted, false);
	atomic_store(&state, CUPTI_RESTING);
}

void cupti_trust_graphs(bool proved)
{
	graphs_proved = proved;
}

static void want_callback(void)
{
	atomic_store(&cupti_passed, 0);
	atomic_store(&cupti_leave_wanted, true);
}

/* With graphs records go off and CUPTI goes in one callback: a graph that is launched between the
 * two takes the context with it. Without graphs records go off first, so that what is under way
 * is still timed. */
int cupti_leave(void)
{
	int r = 0;

	pthread_mutex_lock(&lock);
	if (state == CUPTI_ON && cupti_saw_graphs() && !graphs_proved) {
		r = -EPERM;
	} else if (state == CUPTI_ON) {
		leave_since_ns = clock_monotonic_ns();
		leave_delivered = cupti_delivered();
		leave_quiet = 0;
		cupti_watch_calls();
		leave_at_once = leaves_at_once > 0;
		leaves_at_once -= leave_at_once;
		leave_disabled = !cupti_saw_graphs() || !can_finalize() ||
				 cupti_graph_threads() > 1 || leave_at_once;
		atomic_store(&state, CUPTI_LEAVING);
		if (leave_disabled)
			disable();
		else
			want_callback();
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* Records are off: what was under way comes in, then the next callback finalises. */
static void poll_disabled(void)
{
	if (cupti_leave_wanted)
		return;
	flush(false);
	leave_quiet = cupti_delivered() == leave_delivered ? leave_quiet + 1 : 0;
	leave_delivered = cupti_delivered();
	if (!wish.brief && leave_quiet < QUIET_POLLS &&
	    clock_monotonic_ns() - leave_since_ns < LEAVE_NS)
		return;
	flush(true);
	if (leave_at_once)
		cupti_unsubscribe();
	if (!leave_at_once && can_finalize() && cupti_graph_threads() == 0)
		want_callback();
	else
		rest();
}

/* Threads are always inside calls, or the end of one was missed, and the count of them is wrong
 * until the next subscription. While a moment is waited for records cost, so a program that has
 * none is asked for one less and less often. */
static void give_up_detaching(void)
{
	char words[128];

	snprintf(words, sizeof(words),
		 "no safe moment to detach from CUPTI in %u calls, %u threads inside one: records "
		 "are switched off instead",
		 atomic_load(&cupti_passed), cupti_calls_under_way());
	moescope_info("CUPTI", words);
	leaves_at_once = (1u << moments_missed) - 1;
	if (moments_missed < NO_MOMENT_DOUBLINGS)
		moments_missed++;
	atomic_store(&cupti_leave_wanted, false);
	flush(false);
	disable();
	flush(true);
	cupti_unsubscribe();
	rest();
}

/* Graphs that nobody launches are waited for before there can be a moment at all. */
static bool no_moment_comes(int64_t now_ns)
{
	bool unused = cupti_saw_graphs() && cupti_graph_threads() == 0;

	return now_ns - leave_since_ns >= NO_MOMENT_NS + (unused ? UNUSED_NS : 0) &&
	       atomic_load(&cupti_passed) >= NO_MOMENT_CALLS;
}

enum cupti_state cupti_poll(void)
{
	int64_t now_ns = clock_monotonic_ns();

	pthread_mutex_lock(&lock);
	if (state == CUPTI_LEAVING) {
		/* The first graph, or a second thread with graphs, came up while waiting. */
		if (cupti_leave_wanted && cupti_saw_graphs() &&
		    (leave_disabled || cupti_graph_threads() > 1)) {
			atomic_store(&cupti_leave_wanted, false);
			if (!leave_disabled)
				disable();
			leave_disabled = true;
		}
		if (cupti_leave_wanted && no_moment_comes(now_ns)) {
			give_up_detaching();
		} else if (leave_disabled && !cupti_leave_wanted) {
			poll_disabled();
		} else if (now_ns - leave_since_ns < LEAVE_NS ||
			   now_ns - leave_flushed_ns >= LEAVE_NS) {
			/* What comes now need not be translated on the program's thread. That
			 * thread may not come for a long time. */
			leave_flushed_ns = now_ns;
			flush(false);
		}
	}
	pthread_mutex_unlock(&lock);
	return cupti_state();
}

bool cupti_leave_in_callback(bool idle)
{
	int64_t start_ns = clock_monotonic_ns();
	bool left = false, here;

	/* After a wait for the device nothing is cut off. */
	if (!leave_disabled && !idle && start_ns - leave_since_ns < IDLE_MOMENT_NS)
		return false;
	if (pthread_mutex_trylock(&lock) != 0)
		return false;
	/* Graphs that are made and not launched for so long are launched later, or never. */
	here = cupti_graphs_only_here() || (cupti_sees_calls() && cupti_graph_threads() == 0 &&
					    start_ns - leave_since_ns >= UNUSED_NS);
	if (cupti_leave_wanted && cupti_sees_calls() && here && cupti_in_callbacks() == 1 &&
	    !(leave_disabled && cupti_saw_graphs())) {
		gpu_on_program_thread = true;
		disable();
		flush(true);
		gpu_on_program_thread = false;
		finalize(start_ns, true);
		left = true;
	}
	pthread_mutex_unlock(&lock);
	return left;
}

/* Callbacks that began before the subscription ended come to their end; false: one does not. */
static bool callbacks_end(void)
{
	struct timespec moment = { .tv_nsec = 50000 };

	for (int i = 0; cupti_in_callbacks() && i < 200; i++)
		nanosleep(&moment, NULL);
	return !cupti_in_callbacks();
}

void cupti_leave_now(void)
{
	int64_t start_ns = clock_monotonic_ns();
	/* Not knowing what other threads are doing is as bad as knowing that they are in a call. */
	bool alone = cupti_graphs_only_here() && cupti_sees_calls() && !cupti_calls_under_way();

	pthread_mutex_lock(&lock);
	if (state == CUPTI_ON || state == CUPTI_LEAVING) {
		/* Records are off already: graphs may have been launched since. */
		if (state == CUPTI_LEAVING && leave_disabled && cupti_saw_graphs())
			alone = false;
		atomic_store(&cupti_leave_wanted, false);
		flush(false);
		disable();
		flush(true);
		cupti_unsubscribe();
		if (can_finalize() && alone && callbacks_end())
			finalize(start_ns, false);
		else
			rest();
	}
	/* Resting it is still subscribed, and another client could not be. */
	cupti_unsubscribe();
	pthread_mutex_unlock(&lock);
}

/* Nothing may be known of calls that other threads are in: then the end of a later call does it.
 * What comes until then belongs to no session. */
void cupti_stop(void)
{
	bool graphs = cupti_saw_graphs();

	pthread_mutex_lock(&lock);
	cupti_watch_calls();
	if (state != CUPTI_ON || !can_finalize() ||
	    (cupti_sees_calls() && cupti_graphs_only_here()) ||
	    (graphs && (!graphs_proved || cupti_graph_threads() > 1))) {
		pthread_mutex_unlock(&lock);
		cupti_leave_now();
		return;
	}
	flush(false);
	if (!graphs) {
		disable();
		flush(true);
	}
	leave_since_ns = clock_monotonic_ns();
	leave_disabled = !graphs;
	atomic_store(&state, CUPTI_LEAVING);
	want_callback();
	pthread_mutex_unlock(&lock);
}

void cupti_end(void)
{
	pthread_mutex_lock(&lock);
	if (state == CUPTI_ON || state == CUPTI_LEAVING) {
		atomic_store(&cupti_leave_wanted, false);
		/* What is complete, then what comes in until nothing more is recorded. */
		flush(false);
		disable();
		flush(true);
		rest();
	}
	pthread_mutex_unlock(&lock);
}

void cupti_unwatch_clients(void)
{
	clients_unwatch();
}

void cupti_settle_clients(void)
{
	clients_settle(clock_monotonic_ns());
}

struct cupti_sums cupti_sums(void)
{
	return (struct cupti_sums){
		.counts = { .launches = cupti_added.launches,
			    .nodes = cupti_added.nodes,
			    .calls = cupti_added.calls },
		.overhead_ns = cupti_added.overhead_ns,
		.translate_ns = cupti_added.translate_ns,
		.held_ns = cupti_added.held_ns,
		.attach_ns = cupti_added.attach_ns,
		.detach_ns = cupti_added.detach_ns,
	};
}

void cupti_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	clients_after_fork();
	cupti_clock_after_fork();
	cupti_records_after_fork();
	cupti_subscription_ended();
	atomic_store(&cupti_leave_wanted, false);
	atomic_store(&state, CUPTI_OFF);
}
