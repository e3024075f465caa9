/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope kernels: time of the devices by kernel.
 */
#include "cmd/results/table.h"

/* In the order of enum kernels_by. */
static const char *const by_choices[] = { "name", "class",  "range",  "layer", "expert", "phase",
					  "step", "stream", "device", "graph", NULL };

static const struct option_desc own[] = {
	{ .name = "by",
	  .short_name = 'b',
	  .kind = OPTION_CHOICE,
	  .metavar = "WHAT",
	  .choices = by_choices,
	  .help = "a row for each name, class, range, layer, expert, phase, step, stream, device or CUDA "
		  "graph",
	  .default_text = "name",
	  .offset = offsetof(struct table_values, kernels_by) },
	{ .name = "classes",
	  .kind = OPTION_STRING,
	  .metavar = "FILE",
	  .help = "more classes: lines of a class, a tab and a regular expression; the first that "
		  "matches a name counts, before the built-in ones",
	  .offset = offsetof(struct table_values, classes),
	  .completion = COMPLETE_FILE },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, TABLE_OPTION_GROUPS };

static const struct example examples[] = {
	{ "moescope kernels", "The newest run here, by time." },
	{ "moescope kernels a.mscope --by class", "How much is GEMM, attention, copying." },
	{ "moescope kernels a.mscope --by range --steps 10:20",
	  "Device time by range of the program, of eleven steps." },
	{ NULL, NULL },
};

const struct command cmd_kernels = {
	.name = "kernels",
	.purpose = PURPOSE_LOOK,
	.summary = "device time by kernel, class or place in the program",
	.description = "One row for each kernel: how often it ran, its time on the device, and "
		       "what kind of work it is. Kernels belong to the range, layer, phase and "
		       "step in which they were launched. Without RUN it is the newest *.mscope "
		       "in the current directory.",
	.groups = groups,
	.examples = examples,
	TABLE_COMMAND,
};
