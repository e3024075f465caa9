/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI behind a neutral face. Only cupti.c (the library, attaching and detaching),
 * cupti_records.c (activity records) and cupti_calls.c (callbacks) know its types.
 *
 * Detaching means cuptiFinalize, for merely attached CUPTI keeps slowing launches down. Records are
 * switched off and CUPTI is detached in one go, at the end of a call of the program, inside its
 * callback, at a moment when no other thread of it is in a call. Anything else has cost programs
 * their heap: records that a thread of ours switches off beside calls under way, a detaching that
 * meets threads that load modules. Beside CUDA graphs only the one thread that launches them
 * detaches, so that none is launched meanwhile; when several threads do, records are only switched
 * off (resting). Where no such moment comes, recording goes on. docs/design.md has the table of what
 * was tried.
 */
#ifndef PROBE_GPU_CUPTI_CUPTI_H
#define PROBE_GPU_CUPTI_CUPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/gpu/governor.h"

enum cupti_state {
	CUPTI_OFF,     /* not attached */
	CUPTI_ON,      /* records come */
	CUPTI_LEAVING, /* told to detach; records come until then */
	CUPTI_RESTING, /* attached, but records are off: detaching would not be safe */
};

struct cupti_wish {
	bool full;		  /* allocations, pools and CUPTI's account of itself, too */
	uint64_t allowance_bytes; /* of device memory */
};

/* 0; -EBUSY: another client has CUPTI; -ENOENT: no library; -EIO: CUPTI refuses. words: what is
 * collected, or what is off, why, and the remedy. */
int cupti_attach(const struct cupti_wish *wanted, char *words, size_t size);
/* Whether it may be attached: the thread that has detached it is out of CUPTI again. Looks at that
 * thread by a file of its own: on a thread with a table of descriptors of its own. */
bool cupti_may_attach(void);
/* The same from what is known without a file; false: perhaps. */
bool cupti_may_attach_now(void);
enum cupti_state cupti_state(void);
/* When records were last switched off. */
int64_t cupti_off_ns(void);
/* Whether detaching beside CUDA graphs is known to be safe here. */
void cupti_trust_graphs(bool proved);
/* Begins to detach. Then cupti_poll every LEAVE_POLL_MS until it is over. For so long it waits for
 * the program to wait for the device, when nothing is cut off. Nothing has changed when it fails:
 * -EPERM, there are graphs, and it is not known to be safe; -EBUSY, another client keeps the
 * subscription, so that no moment can be known. */
int cupti_leave(int64_t patience_ns);
/* Not yet detached, it stays. Returns whether it is on. */
bool cupti_stay(void);
enum cupti_state cupti_poll(void);
#define LEAVE_POLL_MS 10
/* On a thread of the program, before another client comes: waits half a second for a moment without
 * calls. Leaves CUPTI off, or resting where there is none or graphs forbid more. */
void cupti_leave_now(void);
/* The session ends and the process goes on: detached now, or by the thread with graphs at the end
 * of its next call. */
void cupti_stop(void);
/* The process ends: everything is delivered, and CUPTI stays as it is. */
void cupti_end(void);
/* Has CUPTI hand over what is complete. */
void cupti_flush(void);
/* What to do when another client comes, on its thread, and when it has gone, in cupti_settle_clients.
 * Before anything is attached or watched; the first that is given stays. */
void cupti_on_clients(void (*arrives)(const char *name), void (*leaves)(void));
/* Now and then: whether another client has gone. */
void cupti_settle_clients(void);
/* A session that attaches later: a client that comes before is known by then. */
void cupti_watch_clients(void);
/* A session ends in a process that goes on: the other's calls are its own again. */
void cupti_unwatch_clients(void);
/* Another client keeps the subscription: attached now, it could not be detached. */
bool cupti_is_held(void);
/* CUDA graphs have been made or launched while attached. */
bool cupti_saw_graphs(void);
/* Of CUPTI's API; 0: not loaded. */
uint32_t cupti_version(void);

/* Sums since the process began. held_ns: time in which calls of the program waited for us. */
struct cupti_sums {
	struct governor_counts counts;
	uint64_t overhead_ns, translate_ns, held_ns, attach_ns, detach_ns;
};
struct cupti_sums cupti_sums(void);

void cupti_after_fork(void);

#endif
