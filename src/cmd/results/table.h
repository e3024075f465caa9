/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands that show tables have in common: the options, and loading runs and rendering one view
 * of each. The commands of single tables are made of their sections.
 */
#ifndef CMD_TABLE_H
#define CMD_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/options/command.h"
#include "cmd/options/options.h"
#include "subjects/answers/question.h"
#include "surfaces/views/views.h"

/* The values of every table command. */
struct table_values {
	bool json, csv, markdown, dashboard;
	int64_t limit; /* -1: the view's own in text, all in JSON and CSV */
	const char *sort;
	uint64_t width;		   /* 0: the terminal's */
	int color;		   /* index into auto, always, never */
	struct question question;  /* parameters of subjects write into it */
	int table;		   /* of the section's tables */
	bool second_table;	   /* the same, where there are two */
	const char *csv_directory; /* of report; NULL: none */
};
#define TABLE_DEFAULTS                                                                             \
	{                                                                                          \
		.limit = -1, .question = QUESTION_ALL                                              \
	}

extern const struct option_desc table_format_options[]; /* --json … --color: every command */
extern const struct option_desc table_row_options[];	/* --csv, --sort, --limit: one table */
extern const struct option_desc table_page_options[];	/* --markdown: what has a page */
extern struct option_desc table_step_options[];		/* --steps; table_commands_make fills it */

/* Makes the commands of sections and the options of parameters, once, before anything looks at them; for
 * good. 0 or -ENOMEM. */
int table_commands_make(void);
/* In the order of the overview; NULL at the end. */
const struct command *table_command(size_t number);

extern const struct table_values table_defaults;

/* Colour, width and character set by the options and the terminal. */
struct view_options table_view_options(const struct table_values *values);

/* A usage error if two forms are asked for. */
int table_check_forms(const struct invocation *inv, const struct table_values *values);

/* Renders one view of the run inv->args names. */
int table_show(struct invocation *inv, const char *view_name, size_t text_limit);

#endif
