/* SPDX-License-Identifier: Apache-2.0
 *
 * The timelines (timeline/lod.h) of the runs that are asked for. One thread of its own makes what is
 * missing or stale, one at a time; nobody who asks waits for it here. Any thread.
 */
#ifndef SURFACES_HTTP_TIMELINES_H
#define SURFACES_HTTP_TIMELINES_H

#include <stdint.h>

#include "timeline/lod.h"

struct timelines;
/* A timeline that stays open while it is held. */
struct held_timeline;

/* ready: called from the thread when one was made or could not be. NULL: no memory or no thread. */
struct timelines *timelines_new(void (*ready)(void *context), void *context);
/* Ends the making. */
void timelines_stop(struct timelines *timelines);
/* After timelines_stop, when all are released. NULL is fine. */
void timelines_free(struct timelines *timelines);

/* The timeline of the run at `path`; while a run grows, that of a few seconds ago. signature: of the run
 * now (library.h). -EAGAIN: it is being made. Other -errno with a sentence. */
int timelines_hold(struct timelines *timelines, const char *path, uint64_t signature,
		   struct held_timeline **ret_held, struct err *err);
const struct lod *held_lod(const struct held_timeline *held);
void timelines_release(struct timelines *timelines, struct held_timeline *held);

/* Another one whenever the run has another timeline. */
uint64_t timelines_version(struct timelines *timelines, const char *path);

#endif
