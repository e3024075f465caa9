/* SPDX-License-Identifier: Apache-2.0
 *
 * The wrappers around libcupti's functions, and what the other client holds; see clients.h.
 *
 * Invariants: arrives() and leaves() alternate, and no call of the other proceeds while one of them
 * runs (it waits, but not forever); the other never disables or flushes what is the probe's; errno
 * is as CUPTI left it.
 */
#include "probe/gpu/clients/clients.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "probe/gpu/clients/client_buffers.h"
#include "probe/gpu/clients/client_names.h"
#include "base/dynlib.h"
#include "probe/gpu/clients/imports.h"
#include "probe/core/locks.h"

#define ENABLED_MAX 256
#define QUIET_NS 500000000LL	/* between the calls that begin or end one session of a client */
#define FETCHED_NS 2000000000LL /* CUPTI still has one of its buffers */
#define LOST_NS 10000000000LL	/* a client that has disabled everything and never fetches */
#define HOOK_WAIT_NS INT64_C(5000000000) /* then something is stuck, and the program comes first */

/* FUNCTION(name of CUPTI's, its wrapper) */
#define WRAPPED_FUNCTIONS(FUNCTION)                                                                \
	FUNCTION(cuptiSubscribe, subscribe)                                                        \
	FUNCTION(cuptiSubscribe_v2, subscribe_v2)                                                  \
	FUNCTION(cuptiUnsubscribe, unsubscribe)                                                    \
	FUNCTION(cuptiActivityRegisterCallbacks, register_callbacks)                               \
	FUNCTION(cuptiActivityRegisterTimestampCallback, register_clock)                           \
	FUNCTION(cuptiActivitySetAttribute, set_attribute)                                         \
	FUNCTION(cuptiActivityEnable, enable)                                                      \
	FUNCTION(cuptiActivityEnableAndDump, enable_and_dump)                                      \
	FUNCTION(cuptiActivityEnableContext, enable_context)                                       \
	FUNCTION(cuptiActivityDisable, disable)                                                    \
	FUNCTION(cuptiActivityDisableContext, disable_context)                                     \
	FUNCTION(cuptiActivityFlushAll, flush_all)                                                 \
	FUNCTION(cuptiFinalize, finalize)

static struct {
#define FUNCTION(name, wrapper) __typeof__(name) *name;
	WRAPPED_FUNCTIONS(FUNCTION)
#undef FUNCTION
} real;

struct enabled {
	CUcontext context; /* NULL: everywhere */
	CUpti_ActivityKind kind;
};

enum state { FREE, IN_HOOK, TAKEN };

PROBE_LOCK(lock);
PROBE_CONDITION(hook_returned);
/* What the other holds; under the lock. */
static struct {
	enum state state;
	unsigned int in_flight; /* its calls that have not returned */
	struct enabled enabled[ENABLED_MAX];
	size_t n_enabled;
	bool too_many; /* not all are listed: never considered idle */
	bool fetched;  /* it has fetched all records since it disabled the last kind */
	bool in_place; /* CUPTI has its callbacks */
	bool subscribed;
	bool was_here; /* has called CUPTI since that was last finalised */
	CUpti_SubscriberHandle subscriber;
	CUpti_TimestampCallbackFunc clock;
	int64_t last_call_ns;
	char name[96];
} other = { .fetched = true };

PROBE_LOCK(patching);
static const struct clients_hooks *_Atomic hooks; /* NULL: no session */
/* Of the last session: its records may be disabled after it ends. */
static bool (*_Atomic probe_records)(void);
static _Atomic bool tracking; /* stored under the lock */
static __thread bool in_hook; /* this thread's calls are the probe's */
/* CUPTI's calls to its own functions, and the probe's, are not a client's. */
static struct {
	uintptr_t start, end;
} cupti_code, own_code;

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

static bool ours(const void *caller)
{
	uintptr_t at = (uintptr_t)caller;

	return (at >= cupti_code.start && at < cupti_code.end) ||
	       (at >= own_code.start && at < own_code.end);
}

/* With the lock. */
static void wait_for_hook(void)
{
	struct timespec until = clock_deadline(HOOK_WAIT_NS);

	while (other.state == IN_HOOK && pthread_cond_timedwait(&hook_returned, &lock, &until) == 0)
		;
}

static void leave_hook(enum state state)
{
	pthread_mutex_lock(&lock);
	other.state = state;
	other.in_place = false; /* while the other is away, the probe's are in place */
	pthread_cond_broadcast(&hook_returned);
}

/* With the lock, which is released meanwhile. */
static void arrive(const void *caller)
{
	const struct clients_hooks *with = atomic_load(&hooks);
	char name[sizeof(other.name)];

	other.state = IN_HOOK;
	pthread_mutex_unlock(&lock);
	client_name_at(caller, name, sizeof(name));
	in_hook = true;
	if (with)
		with->arrives(name);
	in_hook = false;
	leave_hook(TAKEN);
	memcpy(other.name, name, sizeof(name));
}

/* Every wrapper's first step; false: the call is not a client's and is only passed on. A call that
 * `opens` uses something that the probe may be holding. */
static bool begin_client_call(bool opens, const void *caller)
{
	int saved = errno;
	bool tracked;

	if (!atomic_load(&tracking) || in_hook || ours(caller))
		return false;
	pthread_mutex_lock(&lock);
	wait_for_hook();
	tracked = atomic_load(&tracking);
	other.in_flight += tracked;
	if (tracked && opens && other.state == FREE)
		arrive(caller);
	pthread_mutex_unlock(&lock);
	errno = saved;
	return tracked;
}

/* After the call: holds the lock until end(). */
static void note_client_call(void)
{
	pthread_mutex_lock(&lock);
	other.last_call_ns = clock_monotonic_ns();
	other.was_here = true;
	other.in_flight--;
}

static void end(void)
{
	pthread_mutex_unlock(&lock);
}

/* With the lock: the index of an entry, or n_enabled. */
static size_t find_enabled(CUcontext context, CUpti_ActivityKind kind)
{
	size_t i = 0;

	while (i < other.n_enabled &&
	       (other.enabled[i].context != context || other.enabled[i].kind != kind))
		i++;
	return i;
}

static CUptiResult subscribed(bool tracked, CUptiResult result, CUpti_SubscriberHandle *subscriber)
{
	if (tracked) {
		note_client_call();
		if (result == CUPTI_SUCCESS) {
			other.subscribed = true;
			other.subscriber = *subscriber;
		}
		end();
	}
	return result;
}

static CUptiResult CUPTIAPI subscribe(CUpti_SubscriberHandle *subscriber,
				      CUpti_CallbackFunc callback, void *userdata)
{
	bool tracked = begin_client_call(true, CALLER);

	return subscribed(tracked, real.cuptiSubscribe(subscriber, callback, userdata), subscriber);
}

static CUptiResult CUPTIAPI subscribe_v2(CUpti_SubscriberHandle *subscriber,
					 CUpti_CallbackFunc callback, void *userdata,
					 CUpti_SubscriberParams *params)
{
	bool tracked = begin_client_call(true, CALLER);

	return subscribed(tracked, real.cuptiSubscribe_v2(subscriber, callback, userdata, params),
			  subscriber);
}

static CUptiResult CUPTIAPI unsubscribe(CUpti_SubscriberHandle subscriber)
{
	bool tracked = begin_client_call(false, CALLER);
	CUptiResult result = real.cuptiUnsubscribe(subscriber);

	if (tracked) {
		note_client_call();
		if (result == CUPTI_SUCCESS && subscriber == other.subscriber) {
			other.subscribed = false;
			other.fetched |= other.n_enabled == 0;
		}
		end();
	}
	return result;
}

static CUptiResult CUPTIAPI register_callbacks(CUpti_BuffersCallbackRequestFunc request,
					       CUpti_BuffersCallbackCompleteFunc complete)
{
	bool tracked = begin_client_call(true, CALLER);
	CUptiResult result;

	if (!tracked)
		return real.cuptiActivityRegisterCallbacks(request, complete);
	if (request && complete) {
		client_buffers_use(request, complete);
		result = real.cuptiActivityRegisterCallbacks(client_buffers_requested,
							     client_buffers_completed);
	} else {
		result = real.cuptiActivityRegisterCallbacks(request, complete);
	}
	note_client_call();
	if (result == CUPTI_SUCCESS)
		other.in_place = true;
	end();
	return result;
}

/* A client may register once and enable again later: its callbacks replace the probe's. */
static void restore_callbacks(void)
{
	bool needed;

	pthread_mutex_lock(&lock);
	needed = other.state == TAKEN && !other.in_place && client_buffers_in_use();
	other.in_place |= needed;
	pthread_mutex_unlock(&lock);
	if (needed)
		real.cuptiActivityRegisterCallbacks(client_buffers_requested,
						    client_buffers_completed);
}

static CUptiResult CUPTIAPI register_clock(CUpti_TimestampCallbackFunc clock)
{
	bool tracked = begin_client_call(true, CALLER);
	CUptiResult result = real.cuptiActivityRegisterTimestampCallback(clock);

	if (tracked) {
		note_client_call();
		if (result == CUPTI_SUCCESS)
			other.clock = clock;
		end();
	}
	return result;
}

/* Attributes require that no kind is enabled, so the probe yields before them too. */
static CUptiResult CUPTIAPI set_attribute(CUpti_ActivityAttribute attribute, size_t *size,
					  void *value)
{
	bool tracked = begin_client_call(true, CALLER);
	CUptiResult result = real.cuptiActivitySetAttribute(attribute, size, value);

	if (tracked) {
		note_client_call();
		end();
	}
	return result;
}

static CUptiResult enabled(CUptiResult result, CUcontext context, CUpti_ActivityKind kind)
{
	note_client_call();
	if (result == CUPTI_SUCCESS) {
		other.fetched = false;
		if (other.n_enabled == ENABLED_MAX)
			other.too_many = true;
		else if (find_enabled(context, kind) == other.n_enabled)
			other.enabled[other.n_enabled++] = (struct enabled){ context, kind };
	}
	end();
	return result;
}

static CUptiResult CUPTIAPI enable(CUpti_ActivityKind kind)
{
	if (!begin_client_call(true, CALLER))
		return real.cuptiActivityEnable(kind);
	restore_callbacks();
	return enabled(real.cuptiActivityEnable(kind), NULL, kind);
}

static CUptiResult CUPTIAPI enable_and_dump(CUpti_ActivityKind kind)
{
	if (!begin_client_call(true, CALLER))
		return real.cuptiActivityEnableAndDump(kind);
	restore_callbacks();
	return enabled(real.cuptiActivityEnableAndDump(kind), NULL, kind);
}

static CUptiResult CUPTIAPI enable_context(CUcontext context, CUpti_ActivityKind kind)
{
	if (!begin_client_call(true, CALLER))
		return real.cuptiActivityEnableContext(context, kind);
	restore_callbacks();
	return enabled(real.cuptiActivityEnableContext(context, kind), context, kind);
}

/* While the probe records, whatever the other disables is already off for it; passing the call on
 * would disable the probe's. While it does not, everything is passed on: a client that started
 * before it was watched has enabled kinds unknown here, and frees its buffers when it believes them
 * off. */
static bool wants_off_ours(void)
{
	bool (*records)(void) = atomic_load(&probe_records);

	return !clients_active() && records && records();
}

static bool has_nothing(void)
{
	return wants_off_ours() && client_buffers_out() == 0;
}

static CUptiResult disabled(CUptiResult result, CUcontext context, CUpti_ActivityKind kind)
{
	size_t i;

	note_client_call();
	i = find_enabled(context, kind);
	if (result == CUPTI_SUCCESS && i < other.n_enabled)
		other.enabled[i] = other.enabled[--other.n_enabled];
	end();
	return result;
}

static CUptiResult CUPTIAPI disable(CUpti_ActivityKind kind)
{
	if (!begin_client_call(false, CALLER))
		return real.cuptiActivityDisable(kind);
	return disabled(wants_off_ours() ? CUPTI_SUCCESS : real.cuptiActivityDisable(kind), NULL,
			kind);
}

static CUptiResult CUPTIAPI disable_context(CUcontext context, CUpti_ActivityKind kind)
{
	if (!begin_client_call(false, CALLER))
		return real.cuptiActivityDisableContext(context, kind);
	return disabled(wants_off_ours() ? CUPTI_SUCCESS
					 : real.cuptiActivityDisableContext(context, kind),
			context, kind);
}

static CUptiResult CUPTIAPI flush_all(uint32_t flag)
{
	CUptiResult result;

	if (!begin_client_call(false, CALLER))
		return real.cuptiActivityFlushAll(flag);
	/* A forced flush would deliver the probe's records unfinished. */
	result = has_nothing() ? CUPTI_SUCCESS : real.cuptiActivityFlushAll(flag);
	note_client_call();
	if (result == CUPTI_SUCCESS && !other.n_enabled)
		other.fetched = true;
	end();
	return result;
}

/* With the lock. */
static void forget_finalized(void)
{
	other.n_enabled = 0;
	other.too_many = other.subscribed = other.in_place = other.was_here = false;
	other.subscriber = NULL;
	other.clock = NULL;
	other.fetched = true;
	client_buffers_forget();
}

static CUptiResult CUPTIAPI finalize(void)
{
	bool tracked = begin_client_call(true, CALLER);
	CUptiResult result = real.cuptiFinalize();

	if (tracked) {
		note_client_call();
		if (result == CUPTI_SUCCESS) {
			forget_finalized();
			client_buffers_use(NULL, NULL);
		}
		end();
	}
	return result;
}

static struct import imports[] = {
#define FUNCTION(name, wrapper) { #name, NULL, (void *)wrapper },
	WRAPPED_FUNCTIONS(FUNCTION)
#undef FUNCTION
};
static size_t n_imports; /* those in this libcupti come first */

/* Once: after the redirection the library returns the wrappers. */
static int load_wrapped(void *libcupti)
{
	const struct dynlib_symbol symbols[] = {
#define FUNCTION(name, wrapper) { #name, &real.name },
		WRAPPED_FUNCTIONS(FUNCTION)
#undef FUNCTION
	};

	if (n_imports)
		return 0;
	dynlib_symbols(libcupti, symbols, sizeof(symbols) / sizeof(symbols[0]));
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		struct import import = imports[i];

		memcpy(&import.original, symbols[i].to, sizeof(import.original));
		if (import.original)
			imports[n_imports++] = import;
	}
	if (!real.cuptiActivityRegisterCallbacks || !real.cuptiActivityEnable)
		n_imports = 0;
	if (!n_imports ||
	    imports_module_of(imports[0].original, &cupti_code.start, &cupti_code.end) != 0 ||
	    imports_module_of(imports[0].replacement, &own_code.start, &own_code.end) != 0)
		return -ENOENT;
	return 0;
}

int clients_watch(void *libcupti, const struct clients_hooks *with)
{
	const char *share = getenv("MOESCOPE_SHARE");
	int saved = errno, result;

	pthread_mutex_lock(&patching);
	result = load_wrapped(libcupti);
	if (!result && share && !strcmp(share, "off"))
		result = -ECANCELED;
	if (!result) {
		/* A client that left since the previous session is not this session's. */
		if (!atomic_load(&hooks))
			clients_settle(clock_monotonic_ns());
		client_buffers_probe(with->completed);
		atomic_store(&hooks, with);
		atomic_store(&probe_records, with->records);
		pthread_mutex_lock(&lock);
		atomic_store(&tracking, true);
		pthread_mutex_unlock(&lock);
		result = imports_redirect(imports, n_imports);
	}
	pthread_mutex_unlock(&patching);
	errno = saved;
	return result < 0 ? result : 0;
}

void clients_unwatch(void)
{
	int saved = errno;
	bool gone;

	pthread_mutex_lock(&patching);
	pthread_mutex_lock(&lock);
	wait_for_hook();
	atomic_store(&hooks, NULL);
	gone = other.state == FREE && !other.in_flight && !other.subscribed;
	if (gone)
		atomic_store(&tracking, false);
	pthread_mutex_unlock(&lock);
	if (gone && n_imports)
		imports_restore(imports, n_imports);
	pthread_mutex_unlock(&patching);
	errno = saved;
}

void clients_settle(int64_t now_ns)
{
	const struct clients_hooks *with = atomic_load(&hooks);
	int64_t quiet_ns, patience_ns;

	pthread_mutex_lock(&lock);
	/* It has everything it fetched; an outstanding buffer may then be empty. */
	patience_ns = !other.fetched ? LOST_NS : client_buffers_out() ? FETCHED_NS : QUIET_NS;
	quiet_ns = now_ns - other.last_call_ns;
	if (other.state == TAKEN && !other.in_flight && !other.n_enabled && !other.too_many &&
	    quiet_ns >= patience_ns) {
		other.state = IN_HOOK;
		pthread_mutex_unlock(&lock);
		in_hook = true;
		if (with)
			with->leaves();
		in_hook = false;
		leave_hook(FREE);
	}
	pthread_mutex_unlock(&lock);
}

void clients_after_fork(void)
{
	/* The child's program may continue to use CUPTI; the probe's part is over. */
	atomic_store(&tracking, false);
	atomic_store(&hooks, NULL);
	memset(&other, 0, sizeof(other));
	other.fetched = true;
	client_buffers_after_fork();
}

bool clients_active(void)
{
	bool active;

	pthread_mutex_lock(&lock);
	active = other.state != FREE;
	pthread_mutex_unlock(&lock);
	return active;
}

bool clients_hold_subscription(void)
{
	bool held;

	pthread_mutex_lock(&lock);
	held = other.subscribed;
	pthread_mutex_unlock(&lock);
	return held;
}

bool clients_were_here(void)
{
	bool were;

	pthread_mutex_lock(&lock);
	were = other.was_here;
	pthread_mutex_unlock(&lock);
	return were;
}

CUpti_TimestampCallbackFunc clients_clock(void)
{
	CUpti_TimestampCallbackFunc clock;

	pthread_mutex_lock(&lock);
	clock = other.clock;
	pthread_mutex_unlock(&lock);
	return clock;
}

void clients_after_finalize(void)
{
	pthread_mutex_lock(&lock);
	forget_finalized();
	pthread_mutex_unlock(&lock);
}

bool clients_deliver(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	return client_buffers_deliver(context, stream, buffer, size, valid);
}

int clients_name_holder(char *name, size_t size)
{
	bool known;

	pthread_mutex_lock(&lock);
	known = other.subscribed && *other.name;
	if (known)
		snprintf(name, size, "%s", other.name);
	pthread_mutex_unlock(&lock);
	if (known ||
	    client_name_asked(real.cuptiSubscribe_v2, real.cuptiUnsubscribe, name, size) == 0 ||
	    client_name_loaded(name, size) == 0)
		return 0;
	snprintf(name, size, "another profiler");
	return -ENOENT;
}
