/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope routing: which experts the tokens went to.
 */
#include "cmd/table.h"

static const struct option_desc own[] = {
	{ .name = "capacity-factor",
	  .kind = OPTION_DOUBLE,
	  .metavar = "X",
	  .min = 0.01,
	  .max = 1000,
	  .help = "capacity factor of the drop and padding estimates",
	  .default_text = "1.25",
	  .offset = offsetof(struct table_values, capacity_factor) },
	{ .name = "tile-rows",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = 65536,
	  .help = "tile height of the grouped-GEMM waste estimate",
	  .default_text = "64",
	  .offset = offsetof(struct table_values, tile_rows) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, TABLE_OPTION_GROUPS };

static const struct example examples[] = {
	{ "moescope routing", "Every layer of the newest run here." },
	{ "moescope routing a.mscope --layer 2", "Layer 2, expert by expert." },
	{ "moescope routing a.mscope --steps 200: --sort cv_excess",
	  "From step 200 on, worst layers first." },
	{ NULL, NULL },
};

const struct command cmd_routing = {
	.name = "routing",
	.summary = "where the router sent the tokens, layer by layer",
	.description = "One row for each MoE layer and phase: how evenly the experts are used, "
		       "beside what chance alone would show, and how many of them are dead, "
		       "starved or overloaded. With --layer, every expert of that layer. Without "
		       "RUN it is the newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	TABLE_COMMAND,
};
