/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope memory: what was allocated, by use, over time.
 */
#include "cmd/table.h"

static const struct option_group groups[] = { { table_row_options, 0 },
					      { table_format_options, 0 },
					      { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope memory", "The newest run here." },
	{ "moescope memory a.mscope --json", "Peaks, composition and the series over time." },
	{ NULL, NULL },
};

static const struct table_values defaults = TABLE_DEFAULTS;

static int run_memory(struct invocation *inv)
{
	return table_show(inv, "memory", 20);
}

const struct command cmd_memory = {
	.name = "memory",
	.summary = "live and peak memory by use",
	.words = "[RUN]",
	.description = "Live and peak bytes of each device as the program's own allocator saw "
		       "them, what they were used for, and suspected leaks. Without RUN it is the "
		       "newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct table_values),
	.max_args = 1,
	.completion = COMPLETE_RUN,
	.run = run_memory,
};
