/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and columns of a view, once, for text, JSON and CSV: a column has a key (with its unit,
 * as in JSON), a cell a value or the reason why there is none.
 */
#ifndef PRESENT_GRID_H
#define PRESENT_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/text/json_write.h"
#include "base/text/text_table.h"
#include "subjects/shared/fields.h"

struct grid_column {
	const char *key;
	const char *title; /* in text; NULL: not shown there */
	enum field_unit unit;
	bool flexible;
	bool data_only_when_set; /* left out of JSON and CSV when absent (asked-for columns) */
};

#define GRID_COLUMNS_MAX 64

struct grid_row {
	struct cell *cells;
	const void *item; /* what the row is about */
};

struct grid {
	const struct grid_column *columns;
	size_t n_columns;
	struct grid_column *own_columns; /* made from fields */
	const struct field_set *set;	 /* these fields; NULL: none */
	struct field_row from;
	struct grid_row *rows;
	size_t n, capacity;
};

/* The rows of a subject, in the form of `from`, which has the answer. What that points to outlives the
 * grid. 0 or -errno; release the grid in both cases. */
int grid_fill(struct grid *grid, const struct field_set *set, const struct field_row *from);

void grid_init(struct grid *grid, const struct grid_column *columns, size_t n_columns);
void grid_release(struct grid *grid);

/* A new row; its cells in the order of the columns. NULL: no memory. */
struct cell *grid_add(struct grid *grid, const void *item);

/* By the column of that key, numbers from large to small, texts from a to z, absent last; rows
 * that are equal keep their order. NULL: no change. -EINVAL with a sentence that lists the keys. */
int grid_sort(struct grid *grid, const char *key, struct err *err);

/* limit 0: all rows. */
int grid_print(const struct grid *grid, size_t limit, const struct text_layout *layout, FILE *out);
void grid_csv(const struct grid *grid, size_t limit, FILE *out);
/* Cells with commas between them, and a line of them, for rows too many to hold in a grid. */
void grid_csv_cells(const struct cell *cells, size_t n, FILE *out);
void grid_csv_row(const struct cell *cells, size_t n, FILE *out);
/* The rows as an array of objects, with all groups of their fields. */
void grid_json(const struct grid *grid, size_t limit, struct json *json);

/* One cell as a JSON value; absent: null and, after it, "KEY_reason". */
void grid_json_plain(struct json *json, const struct cell *cell); /* its value alone */
void grid_json_cell(struct json *json, const char *key, const struct cell *cell);
void grid_json_value(struct json *json, const char *key, struct value value);

/* A value for people; "n/a" when absent. */
void grid_cell_text(char *out, size_t size, const struct cell *cell, enum field_unit unit);

#endif
