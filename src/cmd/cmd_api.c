/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope api: calls into the CUDA runtime and driver.
 */
#include "cmd/results/table.h"

static const struct option_group groups[] = { TABLE_OPTION_GROUPS };

static const struct example examples[] = {
	{ "moescope api", "The newest run here, by time." },
	{ "moescope api a.mscope --sort errors", "Calls that failed first." },
	{ NULL, NULL },
};

const struct command cmd_api = {
	.name = "api",
	.purpose = PURPOSE_LOOK,
	.summary = "calls into the CUDA runtime and driver",
	.description = "One row for each call that was recorded: how often, how long, how many "
		       "failed, and how long after it the device began (median). Without RUN it "
		       "is the newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	TABLE_COMMAND,
};
