/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of the program a device record belongs to: the call that launched it (same process,
 * same correlation id), and by the start of that call the step and the innermost range or
 * operation of its thread. Pure, any thread; linear to set up for records in the order in which they
 * are delivered, n log n for others, log n a look-up. Large runs are joined by several threads.
 *
 * Correlation ids may start again when recording was off for a while: of several calls with the
 * same id, the last one that began before the record is taken. A driver call inside a runtime
 * call of the same id stands back for it. An id of 0 is none: files of other profilers may have
 * calls and work without one.
 *
 * A call on a thread that is in none of its own ranges belongs to the range that is open on the
 * thread which leads the phases, if that has a phase: PyTorch's backward pass runs on threads of its
 * own.
 *
 * Work of a CUDA graph has the call that launched the graph, which says its step; its range is the
 * one in which its node was made (of a copied node, its original), for that is the code that it
 * stands for. Without a record of the node, or when that was made outside all ranges, the launch
 * says the range too. Without a record of the call, the start on the device says the step.
 */
#ifndef SUBJECTS_ATTRIBUTION_H
#define SUBJECTS_ATTRIBUTION_H

#include "subjects/numbers/nesting.h"
#include "subjects/numbers/order.h"
#include "subjects/shared/selection.h"

#define NO_CALL SIZE_MAX
#define NO_CALL32 UINT32_MAX
#define NO_STEP SIZE_MAX
#define NO_RANGE SIZE_MAX

/* Where in the program work comes from. path 0: outside all ranges. layer, expert -1 and phase 0:
 * no range around it names one; the innermost that does counts. */
struct place {
	uint32_t path;
	int32_t layer, expert;
	uint8_t phase;
	size_t step;  /* row of run->step, or NO_STEP */
	size_t range; /* index into the attribution's ranges, or NO_RANGE */
};

/* What a kernel, copy or set says of its origin. */
struct device_work {
	uint64_t correlation, graph_node;
	int64_t start_ns;
	uint16_t shard;
};

struct attribution {
	const struct run *run;
	struct step_index steps;
	uint32_t *calls; /* rows of run->api by process, correlation id, start; NULL: they are so */
	size_t n_calls;
	/* Of each row of the tables the one of run->api that launched it, or NO_CALL32. */
	uint32_t *kernel_call, *copy_call, *set_call;
	struct nested *ranges; /* by process, thread, start */
	struct range_place *range_places;
	size_t n_ranges;
	uint32_t *leaders; /* of each process the thread that leads its phases; see leaders.h */
	struct path_node *paths; /* path i is paths[i - 1] */
	size_t n_paths, paths_capacity;
	struct node_entry *nodes; /* by process, id, time */
	size_t n_nodes;
};

int attribution_init(struct attribution *at, const struct run *run);
/* Only for the calls of device records: no steps, ranges and nodes. */
int attribution_init_calls(struct attribution *at, const struct run *run);
/* Gives back what attribution_call and attribution_find need: they find no call afterwards. */
void attribution_close(struct attribution *at);
void attribution_release(struct attribution *at);

/* The row of run->api that launched a device record; NO_CALL when none was recorded. */
size_t attribution_call(const struct attribution *at, uint16_t shard, uint64_t correlation,
			int64_t start_ns);
/* Where a call of run->api was made. */
struct place attribution_place(const struct attribution *at, size_t call);
/* Where the work of a device comes from; false: neither its call nor its node was recorded. */
bool attribution_find(const struct attribution *at, const struct device_work *work,
		      struct place *ret_place);

/* The range around a range of at->ranges, which has a smaller index; NO_RANGE: none. */
size_t attribution_outer(const struct attribution *at, size_t range);
/* The innermost range of a thread that holds the moment; NO_RANGE: none. *hint: where the last one
 * was found, at->n_ranges when none was. */
size_t attribution_innermost(const struct attribution *at, uint16_t shard, uint32_t thread,
			     int64_t time_ns, size_t *hint);

/* Where the last look-ups ended: the next ones are mostly near. Zero to begin with. */
struct attribution_cursor {
	size_t range, step, lent;
};
/* Where a thread was at a moment. */
struct place attribution_place_of(const struct attribution *at, struct attribution_cursor *cursor,
				  uint16_t shard, uint32_t thread, int64_t time_ns);
/* As attribution_place and attribution_find. `call`: the work's of kernel_call and so on. */
struct place attribution_place_near(const struct attribution *at, struct attribution_cursor *cursor,
				    size_t call);
bool attribution_find_near(const struct attribution *at, struct attribution_cursor *cursor,
			   const struct device_work *work, uint32_t call, struct place *ret_place);
/* The path around it, 0 around the outermost; the string id of its innermost range. path is not 0. */
uint32_t attribution_path_outer(const struct attribution *at, uint32_t path);
uint32_t attribution_path_name(const struct attribution *at, uint32_t path);
/* "outer/inner" of a path. *ret_text: free() it. */
int attribution_path_text(const struct attribution *at, uint32_t path, char **ret_text);

/* True when the selection leaves nothing out: no look-up is needed then. */
static inline bool selection_is_all(const struct selection *sel)
{
	return !selection_is_window(sel) && sel->layer < 0 && sel->phase < 0;
}
/* False when neither the selection nor the schedule of steps leaves anything out. */
bool attribution_needed(const struct run *run, const struct selection *sel);
/* Work launched in a step that is not recorded (wait, warm-up, pause) is never selected: it is there
 * only because collecting cannot begin and end at a kernel. */
bool attribution_selects(const struct attribution *at, const struct selection *sel,
			 const struct place *place);

#endif
