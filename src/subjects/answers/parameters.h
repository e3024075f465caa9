/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters: the members of a question that people may set, each described once, with its words and limits.
 * The command line makes options of them; whoever else lets people ask finds here what there is to ask.
 */
#ifndef SUBJECTS_PARAMETERS_H
#define SUBJECTS_PARAMETERS_H

#include <stddef.h>

#include "base/err.h"
#include "subjects/answers/question.h"

/* What a parameter is, and its type in struct question. */
enum ask_kind {
	ASK_FLAG,   /* bool */
	ASK_NUMBER, /* int or unsigned int, in [min, max] */
	ASK_NUMBERS, /* double[QUESTION_FACTORS_MAX], each in [min, max], and then how many: unsigned int */
	ASK_CHOICE, /* int: that of `values`, or the number of the choice */
	ASK_MOMENT, /* struct given_moment, since the start of the run */
	ASK_STEPS,  /* two of int64_t: the first and the last step, inclusive */
	ASK_FILE,   /* const char *: its path */
	ASK_NAME,   /* const char *: of something in the run */
	ASK_TABLE, /* none: one of the tables of the section; without choices, a flag: its second */
};

struct question_parameter {
	const char *name;
	char letter; /* 0: none */
	enum ask_kind kind;
	const char *metavar;	    /* the word for its value; NULL for flags */
	const char *help;	    /* no full stop */
	const char *default_text;   /* NULL: none to show */
	const char *const *choices; /* up to NULL */
	const int *values;	    /* of the choices; NULL: their numbers */
	double min, max;
	size_t offset; /* in struct question */
};

/* A list of them, outside functions: sections point to it. */
#define PARAMETERS(...) ((const struct question_parameter *const[]){ __VA_ARGS__, NULL })

/* Writes a value, given as text, into the question: a flag as "" or "1", numbers as "X,X", steps as "A",
 * "A:B", "A:" or ":B", a moment as "1.5s". Text that becomes a part of the question outlives it. 0 or -EINVAL with a sentence. */
int parameter_set(const struct question_parameter *parameter, const char *text,
		  struct question *question, struct err *err);

/* Those that many subjects have. */
extern const struct question_parameter ask_layer, ask_phase, ask_steps, ask_range;
#define ASK_PLACE &ask_layer, &ask_phase, &ask_steps

#endif
