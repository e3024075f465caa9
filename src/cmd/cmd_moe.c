/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope moe: the parts of a mixture of experts on the devices.
 */
#include "cmd/results/table.h"

static const struct option_group groups[] = { TABLE_OPTION_GROUPS };

static const struct example examples[] = {
	{ "moescope moe", "The newest run here." },
	{ "moescope moe train.json.gz --sort exposed_ns",
	  "Which communication of a PyTorch trace nothing hides." },
	{ "moescope moe a.mscope --steps 10:19 --json", "Ten steps, for a script." },
	{ NULL, NULL },
};

const struct command cmd_moe = {
	.name = "moe",
	.purpose = PURPOSE_LOOK,
	.summary = "attention, router, dispatch, experts, combine: hidden and exposed",
	.description =
		"The time of the devices by part of a mixture of experts and by pass; how much of "
		"the communication between experts is hidden, behind which pass, and what that "
		"costs the kernels beside it; a row for each layer where layers can be told. "
		"Without RUN it is the newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	TABLE_COMMAND,
};
