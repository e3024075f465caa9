/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded runs as tables of schema.h: the value of every cell, and orders of the rows by a column.
 * What has to be computed (places, names for people, orders) is made when it is first asked for and
 * kept. One thread at a time per run.
 */
#ifndef EXPORTS_STORE_H
#define EXPORTS_STORE_H

#include "device/sheets/kernel_class.h"
#include "exports/columns/schema.h"
#include "subjects/pages/grid.h"
#include "subjects/shared/attribution.h"
#include "tables/tables.h"

#define STORE_NO_STEP INT64_MIN

/* A column of a table of a run. */
struct store_column {
	const void *array;	  /* numbers or ids; NULL: not an array, or not loaded */
	uint8_t type;		  /* enum column_type */
	const uint8_t *absent_by; /* of ABSENT_UNLESS and later */
	size_t n_ids;		  /* one past the largest id; 0: not looked at yet */
	uint32_t *order;	  /* rows by value */
	unsigned int asked;	  /* how often rows of a value were looked for */
};

struct store_data {
	const struct sql_table *table;
	size_t n; /* rows; of tables of lists, elements */
	const uint16_t *shard;
	const uint64_t *first; /* of a table of lists */
	size_t parents;
	struct store_column columns[SQL_COLUMNS_MAX];
	/* Of each row, its place. */
	int64_t *step;
	uint32_t *path;
	int32_t *layer, *expert;
	uint8_t *phase;
};

struct store_label {
	char *name, *short_name;
	const char *class;
};

struct store {
	const struct run *run;
	const char *label;			 /* of the run in the column `run` */
	struct store_data *data[SQL_TABLES_MAX]; /* by table of the schema */
	struct store_label *labels;		 /* by string */
	size_t n_labels;
	char **paths; /* by path of the attribution */
	struct kernel_classes *classes;
	struct attribution at;
	bool attributed;
	struct step_index steps;
	bool indexed;
};

/* The run and the label are lent. 0 or -ENOMEM. */
int store_init(struct store *store, const struct run *run, const char *label);
void store_release(struct store *store);

/* A table with the given columns (bit i: the i-th) ready to be read. */
int store_open(struct store *store, const struct schema *schema, const struct sql_table *table,
	       uint64_t columns, struct store_data **ret_data);

/* The row of the kind that an element of a list belongs to; *hint: the last one. */
size_t store_parent(const struct store_data *data, size_t element, size_t *hint);

/* The value of a cell; texts live as long as the store. *parent: hint for tables of lists. Without
 * memory for a name it is absent, and *failed is set. */
struct cell store_cell(struct store *store, const struct store_data *data, size_t column,
		       size_t row, size_t *parent, bool *failed);

/* No kernel is launched with nothing, nor runs without registers: where the file of another profiler
 * does not tell these, they are 0. Of shared memory 0 is a number, unless nothing was told. */
bool store_launch_told(const struct row_launch *launch);

/* Of columns that are ids or small numbers which stand for something else: how many there are, and
 * what one stands for. store_ids is 0 for columns that are plain. */
bool store_is_ids(const struct sql_column *column);
size_t store_ids(struct store_data *data, size_t column);
struct cell store_id_cell(struct store *store, const struct store_data *data, size_t column,
			  size_t id, bool *failed);

/* What a number of a column's array stands for; not of columns whose absence another one tells. */
struct cell store_value_cell(struct store *store, const struct store_data *data, size_t column,
			     int64_t value, bool *failed);

/* Whether store_order can be had of a column. */
bool store_can_order(const struct sql_table *table, size_t column);
/* Rows by the values of a column as SQL compares them, absent ones first; equal ones by number. The
 * order lives as long as the store. 0, -ENOMEM or -EFBIG. */
int store_order(struct store *store, struct store_data *data, size_t column,
		const uint32_t **ret_order);

#endif
