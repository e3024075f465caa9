/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers out: every view of a run as text, Markdown, JSON or CSV. Views never compute; they ask src/subjects. One
 * thread at a time per run.
 */
#ifndef SURFACES_VIEWS_H
#define SURFACES_VIEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "subjects/answers/question.h"
#include "tables/tables.h"

struct view_options {
	bool json, csv, markdown; /* at most one; none: text. csv: the rows of the table */
	bool color, utf8;
	int width;		  /* columns of the terminal, 80 when not a terminal */
	size_t limit;		  /* rows; 0: all */
	const char *sort;	  /* column key, NULL: default */
	struct question question; /* about the run; QUESTION_ALL: all of it */
	const char *
		peaks; /* file of measured peaks (device/sheets/peaks.h); NULL: data sheets alone */
};

/* A view: one table, or a document of several. */
struct section;
/* By its name; NULL: there is no such view. */
const struct section *section_find(const char *name);
/* What a run must be loaded with for a view with these options. */
struct run_want section_want(const struct section *section, const struct view_options *options);
/* In the form that the options say. 0 or -errno with err filled; write errors stay in
 * ferror(out). */
int section_render(const struct section *section, const struct run *run,
		   const struct view_options *options, FILE *out, struct err *err);

#endif
