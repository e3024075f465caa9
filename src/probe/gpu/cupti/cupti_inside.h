/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that know CUPTI's types share; see cupti.h.
 */
#ifndef PROBE_GPU_CUPTI_CUPTI_INSIDE_H
#define PROBE_GPU_CUPTI_CUPTI_INSIDE_H

#include <cuda.h>
#include <cupti.h>
#include <stdatomic.h>

#include "probe/gpu/cupti/cupti.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* FUNCTION(name): the CUPTI functions used; OPTIONAL: not in every version. */
#define CUPTI_FUNCTIONS(FUNCTION)                                                                  \
	FUNCTION(cuptiActivityRegisterCallbacks)                                                   \
	FUNCTION(cuptiActivityEnable)                                                              \
	FUNCTION(cuptiActivityDisable)                                                             \
	FUNCTION(cuptiActivityGetNextRecord)                                                       \
	FUNCTION(cuptiActivityGetNumDroppedRecords)                                                \
	FUNCTION(cuptiActivityFlushAll)                                                            \
	FUNCTION(cuptiGetTimestamp)                                                                \
	FUNCTION(cuptiGetCallbackName)                                                             \
	FUNCTION(cuptiGetResultString)                                                             \
	FUNCTION(cuptiGetVersion)
#define CUPTI_OPTIONAL(FUNCTION)                                                                   \
	FUNCTION(cuptiSetThreadIdType)                                                             \
	FUNCTION(cuptiActivitySetAttribute)                                                        \
	FUNCTION(cuptiSubscribe)                                                                   \
	FUNCTION(cuptiUnsubscribe)                                                                 \
	FUNCTION(cuptiEnableCallback)                                                              \
	FUNCTION(cuptiEnableDomain)                                                                \
	FUNCTION(cuptiGetGraphNodeId)                                                              \
	FUNCTION(cuptiGetGraphId)                                                                  \
	FUNCTION(cuptiGetStreamIdEx)                                                               \
	FUNCTION(cuptiFinalize)

struct cupti_api {
#define FUNCTION(name) __typeof__(name) *name;
	CUPTI_FUNCTIONS(FUNCTION)
	CUPTI_OPTIONAL(FUNCTION)
#undef FUNCTION
};
extern struct cupti_api cupti_api;

/* cupti_buffers.c: unfinished: CUPTI may still write to it. */
void cupti_buffer_release(uint8_t *buffer, bool unfinished);

/* cupti_records.c */
void cupti_records_start(void); /* at each attach */
void CUPTIAPI cupti_buffer_requested(uint8_t **buffer, size_t *size, size_t *max_records);
void CUPTIAPI cupti_buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer,
				     size_t size, size_t valid);
/* While the last buffers of a window are taken: an unfinished call is outside the window and not
 * lost. */
extern _Atomic bool cupti_closing;

/* cupti_memory.c, with cupti.c's lock. Before: when CUPTI is attached and when it is about to be
 * detached, not in a callback. Where memory cannot be kept CUPTI must not be finalised. */
void cupti_prepare_keeping(bool detaches);
bool cupti_can_keep_memory(void);
/* Around cuptiFinalize, and before CUPTI is attached again: what CUPTI frees between the first and
 * the last is never freed. */
void cupti_finalize_begins(void);
void cupti_finalize_ended(void);
void cupti_attaching(void);
/* On the thread on which CUPTI hands a buffer over, before it frees what belongs to it. */
void cupti_handed_over(const uint8_t *buffer);

/* cupti_clock.c: at each attaching, then now and then. */
void cupti_clock_start(void);
void cupti_clock_measure(void);
int64_t cupti_clock_ns(uint64_t theirs);
int64_t cupti_clock_duration_ns(uint64_t start, uint64_t end);

/* cupti_chosen.c: the recorded calls, as activity records if there are no callbacks. */
void cupti_choose_calls(void);
void cupti_calls_as_records(bool on);
bool cupti_is_chosen(CUpti_CallbackDomain domain, CUpti_CallbackId id);
uint32_t cupti_call_name(CUpti_CallbackDomain domain, CUpti_CallbackId id);
/* Whether a driver call is recorded if there are callbacks; and its end, in its callback. */
bool cupti_records_call(CUpti_CallbackId id);
void cupti_call_ended(CUpti_CallbackId id, int64_t start_ns, uint32_t thread,
		      const CUpti_CallbackData *data);

/* cupti_calls.c: the subscriber; the calls that work are followed, and the chosen ones recorded. */
/* Subscribes where that has not been done, and has callbacks come. */
CUptiResult cupti_subscribe(void);
bool cupti_subscribed(void);
/* All calls of the driver are followed from now on, until callbacks go off. */
void cupti_watch_calls(void);
bool cupti_watches_calls(void);
uint32_t cupti_thread_id(void);
/* No thread can still be inside a call that began before that. */
bool cupti_threads_known(void);
/* After callbacks were disabled, with cupti.c's lock: every other thread that has made calls has
 * left CUPTI's code around them since, within ms. */
bool cupti_threads_left(int ms);
/* No more callbacks; the subscription stays. */
void cupti_ignore_calls(void);
#define CALL_GRACE_NS INT64_C(50000000) /* for short calls in flight before that */
/* All calls are traced, and have been for long enough. */
bool cupti_sees_calls(void);
/* Not after cuptiFinalize, which ends the subscription too. */
void cupti_unsubscribe(void);
void cupti_subscription_ended(void);
/* How many threads have launched CUDA graphs while attached: 0, 1, 2 for several. */
unsigned int cupti_graph_threads(void);
/* No graph is launched while the calling thread is elsewhere. */
bool cupti_graphs_only_here(void);
unsigned int cupti_calls_under_way(void); /* threads inside one */
unsigned int cupti_calls_begun(void);	  /* while all are traced */
void cupti_note_graphs(void);
/* Threads in our callback now. There must be no other when CUPTI is finalised. */
unsigned int cupti_in_callbacks(void);
/* cupti.c, at the end of a call with no other thread inside one; idle: it has just waited for the
 * device. True: it has been detached. */
bool cupti_leave_in_callback(bool idle);
extern _Atomic bool cupti_leave_wanted;
extern _Atomic unsigned int cupti_passed; /* ends of calls, on any thread, since it was requested */

/* cupti_records.c and cupti.c add, cupti_sums reads. */
struct cupti_atomic_sums {
	_Atomic uint64_t launches, nodes, calls, overhead_ns, translate_ns, held_ns;
	_Atomic uint64_t attach_ns, detach_ns;
};
extern struct cupti_atomic_sums cupti_added;

#endif
