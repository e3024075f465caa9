/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel profiler (Nsight Compute) measured, by kernel and metric, over the launches that it
 * replayed.
 *
 * mean, min, max  over the launches whose value is a number, in the row's unit: that of the first
 *                 launch. Values with another prefix (ms for us) are converted
 * text            of values that are no numbers, when all of them are the same
 * doubt           of metrics that were counted in several passes, each a run of the kernel (run --replay): what says
 *                 that these were not alike (replayed.h), or a share beyond 100%
 */
#ifndef SUBJECTS_LAUNCH_METRICS_H
#define SUBJECTS_LAUNCH_METRICS_H

#include "subjects/numbers/value.h"
#include "tables/tables.h"

#define LAUNCH_METRIC_NAME_MOST 24

struct launch_metric_row {
	const char *name; /* of the kernel, demangled */
	/* The function alone, cut to a width that leaves room for the rest. */
	char short_name[LAUNCH_METRIC_NAME_MOST + 1];
	uint32_t kernel, section, metric, unit; /* strings; unit and section 0: none */
	bool attribute;				/* of the device, not of the launch */
	uint64_t launches, numbers;
	struct value mean, min, max;
	uint32_t text;	      /* string; 0: numbers, or several texts */
	const char *no_text;  /* why text is 0 */
	char doubt[96];	      /* why its passes may not fit together; "": nothing says so */
	const char *no_doubt; /* why there is none */
	size_t first;	      /* row of the table that it begins with */
	size_t kernel_first;  /* the same of the kernel */
};

struct launch_metrics {
	/* Kernels and metrics as the file has them, a kernel's attributes of the device last. */
	struct launch_metric_row *rows;
	size_t n;
	char **names;	   /* of the kernels, for the rows */
	uint64_t launches; /* that were profiled: of all processes */
	uint64_t kernels;  /* names */
	uint64_t values;
	size_t doubted; /* rows */
};

int launch_metrics_analyze(const struct run *run, struct launch_metrics *ret_metrics);
void launch_metrics_release(struct launch_metrics *metrics);

/* Its fields; see counters_fields.c. */
struct field_set;
extern const struct field_set counters_fields, counters_total;

#endif
