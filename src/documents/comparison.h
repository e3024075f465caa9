/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison of runs as a sheet: its rows in the order asked for, its fields (schema
 * moescope/compare/1) and its page. Pure, any thread.
 */
#ifndef DOCUMENTS_COMPARISON_H
#define DOCUMENTS_COMPARISON_H

#include "compare/compare_conditions.h"
#include "documents/sheet.h"

/* A condition on one of the pairs. */
struct compare_check {
	const struct condition *condition;
	const struct compare_pair *pair;
	struct judgement judgement;
};

/* A figure of a pair, or a row of one of its tables: the other is NULL. */
struct compared_row {
	const struct compare_pair *pair;
	const struct difference *d;
	const struct compare_figure *figure;
	const struct compare_row *row;
	enum compare_table table; /* of the row */
};

struct compared_table {
	const struct compared_row *rows;
	size_t n;
	size_t left_out; /* beyond the limit */
};

struct compared_pair {
	const struct compare_pair *pair;
	struct compared_table figures, tables[COMPARE_TABLES];
};

/* What the sheet is about; this is read-only once it is made. */
struct compared {
	const struct comparison *comparison;
	const struct compare_check *checks;
	size_t n_checks;
	struct compared_pair *pairs;
	size_t n_pairs;
	struct compared_row *rows; /* of all pairs: first their figures, then their tables */
	size_t n;
};

struct compared_choice {
	size_t limit;	  /* rows of each table but the figures; 0: all */
	const char *sort; /* key of a row, for the same tables; NULL: as they are */
};

/* What it points to outlives it. 0 or -errno with err filled; -EINVAL: sort names no key. */
int compared_make(const struct comparison *comparison, const struct compare_check *checks,
		  size_t n_checks, const struct compared_choice *choice,
		  struct compared *ret_compared, struct err *err);
void compared_release(struct compared *compared);

/* About a struct compared. */
extern const struct sheet comparison_sheet;

/* Its parts, for comparison.c. */
extern const struct field_set compared_table_rows; /* read from a struct compared_table */
extern const struct field_set comparison_fields, comparison_rows;
void comparison_page(const void *about, struct page *page);
/* The end of the page: doubts, how to read the figures, and the conditions. */
void comparison_notes(const struct compared *compared, struct page *page);

#endif
