/* SPDX-License-Identifier: Apache-2.0
 *
 * What the table commands (report, kernels, ops, api, steps, routing,
 * transfers, memory) have in common: the options, and loading runs and
 * rendering one view of each.
 */
#ifndef CMD_TABLE_H
#define CMD_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/options/command.h"
#include "cmd/options/options.h"
#include "present/frame/present.h"

/* The values of every table command. */
struct table_values {
	bool json, csv, by_shape, by_stack, dashboard;
	int64_t limit; /* -1: the view's own in text, all in JSON and CSV */
	const char *sort;
	uint64_t width; /* 0: the terminal's */
	int color;	/* index into auto, always, never */
	int64_t layer;
	int phase; /* 0: all, else enum moescope_phase */
	struct step_window steps;
	struct number_list capacity_factors;
	uint64_t tile_rows;
	int kernels_by;		   /* enum kernels_by */
	int columns;		   /* of routing: layers, steps, experts */
	const char *classes;	   /* file; NULL: none */
	const char *csv_directory; /* of report; NULL: none */
};
#define TABLE_DEFAULTS                                                                             \
	{                                                                                          \
		.limit = -1, .layer = -1, .steps = STEP_WINDOW_ALL                                 \
	}

extern const struct option_desc table_format_options[]; /* --json … --color: every command */
extern const struct option_desc table_row_options[];	/* --csv, --sort, --limit: one table */
extern const struct option_desc table_step_options[];	/* --steps */
extern const struct option_desc table_place_options[];	/* --layer, --phase */

/* The options of a table with places, steps and rows, behind a command's own ones. */
#define TABLE_OPTION_GROUPS                                                                        \
	{ table_place_options, 0 }, { table_step_options, 0 }, { table_row_options, 0 },           \
		{ table_format_options, 0 },                                                       \
	{                                                                                          \
		NULL, 0                                                                            \
	}

/* What every table command of one run has in common; its view has the command's name. */
extern const struct table_values table_defaults;
int table_run(struct invocation *inv);
#define TABLE_COMMAND                                                                              \
	.words = "[RUN]", .defaults = &table_defaults, .values_size = sizeof(struct table_values), \
	.max_args = 1, .completion = COMPLETE_RUN, .run = table_run

/* Colour, width and character set by the options and the terminal. */
struct present_options table_present_options(const struct table_values *values);

/* Renders one view of the run inv->args names. */
int table_show(struct invocation *inv, const char *view_name, size_t text_limit);

#endif
