/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command is: its name, its options in tables, its examples and its function. Parsing,
 * --help, completion and the manual's check all derive from these tables. One file a command and one
 * line in COMMANDS; the commands that show one table of a subject are made of its section.
 */
#ifndef CMD_COMMAND_H
#define CMD_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/text/example.h"

/* Exit statuses of moescope itself; `run` and `demo` pass on the program's. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* For the descriptions of commands that take a run. */
#define NEWEST_RUN "RUN defaults to the newest *.mscope in the current directory."

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
	OPTION_CHOICE,	  /* int: that of values, or the index into choices */
	OPTION_SMALL,	  /* int or unsigned int, in [min, max] */
	OPTION_INT,	  /* int64_t in [min, max] */
	OPTION_UINT,	  /* uint64_t in [min, max] */
	OPTION_DOUBLE,	  /* double in [min, max] */
	OPTION_WINDOW,	  /* int64_t[2], first and last: "A", "A:B", "A:", ":B" */
	OPTION_MOMENT,	  /* struct given_moment: "1.5s", "800ms", "20us", "7ns" */
	OPTION_NUMBERS,	  /* double[NUMBERS_MAX], each in [min, max], and how many: "X,X,..." */
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
	const int *values;	    /* of the choices; NULL: their indices */
	double min, max;
	size_t offset; /* of the destination in the group's structure */
	enum completion completion;
};

/* Options shared by commands live in their own structure, `base` bytes into the command's. */
struct option_group {
	const struct option_desc *options; /* ends with a NULL name */
	size_t base;
};

/* What one wants when one types a command; the overview, the manual and completion are grouped by it,
 * in this order. */
enum purpose {
	PURPOSE_RECORD = 1, /* 0: forgotten, and the command is nowhere to be seen */
	PURPOSE_LOOK,
	PURPOSE_HOST,
	PURPOSE_WATCH,
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

/* Up to NULL, in the order of the overview. */
extern const struct command *const *commands;
extern const char *const purpose_titles[PURPOSES];

const struct command *command_find(const char *name);
const char *command_nearest(const char *name);

/* COMMAND(name), in the order of the overview; TABLES: where those of sections stand. */
#define COMMANDS(COMMAND, TABLES)                                                                  \
	COMMAND(run)                                                                               \
	COMMAND(attach)                                                                            \
	COMMAND(detach)                                                                            \
	COMMAND(mark)                                                                              \
	COMMAND(demo)                                                                              \
	COMMAND(import)                                                                            \
	COMMAND(report)                                                                            \
	TABLES                                                                                     \
	COMMAND(top)                                                                               \
	COMMAND(serve)                                                                             \
	COMMAND(mcp)                                                                               \
	COMMAND(compare)                                                                           \
	COMMAND(summary)                                                                           \
	COMMAND(plot)                                                                              \
	COMMAND(sql)                                                                               \
	COMMAND(export)                                                                            \
	COMMAND(smi)                                                                               \
	COMMAND(bench)                                                                             \
	COMMAND(sweep)                                                                             \
	COMMAND(explain)                                                                           \
	COMMAND(doctor)                                                                            \
	COMMAND(dump)                                                                              \
	COMMAND(completion)                                                                        \
	COMMAND(help)

#define COMMAND(name) extern const struct command cmd_##name;
COMMANDS(COMMAND, )
#undef COMMAND

/* Fills `commands`, once, before anything looks at it. 0 or -ENOMEM. */
int commands_make(void);

#endif
