/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of commands, in the order of the overview.
 */
#include "cmd/options/command.h"

#include <string.h>

#include "base/text/nearest.h"

/* clang-format off */
const struct command *const commands[] = {
	&cmd_run,
	&cmd_demo,
	&cmd_import,
	&cmd_report,
	&cmd_steps,
	&cmd_kernels,
	&cmd_ops,
	&cmd_api,
	&cmd_routing,
	&cmd_moe,
	&cmd_transfers,
	&cmd_comm,
	&cmd_counters,
	&cmd_memory,
	&cmd_efficiency,
	&cmd_compare,
	&cmd_summary,
	&cmd_plot,
	&cmd_sql,
	&cmd_export,
	&cmd_smi,
	&cmd_bench,
	&cmd_sweep,
	&cmd_explain,
	&cmd_doctor,
	&cmd_dump,
	&cmd_completion,
	&cmd_help,
	NULL,
};
/* clang-format on */

const char *const purpose_titles[PURPOSES] = {
	[PURPOSE_RECORD] = "record",	     [PURPOSE_LOOK] = "look at a run",
	[PURPOSE_COMPARE] = "compare",	     [PURPOSE_EXPORT] = "draw, query, export",
	[PURPOSE_EXPERIMENT] = "experiment", [PURPOSE_HELP] = "help",
};

const struct command *command_find(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

const char *command_nearest(const char *name)
{
	struct nearest nearest = nearest_to(name);

	for (size_t i = 0; commands[i]; i++)
		nearest_offer(&nearest, commands[i]->name);
	return nearest.best;
}
