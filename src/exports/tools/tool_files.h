/* SPDX-License-Identifier: Apache-2.0
 *
 * Files in the names of other tools, with the columns and keys that their users' scripts read. What
 * is not known is an empty cell, or null with its reason beside it.
 *
 * A field without a meaning is explained by the object that holds it.
 */
#ifndef EXPORTS_TOOL_FILES_H
#define EXPORTS_TOOL_FILES_H

#include "subjects/answers/answers.h"
#include "subjects/overview/overview.h"
#include "subjects/shared/fields.h"

/* Of real-time MoE profilers. */
extern const struct field_set memory_stats_file;   /* of a struct memory_history */
extern const struct field_set kernel_stats_file;   /* of a struct selection: kernels one by one */
extern const struct field_set expert_routing_file; /* of a struct routing */
extern const struct field_set profiler_report_file;

/* Of frameworks around the Nsight tools. */
extern const struct field_set nsys_summary_file; /* of a struct kernels */
extern const struct field_set api_summary_file;	 /* of a struct api_calls */
extern const struct field_set nsys_metrics_file; /* of a struct kernels, with the calls */

extern const struct field_set ncu_metrics_file; /* of a struct kernel_limits, with the metrics */
extern const struct field_set ncu_summary_file; /* of a struct kernel_limits */

/* Kernels of the experts with that number. */
struct expert_kernels {
	int32_t number;
	uint64_t calls, timed;
	int64_t time_ns;
};

/* Copies in one direction. */
struct moved {
	uint64_t count;
	double mb;
};
#define MOVED_KINDS 4

/* What profiler_report_file is read from. */
struct profiler_report {
	const struct overview *overview;
	const struct kernel_row *slowest; /* NULL: none was timed */
	char timestamp[32];		  /* "": the start is not known */
	struct value peak_mb, live_mb, reserved_mb, fragmentation_pct, allocation_efficiency,
		device;
	struct value link_gbps, dram_gbps, total_mb;
	struct value cv, routing_efficiency, tokens_mean;
	struct moved moved[MOVED_KINDS];
	struct expert_kernels *experts; /* by number */
	size_t n_experts;
};

/* by_expert: kernels by layer and expert. The overview outlives the report. 0 or -ENOMEM. */
int profiler_report_make(const struct run *run, const struct answers *answers,
			 const struct kernels *by_expert, const struct overview *overview,
			 struct profiler_report *ret_report);
void profiler_report_release(struct profiler_report *report);

#endif
