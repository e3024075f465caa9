/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope counters: what a kernel profiler measured.
 */
#include "cmd/results/table.h"

static const struct option_group groups[] = {
	{ table_row_options, 0 },
	{ table_format_options, 0 },
	{ NULL, 0 },
};

static const struct example examples[] = {
	{ "moescope counters ncu.csv", "What Nsight Compute measured, a row for each metric." },
	{ "moescope counters ncu.csv --csv | grep dram__", "Those of the memory alone." },
	{ NULL, NULL },
};

const struct command cmd_counters = {
	.name = "counters",
	.purpose = PURPOSE_LOOK,
	.summary = "hardware counters of single kernels, measured by Nsight Compute",
	.description =
		"One row for each kernel and metric: in how many launches it was measured, and the "
		"mean, smallest and largest value, in the unit that the row names. RUN is a run "
		"that was imported from a CSV of Nsight Compute (ncu --csv, with --page raw or "
		"details), or that file itself. Without RUN it is the newest *.mscope in the "
		"current directory.",
	.groups = groups,
	.examples = examples,
	TABLE_COMMAND,
};
