/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels, copies or sets of each device of a process in the order of their start, and the
 * stretches of time in which any of them ran, one after the other: what intervals.h does for short
 * lists, without a list. Pure, any thread; linear for records in the order of their delivery.
 */
#ifndef SUBJECTS_LANES_H
#define SUBJECTS_LANES_H

#include "subjects/numbers/intervals.h"
#include "subjects/shared/attribution.h"
#include "tables/tables.h"

/* What kernels, copies and sets have in common. */
struct lane_table {
	const int64_t *start_ns, *duration_ns;
	const uint32_t *device;
	const uint16_t *shard;
	const uint8_t *untimed;
	size_t n;
};
#define LANE_TABLE(table)                                                                          \
	((struct lane_table){ (table)->start_ns, (table)->duration_ns, (table)->device,            \
			      (table)->shard, (table)->untimed, (table)->n })

/* One device of a process. */
struct lane {
	uint16_t shard;
	uint32_t device;
	size_t first, end; /* of its rows in the order */
};

struct lane_order {
	struct lane_table table;
	uint32_t *rows; /* by process, device, start; NULL: the table is in that order */
	struct lane *lanes;
	size_t n, capacity;
};

static inline size_t lane_row(const struct lane_order *order, size_t i)
{
	return order->rows ? order->rows[i] : i;
}

int lane_order_init(struct lane_order *order, const struct lane_table *table);
void lane_order_release(struct lane_order *order);
/* NULL: nothing of that device. */
const struct lane *lane_find(const struct lane_order *order, uint16_t shard, uint32_t device);

/* The latest end of a record that has a time; INT64_MIN: none has. */
int64_t lane_end(const struct lane_order *order, uint16_t shard, uint32_t device);

/* All three kinds of a run. */
enum lane_kind { LANE_KERNEL, LANE_COPY, LANE_SET, LANE_KINDS };
struct device_lanes {
	struct lane_order of[LANE_KINDS];
};
/* The row of run->api that launched a record, or NO_CALL32. */
static inline uint32_t lane_call(const struct attribution *at, enum lane_kind kind, size_t row)
{
	const uint32_t *calls[LANE_KINDS] = { at->kernel_call, at->copy_call, at->set_call };

	return calls[kind][row];
}
int device_lanes_init(struct device_lanes *lanes, const struct run *run);
void device_lanes_release(struct device_lanes *lanes);
/* The devices that have any record, once each, by process and device. devices: room for the lanes
 * of all kinds; how many there are. */
size_t device_lanes_room(const struct device_lanes *lanes);
size_t device_lanes_list(const struct device_lanes *lanes, struct lane *devices);

/* A stretch of a lane: not empty, and not touching the next. row: the record that begins it (the
 * last of those that begin with it), of the table `kind`. */
struct lane_span {
	int64_t start_ns, end_ns;
	size_t row;
	enum lane_kind kind;
};

struct lane_stream {
	const struct lane_order *order;
	enum lane_kind kind;
	size_t at, end;
};
/* The stretches of one kind on a device. Untimed and empty records are in none. */
struct lane_stream lane_stream(const struct device_lanes *lanes, enum lane_kind kind,
			       uint16_t shard, uint32_t device);
/* False: there are no more. */
bool lane_stream_next(struct lane_stream *stream, struct lane_span *ret_span);

/* Of all kinds together. When several begin a stretch, the kernel does, then the copy. */
struct busy_stream {
	struct lane_stream of[LANE_KINDS];
	struct lane_span next[LANE_KINDS];
	bool has[LANE_KINDS];
};
struct busy_stream busy_stream(const struct device_lanes *lanes, uint16_t shard, uint32_t device);
bool busy_stream_next(struct busy_stream *stream, struct lane_span *ret_span);

/* Every stretch of every device as a merged list, its kind (enum lane_kind) as the group. free() it;
 * NULL when there is none. */
int device_spans(const struct run *run, struct span **ret_spans, size_t *ret_n);

#endif
