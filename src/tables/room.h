/* SPDX-License-Identifier: Apache-2.0
 *
 * The arrays of a run's tables: finding and growing them. One thread, but for room_rows, room_slot
 * and room_is_zero, which only look.
 *
 * Arrays of room_is_zero hold zeros behind the rows of the table, so that zeros need not be written.
 */
#ifndef TABLES_ROOM_H
#define TABLES_ROOM_H

#include "tables/load.h"

static inline bool column_is_list(const struct column_desc *column)
{
	return column->count_column >= 0;
}

size_t *room_rows(struct run *run, unsigned int kind);
/* The index-th pointer of a table: 1 the shards, from 2 on one a column, two a list (values,
 * first). */
void *room_slot(struct run *run, unsigned int kind, unsigned int index);
bool room_wanted(const struct run *run, unsigned int kind, unsigned int column);

/* Room for `need` rows in every wanted column of a kind. */
int room_reserve(struct run *run, unsigned int kind, size_t need);
/* Room for `need` values of a list. */
int room_values(void *array_slot, size_t used, size_t need, size_t size, size_t *capacity);
/* Whether an array of a kind with elements of that size is zero behind its rows. */
bool room_is_zero(const struct run *run, unsigned int kind, size_t size);

/* Moves or clears n rows of a kind, lists apart. */
void room_move(struct run *run, unsigned int kind, size_t to, size_t from, size_t n);
void room_clear(struct run *run, unsigned int kind, size_t first, size_t n);

/* Bytes of the rows of a kind, and of one of them with its lists on average. */
size_t room_bytes(struct run *run, unsigned int kind, double *ret_row_bytes);
/* The array of a column with one element a row; NULL: not wanted. */
void *room_column(struct run *run, unsigned int kind, unsigned int column);
/* Keeps the rows that are marked, in their order, with their lists. */
void room_keep(struct run *run, unsigned int kind, const bool *keep);

/* Gives the arrays of a kind back, which has no rows then. */
void room_drop(struct run *run, unsigned int kind);
void room_free(struct run *run);

#endif
