/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope ops: time by operation, in the style of key_averages.
 */
#include "cmd/table.h"

static const struct option_desc own[] = {
	{ .name = "by-shape",
	  .kind = OPTION_FLAG,
	  .help = "a row for each shape of an operation's inputs",
	  .offset = offsetof(struct table_values, by_shape) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 },
					      { table_place_options, 0 },
					      { table_step_options, 0 },
					      { table_row_options, 0 },
					      { table_format_options, 0 },
					      { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope ops", "The newest run here, by time without children." },
	{ "moescope ops a.mscope --sort flops --limit 5", "The five that computed most." },
	{ "moescope ops a.mscope --phase backward --layer 0 --by-shape",
	  "The backward pass of the first layer, shape by shape." },
	{ NULL, NULL },
};

static const struct table_values defaults = TABLE_DEFAULTS;

static int run_ops(struct invocation *inv)
{
	return table_show(inv, "ops", 20);
}

const struct command cmd_ops = {
	.name = "ops",
	.summary = "time, FLOPs and bytes by operation",
	.words = "[RUN]",
	.description = "One row for each operation and range: how often it ran, its time with and "
		       "without what ran inside it, its arithmetic and the memory it moved. "
		       "Without RUN it is the newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct table_values),
	.max_args = 1,
	.completion = COMPLETE_RUN,
	.run = run_ops,
};
