/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope comm: communication between devices and ranks.
 */
#include "cmd/results/table.h"

static const struct option_group groups[] = { TABLE_OPTION_GROUPS };

static const struct example examples[] = {
	{ "moescope comm", "The newest run here, by time." },
	{ "moescope comm ranks.mscope --sort skew_mean_ns",
	  "What the ranks begin least together." },
	{ "moescope comm a.mscope --steps 10:19 --json", "Ten steps, for a script." },
	{ NULL, NULL },
};

const struct command cmd_comm = {
	.name = "comm",
	.purpose = PURPOSE_LOOK,
	.summary = "communication: what it overlapped, and which rank waits for which",
	.description =
		"For each device the time of communication kernels, how much of it ran beside "
		"computation and how much was exposed; one row for each collective: bytes, "
		"bandwidth, and how far apart the ranks began it. Without RUN it is the "
		"newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	TABLE_COMMAND,
};
