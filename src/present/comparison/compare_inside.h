/* SPDX-License-Identifier: Apache-2.0
 *
 * What the text and the data of a comparison share.
 */
#ifndef PRESENT_COMPARE_INSIDE_H
#define PRESENT_COMPARE_INSIDE_H

#include "present/comparison/compare.h"
#include "present/frame/grid.h"

/* The rows of one table of a pair, in the order asked for; items are struct compare_row. */
int compare_grid_rows(const struct compare_scene *scene, const struct compare_pair *pair,
		      enum compare_table table, struct grid *ret_grid, struct err *err);

int compare_text(const struct compare_scene *scene, FILE *out, struct err *err);
/* Its beginning and its end. */
int compare_text_head(const struct compare_scene *scene, FILE *out);
void compare_text_notes(const struct compare_scene *scene, FILE *out);
const char *compare_result_name(enum condition_result result);

/* Pieces of the text. */
extern const enum field_unit compare_grid_units[]; /* by enum figure_unit */
int compare_width(const struct compare_scene *scene);
/* "metric[of]" */
void compare_name(char *out, size_t size, const struct compare_figure *f);
void compare_pct_text(char *out, size_t size, struct value pct);
void compare_value_cell(struct text_table *table, struct value value, enum field_unit unit);
enum text_style compare_verdict_style(enum compare_verdict verdict);
/* Releases the table; NULL is -ENOMEM. */
int compare_print(const struct compare_scene *scene, struct text_table *table, FILE *out);

/* A metric with more rows than this, layers mostly, shows only those that differ. */
#define COMPARE_FAMILY_ROWS 8
/* One past the last figure of the metric of pair->figures[first]. */
size_t compare_family_end(const struct compare_pair *pair, size_t first);

#endif
