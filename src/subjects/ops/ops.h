/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of the threads went: averages by name over operations and ranges.
 *
 * self time   duration minus that of the direct children on the same thread
 * total time  duration, of a record that is not inside another one of the same row: recursion
 *             counts once
 * Sums are over threads: with n busy threads they grow n seconds a second.
 *
 * Device time is that of the timed kernels, copies and sets: self of those launched inside the
 * record and not inside a child, total with the children. What a CUDA graph runs counts where its
 * nodes were made (attribution.h); with chosen steps, that of replays in them, so that a row can
 * have device time and no record in the window.
 */
#ifndef SUBJECTS_OPS_H
#define SUBJECTS_OPS_H

#include "subjects/numbers/value.h"
#include "subjects/shared/selection.h"

struct attribution;

struct ops_options {
	/* Rows are kept apart by these beside name and kind. */
	bool by_shape, by_stack, by_layer, by_expert, by_phase;
	bool without_ranges; /* list only operations; their self time is the same */
};

struct op_row {
	uint32_t name;	       /* string id */
	uint32_t shape;	       /* string id; 0: none, or not kept apart */
	uint32_t stack;	       /* likewise */
	int32_t layer, expert; /* -1: none, or not kept apart */
	uint8_t phase;
	bool is_op;
	uint64_t count, unfinished;
	int64_t self_cpu_ns, cpu_ns;
	int64_t self_gpu_ns, gpu_ns; /* when ops.gpu_ns is known */
	uint64_t flops, bytes;	     /* of the records that told them; 0 for ranges */
	uint64_t no_flops, no_bytes; /* records that did not tell */
	struct value flops_per_s;    /* flops over total time of its records */
	double self_share_pct;	     /* of the self time of all rows */
	int64_t time_ns;	     /* sum of durations, recursion counted each time */
	int64_t first_ns; /* start of the first of its records: orders rows of the same time */
};

struct ops {
	struct op_row *rows; /* by self time, largest first */
	size_t n;
	uint64_t count;
	int64_t self_cpu_ns; /* sum over the rows */
	uint64_t flops, bytes, no_flops, no_bytes;
	uint64_t unfinished;
	/* Device time launched inside any of the rows, outside all ranges, and without a record of
	 * its launch. */
	struct value gpu_ns, gpu_outside_ns, gpu_unplaced_ns;
};

int ops_analyze(const struct run *run, const struct selection *sel,
		const struct ops_options *options, struct ops *ret_ops);
/* With an attribution of the run that is there already. */
int ops_analyze_at(const struct attribution *at, const struct selection *sel,
		   const struct ops_options *options, struct ops *ret_ops);
void ops_release(struct ops *ops);

/* Its fields; see ops_fields.c. */
struct field_set;
enum ops_form {
	OPS_BY_NAME = 1 << 0,
	OPS_ON_DEVICE = 1 << 1, /* by name, in text the time of the device in place of arithmetic */
	OPS_BY_SHAPE = 1 << 2,
	OPS_BY_STACK = 1 << 3,	/* the shapes too where they were asked for */
	OPS_BY_CALLER = 1 << 4, /* the same, of a stack its innermost call */
};

extern const struct field_set ops_fields, ops_total;

#endif
