/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope efficiency: the run against what its devices can do.
 */
#include "cmd/results/table.h"

static const struct option_group groups[] = { { table_step_options, 0 },
					      { table_row_options, 0 },
					      { table_format_options, 0 },
					      { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope efficiency", "The newest run here." },
	{ "moescope efficiency a.mscope --sort roof_pct --limit 5",
	  "The five kinds of work that are nearest to their roof." },
	{ "moescope doctor --calibrate", "Measure the peaks of this machine first." },
	{ NULL, NULL },
};

const struct command cmd_efficiency = {
	.name = "efficiency",
	.purpose = PURPOSE_LOOK,
	.summary = "model FLOPs utilisation, and work against its roof",
	.description =
		"The share of the device's arithmetic that the model uses (MFU), and for "
		"each class of kernels (without a GPU: each operation) the FLOPs and bytes "
		"a second against the most that work of this intensity can reach. Peaks are "
		"those measured by 'moescope doctor --calibrate', else the vendor's. Without "
		"RUN it is the newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	TABLE_COMMAND,
};
