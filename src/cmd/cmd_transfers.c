/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope transfers: copies and sets of device memory.
 */
#include "cmd/results/table.h"

static const struct option_group groups[] = { TABLE_OPTION_GROUPS };

static const struct example examples[] = {
	{ "moescope transfers", "The newest run here, by time." },
	{ "moescope transfers a.mscope --sort bytes", "By bytes moved." },
	{ NULL, NULL },
};

const struct command cmd_transfers = {
	.name = "transfers",
	.purpose = PURPOSE_LOOK,
	.summary = "copies between host and devices, and their bandwidth",
	.description = "One row for each kind of copy, host memory and pair of devices: bytes, "
		       "time, bandwidth, how much of it ran beside kernels, and how many were too "
		       "small to be fast. Sets of memory are apart. Without RUN it is the newest "
		       "*.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	TABLE_COMMAND,
};
