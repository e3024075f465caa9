/* SPDX-License-Identifier: Apache-2.0
 *
 * The scripted CUPTI's subscriber and the program's calls, graphs and finalising. What has lost the
 * context or crashed the program on a real device ends the test with a message:
 *
 * - cuptiFinalize while another thread is in a callback, or about to be, or on its way out,
 * - cuptiFinalize with CUDA graphs, on another thread than the one that launches them, or when
 *   several threads do,
 * - kernel records off, a graph launched, cuptiFinalize,
 * - kinds off while another thread is inside a call, then a flush,
 * - kinds off inside a call, and not on and off once more before it ends: torch.profiler gets two
 *   records of each such call, and ends the program,
 * - cuptiFinalize after callbacks of the runtime were on, inside a launch, or in a way that lets go
 *   of the memory in which it counts calls of the runtime,
 * - a subscription that ends while a thread is in a callback, or about to be,
 * - a subscription while the thread that has finalised is on its way out of that call.
 *
 * Any thread; callbacks run on the thread that makes the call, without the lock.
 */
#include "fake_cupti_inside.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CALLBACKS 2048

struct CUpti_Subscriber_st {
	CUpti_CallbackFunc callback;
	void *arg;
	char name[64];
	bool used;
	bool enabled[CUPTI_CB_DOMAIN_SIZE][CALLBACKS];
};

static struct CUpti_Subscriber_st the_subscriber;
static CUpti_TimestampCallbackFunc clock_function;
static _Atomic unsigned int in_callbacks; /* threads */
static __thread bool in_callback;
static __thread unsigned int call_depth;
static __thread uint32_t correlation; /* of the outermost call */
static _Atomic uint32_t correlations = 1000000;
static __thread bool waits;	  /* the call is a wait for the device */
static unsigned int ends_to_lose; /* in as many subscriptions; under the lock */
static _Atomic bool lose_next;	  /* the end of the call that begins next */
static __thread bool end_is_lost; /* of the outermost call and those inside it */
static pid_t graph_thread;	  /* that has launched one */
static bool several_threads, graphs_exist;
static bool launched_off; /* a graph, since kernel records were switched off */
static bool hold_nodes;
static unsigned int held_nodes;

/* The calls of the driver under way, by the order in which they began and ended; under the lock. A thread that
 * switches at the end of its call minds those that began before that. */
#define CALLERS 64
static unsigned int attachments = 1;
static uint64_t order, began[CALLERS]; /* 0: no call */
static bool taken[CALLERS];
static __thread int caller = -1;
static __thread uint64_t ending;	      /* of this thread's call; 0: it is not ending */
static bool off_beside[CALLERS];	      /* records were switched off during this call */
static __thread uint64_t off_once, off_again; /* kinds, in the outermost call */
static bool runtime_was_on;
static __thread bool finalized_here; /* in the call that is under way */
static __thread bool launches;	     /* the call is a launch */
/* Calls of the runtime are counted here; in the second also after cuptiFinalize, because it was called
 * inside one of them. */
static uint32_t *counting;
static uintptr_t counting_on; /* its address: it may have been freed, which is what is tried */
#define COUNTING_BYTES 4096
static pid_t leaver; /* who is on the way out of a call after that; 0: nobody */
/* Descriptors that the next such thread, and the next that is about to call back, read from. */
static int leaver_waits_for = -1, comer_waits_for = -1;

void fake_deadly(const char *what)
{
	fprintf(stderr, "fake cupti: on a real device this is the end of the program: %s\n", what);
	abort();
}

/* The attachment that knows of a call which begins now; 0: none. */
static unsigned int known_to(void)
{
	unsigned int attachment;

	pthread_mutex_lock(&fake_lock);
	attachment = fake_kernels_on() ? attachments : 0;
	pthread_mutex_unlock(&fake_lock);
	return attachment;
}

static void note_begin(unsigned int attachment)
{
	pthread_mutex_lock(&fake_lock);
	for (int i = 0; caller < 0; i++) {
		if (i == CALLERS)
			abort(); /* a test with more threads than anybody thought of */
		if (!taken[i])
			caller = i;
	}
	taken[caller] = true;
	if (attachment == attachments) /* of others the library knows nothing */
		began[caller] = ++order;
	pthread_mutex_unlock(&fake_lock);
}

static void note_ending(bool over)
{
	pthread_mutex_lock(&fake_lock);
	ending = over ? 0 : ++order;
	began[caller] = 0; /* for others it ends when its callback does, or a moment later */
	off_beside[caller] = false;
	if (over) {
		taken[caller] = false;
		caller = -1;
	}
	pthread_mutex_unlock(&fake_lock);
}

/* With the lock: the library knows of no call any more. */
static void forget_calls(void)
{
	memset(began, 0, sizeof(began));
	attachments++;
}

void fake_switched_off(CUpti_ActivityKind kind)
{
	uint64_t bit = call_depth ? UINT64_C(1) << kind : 0;

	off_again |= off_once & bit;
	off_once |= bit;
	for (int i = 0; i < CALLERS; i++)
		off_beside[i] |= began[i] && (i != caller || !ending);
}

void fake_flushes(void)
{
	for (int i = 0; i < CALLERS; i++)
		if (off_beside[i])
			fake_deadly("a flush beside a call during which records were switched off");
}

void fake_kernels_switched(void)
{
	launched_off = false; /* either way what was launched before does not matter any more */
}

CUpti_TimestampCallbackFunc fake_clock(void)
{
	CUpti_TimestampCallbackFunc function;

	pthread_mutex_lock(&fake_lock);
	function = clock_function;
	pthread_mutex_unlock(&fake_lock);
	return function;
}

/* As long as the test wants it. The thread is not asleep meanwhile, but like one that gets no
 * processor: the parent of a vfork. */
static void get_no_processor(int *waits_for)
{
	char byte;
	int fd;

	pthread_mutex_lock(&fake_lock);
	fd = *waits_for;
	*waits_for = -1;
	fake_counted.held_up += fd >= 0;
	pthread_cond_broadcast(&fake_changed);
	pthread_mutex_unlock(&fake_lock);
	if (fd >= 0 && vfork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(read(fd, &byte, 1) != 1);
	}
}

/* Whether there is one to be made. From here on the thread must not be finalised beside. */
static bool begin_callback(CUpti_CallbackDomain domain, CUpti_CallbackId id,
			   CUpti_CallbackFunc *ret_function, void **ret_arg)
{
	bool wanted;

	pthread_mutex_lock(&fake_lock);
	wanted = the_subscriber.used && the_subscriber.callback &&
		 the_subscriber.enabled[domain][id % CALLBACKS];
	if (wanted) {
		*ret_function = the_subscriber.callback;
		*ret_arg = the_subscriber.arg;
		in_callback = true;
		atomic_fetch_add(&in_callbacks, 1);
	}
	pthread_mutex_unlock(&fake_lock);
	return wanted;
}

static void call_back(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	CUpti_CallbackFunc function;
	void *arg;

	if (!begin_callback(domain, id, &function, &arg))
		return;
	get_no_processor(&comer_waits_for);
	function(arg, domain, id, data);
	atomic_fetch_sub(&in_callbacks, 1);
	in_callback = false;
}

static void count_call(void)
{
	pthread_mutex_lock(&fake_lock);
	if (!counting && fake_kernels_on())
		counting = calloc(1, COUNTING_BYTES);
	if (counting)
		++*counting;
	if (counting_on)
		++*(uint32_t *)counting_on; // NOLINT(performance-no-int-to-ptr)
	pthread_mutex_unlock(&fake_lock);
}

/* With the lock. */
static void stop_counting(void)
{
	volatile uintptr_t there = (uintptr_t)counting; /* or compilers see through it */

	free(counting);
	counting = malloc(COUNTING_BYTES);
	if (in_callback && there && (uintptr_t)counting == there)
		fake_deadly("cuptiFinalize frees what goes on being used");
	free(counting);
	counting = NULL;
	if (in_callback)
		counting_on = there;
}

static void unmap(void)
{
	void *memory = fake_unmapped_bytes
			       ? mmap(NULL, fake_unmapped_bytes, PROT_NONE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
			       : NULL;

	if (memory && (memory == MAP_FAILED || munmap(memory, fake_unmapped_bytes) < 0))
		fake_deadly("no memory to unmap");
}

/* All that any call of the driver gets: a stream. */
static const struct {
	CUstream stream;
} parameters = { (CUstream)(uintptr_t)(2 * FAKE_STREAM) };

static void enter(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	CUpti_CallbackData data = { .callbackSite = CUPTI_API_ENTER,
				    .functionParams = &parameters,
				    .contextUid = FAKE_CONTEXT };
	const struct timespec moment = { .tv_nsec = 2000 };
	unsigned int attachment = known_to();

	if (call_depth++ == 0) {
		nanosleep(&moment, NULL); /* no call takes no time */
		correlation = atomic_fetch_add(&correlations, 1);
		end_is_lost = atomic_exchange(&lose_next, false);
	}
	data.correlationId = correlation;
	if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
		launches = id == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
		count_call();
	}
	call_back(domain, id, &data);
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
		note_begin(attachment);
}

void fake_hold_leaver(int fd)
{
	pthread_mutex_lock(&fake_lock);
	leaver_waits_for = fd;
	pthread_mutex_unlock(&fake_lock);
}

void fake_hold_comer(int fd)
{
	pthread_mutex_lock(&fake_lock);
	comer_waits_for = fd;
	pthread_mutex_unlock(&fake_lock);
}

/* The way out of a call that has finalised. */
static void leave_late(void)
{
	get_no_processor(&leaver_waits_for);
	pthread_mutex_lock(&fake_lock);
	leaver = 0;
	finalized_here = false;
	pthread_mutex_unlock(&fake_lock);
}

static void leave(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	int status = 0;
	CUpti_CallbackData data = { .callbackSite = CUPTI_API_EXIT,
				    .functionParams = &parameters,
				    .contextUid = FAKE_CONTEXT,
				    .functionReturnValue = &status,
				    .correlationId = correlation };

	if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
		note_ending(false);
	if (!end_is_lost)
		call_back(domain, id, &data);
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
		note_ending(true);
	if (--call_depth)
		return;
	if (off_once & ~off_again)
		fake_deadly("a kind went off inside a call, which is told twice from now on");
	off_once = off_again = 0;
	if (finalized_here)
		leave_late();
}

/* The call of the driver that one of the runtime makes. */
static CUpti_CallbackId made_by(CUpti_CallbackId id)
{
	switch (id) {
	case CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000:
		return CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
	case CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000:
		return CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch;
	case CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020:
		return CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize;
	case CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020:
		return CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize;
	case CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020:
		return CUPTI_DRIVER_TRACE_CBID_cuEventRecord;
	default:
		return CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent;
	}
}

void fake_enter(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	enter(domain, id);
	if (domain == CUPTI_CB_DOMAIN_RUNTIME_API)
		enter(CUPTI_CB_DOMAIN_DRIVER_API, made_by(id));
}

void fake_leave(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	if (domain == CUPTI_CB_DOMAIN_RUNTIME_API)
		leave(CUPTI_CB_DOMAIN_DRIVER_API, made_by(id));
	leave(domain, id);
}

void fake_call(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	fake_enter(domain, id);
	fake_leave(domain, id);
}

void fake_lose_ends(unsigned int n)
{
	pthread_mutex_lock(&fake_lock);
	ends_to_lose = n;
	pthread_mutex_unlock(&fake_lock);
}

static void note_launch(void)
{
	pid_t me = (pid_t)syscall(SYS_gettid);

	pthread_mutex_lock(&fake_lock);
	fake_counted.graph_launches++;
	graphs_exist = true;
	several_threads |= graph_thread && graph_thread != me;
	graph_thread = me;
	launched_off |= !fake_kernels_on();
	pthread_mutex_unlock(&fake_lock);
}

void fake_launch_graph(void)
{
	fake_enter(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000);
	note_launch();
	fake_leave(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000);
}

void fake_wait_device(void)
{
	waits = true;
	fake_enter(CUPTI_CB_DOMAIN_RUNTIME_API,
		   CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020);
	fake_leave(CUPTI_CB_DOMAIN_RUNTIME_API,
		   CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020);
	waits = false;
}

/* Graphs and nodes are their ids. */
void fake_make_node(uint32_t graph, uint64_t node, uint64_t source)
{
	CUpti_GraphData graph_data = { .graph = (CUgraph)(uintptr_t)graph,
				       .node = (CUgraphNode)(uintptr_t)node,
				       .originalNode = (CUgraphNode)(uintptr_t)source };
	CUpti_ResourceData data = { .resourceDescriptor = &graph_data };

	pthread_mutex_lock(&fake_lock);
	graphs_exist = true;
	pthread_mutex_unlock(&fake_lock);
	call_back(CUPTI_CB_DOMAIN_RESOURCE,
		  source ? CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED
			 : CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
		  &data);
}

void fake_hold_nodes(bool hold)
{
	pthread_mutex_lock(&fake_lock);
	hold_nodes = hold;
	pthread_cond_broadcast(&fake_changed);
	pthread_mutex_unlock(&fake_lock);
}

bool fake_wait_held_node(void)
{
	struct timespec until;
	bool held;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 100;
	pthread_mutex_lock(&fake_lock);
	while (!held_nodes && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&fake_changed, &fake_lock, &until);
	held = held_nodes != 0;
	pthread_mutex_unlock(&fake_lock);
	return held;
}

CUptiResult CUPTIAPI cuptiGetGraphNodeId(CUgraphNode node, uint64_t *id)
{
	pthread_mutex_lock(&fake_lock);
	held_nodes++;
	pthread_cond_broadcast(&fake_changed);
	while (hold_nodes)
		pthread_cond_wait(&fake_changed, &fake_lock);
	held_nodes--;
	pthread_mutex_unlock(&fake_lock);
	*id = (uint64_t)(uintptr_t)node;
	return node ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult CUPTIAPI cuptiGetGraphId(CUgraph graph, uint32_t *id)
{
	*id = (uint32_t)(uintptr_t)graph;
	return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber,
				       CUpti_CallbackFunc callback, void *arg,
				       CUpti_SubscriberParams *params)
{
	CUptiResult result = CUPTI_SUCCESS;

	pthread_mutex_lock(&fake_lock);
	if (leaver && leaver != (pid_t)syscall(SYS_gettid))
		fake_deadly(
			"a subscription while the thread that has finalised is still in its call");
	if (the_subscriber.used) {
		if (params && params->oldSubscriberName)
			snprintf(params->oldSubscriberName, params->oldSubscriberSize, "%s",
				 the_subscriber.name);
		result = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	} else {
		the_subscriber = (struct CUpti_Subscriber_st){ .callback = callback,
							       .arg = arg,
							       .used = true };
		*subscriber = &the_subscriber;
		fake_counted.subscribed++;
	}
	pthread_mutex_unlock(&fake_lock);
	return result;
}

CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
				    void *arg)
{
	return cuptiSubscribe_v2(subscriber, callback, arg, NULL);
}

CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
	CUptiResult result = CUPTI_ERROR_INVALID_PARAMETER;

	pthread_mutex_lock(&fake_lock);
	if (subscriber == &the_subscriber && the_subscriber.used) {
		if (in_callbacks > in_callback)
			fake_deadly("the subscription ends while another thread is in a callback");
		the_subscriber.used = false;
		fake_counted.unsubscribed++;
		forget_calls();
		result = CUPTI_SUCCESS;
	}
	pthread_mutex_unlock(&fake_lock);
	return result;
}

/* A tool that was there before anybody could watch it. */
void fake_hold_subscription(const char *name)
{
	pthread_mutex_lock(&fake_lock);
	the_subscriber = (struct CUpti_Subscriber_st){ .used = name != NULL };
	if (name)
		snprintf(the_subscriber.name, sizeof(the_subscriber.name), "%s", name);
	pthread_mutex_unlock(&fake_lock);
}

CUptiResult CUPTIAPI cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
					 CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	if (subscriber != &the_subscriber || domain >= CUPTI_CB_DOMAIN_SIZE || id >= CALLBACKS)
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&fake_lock);
	the_subscriber.enabled[domain][id] = enable != 0;
	runtime_was_on |= enable && domain == CUPTI_CB_DOMAIN_RUNTIME_API;
	pthread_mutex_unlock(&fake_lock);
	return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
				       CUpti_CallbackDomain domain)
{
	if (subscriber != &the_subscriber || domain >= CUPTI_CB_DOMAIN_SIZE)
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&fake_lock);
	runtime_was_on |= enable && domain == CUPTI_CB_DOMAIN_RUNTIME_API;
	memset(the_subscriber.enabled[domain], enable != 0, sizeof(the_subscriber.enabled[domain]));
	/* From here on the beginning of a call is told, in the last domain too. */
	if (enable && domain == CUPTI_CB_DOMAIN_DRIVER_API && ends_to_lose) {
		ends_to_lose--;
		atomic_store(&lose_next, true);
	}
	pthread_mutex_unlock(&fake_lock);
	return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function)
{
	pthread_mutex_lock(&fake_lock);
	clock_function = function;
	pthread_mutex_unlock(&fake_lock);
	return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *size,
					       void *value)
{
	pthread_mutex_lock(&fake_lock);
	if (attribute == CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT && *size == sizeof(size_t))
		memcpy(&fake_counted.device_buffers, value, sizeof(size_t));
	pthread_mutex_unlock(&fake_lock);
	return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
	pthread_mutex_lock(&fake_lock);
	fake_counted.system_thread_ids = type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM;
	pthread_mutex_unlock(&fake_lock);
	return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiFinalize(void)
{
	pthread_mutex_lock(&fake_lock);
	if (in_callbacks > in_callback)
		fake_deadly("cuptiFinalize while another thread is in a callback");
	if (graphs_exist && several_threads)
		fake_deadly("cuptiFinalize when several threads launch graphs");
	if (graphs_exist && graph_thread && graph_thread != (pid_t)syscall(SYS_gettid))
		fake_deadly("cuptiFinalize beside graphs, not on the thread that launches them");
	if (runtime_was_on)
		fake_deadly("cuptiFinalize after callbacks of the runtime were on");
	if (in_callback && launches)
		fake_deadly("cuptiFinalize inside a launch");
	if (launched_off)
		fake_deadly("a graph was launched between switching records off and cuptiFinalize");
	fake_counted.finalized++;
	fake_counted.finalized_in_callback += in_callback;
	fake_counted.finalized_in_wait += in_callback && waits;
	if (!fake_counted.subscribed_at_first_finalize)
		fake_counted.subscribed_at_first_finalize = fake_counted.subscribed;
	fake_counted.finalized_with_records += fake_kernels_on();
	fake_counted.finalized_by = (pid_t)syscall(SYS_gettid);
	finalized_here = in_callback;
	leaver = in_callback ? fake_counted.finalized_by : 0;
	the_subscriber.used = false;
	clock_function = NULL;
	memset(off_beside, 0, sizeof(off_beside));
	forget_calls();
	fake_forget_records();
	stop_counting();
	unmap();
	pthread_cond_broadcast(&fake_changed);
	pthread_mutex_unlock(&fake_lock);
	return CUPTI_SUCCESS;
}

/* A stream is twice its id, and that of a thread one more. */
CUptiResult CUPTIAPI cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread,
					uint32_t *id)
{
	(void)context;
	*id = (uint32_t)((uintptr_t)stream / 2) + per_thread;
	return CUPTI_SUCCESS;
}
