/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI behind a neutral interface. Only cupti.c (the library, attaching and detaching),
 * cupti_records.c (activity records) and cupti_calls.c (callbacks) know its types.
 *
 * Records are disabled at the end of a call of the program, inside its callback, when no other thread
 * of the program is in a call; the last of them are fetched likewise at the end of a later call, when
 * a thread that began one meanwhile has come out. Disabling them from our thread while calls are in
 * flight has cost programs their heap. Then CUPTI rests: attached, it slows launches a little.
 *
 * Detaching means cuptiFinalize, and is done only if the user wants it: once in thousands of times it
 * has cost a program its heap, and torch.profiler fails if it is started after it. With CUDA graphs
 * only the one thread that launches them detaches, so that none is launched meanwhile. If no moment
 * comes, recording continues. docs/design.md has the table of what was tried.
 */
#ifndef PROBE_GPU_CUPTI_CUPTI_H
#define PROBE_GPU_CUPTI_CUPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/gpu/governor.h"

enum cupti_state {
	CUPTI_OFF,	/* not attached */
	CUPTI_ON,	/* records come */
	CUPTI_LEAVING,	/* told to detach; records still come */
	CUPTI_SETTLING, /* records are off; detached at the end of a later call */
	CUPTI_RESTING,	/* attached, but records are off */
};

struct cupti_wish {
	bool full;		  /* also allocations, pools and CUPTI's account of itself */
	bool detach;		  /* between windows; otherwise CUPTI rests there */
	uint64_t allowance_bytes; /* of device memory */
};

/* 0; -EBUSY: another client has CUPTI; -ENOENT: no library; -EIO: CUPTI refuses. words: what is
 * collected, or what is off, why, and the remedy. */
int cupti_attach(const struct cupti_wish *wanted, char *words, size_t size);
/* Whether it may be attached: the thread that detached it is out of CUPTI again. Opens a file to
 * look at that thread: call it on a thread with a private descriptor table. */
bool cupti_may_attach(void);
/* The same from what is known without a file; false: perhaps. */
bool cupti_may_attach_now(void);
enum cupti_state cupti_state(void);
/* When records were last disabled. */
int64_t cupti_off_ns(void);
/* Whether detaching with CUDA graphs is known to be safe here. */
void cupti_trust_graphs(bool proved);
/* Starts to detach. Then call cupti_poll every LEAVE_POLL_MS until it is over. For patience_ns it
 * waits for the program to wait for the device, when nothing is cut off. On failure nothing has
 * changed: -EPERM, there are graphs, and it is not known to be safe; -EBUSY, another client keeps
 * the subscription, so no moment can be detected. */
int cupti_leave(int64_t patience_ns);
/* If not yet detached, stays. Returns whether it is on. */
bool cupti_stay(void);
enum cupti_state cupti_poll(void);
#define LEAVE_POLL_MS 10
/* On a thread of the program, before another client comes: waits half a second for a moment without
 * calls. Leaves CUPTI off, or resting if there is none or graphs forbid more. */
void cupti_leave_now(void);
/* The session ends and the process continues: detaches now, or on the thread with graphs at the end
 * of its next call. */
void cupti_stop(void);
/* The process ends: delivers everything, and leaves CUPTI as it is. */
void cupti_end(void);
/* Makes CUPTI deliver what is complete. */
void cupti_flush(void);
/* What to do when another client arrives, on its thread, and when it has left, in
 * cupti_settle_clients. Before anything is attached or watched; the first setting stays. */
void cupti_on_clients(void (*arrives)(const char *name), void (*leaves)(void));
/* Now and then: checks whether another client has left. */
void cupti_settle_clients(void);
/* For a session that attaches later: a client that comes before is then known. */
void cupti_watch_clients(void);
/* A session ends in a process that continues: the other's calls are its own again. */
void cupti_unwatch_clients(void);
/* Another client keeps the subscription: once attached, it could not be detached. */
bool cupti_is_held(void);
/* CUDA graphs have been created or launched while attached. */
bool cupti_saw_graphs(void);
/* CUPTI's API version; 0: not loaded. */
uint32_t cupti_version(void);

/* Host memory that detaching has left behind, in the life of the process. */
uint64_t cupti_kept_bytes(void);

/* Sums since the process started. held_ns: time that calls of the program waited for us. */
struct cupti_sums {
	struct governor_counts counts;
	uint64_t overhead_ns, translate_ns, held_ns, attach_ns, detach_ns;
};
struct cupti_sums cupti_sums(void);

void cupti_after_fork(void);

#endif
