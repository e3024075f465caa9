/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of the devices went: kernels by name, class, or place in the program.
 *
 * count   every execution; `untimed` are those of them that the device gave no times for: they
 *         are in no duration
 * share   of the time of all rows
 * Means a step are over the steps that were covered wholly (coverage.h) and had kernels.
 */
#ifndef SUBJECTS_KERNELS_H
#define SUBJECTS_KERNELS_H

#include "device/sheets/kernel_class.h"
#include "subjects/numbers/stats.h"
#include "subjects/numbers/value.h"
#include "subjects/shared/selection.h"

struct attribution;

enum kernels_by {
	KERNELS_BY_NAME,
	KERNELS_BY_CLASS,
	KERNELS_BY_RANGE,
	KERNELS_BY_LAYER,
	KERNELS_BY_EXPERT, /* of a layer */
	KERNELS_BY_PHASE,
	KERNELS_BY_STEP,
	KERNELS_BY_STREAM, /* of a device of a process */
	KERNELS_BY_DEVICE, /* of a process */
	KERNELS_BY_GRAPH,  /* CUDA graph of a process */
};

struct kernels_options {
	enum kernels_by by;
	const struct kernel_classes *classes; /* NULL: the built-in ones */
};

struct kernel_row {
	/* What the rows are by; the rest is not set. */
	char *name, *short_name; /* owned; demangled */
	char *class;		 /* owned */
	char *range;		 /* owned; "outer/inner" */
	int32_t layer, expert;
	uint32_t name_id; /* string id, by name */
	uint8_t phase;
	int64_t step;
	uint32_t rank, device, stream, graph;
	const char *no_place; /* why range, layer, … or graph is not known; NULL: it is */
	bool whole_step;      /* by step: device records cover all of it */

	uint64_t count, untimed;
	int64_t time_ns;
	struct stats_summary summary; /* of the timed ones, ns; n 0: none was timed */
	double share_pct;
	struct value occupancy_pct;    /* theoretical, weighted by time; see occupancy.h */
	const char *occupancy_limiter; /* of most of that time; NULL: not known */
};

struct kernels {
	struct kernel_row *rows; /* by time, largest first */
	size_t n;
	uint64_t count, untimed;
	int64_t time_ns;
	/* Only when a place was asked for or selected. */
	struct value without_call;   /* kernels whose launch call was not recorded */
	struct value outside_ranges; /* launched outside all ranges */
	/* By step only. */
	size_t whole_steps;
	struct value step_count_mean, step_time_mean_ns;
};

/* By class: by the name of the kernel, and for classes that say little by the ranges around its launch
 * (kernel_class_in_range), the innermost that tells.
 *
 * Classes are made from the table when the options have none. With a selection, kernels without
 * a launch call are left out. */
int kernels_analyze(const struct run *run, const struct selection *sel,
		    const struct kernels_options *options, struct kernels *ret_kernels);
/* Whether the ranges and operations of the run must be loaded. */
bool kernels_need_ranges(const struct kernels_options *options);
/* Whether rows are by something that has to be looked up in them. */
int kernels_need_places(const struct run *run, const struct kernels_options *options,
			bool *ret_needed);
/* With an attribution of the run that is there already. */
int kernels_analyze_at(const struct attribution *at, const struct selection *sel,
		       const struct kernels_options *options, struct kernels *ret_kernels);
void kernels_release(struct kernels *kernels);

/* Its fields; see kernels_fields.c. */
struct field_set;
extern const struct field_set kernels_fields, kernels_total;

#endif
