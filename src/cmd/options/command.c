/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands by name; see command.h.
 */
#include "cmd/options/command.h"

#include <string.h>

#include "base/text/nearest.h"

const struct command *const *commands;

const char *const purpose_titles[PURPOSES] = {
	[PURPOSE_RECORD] = "record",	     [PURPOSE_LOOK] = "inspect a run",
	[PURPOSE_HOST] = "inspect the host", [PURPOSE_WATCH] = "watch and share",
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
