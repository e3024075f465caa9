/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope completion: scripts for bash, zsh and fish, made from the tables of all commands.
 */
#include <string.h>

#include "cmd/options/command.h"
#include "cmd/completion/completion.h"
#include "base/text/nearest.h"
#include "cmd/options/options.h"
#include "cmd/terminal/output.h"

static const struct example examples[] = {
	{ "source <(moescope completion bash)", "Completion in this bash." },
	{ "moescope completion zsh > ~/.zfunc/_moescope",
	  "For zsh, with ~/.zfunc in fpath before compinit." },
	{ "moescope completion fish > ~/.config/fish/completions/moescope.fish", "For fish." },
	{ NULL, NULL },
};

static int run_completion(struct invocation *inv)
{
	struct nearest nearest = nearest_to(inv->args[0]);

	for (const struct completion_shell *shell = completion_shells; shell->name; shell++) {
		if (strcmp(shell->name, inv->args[0]) == 0) {
			shell->write(inv->out->file);
			return EXIT_OK;
		}
		nearest_offer(&nearest, shell->name);
	}
	if (nearest.best)
		return usage_error(inv->command, "unknown shell '%s'; did you mean '%s'?",
				   inv->args[0], nearest.best);
	return usage_error(inv->command, "unknown shell '%s'; it is one of bash, zsh, fish.",
			   inv->args[0]);
}

const struct command cmd_completion = {
	.name = "completion",
	.purpose = PURPOSE_HELP,
	.summary = "a completion script for bash, zsh or fish",
	.words = "bash|zsh|fish",
	.description = "Prints a script that completes moescope's commands, options, option "
		       "values and run directories in the shell.",
	.examples = examples,
	.max_args = 1,
	.min_args = 1,
	.completion = COMPLETE_SHELL,
	.run = run_completion,
};
