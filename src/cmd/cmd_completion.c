/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope completion: scripts for bash, zsh and fish, made from the tables of all commands.
 */
#include <string.h>

#include "cmd/options/command.h"
#include "cmd/completion.h"
#include "cmd/definitions/metrics.h"
#include "base/text/nearest.h"
#include "cmd/options/options.h"
#include "cmd/terminal/output.h"

static const struct {
	const char *name;
	void (*write)(FILE *out);
} shells[] = {
	{ "bash", completion_bash },
	{ "zsh", completion_zsh },
	{ "fish", completion_fish },
};
enum { N_SHELLS = sizeof(shells) / sizeof(*shells) };

static const struct example examples[] = {
	{ "source <(moescope completion bash)", "Completion in this bash." },
	{ "moescope completion zsh > ~/.zfunc/_moescope",
	  "For zsh, with ~/.zfunc in fpath before compinit." },
	{ "moescope completion fish > ~/.config/fish/completions/moescope.fish", "For fish." },
	{ NULL, NULL },
};

void completion_words(FILE *out, enum completion completion)
{
	if (completion == COMPLETE_METRIC) {
		for (const struct metric *m = metrics; m->name; m++)
			fprintf(out, "%s%s", m == metrics ? "" : " ", m->name);
	} else if (completion == COMPLETE_COMMAND) {
		for (size_t i = 0; commands[i]; i++)
			fprintf(out, "%s%s", i ? " " : "", commands[i]->name);
	} else if (completion == COMPLETE_SHELL) {
		for (size_t i = 0; i < N_SHELLS; i++)
			fprintf(out, "%s%s", i ? " " : "", shells[i].name);
	}
}

static int run_completion(struct invocation *inv)
{
	struct nearest nearest = nearest_to(inv->args[0]);

	for (size_t i = 0; i < N_SHELLS; i++) {
		if (strcmp(shells[i].name, inv->args[0]) == 0) {
			shells[i].write(inv->out->file);
			return EXIT_OK;
		}
		nearest_offer(&nearest, shells[i].name);
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
	.description = "Prints a script that teaches the shell to complete moescope's commands, "
		       "options, their values and run directories.",
	.examples = examples,
	.max_args = 1,
	.min_args = 1,
	.completion = COMPLETE_SHELL,
	.run = run_completion,
};
