/* SPDX-License-Identifier: Apache-2.0
 *
 * The fish completion script.
 */
#include "cmd/completion/completion.h"
#include "cmd/options/options.h"

/* In single quotes fish takes everything but \ and ' as it is. */
static void quoted(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('\'', out);
}

static void begin(FILE *out, const struct command *command)
{
	fprintf(out, "complete -c moescope -n '__fish_seen_subcommand_from %s'", command->name);
}

static void value(FILE *out, const struct option_desc *option)
{
	if (!option_takes_value(option))
		return;
	if (option->choices) {
		fputs(" -x -a '", out);
		for (size_t i = 0; option->choices[i]; i++)
			fprintf(out, "%s%s", i ? " " : "", option->choices[i]);
		fputc('\'', out);
	} else if (option->completion == COMPLETE_FILE) {
		fputs(" -r -F", out);
	} else if (option->completion == COMPLETE_DIR || option->completion == COMPLETE_RUN) {
		fputs(" -x -a '(__fish_complete_directories)'", out);
	} else {
		fputs(" -x", out);
	}
}

static void arguments(FILE *out, const struct command *command)
{
	switch (command->completion) {
	case COMPLETE_RUN:
		begin(out, command);
		fputs(" -x -a '(__moescope_runs)'\n", out);
		break;
	case COMPLETE_FILE:
		begin(out, command);
		fputs(" -F\n", out);
		break;
	case COMPLETE_PROGRAM:
		begin(out, command);
		fputs(" -x -a '(__fish_complete_subcommand --fcs-skip=2)'\n", out);
		break;
	case COMPLETE_METRIC:
	case COMPLETE_COMMAND:
	case COMPLETE_SHELL:
		begin(out, command);
		fputs(" -x -a '", out);
		completion_words(out, command->completion);
		fputs("'\n", out);
		break;
	case COMPLETE_DIR:
	case COMPLETE_NOTHING:
		break;
	}
}

void completion_fish(FILE *out)
{
	fputs("# fish completion for moescope; install it as\n"
	      "# ~/.config/fish/completions/moescope.fish\n"
	      "function __moescope_runs\n"
	      "\t__fish_complete_directories (commandline -ct) run |\n"
	      "\t\tstring match -r '.*\\.mscope/.*'\n"
	      "\tor __fish_complete_directories (commandline -ct)\n"
	      "end\n"
	      "complete -c moescope -f\n"
	      "complete -c moescope -n __fish_use_subcommand -l help -s h -d 'show the commands'\n"
	      "complete -c moescope -n __fish_use_subcommand -l version -d 'show the version'\n",
	      out);
	for (size_t i = 0; commands[i]; i++) {
		const struct option_desc *option;
		size_t group = 0, index = 0;

		fprintf(out, "complete -c moescope -n __fish_use_subcommand -a %s -d ",
			commands[i]->name);
		quoted(out, commands[i]->summary);
		fputc('\n', out);
		while ((option = option_next(commands[i], &group, &index))) {
			begin(out, commands[i]);
			fprintf(out, " -l %s", option->name);
			if (option->short_name)
				fprintf(out, " -s %c", option->short_name);
			value(out, option);
			fputs(" -d ", out);
			quoted(out, option->help);
			fputc('\n', out);
		}
		begin(out, commands[i]);
		fputs(" -l help -s h -d 'show the help'\n", out);
		arguments(out, commands[i]);
	}
}
