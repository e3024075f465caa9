/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope ops: time by operation, in the style of key_averages.
 */
#include "cmd/results/table.h"

static const struct option_desc own[] = {
	{ .name = "by-shape",
	  .kind = OPTION_FLAG,
	  .help = "a row for each shape of an operation's inputs",
	  .offset = offsetof(struct table_values, by_shape) },
	{ .name = "by-stack",
	  .kind = OPTION_FLAG,
	  .help = "a row for each stack of calls that an operation was made from",
	  .offset = offsetof(struct table_values, by_stack) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, TABLE_OPTION_GROUPS };

static const struct example examples[] = {
	{ "moescope ops", "The newest run here, by time without children." },
	{ "moescope ops a.mscope --sort flops --limit 5", "The five that computed most." },
	{ "moescope ops a.mscope --phase backward --layer 0 --by-shape",
	  "The backward pass of the first layer, shape by shape." },
	{ "moescope ops a.mscope --by-stack --sort gpu_ns",
	  "Which lines of the program the devices work for." },
	{ NULL, NULL },
};

const struct command cmd_ops = {
	.name = "ops",
	.purpose = PURPOSE_LOOK,
	.summary = "time, FLOPs and bytes by operation",
	.description = "One row for each operation and range: how often it ran, its time with and "
		       "without what ran inside it, its arithmetic and the memory it moved. "
		       "Without RUN it is the newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	TABLE_COMMAND,
};
