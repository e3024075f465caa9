/* SPDX-License-Identifier: Apache-2.0
 *
 * How commands speak: results on stdout, gathered in memory so that a failure half-way leaves
 * nothing half-printed and the errno of a failed write is known; sentences on stderr.
 */
#ifndef CMD_OUTPUT_H
#define CMD_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct command;

struct out {
	FILE *file; /* write here */
	char *text;
	size_t size;
	bool failed;
};

int out_open(struct out *out);
/* Writes what has been gathered to stdout. EXIT_OK, or EXIT_FAILED after saying why (a closed
 * pipe says nothing: nobody is listening). */
int out_flush(struct out *out);
int out_close(struct out *out);

/* "moescope: SENTENCE" on stderr. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, with a full stop where the sentence has none; returns EXIT_FAILED, for
 * `return fail(…)`. */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "moescope: SENTENCE See 'moescope COMMAND --help'."; returns EXIT_USAGE. command may be NULL. */
int usage_error(const struct command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Failures go there instead of to stderr, the first one alone; NULL: to stderr again. For a command that runs
 * others and answers for them. */
struct err;
void fail_into(struct err *err);

struct terminal {
	bool stdout_is_terminal, stderr_is_terminal;
	bool cursor; /* stdout is a terminal that can be drawn on */
	bool color;  /* and NO_COLOR is not set */
	bool utf8;
	int columns; /* 80 when unknown */
	int rows;    /* 24 when unknown */
};
struct terminal terminal_look(void);

#endif
