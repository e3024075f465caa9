/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI's callbacks, on the program's threads: where the nodes of CUDA graphs were made, which
 * thread launches graphs, and the moment at which CUPTI can be detached. See cupti.h.
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

static CUpti_SubscriberHandle subscriber;
static bool subscribed;
static _Atomic unsigned int subscriptions;
static _Atomic bool graphs_seen;
static _Atomic uint32_t graph_thread; /* the one that launches graphs, 0: none yet */
static _Atomic bool several_threads;
static _Atomic unsigned int inside;

static const struct watched_call {
	CUpti_CallbackDomain domain;
	CUpti_CallbackId id;
	bool graph; /* launches one; else the call waits for the device */
} calls[] = {
#define RUNTIME(name, graph)                                                                       \
	{                                                                                          \
		CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_##name, graph                \
	}
#define DRIVER(name, graph)                                                                        \
	{                                                                                          \
		CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##name, graph                  \
	}
	RUNTIME(cudaGraphLaunch_v10000, true),
	RUNTIME(cudaGraphLaunch_ptsz_v10000, true),
	RUNTIME(cudaDeviceSynchronize_v3020, false),
	RUNTIME(cudaStreamSynchronize_v3020, false),
	RUNTIME(cudaStreamSynchronize_ptsz_v7000, false),
	RUNTIME(cudaEventSynchronize_v3020, false),
	DRIVER(cuGraphLaunch, true),
	DRIVER(cuGraphLaunch_ptsz, true),
	DRIVER(cuCtxSynchronize, false),
	DRIVER(cuStreamSynchronize, false),
	DRIVER(cuStreamSynchronize_ptsz, false),
	DRIVER(cuEventSynchronize, false),
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

static const struct watched_call *find_call(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	for (size_t i = 0; i < COUNT(calls); i++)
		if (calls[i].domain == domain && calls[i].id == id)
			return &calls[i];
	return NULL;
}

/* A runtime call may contain a driver call, whose end is not the end of it all. A call that was
 * under way when the subscription began counts as none. */
static bool leaves_outermost(bool enter)
{
	static __thread unsigned int depth, depth_of;
	unsigned int now = atomic_load_explicit(&subscriptions, memory_order_relaxed);

	if (depth_of != now) {
		depth_of = now;
		depth = 0;
	}
	if (enter)
		depth++;
	else if (depth)
		return --depth == 0;
	return false;
}

static void call_made(CUpti_CallbackDomain domain, CUpti_CallbackId id,
		      const CUpti_CallbackData *data)
{
	const struct watched_call *call = find_call(domain, id);

	if (!call)
		return;
	if (call->graph)
		note_launch();
	if (leaves_outermost(data->callbackSite == CUPTI_API_ENTER) &&
	    atomic_load(&cupti_leave_wanted) && atomic_load(&graph_thread) == thread_id())
		cupti_leave_in_callback(!call->graph);
}

static void CUPTIAPI callback(void *arg, CUpti_CallbackDomain domain, CUpti_CallbackId id,
			      const void *data)
{
	(void)arg;
	atomic_fetch_add(&inside, 1);
	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		const CUpti_ResourceData *resource = data;

		node_made(resource->resourceDescriptor, id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
	} else {
		call_made(domain, id, data);
	}
	atomic_fetch_sub(&inside, 1);
}

unsigned int cupti_inside(void)
{
	return atomic_load(&inside);
}

/* Callbacks that this CUPTI does not know are left out. */
CUptiResult cupti_subscribe(void)
{
	CUptiResult result;

	if (subscribed || !cupti_api.cuptiSubscribe || !cupti_api.cuptiEnableCallback ||
	    !cupti_api.cuptiGetGraphNodeId || !cupti_api.cuptiUnsubscribe)
		return CUPTI_SUCCESS;
	result = cupti_api.cuptiSubscribe(&subscriber, callback, NULL);
	if (result != CUPTI_SUCCESS)
		return result;
	subscribed = true;
	atomic_fetch_add(&subscriptions, 1);
	for (size_t i = 0; i < COUNT(resources); i++)
		cupti_api.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
					      resources[i]);
	for (size_t i = 0; i < COUNT(calls); i++)
		cupti_api.cuptiEnableCallback(1, subscriber, calls[i].domain, calls[i].id);
	return CUPTI_SUCCESS;
}

void cupti_unsubscribe(void)
{
	if (subscribed)
		cupti_api.cuptiUnsubscribe(subscriber);
	subscribed = false;
}

void cupti_subscription_ended(void)
{
	subscribed = false;
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
	if (atomic_load(&several_threads) || !subscribed)
		return 2; /* unseen is as bad as several */
	return atomic_load(&graph_thread) != 0;
}

bool cupti_graphs_only_here(void)
{
	return cupti_graph_threads() == 1 && atomic_load(&graph_thread) == thread_id();
}
