/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command is: its name, its options in tables, its examples and its function. Parsing,
 * --help, completion and the manual's check all derive from these tables. One file a command,
 * one line in commands.c.
 */
#ifndef CMD_COMMAND_H
#define CMD_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Exit statuses of moescope itself; `run` and `demo` pass on the program's. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* What a shell should offer for a value or an argument. */
enum completion {
	COMPLETE_NOTHING,
	COMPLETE_RUN, /* run directories */
	COMPLETE_FILE,
	COMPLETE_DIR,
	COMPLETE_PROGRAM, /* a command with its arguments */
	COMPLETE_METRIC,
	COMPLETE_COMMAND,
	COMPLETE_SHELL,
};

enum option_kind {
	OPTION_FLAG,	  /* bool */
	OPTION_STRING,	  /* const char * */
	OPTION_STRINGS,	  /* struct string_list: the option may be given several times */
	OPTION_CHOICE,	  /* int: index into choices */
	OPTION_INT,	  /* int64_t in [min, max] */
	OPTION_UINT,	  /* uint64_t in [min, max] */
	OPTION_DOUBLE,	  /* double in [min, max] */
	OPTION_WINDOW,	  /* struct step_window: "A", "A:B", "A:", ":B" */
	OPTION_NUMBERS,	  /* struct number_list: "X,X,..." in [min, max] */
	OPTION_PARAMETER, /* struct parameter_words: a parameter of an experiment, by its name */
};

struct option_desc {
	const char *name;
	char short_name; /* 0: none */
	enum option_kind kind;
	const char *metavar; /* NULL for flags */
	const char *help;
	const char *default_text;   /* NULL: none to show */
	const char *const *choices; /* NULL-terminated; OPTION_CHOICE */
	double min, max;
	size_t offset; /* of the destination in the group's structure */
	enum completion completion;
};

/* Options shared by commands live in their own structure, `base` bytes into the command's. */
struct option_group {
	const struct option_desc *options; /* ends with a NULL name */
	size_t base;
};

struct example {
	const char *line;
	const char *what;
};

/* What one wants when one types a command; the overview, the manual and completion are grouped by it,
 * in this order. */
enum purpose {
	PURPOSE_RECORD = 1, /* 0: forgotten, and the command is nowhere to be seen */
	PURPOSE_LOOK,
	PURPOSE_COMPARE,
	PURPOSE_EXPORT,
	PURPOSE_EXPERIMENT,
	PURPOSE_HELP,
	PURPOSES,
};

struct invocation;

struct command {
	const char *name;
	enum purpose purpose;
	const char *summary;		   /* one line, no full stop */
	const char *words;		   /* the arguments in the usage line */
	const char *description;	   /* a paragraph or more */
	const struct option_group *groups; /* ends with NULL options; NULL: no options */
	const struct example *examples;	   /* ends with a NULL line */
	const void *defaults;		   /* initial values; NULL: all zero */
	size_t values_size;
	int max_args; /* -1: any number */
	int min_args;
	bool args_end_options;	/* the first argument ends the options */
	bool args_after_dashes; /* arguments are allowed after "--" only */
	enum completion completion;
	int (*run)(struct invocation *inv);
};

/* One call of a command. */
struct invocation {
	const struct command *command;
	void *values;
	char **args;
	int n_args;
	struct out *out;
};

/* Ends with a NULL name. */
extern const struct command *const commands[];
extern const char *const purpose_titles[PURPOSES];

const struct command *command_find(const char *name);
const char *command_nearest(const char *name);

extern const struct command cmd_demo;
extern const struct command cmd_run;
extern const struct command cmd_bench;
extern const struct command cmd_report;
extern const struct command cmd_kernels;
extern const struct command cmd_ops;
extern const struct command cmd_api;
extern const struct command cmd_steps;
extern const struct command cmd_sweep;
extern const struct command cmd_routing;
extern const struct command cmd_transfers;
extern const struct command cmd_comm;
extern const struct command cmd_moe;
extern const struct command cmd_counters;
extern const struct command cmd_memory;
extern const struct command cmd_efficiency;
extern const struct command cmd_compare;
extern const struct command cmd_summary;
extern const struct command cmd_plot;
extern const struct command cmd_import;
extern const struct command cmd_export;
extern const struct command cmd_sql;
extern const struct command cmd_explain;
extern const struct command cmd_smi;
extern const struct command cmd_doctor;
extern const struct command cmd_dump;
extern const struct command cmd_completion;
extern const struct command cmd_help;

#endif
