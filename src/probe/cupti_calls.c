/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI's callbacks, on the program's threads: where the nodes of CUDA graphs were made, which
 * thread launches graphs, and the moment at which CUPTI can be detached: the end of a call, with no
 * other thread inside one. See cupti.h.
 *
 * A callback never waits: a thread that is inside one when CUPTI is finalised comes back into
 * memory that has been freed.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/cupti_inside.h"
#include "probe/gpu.h"

_Atomic bool cupti_leave_wanted;
_Atomic unsigned int cupti_passed;

static CUpti_SubscriberHandle subscriber;
#define CALL_GRACE_NS INT64_C(500000000)

static _Atomic bool subscribed, watching, by_callback;
static _Atomic int64_t watching_since_ns;
static _Atomic unsigned int subscriptions;
static _Atomic unsigned int inside; /* threads that are in a call of the program's */
static _Atomic bool graphs_seen;
static _Atomic uint32_t graph_thread; /* the one that launches graphs, 0: none yet */
static _Atomic bool several_threads;
static _Atomic unsigned int in_callbacks;

/* The calls that mean something here; of the others only begin and end count. */
static const struct {
	CUpti_CallbackDomain domain;
	CUpti_CallbackId id;
	enum { CALL_OTHER, CALL_GRAPH, CALL_WAIT } what;
} calls[] = {
#define RUNTIME(name, what)                                                                        \
	{                                                                                          \
		CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_##name, what                 \
	}
#define DRIVER(name, what)                                                                         \
	{                                                                                          \
		CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##name, what                   \
	}
	RUNTIME(cudaGraphLaunch_v10000, CALL_GRAPH),
	RUNTIME(cudaGraphLaunch_ptsz_v10000, CALL_GRAPH),
	RUNTIME(cudaDeviceSynchronize_v3020, CALL_WAIT),
	RUNTIME(cudaStreamSynchronize_v3020, CALL_WAIT),
	RUNTIME(cudaStreamSynchronize_ptsz_v7000, CALL_WAIT),
	RUNTIME(cudaEventSynchronize_v3020, CALL_WAIT),
	DRIVER(cuGraphLaunch, CALL_GRAPH),
	DRIVER(cuGraphLaunch_ptsz, CALL_GRAPH),
	DRIVER(cuCtxSynchronize, CALL_WAIT),
	DRIVER(cuStreamSynchronize, CALL_WAIT),
	DRIVER(cuStreamSynchronize_ptsz, CALL_WAIT),
	DRIVER(cuEventSynchronize, CALL_WAIT),
#undef RUNTIME
#undef DRIVER
};

static const CUpti_CallbackId resources[] = {
	CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
	CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
};

static uint32_t thread_id(void)
{
	static __thread uint32_t id;

	if (!id)
		id = (uint32_t)syscall(SYS_gettid);
	return id;
}

static uint64_t node_id(CUgraphNode node)
{
	uint64_t id = 0;

	return node && cupti_api.cuptiGetGraphNodeId(node, &id) == CUPTI_SUCCESS ? id : 0;
}

static void node_made(const CUpti_GraphData *data, bool cloned)
{
	struct row_graph_node row = { .time_ns = clock_monotonic_ns(),
				      .thread = thread_id(),
				      .node = node_id(data->node),
				      .source = cloned ? node_id(data->originalNode) : 0 };

	cupti_note_graphs();
	if (!row.node)
		return;
	if (cupti_api.cuptiGetGraphId)
		cupti_api.cuptiGetGraphId(data->graph, &row.graph);
	gpu_on_program_thread = true;
	gpu_push(RECORD_GRAPH_NODE, &row, sizeof(row));
	gpu_on_program_thread = false;
}

static void note_launch(void)
{
	uint32_t me = thread_id(), none = 0;

	cupti_note_graphs();
	if (!atomic_compare_exchange_strong(&graph_thread, &none, me) && none != me)
		atomic_store(&several_threads, true);
}

#define CALL_IDS 2048
#define MAX_DEPTH 4			/* a runtime call, a driver call in it, and two to spare */
static uint8_t call_kinds[2][CALL_IDS]; /* by domain; filled before the first subscription */

/* Once: callbacks of an earlier subscription may be reading. */
static void fill_call_kinds(void)
{
	static bool filled;

	for (size_t i = 0; !filled && i < COUNT(calls); i++)
		if (calls[i].id < CALL_IDS)
			call_kinds[calls[i].domain == CUPTI_CB_DOMAIN_DRIVER_API][calls[i].id] =
				(uint8_t)calls[i].what;
	filled = true;
}

/* A runtime call may contain a driver call, whose end is not the end of it all. A call that was
 * under way when the subscription began counts as none: CUPTI knows nothing of it. */
static struct thread_calls {
	unsigned int depth, subscription;
	struct call {
		CUpti_CallbackDomain domain;
		CUpti_CallbackId id;
		uint32_t correlation;
		int64_t start_ns; /* 0: not recorded */
	} calls[MAX_DEPTH];
} * calls_here(void)
{
	static __thread struct thread_calls here;
	unsigned int now = atomic_load_explicit(&subscriptions, memory_order_relaxed);

	if (here.subscription != now)
		here = (struct thread_calls){ .subscription = now };
	return &here;
}

static void call_begins(struct thread_calls *here, const struct call *call)
{
	if (here->depth == 0)
		atomic_fetch_add(&inside, 1);
	/* Nothing nests so deep: the ends of those below have been missed. */
	if (here->depth == MAX_DEPTH)
		here->depth = 0;
	here->calls[here->depth++] = *call;
}

/* The call whose end this is, or NULL when its beginning was not seen. Calls that began inside it
 * and have not ended never will. */
static const struct call *call_ends(struct thread_calls *here, const struct call *call)
{
	for (unsigned int i = here->depth; i-- > 0;)
		if (here->calls[i].domain == call->domain && here->calls[i].id == call->id &&
		    here->calls[i].correlation == call->correlation) {
			here->depth = i;
			return &here->calls[i];
		}
	return NULL;
}

static void call_made(CUpti_CallbackDomain domain, CUpti_CallbackId id,
		      const CUpti_CallbackData *data)
{
	unsigned int what = id < CALL_IDS ? call_kinds[domain == CUPTI_CB_DOMAIN_DRIVER_API][id]
					  : CALL_OTHER;
	struct call call = { .domain = domain, .id = id, .correlation = data->correlationId };
	struct thread_calls *here = calls_here();
	const struct call *ended;

	if (what == CALL_GRAPH)
		note_launch();
	if (data->callbackSite == CUPTI_API_ENTER) {
		if (by_callback && cupti_is_chosen(domain, id))
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
		cupti_call_ended(domain, id, ended->start_ns, thread_id(), data);
	if (here->depth)
		return;
	/* Each costs a little, recorded or not; PyTorch makes ten for every kernel. */
	atomic_fetch_add_explicit(&cupti_added.calls, 1, memory_order_relaxed);
	if (atomic_load_explicit(&cupti_leave_wanted, memory_order_relaxed) &&
	    atomic_load(&inside) == 1 && cupti_leave_in_callback(what == CALL_WAIT))
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
		call_made(domain, id, data);
	}
	atomic_fetch_sub(&in_callbacks, 1);
}

unsigned int cupti_in_callbacks(void)
{
	return atomic_load(&in_callbacks);
}

/* Callbacks that this CUPTI does not know are left out. */
CUptiResult cupti_subscribe(bool with_calls, bool fresh)
{
	CUptiResult result;

	if (subscribed || !cupti_api.cuptiSubscribe || !cupti_api.cuptiEnableCallback ||
	    !cupti_api.cuptiGetGraphNodeId || !cupti_api.cuptiUnsubscribe ||
	    !cupti_api.cuptiEnableDomain)
		return CUPTI_SUCCESS;
	fill_call_kinds();
	result = cupti_api.cuptiSubscribe(&subscriber, callback, NULL);
	if (result != CUPTI_SUCCESS)
		return result;
	subscribed = true;
	atomic_fetch_add(&subscriptions, 1);
	atomic_store(&inside, 0);
	for (size_t i = 0; i < COUNT(resources); i++)
		cupti_api.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
					      resources[i]);
	if (with_calls) {
		cupti_watch_calls();
		if (fresh) /* what began before, CUPTI has not seen */
			watching_since_ns -= CALL_GRACE_NS;
		by_callback = watching;
	}
	return CUPTI_SUCCESS;
}

/* Of a call that is under way CUPTI has a record, and the beginning was not seen here: it is given
 * some time to end. */
void cupti_watch_calls(void)
{
	if (!subscribed || watching)
		return;
	watching = cupti_api.cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API) ==
			   CUPTI_SUCCESS &&
		   cupti_api.cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) ==
			   CUPTI_SUCCESS;
	watching_since_ns = clock_monotonic_ns();
}

bool cupti_sees_calls(void)
{
	return watching && clock_monotonic_ns() - watching_since_ns >= CALL_GRACE_NS;
}

void cupti_unsubscribe(void)
{
	if (subscribed)
		cupti_api.cuptiUnsubscribe(subscriber);
	cupti_subscription_ended();
}

void cupti_subscription_ended(void)
{
	subscribed = watching = by_callback = false;
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

bool cupti_calls_by_callback(void)
{
	return by_callback;
}

bool cupti_saw_graphs(void)
{
	return atomic_load(&graphs_seen);
}

unsigned int cupti_graph_threads(void)
{
	if (atomic_load(&several_threads) || !watching)
		return 2; /* unseen is as bad as several */
	return atomic_load(&graph_thread) != 0;
}

bool cupti_graphs_only_here(void)
{
	return !cupti_saw_graphs() ||
	       (cupti_graph_threads() == 1 && atomic_load(&graph_thread) == thread_id());
}

unsigned int cupti_calls_under_way(void)
{
	return watching ? atomic_load(&inside) : 0;
}
