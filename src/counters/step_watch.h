/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow steps of a run that is being recorded, seen from outside: each process tells the step that it is in, and
 * since when, in its buffer file (trace/ring.h). One thread.
 */
#ifndef COUNTERS_STEP_WATCH_H
#define COUNTERS_STEP_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct step_watch;

/* NULL: no memory. */
struct step_watch *step_watch_new(const char *run);
void step_watch_free(struct step_watch *watch);
/* A file has come into the run. */
void step_watch_file(struct step_watch *watch, const char *name);
/* Whether a slow step has ended since the last look; a sentence about it. Slow: half as long again as the median of
 * the steps before it, and 5 ms more than that. Of steps that pass between two looks only the mean is known. */
bool step_watch_look(struct step_watch *watch, char *sentence, size_t size);

#endif
