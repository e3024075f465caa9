/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope steps: one row for each step.
 */
#include "cmd/results/table.h"

static const struct option_group groups[] = { { table_step_options, 0 },
					      { table_row_options, 0 },
					      { table_format_options, 0 },
					      { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope steps", "The newest run here." },
	{ "moescope steps a.mscope --sort time_ns --limit 5", "Its five longest steps." },
	{ "moescope steps a.mscope --steps 100:199 --csv", "A hundred steps for a spreadsheet." },
	{ NULL, NULL },
};

const struct command cmd_steps = {
	.name = "steps",
	.purpose = PURPOSE_LOOK,
	.summary = "time, phases and tokens of each step",
	.description = "One row for each step: its time, the share of each phase (forward, "
		       "backward, optimizer, data), its tokens and tokens per second. Without RUN "
		       "it is the newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	TABLE_COMMAND,
};
