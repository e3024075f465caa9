/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of the scripted CUPTI share: fake_cupti.c (activity records) and
 * fake_cupti_life.c (subscriber, callbacks, graphs, finalising).
 */
#ifndef FAKE_CUPTI_INSIDE_H
#define FAKE_CUPTI_INSIDE_H

#include <pthread.h>

#include "fake_cupti.h"

#define HIDDEN __attribute__((visibility("hidden")))

/* Of both; never held while the probe's callbacks run. */
extern HIDDEN pthread_mutex_t fake_lock;
extern HIDDEN pthread_cond_t fake_changed;
extern HIDDEN struct fake_state fake_counted;
extern HIDDEN size_t fake_unmapped_bytes; /* in each cuptiFinalize */

/* fake_cupti.c; with the lock: callbacks, kinds and calls are as before the first use. */
HIDDEN void fake_forget_records(void);
HIDDEN bool fake_kernels_on(void);

/* fake_cupti_life.c; with the lock: kernel records were switched. */
HIDDEN void fake_kernels_switched(void);
/* With the lock: records of a kind go off; a flush begins. */
HIDDEN void fake_switched_off(CUpti_ActivityKind kind);
HIDDEN void fake_flushes(void);
/* The other client's clock, NULL: CUPTI's own. */
HIDDEN CUpti_TimestampCallbackFunc fake_clock(void);
HIDDEN void fake_hold_subscription(const char *name);
HIDDEN void fake_call(CUpti_CallbackDomain domain, CUpti_CallbackId id);
HIDDEN void fake_enter(CUpti_CallbackDomain domain, CUpti_CallbackId id);
HIDDEN void fake_leave(CUpti_CallbackDomain domain, CUpti_CallbackId id);
/* A real program would have ended here: so does this one. */
HIDDEN void fake_deadly(const char *what);
HIDDEN void fake_lose_ends(unsigned int n);
void fake_launch_graph(void);
HIDDEN void fake_wait_device(void);
HIDDEN void fake_make_node(uint32_t graph, uint64_t node, uint64_t source);
HIDDEN void fake_hold_leaver(int fd);
HIDDEN void fake_hold_comer(int fd);
HIDDEN void fake_hold_nodes(bool hold);
HIDDEN bool fake_wait_held_node(void);

#endif
