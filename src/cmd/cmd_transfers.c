/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope transfers: copies and sets of device memory.
 */
#include "cmd/table.h"

static const struct option_group groups[] = { { table_place_options, 0 },
					      { table_step_options, 0 },
					      { table_row_options, 0 },
					      { table_format_options, 0 },
					      { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope transfers", "The newest run here, by time." },
	{ "moescope transfers a.mscope --sort bytes", "By bytes moved." },
	{ NULL, NULL },
};

static const struct table_values defaults = TABLE_DEFAULTS;

static int run_transfers(struct invocation *inv)
{
	return table_show(inv, "transfers", 20);
}

const struct command cmd_transfers = {
	.name = "transfers",
	.summary = "copies between host and devices, and their bandwidth",
	.words = "[RUN]",
	.description = "One row for each kind of copy, host memory and pair of devices: bytes, "
		       "time, bandwidth, how much of it ran beside kernels, and how many were too "
		       "small to be fast. Sets of memory are apart. Without RUN it is the newest "
		       "*.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct table_values),
	.max_args = 1,
	.completion = COMPLETE_RUN,
	.run = run_transfers,
};
