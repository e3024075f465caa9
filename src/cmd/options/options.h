/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing a command's arguments by its option tables, and showing those tables as help.
 */
#ifndef CMD_OPTIONS_H
#define CMD_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "cmd/options/command.h"

#define NUMBERS_MAX 8 /* of OPTION_NUMBERS */

#define STRINGS_MAX 64
struct string_list {
	const char *v[STRINGS_MAX];
	unsigned int n;
};

/* Parameters in the order they were given; they come into force after the configuration file. */
#define PARAMETER_WORDS_MAX 256
struct parameter_words {
	struct {
		const struct option_desc *option;
		const char *text; /* "" for one without a value */
	} v[PARAMETER_WORDS_MAX];
	unsigned int n;
};

enum parse_result { PARSE_OK, PARSE_HELP, PARSE_WRONG };

/* Fills inv->values by the tables and inv->args (in place of argv, which it reorders). Says what
 * is wrong itself. argv: the words after the command's name. */
enum parse_result options_parse(struct invocation *inv, int argc, char **argv);

/* Walks over all options of a command: *group and *index start at 0; NULL at the end. */
const struct option_desc *option_next(const struct command *command, size_t *group, size_t *index);

static inline bool option_takes_value(const struct option_desc *option)
{
	return option->metavar;
}

void help_command(const struct command *command, FILE *out);
void help_overview(FILE *out);

#endif
