/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of commands: those of COMMANDS, and the tables of subjects among them. Main thread, once.
 */
#include <errno.h>
#include <stdlib.h>

#include "cmd/results/table.h"

/* NULL: the tables stand here. */
#define TABLES NULL,
static const struct command *const listed[] = {
#define COMMAND(name) &cmd_##name,
	COMMANDS(COMMAND, TABLES)
#undef COMMAND
};

int commands_make(void)
{
	size_t n_listed = sizeof(listed) / sizeof(listed[0]), n = 0, k = 0;
	const struct command **all;
	int r = table_commands_make();

	if (r < 0)
		return r;
	while (table_command(k))
		k++;
	/* The place of the tables becomes the end. */
	all = calloc(n_listed + k, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < n_listed; i++)
		if (listed[i])
			all[n++] = listed[i];
		else
			for (k = 0; table_command(k); k++)
				all[n++] = table_command(k);
	commands = all;
	return 0;
}
