/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of intervals: how long is their union, how much of one lies in another. Pure, any thread.
 *
 * Spans are half-open, [start, end). A lane is what must not be mixed: one device of one process,
 * kept apart further by `group`, which is the caller's. A merged list is sorted by lane, then
 * start; the spans of a lane are disjoint, not empty and do not touch.
 */
#ifndef SUBJECTS_INTERVALS_H
#define SUBJECTS_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

/* A sum over devices or processes, of which a hostile file may have any number with any time:
 * it stops at the end of the numbers. */
static inline int64_t ns_sum(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? a < 0 ? INT64_MIN : INT64_MAX : sum;
}

struct span {
	int64_t start_ns, end_ns;
	uint32_t group, device;
	uint16_t shard;
};

/* Sorts and merges in place; the number that remains. Empty spans are dropped. */
size_t spans_merge(struct span *spans, size_t n);
/* Spans that come by their start, merged as they come. */
struct span_list {
	struct span *spans;
	size_t n, capacity;
};
/* The lane is that of the first. 0 or -ENOMEM. */
int span_list_add(struct span_list *list, const struct span *span);
int64_t spans_length(const struct span *merged, size_t n);
/* Length of the intersection of two merged lanes. */
int64_t spans_overlap(const struct span *a, size_t n_a, const struct span *b, size_t n_b);
/* The spans of one lane in a merged list; *ret_n 0 when it has none. */
const struct span *spans_lane(const struct span *merged, size_t n, const struct span *lane,
			      size_t *ret_n);
/* <0, 0, >0 by group, shard and device. */
int span_lane_order(const struct span *a, const struct span *b);
/* The spans from merged[first] on that are of its lane. */
size_t spans_lane_size(const struct span *merged, size_t n, size_t first);

#endif
