/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: launches in a row that are counted together, between one start and one stop of the range profiler (rows, in the
 * manual); and the groups of metrics, which take turns. The caller's lock is held around every call, except where a
 * comment says otherwise.
 */
#ifndef EXACT_WINDOWS_H
#define EXACT_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "counters/api.h"
#include "exact/calls.h"
#include "exact/chosen.h"
#include "exact/replay.h"

/* Once, after ranges_plan and chosen_begin. */
void windows_begin(uint64_t launches);

/* A launch that was chosen begins. */
void windows_add(const CUpti_CallbackData *data, enum call_use use, struct kernel *kernel);
/* One that was not chosen. kernel: NULL, if nothing is known of it. */
void windows_pass(const CUpti_CallbackData *data, const struct kernel *kernel);
/* One of either kind has returned; with the last, counting has ended. */
void windows_launched(const CUpti_CallbackData *data, bool failed);

void windows_close(void);
/* Something came that must not be between the launches of a window. */
void windows_break(void);
/* A context is about to end. */
void windows_forget(CUcontext context);

/* Changes when a window is about to begin, and when it has: odd in between, where no counted kernel runs. No lock. */
unsigned int windows_changes(void);
/* Nothing is counted any more, for a reason that the run is told, or NULL. No lock. */
void windows_stop(const struct err *why);
bool windows_stopped(void);

/* What became of the launches that were chosen. */
struct windows_counts {
	uint64_t counted, beside, elsewhere, unmatched, partial;
	uint64_t not_replayed[REPLAY_ANSWERS];
	uint64_t valueless; /* metrics of those that were counted */
	uint64_t between;   /* launches that were not chosen, in windows */
};
const struct windows_counts *windows_counts(void);

#endif
