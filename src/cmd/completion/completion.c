/* SPDX-License-Identifier: Apache-2.0
 *
 * The shells, and the words that all of them offer; see completion.h.
 */
#include "cmd/completion/completion.h"

#include "cmd/definitions/metrics.h"

const struct completion_shell completion_shells[] = {
	{ "bash", completion_bash },
	{ "zsh", completion_zsh },
	{ "fish", completion_fish },
	{ NULL, NULL },
};

void completion_words(FILE *out, enum completion completion)
{
	if (completion == COMPLETE_METRIC) {
		for (const struct metric_group *const *g = metric_groups; *g; g++)
			for (size_t i = 0; i < (*g)->n; i++)
				fprintf(out, "%s%s", g == metric_groups && !i ? "" : " ",
					(*g)->metrics[i].name);
	} else if (completion == COMPLETE_COMMAND) {
		for (size_t i = 0; commands[i]; i++)
			fprintf(out, "%s%s", i ? " " : "", commands[i]->name);
	} else if (completion == COMPLETE_SHELL) {
		for (size_t i = 0; completion_shells[i].name; i++)
			fprintf(out, "%s%s", i ? " " : "", completion_shells[i].name);
	}
}
