/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI's callbacks, on the program's threads: where the nodes of CUDA graphs were created, which
 * thread launches graphs, and the moment at which CUPTI can be detached: the end of a call, with no
 * other thread inside one. See cupti.h.
 *
 * PyTorch makes some 25 calls per kernel, most of them queries that take less time than a callback.
 * So only calls that do work are traced; all calls are traced only to find the moment to detach.
 *
 * Only calls of the driver are: each call of the runtime that works makes one. Of calls of the runtime
 * CUPTI loses count when they go on or off beside one (cupti_memory.c).
 *
 * A callback never waits: a thread that is inside one when CUPTI is finalised returns into freed
 * memory.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/gpu/cupti/cupti_inside.h"
#include "probe/core/device_rows.h"
#include "probe/core/witness.h"

_Atomic bool cupti_leave_wanted;
_Atomic unsigned int cupti_passed;

static CUpti_SubscriberHandle subscriber;
#define CALL_IDS 2048
#define MAX_DEPTH 4 /* a runtime call, a driver call in it, and two to spare */

/* Callbacks come for calls that do work, or for all. */
static _Atomic bool subscribed, following, watching;
static _Atomic int64_t watching_since_ns;
static _Atomic unsigned int followings; /* how often calls began to be followed */
static _Atomic unsigned int inside;	/* threads that are in a call of the program's */
static _Atomic unsigned int begun;	/* calls, while all are traced */
static _Atomic bool graphs_seen;
static _Atomic uint32_t graph_thread; /* the one that launches graphs, 0: none yet */
static _Atomic bool several_threads;
static _Atomic unsigned int in_callbacks;

/* The calls that mean something here, and those that may take long but are not recorded; of the
 * others only begin and end count. At the end of these two CUPTI is not detached: it goes on hearing
 * of the call of the runtime around them (cupti_memory.c), and for launches that would be dear. */
static const struct {
	CUpti_CallbackId id;
	enum { CALL_OTHER, CALL_GRAPH, CALL_WAIT, CALL_LONG, CALL_COPY, CALL_MARK } what;
} calls[] = {
#define CALL(name, what)                                                                           \
	{                                                                                          \
		CUPTI_DRIVER_TRACE_CBID_##name, what                                               \
	}
	CALL(cuGraphLaunch, CALL_GRAPH),
	CALL(cuGraphLaunch_ptsz, CALL_GRAPH),
	CALL(cuCtxSynchronize, CALL_WAIT),
	CALL(cuStreamSynchronize, CALL_WAIT),
	CALL(cuStreamSynchronize_ptsz, CALL_WAIT),
	CALL(cuEventSynchronize, CALL_WAIT),
	CALL(cuCtxSynchronize_v2, CALL_WAIT),
	CALL(cuEventRecord, CALL_MARK),
	CALL(cuEventRecord_ptsz, CALL_MARK),
	CALL(cuEventRecordWithFlags, CALL_MARK),
	CALL(cuEventRecordWithFlags_ptsz, CALL_MARK),
	CALL(cuEventQuery, CALL_MARK),
	CALL(cuStreamQuery, CALL_MARK),
	CALL(cuStreamQuery_ptsz, CALL_MARK),
	CALL(cuStreamWaitEvent, CALL_MARK),
	CALL(cuStreamWaitEvent_ptsz, CALL_MARK),
	CALL(cuCtxCreate_v4, CALL_LONG),
	CALL(cuDevicePrimaryCtxRetain, CALL_LONG),
	CALL(cuDevicePrimaryCtxReset_v2, CALL_LONG),
	CALL(cuModuleLoad, CALL_LONG),
	CALL(cuModuleLoadData, CALL_LONG),
	CALL(cuModuleLoadDataEx, CALL_LONG),
	CALL(cuModuleLoadFatBinary, CALL_LONG),
	CALL(cuModuleGetFunction, CALL_LONG),
	CALL(cuModuleUnload, CALL_LONG),
	CALL(cuLibraryLoadData, CALL_LONG),
	CALL(cuLibraryLoadFromFile, CALL_LONG),
	CALL(cuLibraryGetModule, CALL_LONG),
	CALL(cuLibraryUnload, CALL_LONG),
	CALL(cuFuncLoad, CALL_LONG),
	CALL(cuLinkAddData_v2, CALL_LONG),
	CALL(cuLinkComplete, CALL_LONG),
	CALL(cuGraphInstantiateWithFlags, CALL_LONG),
	CALL(cuGraphInstantiateWithParams, CALL_LONG),
	CALL(cuGraphExecUpdate_v2, CALL_LONG),
	CALL(cuGraphUpload, CALL_LONG),
	CALL(cuMemHostAlloc_v2, CALL_LONG),
	CALL(cuMemFreeHost, CALL_LONG),
	CALL(cuMemHostRegister_v2, CALL_LONG),
	CALL(cuMemHostUnregister, CALL_LONG),
	CALL(cuMemCreate, CALL_LONG),
	CALL(cuMemMap, CALL_LONG),
	CALL(cuMemSetAccess, CALL_LONG),
	CALL(cuMemUnmap, CALL_LONG),
	CALL(cuMemRelease, CALL_LONG),
	CALL(cuMemcpyHtoD_v2, CALL_COPY),
	CALL(cuMemcpyDtoH_v2, CALL_COPY),
	CALL(cuMemcpyDtoD_v2, CALL_COPY),
	CALL(cuMemcpyHtoDAsync_v2, CALL_COPY),
	CALL(cuMemcpyDtoHAsync_v2, CALL_COPY),
	CALL(cuMemcpyDtoDAsync_v2, CALL_COPY),
	CALL(cuMemcpyAsync, CALL_COPY),
	CALL(cuMemsetD8Async, CALL_COPY),
	CALL(cuMemsetD8Async_ptsz, CALL_COPY),
	CALL(cuMemsetD32Async, CALL_COPY),
	CALL(cuMemsetD32Async_ptsz, CALL_COPY),
	CALL(cuMemHostAlloc, CALL_LONG),
	CALL(cuMemAllocManaged, CALL_LONG),
	CALL(cuMemAllocHost_v2, CALL_LONG),
	CALL(cuStreamCreate, CALL_LONG),
	CALL(cuStreamCreateWithPriority, CALL_LONG),
	CALL(cuStreamDestroy_v2, CALL_LONG),
	CALL(cuStreamEndCapture, CALL_LONG),
	CALL(cuCtxDestroy_v2, CALL_LONG),
#undef CALL
};

/* Threads that have made calls. One that was inside a call before tracing started shows no begin;
 * but it uses the processor, or waits for the device, which ends without CUPTI. So a thread that
 * has run since, and shows neither begin nor end of a call, may still be inside. */
#define UNKNOWN_NS INT64_C(2000000000) /* no call uses this much processor time: it is elsewhere */
static struct known_thread {
	_Atomic uint32_t id;	    /* 0: free */
	_Atomic unsigned int watch; /* in which it was last seen */
	_Atomic int64_t cpu_ns;	    /* when that began */
	_Atomic bool elsewhere;	    /* not waited for until its next call */
} known[WITNESS_THREADS];
static _Atomic bool too_many; /* some are unknown */
static _Atomic unsigned int watches;

static const CUpti_CallbackId resources[] = {
	CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
	CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
};

uint32_t cupti_thread_id(void)
{
	static __thread uint32_t id;

	if (!id)
		id = (uint32_t)syscall(SYS_gettid);
	return id;
}

static struct known_thread *known_here(void)
{
	static __thread struct known_thread *here;
	uint32_t me = cupti_thread_id(), none = 0;

	if (here && atomic_load_explicit(&here->id, memory_order_relaxed) == me)
		return here;
	for (int i = 0; i < WITNESS_THREADS; i++)
		if (atomic_load_explicit(&known[i].id, memory_order_relaxed) == me)
			return here = &known[i];
	for (int i = 0; i < WITNESS_THREADS; i++, none = 0)
		if (atomic_compare_exchange_strong(&known[i].id, &none, me))
			return here = &known[i];
	atomic_store(&too_many, true);
	return NULL;
}

/* A new watch begins. */
static void look_at_threads(void)
{
	atomic_fetch_add(&watches, 1);
	for (int i = 0; i < WITNESS_THREADS; i++) {
		uint32_t id = atomic_load(&known[i].id);
		int64_t cpu_ns = id ? witness_cpu_ns(id) : 0;

		atomic_store(&known[i].cpu_ns, cpu_ns);
		if (cpu_ns < 0)
			atomic_compare_exchange_strong(&known[i].id, &id, 0);
	}
}

bool cupti_threads_known(void)
{
	unsigned int now = atomic_load(&watches);
	bool waited = clock_monotonic_ns() - watching_since_ns >= UNKNOWN_NS;

	for (int i = 0; i < WITNESS_THREADS; i++) {
		uint32_t id = atomic_load(&known[i].id);

		if (!id || atomic_load(&known[i].watch) == now ||
		    atomic_load(&known[i].elsewhere) ||
		    witness_cpu_ns(id) <= atomic_load(&known[i].cpu_ns))
			continue;
		if (!waited)
			return false;
		atomic_store(&known[i].elsewhere, true);
	}
	return true;
}

bool cupti_threads_left(int ms)
{
	static struct witness_thread others[WITNESS_THREADS];
	uint32_t me = cupti_thread_id();
	unsigned int n = 0;

	for (int i = 0; i < WITNESS_THREADS; i++) {
		uint32_t id = atomic_load(&known[i].id);

		if (id && id != me)
			others[n++] = (struct witness_thread){ id, witness_cpu_ns(id) };
	}
	return witness_left(others, n, ms) && !atomic_load(&too_many);
}

static uint64_t node_id(CUgraphNode node)
{
	uint64_t id = 0;

	return node && cupti_api.cuptiGetGraphNodeId(node, &id) == CUPTI_SUCCESS ? id : 0;
}

static void node_made(const CUpti_GraphData *data, bool cloned)
{
	struct row_graph_node row = { .time_ns = clock_monotonic_ns(),
				      .thread = cupti_thread_id(),
				      .node = node_id(data->node),
				      .source = cloned ? node_id(data->originalNode) : 0 };

	cupti_note_graphs();
	if (!row.node)
		return;
	if (cupti_api.cuptiGetGraphId)
		cupti_api.cuptiGetGraphId(data->graph, &row.graph);
	probe_on_program_thread = true;
	probe_push_device(RECORD_GRAPH_NODE, &row, sizeof(row));
	probe_on_program_thread = false;
}

static void note_launch(void)
{
	uint32_t me = cupti_thread_id(), none = 0;

	cupti_note_graphs();
	if (!atomic_compare_exchange_strong(&graph_thread, &none, me) && none != me)
		atomic_store(&several_threads, true);
}

static uint8_t call_kinds[CALL_IDS]; /* filled before the first subscription */

/* Once: callbacks of an earlier subscription may be reading. */
static void fill_call_kinds(void)
{
	static bool filled;

	for (size_t i = 0; !filled && i < COUNT(calls); i++)
		if (calls[i].id < CALL_IDS)
			call_kinds[calls[i].id] = (uint8_t)calls[i].what;
	filled = true;
}

/* A call may contain another, whose end is not the end of it all. A call that was under way when
 * calls began to be followed counts as none: CUPTI knows nothing of it. */
static struct thread_calls {
	unsigned int depth, following;
	struct call {
		CUpti_CallbackId id;
		uint32_t correlation;
		int64_t start_ns; /* 0: not recorded */
	} calls[MAX_DEPTH];
} * calls_here(void)
{
	static __thread struct thread_calls here;
	unsigned int now = atomic_load_explicit(&followings, memory_order_relaxed);

	if (here.following != now)
		here = (struct thread_calls){ .following = now };
	return &here;
}

static void call_begins(struct thread_calls *here, const struct call *call)
{
	if (here->depth == 0)
		atomic_fetch_add(&inside, 1);
	if (atomic_load_explicit(&watching, memory_order_relaxed))
		atomic_fetch_add_explicit(&begun, 1, memory_order_relaxed);
	/* A nested call has the outer one's correlation, and nothing nests this deep: otherwise the
	 * ends of those below have been missed. */
	if (here->depth == MAX_DEPTH ||
	    (here->depth && here->calls[0].correlation != call->correlation))
		here->depth = 0;
	here->calls[here->depth++] = *call;
}

/* The call whose end this is, or NULL if its begin was not seen. Calls that began inside it and
 * have not ended never will. */
static const struct call *call_ends(struct thread_calls *here, const struct call *call)
{
	for (unsigned int i = here->depth; i-- > 0;)
		if (here->calls[i].id == call->id &&
		    here->calls[i].correlation == call->correlation) {
			here->depth = i;
			return &here->calls[i];
		}
	return NULL;
}

static void call_made(CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	unsigned int what = id < CALL_IDS ? call_kinds[id] : CALL_OTHER;
	struct call call = { .id = id, .correlation = data->correlationId };
	struct thread_calls *here = calls_here();
	struct known_thread *thread = known_here();
	const struct call *ended;

	if (thread) {
		atomic_store_explicit(&thread->watch,
				      atomic_load_explicit(&watches, memory_order_relaxed),
				      memory_order_relaxed);
		atomic_store_explicit(&thread->elsewhere, false, memory_order_relaxed);
	}

	if (what == CALL_GRAPH)
		note_launch();
	if (data->callbackSite == CUPTI_API_ENTER) {
		if (following && cupti_records_call(id))
			call.start_ns = clock_monotonic_ns();
		call_begins(here, &call);
		return;
	}
	if (atomic_load_explicit(&cupti_leave_wanted, memory_order_relaxed))
		atomic_fetch_add_explicit(&cupti_passed, 1, memory_order_relaxed);
	ended = call_ends(here, &call);
	if (!ended)
		return;
	if (ended->start_ns)
		cupti_call_ended(id, ended->start_ns, cupti_thread_id(), data);
	if (here->depth)
		return;
	/* Each costs a little, recorded or not. */
	atomic_fetch_add_explicit(&cupti_added.calls, 1, memory_order_relaxed);
	if (atomic_load_explicit(&cupti_leave_wanted, memory_order_relaxed) && what != CALL_OTHER &&
	    what != CALL_LONG && atomic_load(&inside) == 1 &&
	    cupti_leave_in_callback(what == CALL_WAIT))
		return; /* and with CUPTI the counting has ended */
	atomic_fetch_sub(&inside, 1);
}

static void CUPTIAPI callback(void *arg, CUpti_CallbackDomain domain, CUpti_CallbackId id,
			      const void *data)
{
	(void)arg;
	atomic_fetch_add(&in_callbacks, 1);
	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		const CUpti_ResourceData *resource = data;

		node_made(resource->resourceDescriptor, id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
	} else {
		call_made(id, data);
	}
	atomic_fetch_sub(&in_callbacks, 1);
}

unsigned int cupti_in_callbacks(void)
{
	return atomic_load(&in_callbacks);
}

/* Those that do work. Callbacks unknown to this CUPTI are left out. */
static void follow_calls(void)
{
	for (CUpti_CallbackId id = 0; id < CALL_IDS; id++)
		if ((call_kinds[id] && call_kinds[id] != CALL_MARK) || cupti_records_call(id))
			cupti_api.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
						      id);
	following = true;
}

CUptiResult cupti_subscribe(void)
{
	CUptiResult result;

	if (following || !cupti_api.cuptiSubscribe || !cupti_api.cuptiEnableCallback ||
	    !cupti_api.cuptiGetGraphNodeId || !cupti_api.cuptiUnsubscribe ||
	    !cupti_api.cuptiEnableDomain)
		return CUPTI_SUCCESS;
	if (!subscribed) {
		fill_call_kinds();
		result = cupti_api.cuptiSubscribe(&subscriber, callback, NULL);
		if (result != CUPTI_SUCCESS)
			return result;
		subscribed = true;
	}
	atomic_fetch_add(&followings, 1);
	atomic_store(&inside, 0);
	for (size_t i = 0; i < COUNT(resources); i++)
		cupti_api.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
					      resources[i]);
	follow_calls();
	return CUPTI_SUCCESS;
}

/* Short calls whose begin was not seen get some time to end. */
void cupti_watch_calls(void)
{
	if (!subscribed)
		return;
	if (!watching)
		watching = cupti_api.cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) ==
			   CUPTI_SUCCESS;
	watching_since_ns = clock_monotonic_ns();
	look_at_threads();
}

bool cupti_watches_calls(void)
{
	return watching;
}

void cupti_ignore_calls(void)
{
	cupti_api.cuptiEnableDomain(0, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
	cupti_api.cuptiEnableDomain(0, subscriber, CUPTI_CB_DOMAIN_RESOURCE);
	following = watching = false;
}

bool cupti_sees_calls(void)
{
	return watching && clock_monotonic_ns() - watching_since_ns >= CALL_GRACE_NS;
}

/* CUPTI frees the subscriber and its table of callbacks, which every call of the driver reads without
 * a lock as long as CUPTI is attached; and the next subscription announces its table before it has
 * one. Either beside a call ends the program. So this is for others who want to subscribe; windows
 * keep the subscription, with all callbacks off. */
void cupti_unsubscribe(void)
{
	if (subscribed)
		cupti_api.cuptiUnsubscribe(subscriber);
	cupti_subscription_ended();
}

void cupti_subscription_ended(void)
{
	subscribed = following = watching = false;
}

bool cupti_subscribed(void)
{
	return subscribed;
}

void cupti_note_graphs(void)
{
	if (!atomic_load_explicit(&graphs_seen, memory_order_relaxed))
		atomic_store(&graphs_seen, true);
}

bool cupti_saw_graphs(void)
{
	return atomic_load(&graphs_seen);
}

unsigned int cupti_graph_threads(void)
{
	if (atomic_load(&several_threads) || !following)
		return 2; /* unseen is as bad as several */
	return atomic_load(&graph_thread) != 0;
}

bool cupti_graphs_only_here(void)
{
	return !cupti_saw_graphs() ||
	       (cupti_graph_threads() == 1 && atomic_load(&graph_thread) == cupti_thread_id());
}

unsigned int cupti_calls_begun(void)
{
	return atomic_load(&begun);
}

unsigned int cupti_calls_under_way(void)
{
	return following ? atomic_load(&inside) : 0;
}
