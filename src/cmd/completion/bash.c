/* SPDX-License-Identifier: Apache-2.0
 *
 * The bash completion script.
 *
 * One case for the value of an option ("command/--option"), one for the options and one for the
 * arguments of each command. Works without the bash-completion package, and uses it after "--"
 * of a command that takes a program.
 */
#include "cmd/completion/completion.h"
#include "cmd/options/options.h"

static const char prologue[] =
	"# bash completion for moescope; source this, or install it as\n"
	"# /usr/share/bash-completion/completions/moescope\n"
	"_moescope_paths()\n"
	"{\n"
	"\tlocal path\n"
	"\tcompopt -o filenames 2>/dev/null\n"
	"\twhile IFS= read -r path; do\n"
	"\t\tCOMPREPLY+=(\"$path\")\n"
	"\tdone < <(compgen \"$1\" -- \"$2\")\n"
	"}\n"
	"\n"
	"# Run directories first; any directory when there is none, to walk on from there.\n"
	"_moescope_runs()\n"
	"{\n"
	"\tlocal path\n"
	"\tcompopt -o filenames 2>/dev/null\n"
	"\twhile IFS= read -r path; do\n"
	"\t\t[[ $path == *.mscope ]] && COMPREPLY+=(\"$path\")\n"
	"\tdone < <(compgen -d -- \"$1\")\n"
	"\t[[ ${#COMPREPLY[@]} -gt 0 ]] || _moescope_paths -d \"$1\"\n"
	"}\n"
	"\n"
	"_moescope()\n"
	"{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	"\tlocal command=${COMP_WORDS[1]} i\n"
	"\tCOMPREPLY=()\n"
	"\t# bash splits --option=value into three words.\n"
	"\tif [[ $cur == = ]]; then\n"
	"\t\tcur=\n"
	"\telif [[ $prev == = && $COMP_CWORD -ge 2 ]]; then\n"
	"\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
	"\tfi\n";

static void value_completion(FILE *out, const struct option_desc *option)
{
	if (option->choices) {
		fputs("COMPREPLY=($(compgen -W '", out);
		for (size_t i = 0; option->choices[i]; i++)
			fprintf(out, "%s%s", i ? " " : "", option->choices[i]);
		fputs("' -- \"$cur\"))", out);
	} else if (option->completion == COMPLETE_FILE) {
		fputs("_moescope_paths -f \"$cur\"", out);
	} else if (option->completion == COMPLETE_DIR || option->completion == COMPLETE_RUN) {
		fputs("_moescope_paths -d \"$cur\"", out);
	} else {
		fputs(":", out);
	}
	fputs("; return ;;\n", out);
}

static void values_case(FILE *out)
{
	fputs("\tcase $command/$prev in\n", out);
	for (size_t i = 0; commands[i]; i++) {
		const struct option_desc *option;
		size_t group = 0, index = 0;

		while ((option = option_next(commands[i], &group, &index))) {
			if (!option_takes_value(option))
				continue;
			fprintf(out, "\t%s/--%s", commands[i]->name, option->name);
			if (option->short_name)
				fprintf(out, "|%s/-%c", commands[i]->name, option->short_name);
			fputs(") ", out);
			value_completion(out, option);
		}
	}
	fputs("\tesac\n", out);
}

static void options_case(FILE *out)
{
	fputs("\tif [[ $cur == -* ]]; then\n\t\tcase $command in\n", out);
	for (size_t i = 0; commands[i]; i++) {
		const struct option_desc *option;
		size_t group = 0, index = 0;

		fprintf(out, "\t\t%s) COMPREPLY=($(compgen -W '", commands[i]->name);
		while ((option = option_next(commands[i], &group, &index)))
			fprintf(out, "--%s ", option->name);
		fputs("--help' -- \"$cur\")) ;;\n", out);
	}
	fputs("\t\tesac\n\t\treturn\n\tfi\n", out);
}

static void program_case(FILE *out)
{
	fputs("\tcase $command in\n", out);
	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->completion == COMPLETE_PROGRAM)
			fprintf(out,
				"\t%s)\n"
				"\t\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
				"\t\t\t[[ ${COMP_WORDS[i]} == -- ]] || continue\n"
				"\t\t\tif declare -F _command_offset >/dev/null; then\n"
				"\t\t\t\t_command_offset $((i + 1))\n"
				"\t\t\telif ((i + 1 == COMP_CWORD)); then\n"
				"\t\t\t\tCOMPREPLY=($(compgen -c -- \"$cur\"))\n"
				"\t\t\telse\n"
				"\t\t\t\t_moescope_paths -f \"$cur\"\n"
				"\t\t\tfi\n"
				"\t\t\treturn\n"
				"\t\tdone ;;\n",
				commands[i]->name);
	fputs("\tesac\n", out);
}

static void arguments_case(FILE *out)
{
	fputs("\tcase $command in\n", out);
	for (size_t i = 0; commands[i]; i++) {
		switch (commands[i]->completion) {
		case COMPLETE_RUN:
			fprintf(out, "\t%s) _moescope_runs \"$cur\" ;;\n", commands[i]->name);
			break;
		case COMPLETE_FILE:
			fprintf(out, "\t%s) _moescope_paths -f \"$cur\" ;;\n", commands[i]->name);
			break;
		case COMPLETE_METRIC:
		case COMPLETE_COMMAND:
		case COMPLETE_SHELL:
			fprintf(out, "\t%s) COMPREPLY=($(compgen -W '", commands[i]->name);
			completion_words(out, commands[i]->completion);
			fputs("' -- \"$cur\")) ;;\n", out);
			break;
		case COMPLETE_PROGRAM:
			fprintf(out, "\t%s) COMPREPLY=($(compgen -c -- \"$cur\")) ;;\n",
				commands[i]->name);
			break;
		case COMPLETE_DIR:
		case COMPLETE_NOTHING:
			break;
		}
	}
	fputs("\tesac\n", out);
}

void completion_bash(FILE *out)
{
	fputs(prologue, out);
	fputs("\tif ((COMP_CWORD == 1)); then\n\t\tCOMPREPLY=($(compgen -W '", out);
	completion_words(out, COMPLETE_COMMAND);
	fputs(" --help --version' -- \"$cur\"))\n\t\treturn\n\tfi\n", out);
	program_case(out);
	values_case(out);
	options_case(out);
	arguments_case(out);
	fputs("}\ncomplete -F _moescope moescope\n", out);
}
