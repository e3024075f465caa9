/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope api: calls into the CUDA runtime and driver.
 */
#include "cmd/table.h"

static const struct option_group groups[] = { { table_place_options, 0 },
					      { table_step_options, 0 },
					      { table_row_options, 0 },
					      { table_format_options, 0 },
					      { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope api", "The newest run here, by time." },
	{ "moescope api a.mscope --sort errors", "Calls that failed first." },
	{ NULL, NULL },
};

static const struct table_values defaults = TABLE_DEFAULTS;

static int run_api(struct invocation *inv)
{
	return table_show(inv, "api", 20);
}

const struct command cmd_api = {
	.name = "api",
	.summary = "calls into the CUDA runtime and driver",
	.words = "[RUN]",
	.description = "One row for each call that was recorded: how often, how long, how many "
		       "failed, and how long after it the device began (median). Without RUN it "
		       "is the newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct table_values),
	.max_args = 1,
	.completion = COMPLETE_RUN,
	.run = run_api,
};
