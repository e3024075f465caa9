/* SPDX-License-Identifier: Apache-2.0
 *
 * Help texts, made from the tables. Pure functions onto a stream.
 */
#include "cmd/options/options.h"

#include <string.h>

enum { HELP_INDENT = 26, HELP_WIDTH = 80 };

/* Wraps text at HELP_WIDTH; the cursor is at column `column` and every further line starts at
 * `indent`. A newline in the text ends a paragraph. */
static void wrapped(FILE *out, const char *text, int column, int indent)
{
	while (*text) {
		size_t word = strcspn(text, " \n");

		if (column > indent && column + 1 + (int)word > HELP_WIDTH) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			fputc(' ', out);
			column++;
		}
		fprintf(out, "%.*s", (int)word, text);
		column += (int)word;
		text += word;
		if (*text == '\n') {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		}
		if (*text)
			text++;
	}
	fputc('\n', out);
}

static void help_option(FILE *out, const struct option_desc *option)
{
	char text[1024];
	char head[64];
	int n;

	if (option->short_name)
		n = snprintf(head, sizeof(head), "  -%c, --%s", option->short_name, option->name);
	else
		n = snprintf(head, sizeof(head), "      --%s", option->name);
	if (option->metavar)
		n += snprintf(head + n, sizeof(head) - (size_t)n, " %s", option->metavar);
	fputs(head, out);
	if (n + 2 > HELP_INDENT)
		fprintf(out, "\n%*s", HELP_INDENT, "");
	else
		fprintf(out, "%*s", HELP_INDENT - n, "");
	if (option->default_text)
		snprintf(text, sizeof(text), "%s (default: %s)", option->help,
			 option->default_text);
	else
		snprintf(text, sizeof(text), "%s", option->help);
	wrapped(out, text, HELP_INDENT, HELP_INDENT);
}

void help_command(const struct command *command, FILE *out)
{
	static const struct option_desc help = { .name = "help",
						 .short_name = 'h',
						 .help = "show this text" };
	const struct option_desc *option;
	size_t group = 0, index = 0;

	fprintf(out, "usage: moescope %s [OPTION]...%s%s\n\n", command->name,
		*command->words ? " " : "", command->words);
	wrapped(out, command->description, 0, 0);
	fputs("\noptions:\n", out);
	while ((option = option_next(command, &group, &index)))
		help_option(out, option);
	help_option(out, &help);
	fputs("\nexamples:\n", out);
	for (const struct example *e = command->examples; e->line; e++) {
		fprintf(out, "  %s\n      ", e->line);
		wrapped(out, e->what, 6, 6);
	}
}

void help_overview(FILE *out)
{
	fputs("usage: moescope COMMAND [OPTION]... [ARGUMENT]...\n\n"
	      "A profiler for mixture-of-experts and other language models: where the time\n"
	      "and the memory went, which experts the tokens went to, and what would make it\n"
	      "faster.\n",
	      out);
	for (enum purpose purpose = PURPOSE_RECORD; purpose < PURPOSES; purpose++) {
		fprintf(out, "\n%s:\n", purpose_titles[purpose]);
		for (size_t i = 0; commands[i]; i++)
			if (commands[i]->purpose == purpose)
				fprintf(out, "  %-12s%s\n", commands[i]->name,
					commands[i]->summary);
	}
	fputs("\noptions:\n"
	      "  -h, --help    show this text\n"
	      "      --version show the version\n"
	      "\nnext:\n"
	      "  moescope COMMAND --help    what a command does, with examples\n"
	      "  moescope run -- PROGRAM    record your program; then 'moescope report'\n"
	      "  moescope demo              see it all at work on a small model\n",
	      out);
}
