/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that several commands have, as lines for their tables: same name, same words, same limits.
 * What may differ is where the value goes, and what holds without the option.
 */
#ifndef CMD_COMMON_OPTIONS_H
#define CMD_COMMON_OPTIONS_H

#include "cmd/options/command.h"

#define JSON_OPTION(values, member)                                                                \
	{                                                                                          \
		.name = "json", .kind = OPTION_FLAG, .help = "print one JSON object",              \
		.offset = offsetof(values, member)                                                 \
	}

#define CSV_OPTION(values, member)                                                                 \
	{                                                                                          \
		.name = "csv", .kind = OPTION_FLAG,                                                \
		.help = "print the rows as comma-separated values",                                \
		.offset = offsetof(values, member)                                                 \
	}

#define MARKDOWN_OPTION(values, member)                                                            \
	{                                                                                          \
		.name = "markdown", .kind = OPTION_FLAG,                                           \
		.help = "print Markdown, with tables as GitHub shows them",                        \
		.offset = offsetof(values, member)                                                 \
	}

/* int64_t; -1: not given. */
#define LIMIT_OPTION(values, member, without)                                                      \
	{                                                                                          \
		.name = "limit", .short_name = 'n', .kind = OPTION_INT, .metavar = "N",            \
		.max = 1e15, .help = "show at most N rows; 0 shows all", .default_text = without,  \
		.offset = offsetof(values, member)                                                 \
	}

/* uint64_t; 0: not given. */
#define WIDTH_OPTION(values, member, without)                                                      \
	{                                                                                          \
		.name = "width", .kind = OPTION_UINT, .metavar = "COLUMNS", .min = 40,             \
		.max = 1000, .help = "fit the text to this many columns", .default_text = without, \
		.offset = offsetof(values, member)                                                 \
	}

/* Of commands that make a run. */
#define RUN_OUTPUT_OPTION(values, member, word, without)                                           \
	{                                                                                          \
		.name = "output", .short_name = 'o', .kind = OPTION_STRING, .metavar = word,       \
		.help = "the run directory to create", .default_text = without,                    \
		.offset = offsetof(values, member), .completion = COMPLETE_DIR                     \
	}

#define FORCE_OPTION(values, member)                                                               \
	{                                                                                          \
		.name = "force", .short_name = 'f', .kind = OPTION_FLAG,                           \
		.help = "replace the run in DIR if there is one",                                  \
		.offset = offsetof(values, member)                                                 \
	}

#endif
