/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums as virtual tables; see sums.h. Records are summed by several threads, each into groups of its
 * own.
 */
#include "surfaces/sql/sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash_map.h"
#include "base/parallel.h"
#include "exports/columns/fields.h"
#include "surfaces/sql/frame.h"

#define GROUPS_MOST ((size_t)1 << 20) /* of a thread; with more, sums are not worth their room */
#define KEYS_MOST 8		      /* columns that records are summed by */
#define BLOCK_ROWS ((size_t)1 << 16)
#define PART_ROWS ((size_t)1 << 12)

bool sums_is_key(const struct sql_table *table, size_t c)
{
	const struct sql_column *column = &table->columns[c];

	switch ((enum sql_from)column->from) {
	case FROM_RUN:
	case FROM_RANK:
	case FROM_PID:
	case FROM_STEP:
	case FROM_PATH:
	case FROM_LAYER:
	case FROM_EXPERT:
	case FROM_PHASE:
		return true;
	case FROM_FIELD:
		/* Times, ids of calls and addresses, which are stored as differences, hardly repeat. */
		return store_is_ids(column) ||
		       (column->type == SQL_INTEGER && column->absent < ABSENT_UNLESS &&
			kind_desc(table->kind)->columns[column->field].coding == CODING_PLAIN);
	default:
		return false;
	}
}

bool sums_is_summed(const struct sql_table *table, size_t c)
{
	const struct sql_column *column = &table->columns[c];

	return column->from == FROM_FIELD && column->type == SQL_INTEGER &&
	       column->absent == ABSENT_NEVER && !store_is_ids(column);
}

/* What a column of a table of sums is. */
enum sums_what { SUMS_KEY, SUMS_COUNT, SUMS_SUM, SUMS_MIN, SUMS_MAX };
struct sums_column {
	enum sums_what what;
	size_t column; /* of the table */
};

static size_t columns_of(const struct sql_table *table, struct sums_column columns[64])
{
	size_t n = 0;

	for (size_t c = 0; c < table->n; c++)
		if (sums_is_key(table, c))
			columns[n++] = (struct sums_column){ SUMS_KEY, c };
	columns[n++] = (struct sums_column){ SUMS_COUNT, 0 };
	for (size_t c = 0; c < table->n && n + 3 < 63; c++)
		for (int what = SUMS_SUM; sums_is_summed(table, c) && what <= SUMS_MAX; what++)
			columns[n++] = (struct sums_column){ (enum sums_what)what, c };
	return n;
}

struct number {
	int64_t sum, min, max;
};

/* Records by the values of `n_keys` columns. */
struct sums {
	size_t n_keys, n_numbers, n, capacity;
	int64_t *values; /* n_keys of each group */
	uint64_t *rows;
	uint64_t *first;	/* the first row of each group */
	uint32_t *order;	/* groups by that; NULL: they are */
	struct number *numbers; /* n_numbers of each group */
	struct hash_map map;	/* group + 1, by its values */
	bool overflow;
};

static void sums_release(struct sums *sums)
{
	free(sums->values);
	free(sums->rows);
	free(sums->first);
	free(sums->order);
	free(sums->numbers);
	hash_map_release(&sums->map);
	*sums = (struct sums){ 0 };
}

static uint32_t hash_values(const int64_t *values, size_t n)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < n; i++)
		hash = hash_mix(hash, (uint64_t)values[i]);
	return (uint32_t)hash;
}

static int grow_sums(struct sums *sums)
{
	size_t capacity = sums->capacity ? sums->capacity * 4 : 256;
	int64_t *values;
	uint64_t *rows, *first;
	struct number *numbers;

	if (capacity > GROUPS_MOST)
		return -EFBIG;
	values = realloc(sums->values, (capacity * sums->n_keys + 1) * sizeof(*values));
	if (!values)
		return -ENOMEM;
	sums->values = values;
	rows = realloc(sums->rows, capacity * sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	sums->rows = rows;
	first = realloc(sums->first, capacity * sizeof(*first));
	if (!first)
		return -ENOMEM;
	sums->first = first;
	numbers = realloc(sums->numbers, (capacity * sums->n_numbers + 1) * sizeof(*numbers));
	if (!numbers)
		return -ENOMEM;
	sums->numbers = numbers;
	sums->capacity = capacity;
	return hash_map_reserve(&sums->map, capacity);
}

/* The group of these values, which has this row; made when there is none. */
static int group_of(struct sums *sums, const int64_t *values, uint64_t row, uint32_t *ret_group)
{
	size_t size = sums->n_keys * sizeof(*values);
	uint32_t hash = hash_values(values, sums->n_keys), number;
	struct hash_walk walk = hash_map_walk(&sums->map, hash);
	int r;

	while ((number = hash_map_next(&sums->map, &walk))) {
		*ret_group = number - 1;
		if (!memcmp(sums->values + *ret_group * sums->n_keys, values, size)) {
			if (row < sums->first[*ret_group])
				sums->first[*ret_group] = row;
			return 0;
		}
	}
	r = sums->n == sums->capacity ? grow_sums(sums) : 0;
	if (r == 0)
		r = hash_map_add(&sums->map, hash, (uint32_t)sums->n + 1);
	if (r < 0)
		return r;
	*ret_group = (uint32_t)sums->n++;
	memcpy(sums->values + *ret_group * sums->n_keys, values, size);
	sums->rows[*ret_group] = 0;
	sums->first[*ret_group] = row;
	for (size_t c = 0; c < sums->n_numbers; c++)
		sums->numbers[*ret_group * sums->n_numbers + c] = (struct number){ 0, INT64_MAX,
										   INT64_MIN };
	return 0;
}

struct summing {
	size_t n_rows, n_keys, n_numbers;
	const struct store_column *keys[KEYS_MOST], *numbers[SQL_COLUMNS_MAX];
	struct sums *workers;
};

static void sum_column(struct sums *sums, const struct store_column *column, size_t number,
		       const uint32_t *groups, size_t first, size_t n)
{
	bool overflow = false;

	for (size_t i = 0; i < n; i++) {
		int64_t value = field_int(column->array, column->type, first + i);
		struct number *to = &sums->numbers[groups[i] * sums->n_numbers + number];

		overflow |= __builtin_add_overflow(to->sum, value, &to->sum);
		to->min = value < to->min ? value : to->min;
		to->max = value > to->max ? value : to->max;
	}
	sums->overflow |= overflow;
}

static int sum_part(const struct summing *summing, struct sums *sums, size_t first, size_t n)
{
	int64_t values[KEYS_MOST] = { 0 };
	uint32_t groups[PART_ROWS], last = 0;

	for (size_t i = 0; i < n; i++) {
		bool same = i > 0;

		for (size_t k = 0; k < summing->n_keys; k++) {
			int64_t value = field_int(summing->keys[k]->array, summing->keys[k]->type,
						  first + i);

			same &= value == values[k];
			values[k] = value;
		}
		if (!same) {
			int r = group_of(sums, values, first + i, &last);

			if (r < 0)
				return r;
		}
		groups[i] = last;
		sums->rows[last]++;
	}
	for (size_t c = 0; c < summing->n_numbers; c++)
		sum_column(sums, summing->numbers[c], c, groups, first, n);
	return 0;
}

static int sum_block(void *context, size_t block, unsigned int worker)
{
	const struct summing *summing = context;
	size_t first = block * BLOCK_ROWS, end = first + BLOCK_ROWS;
	int r = 0;

	end = end < summing->n_rows ? end : summing->n_rows;
	for (; r == 0 && first < end; first += PART_ROWS)
		r = sum_part(summing, &summing->workers[worker], first,
			     end - first < PART_ROWS ? end - first : PART_ROWS);
	return r;
}

static int merge_sums(struct sums *to, const struct sums *from)
{
	to->overflow |= from->overflow;
	for (size_t g = 0; g < from->n; g++) {
		uint32_t group;
		int r = group_of(to, from->values + g * from->n_keys, from->first[g], &group);

		if (r < 0)
			return r;
		to->rows[group] += from->rows[g];
		for (size_t c = 0; c < to->n_numbers; c++) {
			struct number *a = &to->numbers[group * to->n_numbers + c];
			const struct number *b = &from->numbers[g * to->n_numbers + c];

			to->overflow |= __builtin_add_overflow(a->sum, b->sum, &a->sum);
			a->min = b->min < a->min ? b->min : a->min;
			a->max = b->max > a->max ? b->max : a->max;
		}
	}
	return 0;
}

static int compare_first(const void *a, const void *b, void *context)
{
	const uint64_t *first = context;
	uint64_t x = first[*(const uint32_t *)a], y = first[*(const uint32_t *)b];

	return (x > y) - (x < y);
}

/* Which thread has seen a group first is chance, and would show where a statement leaves the order
 * open: the groups come as their first rows do. */
static int put_in_order(struct sums *sums)
{
	sums->order = array_new(sums->n ? sums->n : 1, sizeof(*sums->order));
	if (!sums->order)
		return -ENOMEM;
	for (size_t g = 0; g < sums->n; g++)
		sums->order[g] = (uint32_t)g;
	qsort_r(sums->order, sums->n, sizeof(*sums->order), compare_first, sums->first);
	return 0;
}

/* 0, -ENOMEM, or -EFBIG: it cannot be said with sums. */
static int sum_records(struct summing *summing, struct sums *ret)
{
	size_t blocks = (summing->n_rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
	unsigned int workers = blocks ? parallel_workers(blocks) : 1;
	struct sums all;
	int r;

	summing->workers = calloc(workers, sizeof(*summing->workers));
	if (!summing->workers)
		return -ENOMEM;
	for (unsigned int w = 0; w < workers; w++) {
		summing->workers[w].n_keys = summing->n_keys;
		summing->workers[w].n_numbers = summing->n_numbers;
	}
	r = parallel_run(blocks, workers, sum_block, summing);
	all = summing->workers[0];
	for (unsigned int w = 1; w < workers; w++) {
		if (r == 0)
			r = merge_sums(&all, &summing->workers[w]);
		sums_release(&summing->workers[w]);
	}
	free(summing->workers);
	if (r == 0 && all.overflow)
		r = -EFBIG;
	if (r == 0 && workers > 1)
		r = put_in_order(&all);
	if (r == 0)
		*ret = all;
	else
		sums_release(&all);
	return r;
}

struct sums_table {
	struct frame_table frame;
	struct sums_column columns[64];
	size_t n;
};

/* Of each run it keeps the sums. */
struct sums_cursor {
	struct frame_cursor frame;
	/* Of each column of the table: which value, or which number of a group it is. */
	uint8_t key_at[SQL_COLUMNS_MAX], number_at[SQL_COLUMNS_MAX];
};

static int sums_declare(struct frame_table *base, sqlite3_str *text)
{
	static const char *const endings[] = { "", "", "__sum", "__min", "__max" };
	struct sums_table *table = (struct sums_table *)base;

	table->n = columns_of(base->table, table->columns);
	for (size_t c = 0; c < table->n; c++) {
		const struct sums_column *column = &table->columns[c];
		const struct sql_column *of = &base->table->columns[column->column];

		sqlite3_str_appendf(
			text, "%s\"%w%s\" %s", c ? ", " : "",
			column->what == SUMS_COUNT ? SUMS_ROWS : of->name, endings[column->what],
			column->what == SUMS_COUNT ? "INTEGER" : sql_type_name(of->type));
	}
	return SQLITE_OK;
}

static void release_sums(void *of_run)
{
	sums_release(of_run);
}

static struct sums *sums_of(const struct sums_cursor *cursor, size_t run)
{
	return (struct sums *)cursor->frame.of_runs + run;
}

/* The columns of the table behind those that are used. */
static uint64_t columns_behind(const struct sums_table *table, uint64_t used)
{
	uint64_t columns = 0;

	for (size_t c = 0; c < table->n; c++)
		if (used >> c & 1 && table->columns[c].what != SUMS_COUNT)
			columns |= UINT64_C(1) << table->columns[c].column;
	return columns;
}

static int sums_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	struct sums_table *table = (struct sums_table *)vtab;

	need_table(&table->frame.sql->asked, table->frame.table,
		   columns_behind(table, info->colUsed));
	info->estimatedCost = 1000;
	info->estimatedRows = 1000;
	info->idxStr = sqlite3_mprintf("%llx", (unsigned long long)info->colUsed);
	info->needToFreeIdxStr = 1;
	return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

static size_t count_groups(const struct frame_cursor *cursor)
{
	return sums_of((const struct sums_cursor *)cursor, cursor->run)->n;
}

/* Columns of one array, such as the parts of a launch, are one key. -EFBIG: there are too many. */
static int add_key(struct summing *summing, const struct store_data *data, size_t column,
		   uint8_t *ret_at)
{
	size_t k = 0;

	while (k < summing->n_keys && summing->keys[k]->array != data->columns[column].array)
		k++;
	if (k == KEYS_MOST)
		return -EFBIG;
	if (k == summing->n_keys)
		summing->keys[summing->n_keys++] = &data->columns[column];
	*ret_at = (uint8_t)k;
	return 0;
}

static int plan_sums(const struct sums_table *table, struct sums_cursor *cursor, uint64_t used,
		     const struct store_data *data, struct summing *summing)
{
	uint64_t seen = 0;

	*summing = (struct summing){ .n_rows = data->n };
	for (size_t c = 0; data->n && c < table->n; c++) {
		size_t column = table->columns[c].column;
		int r = 0;

		if (!(used >> c & 1) || table->columns[c].what == SUMS_COUNT)
			continue;
		if (table->columns[c].what > SUMS_COUNT) {
			if (!(seen >> column & 1)) {
				cursor->number_at[column] = (uint8_t)summing->n_numbers;
				summing->numbers[summing->n_numbers++] = &data->columns[column];
			}
			seen |= UINT64_C(1) << column;
		} else if (table->frame.table->columns[column].from != FROM_RUN) {
			r = add_key(summing, data, column, &cursor->key_at[column]);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int sums_filter(sqlite3_vtab_cursor *base, int unused, const char *text, int argc,
		       sqlite3_value **argv)
{
	const struct sums_table *table = (const struct sums_table *)base->pVtab;
	struct sums_cursor *cursor = (struct sums_cursor *)base;
	uint64_t used = strtoull(text, NULL, 16);

	(void)unused;
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < table->frame.sql->source.n; i++) {
		struct store *store = &table->frame.sql->runs[i].store;
		struct summing summing;
		struct store_data *data;
		int r = store_open(store, &table->frame.sql->schema, table->frame.table,
				   columns_behind(table, used), &data);

		sums_release(sums_of(cursor, i));
		if (r == 0)
			r = plan_sums(table, cursor, used, data, &summing);
		if (r == 0)
			r = sum_records(&summing, sums_of(cursor, i));
		if (r == -EFBIG)
			table->frame.sql->unsummable = true;
		if (r < 0)
			return session_failed(base->pVtab, r);
	}
	frame_rewind(&cursor->frame);
	return SQLITE_OK;
}

static size_t group_at(const struct sums_cursor *cursor)
{
	const struct sums *sums = sums_of(cursor, cursor->frame.run);

	return sums->order ? sums->order[cursor->frame.row] : cursor->frame.row;
}

static struct cell key_cell(const struct sums_table *table, const struct sums_cursor *cursor,
			    size_t c, bool *failed)
{
	struct store *store = &table->frame.sql->runs[cursor->frame.run].store;
	const struct store_data *data =
		store->data[table->frame.table - table->frame.sql->schema.tables];
	const struct sums *sums = sums_of(cursor, cursor->frame.run);

	if (table->frame.table->columns[c].from == FROM_RUN)
		return cell_text(store->label);
	return store_value_cell(store, data, c,
				sums->values[group_at(cursor) * sums->n_keys + cursor->key_at[c]],
				failed);
}

static int sums_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int c)
{
	const struct sums_table *table = (const struct sums_table *)base->pVtab;
	const struct sums_cursor *cursor = (const struct sums_cursor *)base;
	const struct sums_column *column = &table->columns[c];
	const struct sums *sums = sums_of(cursor, cursor->frame.run);
	const struct number *number = sums->numbers + group_at(cursor) * sums->n_numbers +
				      cursor->number_at[column->column];
	bool failed = false;
	struct cell cell;

	switch (column->what) {
	case SUMS_KEY:
		cell = key_cell(table, cursor, column->column, &failed);
		break;
	case SUMS_COUNT:
		cell = cell_uint(sums->rows[group_at(cursor)]);
		break;
	default:
		cell = cell_int(column->what == SUMS_SUM   ? number->sum
				: column->what == SUMS_MIN ? number->min
							   : number->max);
		break;
	}
	if (failed)
		sqlite3_result_error_nomem(context);
	else
		session_result(context, &cell);
	return SQLITE_OK;
}

static const struct sql_frame sums_frame = {
	.module = {
		FRAME_MODULE,
		FRAME_ROWS,
		.xBestIndex = sums_best_index,
		.xFilter = sums_filter,
		.xColumn = sums_column,
	},
	.table_size = sizeof(struct sums_table),
	.cursor_size = sizeof(struct sums_cursor),
	.run_size = sizeof(struct sums),
	.release_run = release_sums,
	.declare = sums_declare,
	.count_rows = count_groups,
};

int sums_register(struct sql *sql)
{
	int r = SQLITE_OK;

	for (size_t t = 0; r == SQLITE_OK && t < sql->schema.n; t++) {
		char name[48];

		if (sql->schema.tables[t].list >= 0)
			continue;
		snprintf(name, sizeof(name), "%s" SUMS_SUFFIX, sql->schema.tables[t].name);
		r = frame_register(sql, name,
				   &(struct sql_module){ .frame = &sums_frame,
							 .table = &sql->schema.tables[t] });
	}
	return r;
}
