/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of a run an analysis looks at, and finding the step of a moment.
 */
#ifndef SUBJECTS_SELECTION_H
#define SUBJECTS_SELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tables/tables.h"

struct selection {
	int64_t step_first, step_last; /* inclusive */
	int layer;		       /* -1: all */
	int phase;		       /* -1: all */
};

#define SELECT_ALL                                                                                 \
	((struct selection){                                                                       \
		.step_first = INT64_MIN, .step_last = INT64_MAX, .layer = -1, .phase = -1 })

static inline bool selection_has_step(const struct selection *sel, int64_t step)
{
	return step >= sel->step_first && step <= sel->step_last;
}

/* True when a step window was asked for, so that work outside all steps is left out. */
static inline bool selection_is_window(const struct selection *sel)
{
	return sel->step_first != INT64_MIN || sel->step_last != INT64_MAX;
}

static inline bool selection_has_place(const struct selection *sel, int32_t layer, uint8_t phase)
{
	return (sel->layer < 0 || layer == sel->layer) && (sel->phase < 0 || phase == sel->phase);
}

/* Whether a step's time is that of a step: it has ended, and did not begin with the program. */
static inline bool step_is_timed(const struct table_step *step, size_t row)
{
	return !step->unfinished[row] && step->first[row] != STEP_FIRST_LOADED;
}

/* The steps of a run by shard and start, for "which step was this in". */
struct step_index {
	size_t *rows; /* into run->step, sorted by shard, then start */
	size_t n;
};

int step_index_init(struct step_index *index, const struct run *run);
void step_index_release(struct step_index *index);

/* The row of run->step whose [start, end) holds `time_ns`; SIZE_MAX when none. */
size_t step_index_find(const struct step_index *index, const struct run *run, uint16_t shard,
		       int64_t time_ns);
/* The same; *hint: where the last one was found, index->n when none was. */
size_t step_index_find_near(const struct step_index *index, const struct run *run, uint16_t shard,
			    int64_t time_ns, size_t *hint);

#endif
