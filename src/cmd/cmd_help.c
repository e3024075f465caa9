/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope help: the overview, or a command's --help.
 */
#include "cmd/options/command.h"
#include "cmd/options/options.h"
#include "cmd/terminal/output.h"

static const struct example examples[] = {
	{ "moescope help", "All commands." },
	{ "moescope help run", "The same as 'moescope run --help'." },
	{ NULL, NULL },
};

static int run_help(struct invocation *inv)
{
	const struct command *command;
	const char *nearest;

	if (inv->n_args == 0) {
		help_overview(inv->out->file);
		return EXIT_OK;
	}
	command = command_find(inv->args[0]);
	if (command) {
		help_command(command, inv->out->file);
		return EXIT_OK;
	}
	nearest = command_nearest(inv->args[0]);
	if (nearest)
		return usage_error(NULL, "unknown command '%s'; did you mean '%s'?", inv->args[0],
				   nearest);
	return usage_error(NULL, "unknown command '%s'.", inv->args[0]);
}

const struct command cmd_help = {
	.name = "help",
	.purpose = PURPOSE_HELP,
	.summary = "all commands, or the help of one",
	.words = "[COMMAND]",
	.description = "Lists the commands, or explains one.",
	.examples = examples,
	.max_args = 1,
	.completion = COMPLETE_COMMAND,
	.run = run_help,
};
