/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope memory: what was allocated, by use, over time.
 */
#include "cmd/results/table.h"

static const struct option_group groups[] = { { table_row_options, 0 },
					      { table_format_options, 0 },
					      { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope memory", "The newest run here." },
	{ "moescope memory a.mscope --json", "Peaks, composition and the series over time." },
	{ NULL, NULL },
};

const struct command cmd_memory = {
	.name = "memory",
	.purpose = PURPOSE_LOOK,
	.summary = "live and peak memory by use",
	.description = "Live and peak bytes of each device as the program's own allocator saw "
		       "them, what they were used for, and suspected leaks. Without RUN it is the "
		       "newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	TABLE_COMMAND,
};
