/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of the program a device record belongs to: the call that launched it (same process,
 * same correlation id), and by the start of that call the step and the innermost range or
 * operation of its thread. Pure, any thread; n log n to set up, log n a look-up.
 *
 * Correlation ids may start again when recording was off for a while: of several calls with the
 * same id, the last one that began before the record is taken. A driver call inside a runtime
 * call of the same id stands back for it.
 */
#ifndef ANALYZE_ATTRIBUTION_H
#define ANALYZE_ATTRIBUTION_H

#include "analyze/nesting.h"
#include "analyze/selection.h"

#define NO_CALL SIZE_MAX
#define NO_STEP SIZE_MAX

/* Where in the program a call was made. path 0: outside all ranges. layer, expert -1 and phase 0:
 * no range around it names one; the innermost that does counts. */
struct place {
	uint32_t path;
	int32_t layer, expert;
	uint8_t phase;
	size_t step; /* row of run->step, or NO_STEP */
};

struct attribution {
	const struct run *run;
	struct step_index steps;
	struct call_entry *calls; /* by process, correlation id, start */
	size_t n_calls;
	struct nested *ranges; /* by process, thread, start */
	struct range_place *range_places;
	size_t n_ranges;
	struct path_node *paths; /* path i is paths[i - 1] */
	size_t n_paths, paths_capacity;
};

int attribution_init(struct attribution *at, const struct run *run);
void attribution_release(struct attribution *at);

/* The row of run->api that launched a device record; NO_CALL when none was recorded. */
size_t attribution_call(const struct attribution *at, uint16_t shard, uint64_t correlation,
			int64_t start_ns);
/* Where a call of run->api was made. */
struct place attribution_place(const struct attribution *at, size_t call);
/* "outer/inner" of a path. *ret_text: free() it. */
int attribution_path_text(const struct attribution *at, uint32_t path, char **ret_text);

/* True when the selection leaves nothing out: no look-up is needed then. */
static inline bool selection_is_all(const struct selection *sel)
{
	return !selection_is_window(sel) && sel->layer < 0 && sel->phase < 0;
}
bool attribution_selects(const struct attribution *at, const struct selection *sel,
			 const struct place *place);

#endif
