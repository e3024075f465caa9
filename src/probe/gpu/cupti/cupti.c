/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI: the library, what is requested of it, attaching and detaching; see cupti.h. The lock is
 * held for every state change; a callback on the program's thread only tries it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/dynlib.h"
#include "device/driver/cupti_names.h"
#include "moescope.h"
#include "probe/gpu/clients/clients.h"
#include "probe/gpu/cupti/cupti_inside.h"
#include "probe/core/device_rows.h"
#include "probe/core/locks.h"
#include "probe/core/witness.h"

#define FLUSH_AGAIN_NS INT64_C(50000000) /* while no moment to detach has come */
#define UNUSED_NS INT64_C(2000000000)
#define SETTLE_NS INT64_C(5000000) /* from the end of recording to detaching, at least */
#define MS INT64_C(1000000)
#define NO_MOMENT_NS INT64_C(1500000000) /* this long, and this many calls, without a safe moment */
#define NO_MOMENT_CALLS 1000
#define LEFT_NS INT64_C(2000000000) /* nobody is kept from the processor for so long */
#define LEAVE_MS 10		    /* that the thread which detaches waits for others, at most */
#define UNSUBSCRIBE_MS 2000 /* that another client waits for threads without a processor, at most */
#define FORGET_ROUNDS 4
#define ALONE_TRIES 600 /* milliseconds that another client waits for threads to leave CUDA */
#define DEVICE_BUFFER_BYTES (UINT64_C(4) << 20) /* device memory of one CUPTI buffer, about */
#define DEVICE_BUFFERS_MIN 4

struct cupti_api cupti_api;

PROBE_LOCK(lock);
static _Atomic enum cupti_state state;
static struct cupti_wish wish;
static bool graphs_proved;
static uint32_t version;
static _Atomic int64_t leave_since_ns, leave_patience_ns;
static int64_t leave_flushed_ns;
static bool records_on, told_no_moment;
static _Atomic int64_t off_ns; /* when they were disabled */
/* The thread that finalised in a callback and has not yet been seen outside; 0: nobody. */
static struct witness_thread leaver;
static int64_t leaver_at_ns;
static unsigned int finalized, told_finalized; /* times */
static bool told_stays;
static bool held_up;	     /* by a thread, so that CUPTI could not be finalised; not told yet */
static bool callbacks_ended; /* while resting: every thread has left the last of them */

static const CUpti_ActivityKind kinds[] = {
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
	CUPTI_ACTIVITY_KIND_MEMCPY,
	CUPTI_ACTIVITY_KIND_MEMCPY2,
	CUPTI_ACTIVITY_KIND_MEMSET,
	CUPTI_ACTIVITY_KIND_DEVICE,
};
static const CUpti_ActivityKind full_kinds[] = {
	CUPTI_ACTIVITY_KIND_MEMORY2,
	CUPTI_ACTIVITY_KIND_MEMORY_POOL,
	CUPTI_ACTIVITY_KIND_OVERHEAD,
};

static _Atomic bool kinds_on; /* some may be */

static bool records(void)
{
	return atomic_load(&kinds_on);
}

static struct clients_hooks hooks = { .records = records, .completed = cupti_buffer_completed };
static void *library;

static bool load_cupti(void)
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
		return "it may not match the driver: set MOESCOPE_CUPTI to the path of another libcupti";
	}
}

/* Stops at the first failure when they go on. */
static CUptiResult switch_kinds(bool on)
{
	__typeof__(cuptiActivityEnable) *apply = on ? cupti_api.cuptiActivityEnable
						    : cupti_api.cuptiActivityDisable;
	CUptiResult result = CUPTI_SUCCESS;

	for (size_t i = 0; (result == CUPTI_SUCCESS || !on) && i < COUNT(kinds); i++)
		result = apply(kinds[i]);
	for (size_t i = 0; (result == CUPTI_SUCCESS || !on) && wish.full && i < COUNT(full_kinds);
	     i++)
		result = apply(full_kinds[i]);
	return result;
}

/* The driver tells CUPTI of every call of the runtime. If a kind goes off beside such a call, the
 * driver is not told to stop, and tells of that call twice from the next time on: other profilers get
 * two records of it, and after cuptiFinalize it is told to freed memory. On and off once more beside
 * the same call and nothing is left. A call that begins in between wants another round. */
static void forget_calls_in_flight(void)
{
	unsigned int before;
	int rounds = 0;

	do {
		before = cupti_calls_begun();
		switch_kinds(true);
		switch_kinds(false);
	} while (cupti_calls_begun() != before && ++rounds < FORGET_ROUNDS);
}

/* Only between calls of the program: disabling beside a call in flight, followed by a flush,
 * corrupts the program's heap. */
static void disable(void)
{
	cupti_calls_as_records(false);
	switch_kinds(false);
	if (records_on) {
		atomic_store(&off_ns, clock_monotonic_ns());
		forget_calls_in_flight();
	}
	records_on = false;
	atomic_store(&kinds_on, false);
}

/* All or, if CUPTI refuses, nothing: what stays on slows the program. */
static CUptiResult enable(void)
{
	CUptiResult result;

	atomic_store(&kinds_on, true);
	result = switch_kinds(true);
	if (result == CUPTI_SUCCESS) {
		cupti_calls_as_records(!cupti_subscribed());
		records_on = true;
	} else {
		disable();
	}
	return result;
}

/* Before the first context is created, or CUPTI already has its buffers. */
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

/* Callbacks that began before they were switched off come to their end, but for the caller's own,
 * and so does CUPTI's code around them: a thread may have been about to call back, or on its way out,
 * when it lost its processor. Finalised meanwhile, CUPTI has freed what that thread goes on with. The
 * program's thread waits here, some `ms` at most. False: a thread has not left. */
static bool callbacks_end_within(int ms, unsigned int own)
{
	const struct timespec moment = { .tv_nsec = 50000 };
	int64_t until_ns = clock_monotonic_ns() + ms * MS;
	bool left;

	nanosleep(&moment, NULL); /* for a thread whose first call this is */
	left = cupti_threads_left(ms);
	while (left && cupti_in_callbacks() > own && clock_monotonic_ns() < until_ns)
		nanosleep(&moment, NULL);
	return left && cupti_in_callbacks() == own;
}

static bool callbacks_end(unsigned int own)
{
	return callbacks_end_within(LEAVE_MS, own);
}

/* The lock is held. Another client cannot subscribe as long as this one has; but where a thread may
 * be inside CUPTI's code it has to do without. Asked over and over, threads would have to have their turn on the processor
 * all at the same time. */
static void give_up_subscription(void)
{
	int64_t left_ns, until_ns = clock_monotonic_ns() + UNSUBSCRIBE_MS * MS;
	bool ended = false;

	while (cupti_subscribed() && !ended && (left_ns = until_ns - clock_monotonic_ns()) > 0)
		ended = callbacks_end_within((int)(left_ns / MS) + 1, 0);
	if (ended)
		cupti_unsubscribe();
}

static CUptiResult attach_cupti(void)
{
	CUptiResult result;

	/* Each time: libraries that use CUPTI may have been loaded since. */
	clients_watch(library, &hooks);
	cupti_prepare_keeping(wish.detach);
	if (clients_active())
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	cupti_attaching();
	cupti_clock_start();
	cupti_records_start();
	if (state == CUPTI_SETTLING)
		cupti_ignore_calls(); /* but for those that do work */
	result = cupti_subscribe();
	/* An idle client keeps its subscription; records work without one. */
	if (result != CUPTI_SUCCESS && !clients_hold_subscription())
		return result;
	/* Change nothing in CUPTI while another client holds it. Use the kernel's thread ids, as in
	 * the ranges. */
	if (cupti_api.cuptiSetThreadIdType)
		cupti_api.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
	limit_device_buffers();
	result = cupti_api.cuptiActivityRegisterCallbacks(cupti_buffer_requested,
							  cupti_buffer_completed);
	if (result == CUPTI_SUCCESS)
		result = enable();
	if (result != CUPTI_SUCCESS && cupti_subscribed()) {
		cupti_ignore_calls();
		give_up_subscription();
	}
	return result;
}

int cupti_attach(const struct cupti_wish *wanted, char *words, size_t size)
{
	int64_t start_ns = clock_monotonic_ns();
	CUptiResult result = CUPTI_SUCCESS;

	if (!load_cupti()) {
		const char *given = getenv("MOESCOPE_CUPTI");

		if (given && *given)
			snprintf(words, size,
				 "GPU collection off: MOESCOPE_CUPTI is not a usable libcupti; "
				 "correct or unset it: '%s'",
				 given);
		else
			snprintf(
				words, size,
				"GPU collection off: no usable libcupti found; install the CUDA toolkit "
				"or the nvidia-cuda-cupti package, or set MOESCOPE_CUPTI to its "
				"path");
		return -ENOENT;
	}
	pthread_mutex_lock(&lock);
	/* The previous session may have left it to a thread that has not come since. */
	atomic_store(&cupti_leave_wanted, false);
	if (state != CUPTI_ON) {
		wish = *wanted;
		result = attach_cupti();
		if (result == CUPTI_SUCCESS)
			atomic_store(&state, CUPTI_ON);
	}
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&cupti_added.attach_ns, (uint64_t)(clock_monotonic_ns() - start_ns));
	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
		char name[128];

		clients_name_holder(name, sizeof(name));
		snprintf(words, size, "GPU recording yields to %s while it uses CUPTI", name);
		return -EBUSY;
	}
	if (result != CUPTI_SUCCESS) {
		snprintf(words, size, "GPU collection off: CUPTI reports %s; %s", words_of(result),
			 remedy(result));
		return -EIO;
	}
	if (!version)
		cupti_api.cuptiGetVersion(&version);
	snprintf(words, size, "GPU records from CUPTI API version %u", version);
	return 0;
}

/* The lock is held. cuptiFinalize is complete only when the call whose callback made it returns
 * through CUPTI's own code; attaching before that builds CUPTI where that thread is still
 * running. */
static bool leaver_is_out(bool look)
{
	return !leaver.id || leaver.id == cupti_thread_id() ||
	       clock_monotonic_ns() - leaver_at_ns >= LEFT_NS ||
	       (look ? witness_left(&leaver, 1, 1) : witness_left_by_clock(&leaver, 1));
}

static bool may_attach(bool look)
{
	bool out;

	pthread_mutex_lock(&lock);
	out = leaver_is_out(look) && (state != CUPTI_RESTING || callbacks_ended);
	if (out)
		leaver.id = 0;
	pthread_mutex_unlock(&lock);
	return out;
}

bool cupti_may_attach(void)
{
	return may_attach(true);
}

bool cupti_may_attach_now(void)
{
	return may_attach(false);
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

/* Something is still to be done before CUPTI is off or resting. */
static bool collects_or_leaves(void)
{
	return state == CUPTI_ON || state == CUPTI_LEAVING || state == CUPTI_SETTLING;
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

/* It would also take away another client's subscription. And CUPTI may have lost count of runtime
 * calls, which others request (cupti_calls.c). NULL: nothing is against it. */
static const char *why_not_finalize(void)
{
	if (!cupti_api.cuptiFinalize)
		return "it has no cuptiFinalize";
	if (clients_hold_subscription() || clients_were_here())
		return "another profiler has used it";
	if (!cupti_can_keep_memory())
		return "memory that it frees and goes on using cannot be kept, because of the "
		       "program's allocator";
	return NULL;
}

static bool can_finalize(void)
{
	return wish.detach && !why_not_finalize();
}

/* The lock is held, and records are off. The duration is published before the state: whoever sees
 * the state may ask for it. */
static void finalize(int64_t start_ns, bool held)
{
	cupti_finalize_begins();
	cupti_api.cuptiFinalize();
	cupti_finalize_ended();
	finalized++;
	cupti_subscription_ended();
	clients_after_finalize();
	if (held) {
		leaver.id = cupti_thread_id();
		leaver.cpu_ns = witness_cpu_ns(leaver.id);
		leaver_at_ns = clock_monotonic_ns();
	}
	start_ns = clock_monotonic_ns() - start_ns;
	atomic_fetch_add(&cupti_added.detach_ns, (uint64_t)start_ns);
	if (held)
		atomic_fetch_add(&cupti_added.held_ns, (uint64_t)start_ns);
	atomic_store(&cupti_leave_wanted, false);
	atomic_store(&state, CUPTI_OFF);
}

static void rest(bool ended)
{
	callbacks_ended = ended;
	atomic_store(&cupti_leave_wanted, false);
	atomic_store(&state, CUPTI_RESTING);
}

/* Records are off, and no moment comes at which CUPTI could be detached. */
static void rest_from_outside(void)
{
	cupti_ignore_calls();
	held_up = true;
	rest(callbacks_end(0));
}

void cupti_trust_graphs(bool proved)
{
	graphs_proved = proved;
}

/* Records stay on until the end of a call with nobody else inside one. */
static void leave_at_next_moment(int64_t patience_ns)
{
	leave_patience_ns = CALL_GRACE_NS + patience_ns;
	leave_since_ns = clock_monotonic_ns();
	told_no_moment = false;
	cupti_prepare_keeping(wish.detach);
	cupti_watch_calls();
	atomic_store(&state, CUPTI_LEAVING);
	atomic_store(&cupti_passed, 0);
	atomic_store(&cupti_leave_wanted, true);
}

int cupti_leave(int64_t patience_ns)
{
	int r = 0;

	pthread_mutex_lock(&lock);
	if (state == CUPTI_ON && cupti_saw_graphs() && !graphs_proved)
		r = -EPERM;
	else if (state == CUPTI_ON && !cupti_subscribed())
		r = -EBUSY;
	else if (state == CUPTI_ON)
		leave_at_next_moment(patience_ns);
	pthread_mutex_unlock(&lock);
	return r;
}

bool cupti_stay(void)
{
	bool on;

	pthread_mutex_lock(&lock);
	if (state == CUPTI_LEAVING) {
		atomic_store(&cupti_leave_wanted, false);
		atomic_store(&state, CUPTI_ON);
	}
	on = state == CUPTI_ON;
	pthread_mutex_unlock(&lock);
	return on;
}

static bool no_moment(int64_t now_ns)
{
	return now_ns - leave_since_ns >= NO_MOMENT_NS &&
	       atomic_load(&cupti_passed) >= NO_MOMENT_CALLS;
}

/* Threads that are always inside calls leave no moment. Disabling beside them is not safe, so
 * recording continues, and the run says so. */
static void tell_no_moment(int64_t now_ns)
{
	char words[160];

	if (told_no_moment || !no_moment(now_ns))
		return;
	told_no_moment = true;
	snprintf(words, sizeof(words),
		 "no safe moment to detach from CUPTI in %u calls (%u threads are inside one): "
		 "recording continues until there is one",
		 atomic_load(&cupti_passed), cupti_calls_under_way());
	moescope_info("CUPTI", words);
}

/* The lock is held. */
static void tell_held_up(void)
{
	if (held_up)
		moescope_info(
			"CUPTI",
			"a thread stayed in a CUDA call, or was not scheduled, at the end of a "
			"window: CUPTI stays attached without recording; the last records of "
			"that window come with the next one, or are lost if there is none");
	held_up = false;
}

/* The lock is held, and CUPTI rests. Once a session. */
static void tell_stays(void)
{
	const char *why = wish.detach && !told_stays ? why_not_finalize() : NULL;
	char words[192];

	if (!why)
		return;
	told_stays = true;
	snprintf(words, sizeof(words), "CUPTI stays attached between windows: %s", why);
	moescope_info("CUPTI", words);
}

/* The lock is held; the session or the process ends. */
static void tell_finalized(void)
{
	char words[128];

	if (finalized == told_finalized)
		return;
	snprintf(
		words, sizeof(words),
		"detached %u times; %.1f MB of CUPTI's memory stay allocated, as CUPTI would still "
		"use them",
		finalized - told_finalized, (double)cupti_kept_bytes() / 1e6);
	told_finalized = finalized;
	moescope_info("CUPTI", words);
}

/* The lock is held. Calls that were in flight when records were disabled come to their end. */
static void settle(void)
{
	int64_t rest_ns = off_ns + SETTLE_NS - clock_monotonic_ns();
	const struct timespec moment = { .tv_nsec = rest_ns };

	if (state == CUPTI_SETTLING && rest_ns > 0)
		nanosleep(&moment, NULL);
}

enum cupti_state cupti_poll(void)
{
	int64_t now_ns = clock_monotonic_ns();

	pthread_mutex_lock(&lock);
	if (state == CUPTI_SETTLING && no_moment(now_ns)) {
		rest_from_outside();
	} else if (state == CUPTI_LEAVING) {
		tell_no_moment(now_ns);
		/* What comes now need not be translated on the program's thread. Not often: after
		 * each flush the program's threads begin new buffers, beside CUPTI's worker. */
		if (now_ns - leave_flushed_ns >= FLUSH_AGAIN_NS) {
			leave_flushed_ns = now_ns;
			flush(false);
		}
	} else if (state == CUPTI_RESTING) {
		tell_held_up();
		tell_stays();
		callbacks_ended = callbacks_ended || callbacks_end(0);
	}
	pthread_mutex_unlock(&lock);
	return cupti_state();
}

/* With graphs, only the thread that launches them may detach, so that none is launched meanwhile.
 * Graphs that were created but not launched for long are launched later, or never. With several
 * such threads any may disable the records. */
static bool graphs_allow(int64_t waited_ns)
{
	return cupti_graphs_only_here() || cupti_graph_threads() > 1 ||
	       (cupti_graph_threads() == 0 && waited_ns >= UNUSED_NS);
}

/* Returns whether CUPTI is detached. quiet: no call has begun while records were disabled. Flushed
 * beside a call during which they were, CUPTI loses the program's heap. */
static bool detach(int64_t start_ns, bool quiet)
{
	bool several = cupti_saw_graphs() && cupti_graph_threads() > 1, ended, left;
	bool alone = cupti_calls_under_way() == 1;

	cupti_ignore_calls();
	ended = callbacks_end(1);
	left = quiet && alone && ended && can_finalize() && !several;
	held_up |= !ended || !alone;
	if (alone)
		flush(ended);
	if (left)
		finalize(start_ns, true);
	else
		rest(ended);
	return left;
}

/* Another thread may begin a call, or be about to show one, meanwhile. So the rest is done at the end
 * of a later call, and callbacks stay on until then: they show that it has come out. With graphs
 * everything has to be done here, because none may be launched between this and cuptiFinalize.
 * Returns whether CUPTI is detached. */
static bool stop_recording(int64_t start_ns)
{
	unsigned int begun = cupti_calls_begun();

	disable();
	if (cupti_saw_graphs())
		return detach(start_ns, cupti_calls_begun() == begun);
	atomic_store(&state, CUPTI_SETTLING);
	leave_patience_ns = 0;
	atomic_store(&cupti_passed, 0);
	leave_since_ns = clock_monotonic_ns();
	start_ns = leave_since_ns - start_ns;
	atomic_fetch_add(&cupti_added.detach_ns, (uint64_t)start_ns);
	atomic_fetch_add(&cupti_added.held_ns, (uint64_t)start_ns);
	return false;
}

bool cupti_leave_in_callback(bool idle)
{
	int64_t start_ns = clock_monotonic_ns(), waited_ns = start_ns - leave_since_ns;
	bool left = false;

	/* After a wait for the device nothing is cut off. */
	if (!idle && waited_ns < leave_patience_ns)
		return false;
	if (pthread_mutex_trylock(&lock) != 0)
		return false;
	if (cupti_leave_wanted && cupti_sees_calls() && cupti_in_callbacks() == 1 &&
	    graphs_allow(waited_ns) && cupti_threads_known() && cupti_calls_under_way() == 1) {
		probe_on_program_thread = true;
		if (state == CUPTI_LEAVING)
			left = stop_recording(start_ns);
		else if (start_ns - off_ns >= SETTLE_NS)
			left = detach(start_ns, !cupti_saw_graphs());
		probe_on_program_thread = false;
	}
	pthread_mutex_unlock(&lock);
	return left;
}

/* No thread is inside a call. Not knowing what the others do is as bad as knowing that they are in
 * one. */
static bool between_calls(void)
{
	return cupti_sees_calls() && !cupti_calls_under_way() && cupti_threads_known();
}

/* The lock is held; ends: the session does. If no moment comes, records are disabled anyway and what was in flight is left
 * to CUPTI: it is the flush that kills. */
static void leave_from_outside(bool ends)
{
	int64_t start_ns = clock_monotonic_ns();
	bool safe = between_calls(), here = cupti_graphs_only_here(), ended;

	atomic_store(&cupti_leave_wanted, false);
	cupti_prepare_keeping(wish.detach);
	settle();
	flush(false);
	if (ends && records_on && !safe)
		flush(true); /* there is no later one; while they are on it harms nobody */
	if (records_on)
		disable();
	if (cupti_subscribed())
		cupti_ignore_calls();
	ended = callbacks_end(0);
	safe = safe && ended;
	if (safe)
		flush(true);
	if (safe && here && can_finalize())
		finalize(start_ns, false);
	else
		rest(ended);
}

static void leave_when_quiet(bool ends)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	pthread_mutex_lock(&lock);
	if (collects_or_leaves())
		cupti_watch_calls();
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < ALONE_TRIES && cupti_watches_calls() && !between_calls(); i++)
		nanosleep(&moment, NULL);
	pthread_mutex_lock(&lock);
	if (collects_or_leaves())
		leave_from_outside(ends);
	give_up_subscription();
	pthread_mutex_unlock(&lock);
}

void cupti_leave_now(void)
{
	leave_when_quiet(false);
}

/* Without a moment now, the end of a later call detaches it. What comes until then belongs to no
 * session. Where CUPTI rests, the subscription has to be free for others before anyone can come. */
void cupti_stop(void)
{
	bool stays;

	pthread_mutex_lock(&lock);
	tell_held_up();
	tell_finalized();
	told_stays = false;
	if (collects_or_leaves()) {
		if ((between_calls() && cupti_graphs_only_here()) || !cupti_subscribed() ||
		    (cupti_saw_graphs() && !graphs_proved)) {
			leave_from_outside(true);
		} else if (wish.detach) {
			settle();
			flush(false);
			flush(true);
			if (state != CUPTI_SETTLING)
				leave_at_next_moment(0);
		}
	}
	stays = !wish.detach && collects_or_leaves();
	/* From now on nobody looks out for others. */
	if (state == CUPTI_RESTING)
		give_up_subscription();
	pthread_mutex_unlock(&lock);
	if (stays)
		leave_when_quiet(true);
}

/* Other threads may be inside calls for as long as the process lives, so nothing is disabled. */
void cupti_end(void)
{
	pthread_mutex_lock(&lock);
	tell_held_up();
	tell_finalized();
	if (collects_or_leaves()) {
		atomic_store(&cupti_leave_wanted, false);
		settle();
		/* What is complete, then the rest. */
		flush(false);
		flush(true);
		if (records_on)
			atomic_store(&off_ns, clock_monotonic_ns());
		rest(false);
	}
	pthread_mutex_unlock(&lock);
}

void cupti_on_clients(void (*arrives)(const char *name), void (*leaves)(void))
{
	pthread_mutex_lock(&lock);
	if (!hooks.arrives) { /* once: a client may be about to call them */
		hooks.arrives = arrives;
		hooks.leaves = leaves;
	}
	pthread_mutex_unlock(&lock);
}

void cupti_watch_clients(void)
{
	if (load_cupti())
		clients_watch(library, &hooks);
}

void cupti_unwatch_clients(void)
{
	clients_unwatch();
}

bool cupti_is_held(void)
{
	return clients_hold_subscription();
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
	clients_after_fork();
	witness_after_fork();
	cupti_subscription_ended();
	told_finalized = finalized;
	atomic_store(&cupti_leave_wanted, false);
	atomic_store(&state, CUPTI_OFF);
}
