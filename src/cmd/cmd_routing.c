/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope routing: which experts the tokens went to.
 */
#include "cmd/results/table.h"

static const char *const columns_choices[] = { "layers", "steps", "experts", NULL };
/* In the order of columns_choices. */
static const char *const columns_views[] = { "routing", "routing-steps", "routing-experts" };

static const struct option_desc own[] = {
	{ .name = "columns",
	  .kind = OPTION_CHOICE,
	  .metavar = "WHAT",
	  .choices = columns_choices,
	  .help = "a row for each layer (layers), for each layer and step (steps: FLOPs, k, "
		  "latency, confidence), or for each expert of them (experts: tokens, utilization)",
	  .default_text = "layers",
	  .offset = offsetof(struct table_values, columns) },
	{ .name = "capacity-factor",
	  .kind = OPTION_NUMBERS,
	  .metavar = "X,...",
	  .min = 0.01,
	  .max = 1000,
	  .help = "capacity factors of the drop and padding estimates, up to eight",
	  .default_text = "1.25",
	  .offset = offsetof(struct table_values, capacity_factors) },
	{ .name = "tile-rows",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = 65536,
	  .help = "tile height of the grouped-GEMM waste estimate",
	  .default_text = "64",
	  .offset = offsetof(struct table_values, tile_rows) },
	{ .name = "step",
	  .kind = OPTION_WINDOW,
	  .metavar = "A:B",
	  .help = "the same as --steps",
	  .offset = offsetof(struct table_values, steps) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, TABLE_OPTION_GROUPS };

static const struct example examples[] = {
	{ "moescope routing", "Every layer of the newest run here." },
	{ "moescope routing a.mscope --layer 2", "Layer 2, expert by expert." },
	{ "moescope routing a.mscope --steps 200: --sort cv_excess",
	  "From step 200 on, worst layers first." },
	{ "moescope routing a.mscope --layer 2 --capacity-factor 1,1.25,1.5,2",
	  "What four capacities would drop and leave empty." },
	{ "moescope routing a.mscope --columns steps --csv",
	  "A row for each layer and step, for a spreadsheet." },
	{ NULL, NULL },
};

static int run_routing(struct invocation *inv)
{
	const struct table_values *values = inv->values;

	return table_show(inv, columns_views[values->columns], 20);
}

const struct command cmd_routing = {
	.name = "routing",
	.purpose = PURPOSE_LOOK,
	.summary = "where the router sent the tokens, layer by layer",
	.description = "One row for each MoE layer and phase: how evenly the experts are used, "
		       "beside what chance alone would show, and how many of them are dead, "
		       "starved or overloaded. With --layer, every expert of that layer, and which "
		       "experts tokens visit together and one after the other. Without RUN it is "
		       "the newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	.words = "[RUN]",
	.defaults = &table_defaults,
	.values_size = sizeof(struct table_values),
	.max_args = 1,
	.completion = COMPLETE_RUN,
	.run = run_routing,
};
