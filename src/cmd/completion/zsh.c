/* SPDX-License-Identifier: Apache-2.0
 *
 * The zsh completion script.
 */
#include "cmd/completion/completion.h"
#include "cmd/options/options.h"

/* Inside '…[…]' of _arguments: quotes end the word, brackets and colons have a meaning. */
static void described(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

static void value(FILE *out, const struct option_desc *option)
{
	if (!option_takes_value(option))
		return;
	fputc(':', out);
	described(out, option->metavar);
	fputc(':', out);
	if (option->choices) {
		fputc('(', out);
		for (size_t i = 0; option->choices[i]; i++)
			fprintf(out, "%s%s", i ? " " : "", option->choices[i]);
		fputc(')', out);
	} else if (option->completion == COMPLETE_FILE) {
		fputs("_files", out);
	} else if (option->completion == COMPLETE_DIR || option->completion == COMPLETE_RUN) {
		fputs("_files -/", out);
	} else {
		fputc(' ', out);
	}
}

static void option_spec(FILE *out, const struct option_desc *option)
{
	const char *equals = option_takes_value(option) ? "=" : "";

	if (option->short_name)
		fprintf(out, "\t\t\t'(-%c --%s)-%c[", option->short_name, option->name,
			option->short_name);
	else
		fprintf(out, "\t\t\t'--%s%s[", option->name, equals);
	described(out, option->help);
	fputc(']', out);
	value(out, option);
	fputs("' \\\n", out);
	if (!option->short_name)
		return;
	fprintf(out, "\t\t\t'(-%c --%s)--%s%s[", option->short_name, option->name, option->name,
		equals);
	described(out, option->help);
	fputc(']', out);
	value(out, option);
	fputs("' \\\n", out);
}

static void arguments(FILE *out, const struct command *command)
{
	switch (command->completion) {
	case COMPLETE_RUN:
		fputs("\t\t\t'*:run:_files -/ -g \"*.mscope\"' \\\n", out);
		break;
	case COMPLETE_FILE:
		fputs("\t\t\t'*:file:_files' \\\n", out);
		break;
	case COMPLETE_PROGRAM:
		fputs("\t\t\t'(-)1:program:_command_names -e' \\\n"
		      "\t\t\t'*::arguments:_normal' \\\n",
		      out);
		break;
	case COMPLETE_METRIC:
	case COMPLETE_COMMAND:
	case COMPLETE_SHELL:
		fputs("\t\t\t'1:word:(", out);
		completion_words(out, command->completion);
		fputs(")' \\\n", out);
		break;
	case COMPLETE_DIR:
	case COMPLETE_NOTHING:
		break;
	}
}

/* Under its title, where the user's style shows such. */
static void commands_for(FILE *out, enum purpose purpose)
{
	fputs("\t\tcommands=(\n", out);
	for (size_t i = 0; commands[i]; i++) {
		if (commands[i]->purpose != purpose)
			continue;
		fprintf(out, "\t\t\t'%s:", commands[i]->name);
		described(out, commands[i]->summary);
		fputs("'\n", out);
	}
	fprintf(out, "\t\t)\n\t\t_describe -t commands-%d '%s' commands && none=0\n", purpose,
		purpose_titles[purpose]);
}

void completion_zsh(FILE *out)
{
	fputs("#compdef moescope\n"
	      "# zsh completion for moescope; install it as _moescope in a directory of fpath\n"
	      "_moescope()\n"
	      "{\n"
	      "\tif ((CURRENT == 2)); then\n"
	      "\t\tlocal -a commands\n"
	      "\t\tlocal none=1\n",
	      out);
	for (enum purpose purpose = PURPOSE_RECORD; purpose < PURPOSES; purpose++)
		commands_for(out, purpose);
	fputs("\t\treturn none\n"
	      "\tfi\n"
	      "\tlocal command=$words[2]\n"
	      "\tshift words\n"
	      "\t((CURRENT--))\n"
	      "\tcase $command in\n",
	      out);
	for (size_t i = 0; commands[i]; i++) {
		const struct option_desc *option;
		size_t group = 0, index = 0;

		fprintf(out, "\t%s)\n\t\t_arguments -s \\\n", commands[i]->name);
		while ((option = option_next(commands[i], &group, &index)))
			option_spec(out, option);
		arguments(out, commands[i]);
		fputs("\t\t\t'(-h --help)'{-h,--help}'[show the help]'\n\t\t;;\n", out);
	}
	fputs("\tesac\n"
	      "}\n"
	      "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
	      "\t_moescope \"$@\"\n"
	      "else\n"
	      "\tcompdef _moescope moescope\n"
	      "fi\n",
	      out);
}
