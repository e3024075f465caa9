/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tables SQL and the CSV export show: one of each record kind, made from records.h, its ids
 * resolved, and one of each list. Constant after schema_init; any thread.
 */
#ifndef EXPORTS_SCHEMA_H
#define EXPORTS_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trace/records.h"

enum sql_type { SQL_INTEGER, SQL_REAL, SQL_TEXT };

/* Where a column comes from. */
enum sql_from {
	FROM_RUN,  /* the name of the run */
	FROM_RANK, /* of the process */
	FROM_PID,
	FROM_FIELD, /* a column of the kind, or of the row of the dictionary that it refers to */
	FROM_END,   /* start + duration */
	FROM_STEP,  /* the step around the time, or the step of the place */
	FROM_PATH,  /* of the place: its ranges, outermost first */
	FROM_LAYER, /* of the place */
	FROM_EXPERT,
	FROM_PHASE,
	FROM_NUMBER, /* of an element in its list */
	FROM_VALUE,  /* element of the list of that column */
};

/* What of the thing that a field refers to. */
enum sql_part {
	PART_SELF, /* the number, or the string */
	PART_NAME,
	PART_SHORT_NAME,
	PART_CLASS,
	PART_SYMBOL,
	PART_LAYER,
	PART_EXPERT,
	PART_PHASE,
	PART_USE,
	PART_WAIT,
	PART_GRID_X, /* these as in struct row_launch */
	PART_GRID_Y,
	PART_GRID_Z,
	PART_BLOCK_X,
	PART_BLOCK_Y,
	PART_BLOCK_Z,
	PART_REGISTERS,
	PART_STATIC_SHARED,
	PART_DYNAMIC_SHARED,
};

/* When a number is not known. */
enum sql_absent {
	ABSENT_NEVER,
	ABSENT_ZERO,	 /* 0: not told */
	ABSENT_NEGATIVE, /* -1: none */
	ABSENT_MOST,	 /* the largest of its type: not told */
	ABSENT_UNLESS,	 /* when the column absent_by is 0 */
	ABSENT_BIT_0,	 /* when the bit of the column absent_by is set */
	ABSENT_BIT_1,
};

struct sql_column {
	char name[48];
	uint8_t type;	    /* enum sql_type */
	uint8_t from;	    /* enum sql_from */
	uint8_t field;	    /* index into the kind's columns: FROM_FIELD, FROM_VALUE */
	uint8_t field_type; /* enum column_type of it */
	uint8_t refers;	    /* dictionary of it */
	uint8_t part;	    /* enum sql_part */
	uint8_t absent;	    /* enum sql_absent */
	uint8_t absent_by;  /* index into the kind's columns */
};

#define SQL_COLUMNS_MAX 60 /* of a table; SQLite tells which are used in 64 bits */

struct sql_table {
	char name[32];
	unsigned int kind;
	int list;    /* its rows are the elements of this column's lists; -1: records */
	bool placed; /* its rows have a place in the program by the call that launched them */
	struct sql_column columns[SQL_COLUMNS_MAX];
	size_t n;
};

#define SQL_TABLES_MAX 48
struct schema {
	struct sql_table tables[SQL_TABLES_MAX];
	size_t n;
};

void schema_init(struct schema *schema);
const struct sql_table *schema_find(const struct schema *schema, const char *name);
/* "INTEGER" "REAL" "TEXT" */
const char *sql_type_name(unsigned int type);

/* Bits of the kind's columns that the given columns of the table (bit i: the i-th) are made of, and
 * the other kinds that they are made of: by their place, or when a file is imported. */
uint64_t schema_fields(const struct sql_table *table, uint64_t columns);
uint64_t schema_kinds(const struct sql_table *table, uint64_t columns);

#endif
