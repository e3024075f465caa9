/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums by name as virtual tables; see sums.h. Rows are summed by several threads, each into arrays of
 * its own.
 */
#include "sql/sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/parallel.h"
#include "sql/fields.h"
#include "sql/session.h"

#define KEYS_MOST ((size_t)1 << 20) /* of a run; with more, sums are not worth their arrays */
#define BLOCK_ROWS ((size_t)1 << 16)

int sums_key(const struct sql_table *table)
{
	int name = schema_column(table, "name");

	return table->list < 0 && name >= 0 && table->columns[name].from == FROM_FIELD &&
			       table->columns[name].refers
		       ? name
		       : -1;
}

bool sums_is_key(const struct sql_table *table, size_t c)
{
	const struct sql_column *column = &table->columns[c];
	int key = sums_key(table);

	return column->from == FROM_RUN || column->from == FROM_RANK || column->from == FROM_PID ||
	       (key >= 0 && column->from == FROM_FIELD &&
		column->field == table->columns[key].field);
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

/* Of each id of each process (id * processes + process). */
struct sums {
	size_t n_keys, n_shards;
	uint64_t *rows;
	struct number *numbers[SQL_COLUMNS_MAX]; /* by column of the table; NULL: not used */
	bool overflow;
};

static void sums_release(struct sums *sums)
{
	free(sums->rows);
	for (size_t c = 0; c < SQL_COLUMNS_MAX; c++)
		free(sums->numbers[c]);
	*sums = (struct sums){ 0 };
}

static int sums_init(struct sums *sums, size_t n_keys, size_t n_shards, uint64_t columns)
{
	*sums = (struct sums){ .n_keys = n_keys, .n_shards = n_shards };
	sums->rows = calloc(n_keys + 1, sizeof(*sums->rows));
	if (!sums->rows)
		return -ENOMEM;
	for (size_t c = 0; c < SQL_COLUMNS_MAX; c++) {
		if (!(columns >> c & 1))
			continue;
		sums->numbers[c] = calloc(n_keys + 1, sizeof(struct number));
		if (!sums->numbers[c])
			return -ENOMEM;
		for (size_t k = 0; k < n_keys; k++)
			sums->numbers[c][k] = (struct number){ 0, INT64_MAX, INT64_MIN };
	}
	return 0;
}

struct summing {
	const struct store_data *data;
	const struct store_column *key;
	uint64_t columns;
	size_t n_shards;
	struct sums *workers;
};

static void sum_column(struct sums *sums, const struct store_column *column, struct number *numbers,
		       const uint32_t *keys, size_t first, size_t n)
{
	bool overflow = false;

	for (size_t i = 0; i < n; i++) {
		int64_t value = field_int(column->array, column->type, first + i);
		struct number *number = &numbers[keys[i]];

		overflow |= __builtin_add_overflow(number->sum, value, &number->sum);
		number->min = value < number->min ? value : number->min;
		number->max = value > number->max ? value : number->max;
	}
	sums->overflow |= overflow;
}

static int sum_block(void *context, size_t block, unsigned int worker)
{
	const struct summing *summing = context;
	struct sums *sums = &summing->workers[worker];
	size_t first = block * BLOCK_ROWS, n = summing->data->n - first;
	uint32_t keys[BLOCK_ROWS / 16];

	n = n < BLOCK_ROWS ? n : BLOCK_ROWS;
	for (size_t done = 0; done < n;) {
		size_t part = n - done < BLOCK_ROWS / 16 ? n - done : BLOCK_ROWS / 16;
		size_t from = first + done;

		for (size_t i = 0; i < part; i++) {
			size_t id = (size_t)field_int(summing->key->array, summing->key->type,
						      from + i);

			keys[i] =
				(uint32_t)(id * summing->n_shards + summing->data->shard[from + i]);
			sums->rows[keys[i]]++;
		}
		for (size_t c = 0; c < SQL_COLUMNS_MAX; c++)
			if (summing->columns >> c & 1)
				sum_column(sums, &summing->data->columns[c], sums->numbers[c], keys,
					   from, part);
		done += part;
	}
	return 0;
}

static void merge(struct sums *to, const struct sums *from)
{
	to->overflow |= from->overflow;
	for (size_t k = 0; k < to->n_keys; k++) {
		to->rows[k] += from->rows[k];
		for (size_t c = 0; c < SQL_COLUMNS_MAX; c++) {
			struct number *a = to->numbers[c] ? &to->numbers[c][k] : NULL;
			const struct number *b = a ? &from->numbers[c][k] : NULL;

			if (!a)
				continue;
			to->overflow |= __builtin_add_overflow(a->sum, b->sum, &a->sum);
			a->min = b->min < a->min ? b->min : a->min;
			a->max = b->max > a->max ? b->max : a->max;
		}
	}
}

/* 0, -ENOMEM, or -EFBIG: it cannot be said with sums. */
static int sum(const struct store *store, struct store_data *data, uint64_t columns,
	       struct sums *ret)
{
	size_t key = (size_t)sums_key(data->table), blocks, n_keys;
	unsigned int workers;
	struct summing summing = { .data = data,
				   .key = &data->columns[key],
				   .columns = columns,
				   .n_shards = store->run->n_shards };
	int r = 0;

	if (!data->n)
		return sums_init(ret, 0, 1, columns);
	if (store_ids(data, key) > KEYS_MOST / summing.n_shards)
		return -EFBIG;
	n_keys = store_ids(data, key) * summing.n_shards;
	blocks = (data->n + BLOCK_ROWS - 1) / BLOCK_ROWS;
	workers = parallel_workers(blocks);
	summing.workers = calloc(workers, sizeof(*summing.workers));
	if (!summing.workers)
		return -ENOMEM;
	for (unsigned int w = 0; r == 0 && w < workers; w++)
		r = sums_init(&summing.workers[w], n_keys, summing.n_shards, columns);
	if (r == 0)
		r = parallel_run(blocks, workers, sum_block, &summing);
	for (unsigned int w = 1; r == 0 && w < workers; w++)
		merge(&summing.workers[0], &summing.workers[w]);
	if (r == 0 && summing.workers[0].overflow)
		r = -EFBIG;
	if (r == 0) {
		*ret = summing.workers[0];
		summing.workers[0] = (struct sums){ 0 };
	}
	for (unsigned int w = 0; w < workers; w++)
		sums_release(&summing.workers[w]);
	free(summing.workers);
	return r;
}

struct sums_table {
	sqlite3_vtab base;
	struct sql *sql;
	const struct sql_table *table;
	struct sums_column columns[64];
	size_t n;
};

struct sums_cursor {
	sqlite3_vtab_cursor base;
	size_t run, key;
	struct sums *runs; /* of each run */
};

static int sums_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
			sqlite3_vtab **ret_vtab, char **error)
{
	static const char *const endings[] = { "", "", "__sum", "__min", "__max" };
	const struct sql_module *module = aux;
	struct sums_table *table = calloc(1, sizeof(*table));
	sqlite3_str *text;
	int r;

	(void)argc;
	(void)argv;
	(void)error;
	if (!table)
		return SQLITE_NOMEM;
	table->sql = module->sql;
	table->table = module->table;
	table->n = columns_of(table->table, table->columns);
	text = sqlite3_str_new(db);
	for (size_t c = 0; c < table->n; c++) {
		const struct sums_column *column = &table->columns[c];
		const struct sql_column *of = &table->table->columns[column->column];

		sqlite3_str_appendf(
			text, "%s\"%w%s\" %s", c ? ", " : "CREATE TABLE x(",
			column->what == SUMS_COUNT ? SUMS_ROWS : of->name, endings[column->what],
			column->what == SUMS_COUNT ? "INTEGER" : sql_type_name(of->type));
	}
	sqlite3_str_appendchar(text, 1, ')');
	r = session_declare(module->sql, text);
	if (r != SQLITE_OK) {
		free(table);
		return r;
	}
	*ret_vtab = &table->base;
	return SQLITE_OK;
}

static int sums_disconnect(sqlite3_vtab *vtab)
{
	free(vtab);
	return SQLITE_OK;
}

/* The columns of the table behind those that are used; those that are summed. */
static uint64_t columns_behind(const struct sums_table *table, uint64_t used, uint64_t *ret_summed)
{
	uint64_t columns = UINT64_C(1) << sums_key(table->table);

	*ret_summed = 0;
	for (size_t c = 0; c < table->n; c++) {
		if (!(used >> c & 1) || table->columns[c].what == SUMS_COUNT)
			continue;
		columns |= UINT64_C(1) << table->columns[c].column;
		if (table->columns[c].what > SUMS_COUNT)
			*ret_summed |= UINT64_C(1) << table->columns[c].column;
	}
	return columns;
}

static int sums_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	struct sums_table *table = (struct sums_table *)vtab;
	uint64_t summed;

	need_table(&table->sql->asked, table->table, columns_behind(table, info->colUsed, &summed));
	info->estimatedCost = 1000;
	info->estimatedRows = 1000;
	info->idxStr = sqlite3_mprintf("%llx", (unsigned long long)info->colUsed);
	info->needToFreeIdxStr = 1;
	return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

static int sums_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret_cursor)
{
	struct sums_cursor *cursor = calloc(1, sizeof(*cursor));

	if (cursor)
		cursor->runs = calloc(((struct sums_table *)vtab)->sql->source.n,
				      sizeof(*cursor->runs));
	if (!cursor || !cursor->runs) {
		free(cursor);
		return SQLITE_NOMEM;
	}
	*ret_cursor = &cursor->base;
	return SQLITE_OK;
}

static int sums_close(sqlite3_vtab_cursor *base)
{
	struct sums_cursor *cursor = (struct sums_cursor *)base;

	for (size_t i = 0; i < ((struct sums_table *)base->pVtab)->sql->source.n; i++)
		sums_release(&cursor->runs[i]);
	free(cursor->runs);
	free(cursor);
	return SQLITE_OK;
}

static int sums_eof(sqlite3_vtab_cursor *base)
{
	return ((struct sums_cursor *)base)->run >=
	       ((struct sums_table *)base->pVtab)->sql->source.n;
}

static void skip_empty(struct sums_cursor *cursor)
{
	while (!sums_eof(&cursor->base)) {
		const struct sums *sums = &cursor->runs[cursor->run];

		while (cursor->key < sums->n_keys && !sums->rows[cursor->key])
			cursor->key++;
		if (cursor->key < sums->n_keys)
			return;
		cursor->run++;
		cursor->key = 0;
	}
}

static int sums_filter(sqlite3_vtab_cursor *base, int plan, const char *used, int argc,
		       sqlite3_value **argv)
{
	const struct sums_table *table = (const struct sums_table *)base->pVtab;
	struct sums_cursor *cursor = (struct sums_cursor *)base;
	uint64_t summed, columns = columns_behind(table, strtoull(used, NULL, 16), &summed);

	(void)plan;
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < table->sql->source.n; i++) {
		struct store *store = &table->sql->runs[i].store;
		struct store_data *data;
		int r = store_open(store, &table->sql->schema, table->table, columns, &data);

		sums_release(&cursor->runs[i]);
		if (r == 0)
			r = sum(store, data, summed, &cursor->runs[i]);
		if (r == -EFBIG)
			table->sql->unsummable = true;
		if (r < 0)
			return session_failed(base->pVtab, r);
	}
	cursor->run = cursor->key = 0;
	skip_empty(cursor);
	return SQLITE_OK;
}

static int sums_next(sqlite3_vtab_cursor *base)
{
	struct sums_cursor *cursor = (struct sums_cursor *)base;

	cursor->key++;
	skip_empty(cursor);
	return SQLITE_OK;
}

static struct cell key_cell(const struct sums_table *table, const struct sums_cursor *cursor,
			    size_t c, bool *failed)
{
	struct store *store = &table->sql->runs[cursor->run].store;
	const struct store_data *data = store->data[table->table - table->sql->schema.tables];
	size_t n_shards = cursor->runs[cursor->run].n_shards;
	unsigned int from = table->table->columns[c].from;

	if (from == FROM_RUN)
		return cell_text(store->label);
	return store_id_cell(store, data, c,
			     from == FROM_FIELD ? cursor->key / n_shards : cursor->key % n_shards,
			     failed);
}

static int sums_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int c)
{
	const struct sums_table *table = (const struct sums_table *)base->pVtab;
	const struct sums_cursor *cursor = (const struct sums_cursor *)base;
	const struct sums_column *column = &table->columns[c];
	const struct sums *sums = &cursor->runs[cursor->run];
	const struct number *numbers = sums->numbers[column->column];
	bool failed = false;
	struct cell cell;

	switch (column->what) {
	case SUMS_KEY:
		cell = key_cell(table, cursor, column->column, &failed);
		break;
	case SUMS_COUNT:
		cell = cell_uint(sums->rows[cursor->key]);
		break;
	default:
		cell = cell_int(column->what == SUMS_SUM   ? numbers[cursor->key].sum
				: column->what == SUMS_MIN ? numbers[cursor->key].min
							   : numbers[cursor->key].max);
		break;
	}
	if (failed)
		sqlite3_result_error_nomem(context);
	else
		session_result(context, &cell);
	return SQLITE_OK;
}

static int sums_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_rowid)
{
	const struct sums_cursor *cursor = (const struct sums_cursor *)base;

	*ret_rowid = (sqlite3_int64)((uint64_t)cursor->run << 48 | cursor->key);
	return SQLITE_OK;
}

static const sqlite3_module module = {
	.iVersion = 1,
	.xConnect = sums_connect,
	.xBestIndex = sums_best_index,
	.xDisconnect = sums_disconnect,
	.xOpen = sums_open,
	.xClose = sums_close,
	.xFilter = sums_filter,
	.xNext = sums_next,
	.xEof = sums_eof,
	.xColumn = sums_column,
	.xRowid = sums_rowid,
};

int sums_register(struct sql *sql)
{
	int r = SQLITE_OK;

	for (size_t t = 0; r == SQLITE_OK && t < sql->schema.n; t++) {
		char name[48];

		if (sums_key(&sql->schema.tables[t]) < 0)
			continue;
		snprintf(name, sizeof(name), "%s" SUMS_SUFFIX, sql->schema.tables[t].name);
		r = sqlite3_create_module(sql->db, name, &module,
					  session_module(sql, &sql->schema.tables[t], NULL));
	}
	return r;
}
