/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables MOESCOPE_* of an exported run back into rows, by the columns that records.h lists: what a
 * file lacks is 0, what it has beside them is left. Nothing in the file is trusted: numbers are cut to
 * their columns, ids that lead nowhere are none, rows of no process are counted as damage. One thread.
 */
#include "ingest/nsight/own_sqlite.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define COLUMNS_MOST 64
#define SHARD_KNOWN 9		    /* columns of MOESCOPE_SHARD before its losses */
#define LIST_MOST ((size_t)1 << 24) /* values in one list */

/* A process of the file. Ids of dictionaries are those of the whole file; each process gets those that
 * its rows use. */
struct seat {
	sqlite3_int64 shard;
	struct intake_part *part;
	uint32_t *ids[RECORD_LAUNCH + 1]; /* by dictionary: our id of each of theirs, or 0 */
};

struct text {
	char *bytes;
	size_t length;
};

struct own {
	sqlite3 *db;
	struct intake *intake;
	struct seat *seats;
	size_t n_seats;
	struct text *strings;
	struct row_site *sites;
	struct row_launch *launches;
	size_t n[RECORD_LAUNCH + 1]; /* ids of each dictionary are below */
	int64_t realtime_offset_ns;
	struct buf lists[2]; /* of the row that is being read */
};

static int say_own_failure(struct own *own, struct err *err)
{
	int code = sqlite3_errcode(own->db);

	if (code == SQLITE_NOMEM)
		return -ENOMEM;
	if (code == SQLITE_INTERRUPT)
		return err_set(err, -EBADMSG,
			       "the exported run cannot be read: a table or view of it has no end");
	return err_set(err, -EBADMSG, "the tables of the exported run cannot be read: %s",
		       sqlite3_errmsg(own->db));
}

/* The table is there: 1, it is not: 0. */
static int has_table(struct own *own, const char *name)
{
	return sqlite3_table_column_metadata(own->db, NULL, name, NULL, NULL, NULL, NULL, NULL,
					     NULL) == SQLITE_OK;
}

/* A statement over columns of a table; those that the file does not have are 0. */
static int select_columns(struct own *own, const char *table, const char *const *columns, size_t n,
			  sqlite3_stmt **ret, struct err *err)
{
	sqlite3_str *text = sqlite3_str_new(own->db);
	char *sql;
	int r;

	for (size_t c = 0; c < n; c++) {
		bool there = sqlite3_table_column_metadata(own->db, NULL, table, columns[c], NULL,
							   NULL, NULL, NULL, NULL) == SQLITE_OK;

		sqlite3_str_appendall(text, c ? ", " : "SELECT ");
		if (there)
			sqlite3_str_appendf(text, "\"%w\"", columns[c]);
		else
			sqlite3_str_appendall(text, "0");
	}
	sqlite3_str_appendf(text, " FROM \"%w\"", table);
	sql = sqlite3_str_finish(text);
	if (!sql)
		return -ENOMEM;
	r = sqlite3_prepare_v2(own->db, sql, -1, ret, NULL);
	sqlite3_free(sql);
	return r == SQLITE_OK ? 0 : say_own_failure(own, err);
}

/* Room for an id of a dictionary of the file: ids are dense and come in order, so one that is far off
 * is not an id. rows: that came so far. */
static bool id_fits(sqlite3_int64 id, size_t rows)
{
	return id > 0 && (uint64_t)id < UINT32_MAX && (uint64_t)id <= rows * 4 + 1024;
}

/* Reads a dictionary: `take` gets the row of each id that fits. */
static int read_dictionary(struct own *own, unsigned int kind, const char *table,
			   const char *const *columns, size_t n, void **array, size_t size,
			   int (*take)(struct own *own, size_t id, sqlite3_stmt *statement),
			   struct err *err)
{
	sqlite3_stmt *statement = NULL;
	size_t rows = 0, capacity = 0;
	int r, code;

	own->n[kind] = 1;
	*array = calloc(1, size);
	if (!*array)
		return -ENOMEM;
	if (!has_table(own, table))
		return 0;
	r = select_columns(own, table, columns, n, &statement, err);
	if (r < 0)
		return r;
	while (r == 0 && (code = sqlite3_step(statement)) == SQLITE_ROW) {
		sqlite3_int64 id = sqlite3_column_int64(statement, 0);

		if (!id_fits(id, ++rows))
			continue;
		if ((size_t)id >= own->n[kind]) {
			if (array_grow(array, &capacity, (size_t)id + 1, size) < 0) {
				r = -ENOMEM;
				break;
			}
			memset((char *)*array + own->n[kind] * size, 0,
			       ((size_t)id + 1 - own->n[kind]) * size);
			own->n[kind] = (size_t)id + 1;
		}
		r = take(own, (size_t)id, statement);
	}
	if (r == 0 && code != SQLITE_DONE)
		r = say_own_failure(own, err);
	sqlite3_finalize(statement);
	return r;
}

static int take_string(struct own *own, size_t id, sqlite3_stmt *statement)
{
	const char *bytes = (const char *)sqlite3_column_text(statement, 1);
	size_t length = (size_t)sqlite3_column_bytes(statement, 1);

	free(own->strings[id].bytes);
	own->strings[id] = (struct text){ NULL, 0 };
	if (!bytes || !length)
		return 0;
	own->strings[id].bytes = malloc(length);
	if (!own->strings[id].bytes)
		return -ENOMEM;
	memcpy(own->strings[id].bytes, bytes, length);
	own->strings[id].length = length;
	return 0;
}

/* A number of any column into the field that a row has for it. */
static void fill_own_number(void *to, enum column_type type, sqlite3_stmt *statement, int column)
{
	sqlite3_int64 number;

	if (type == COLUMN_F64) {
		/* NULL is what SQLite makes of NaN. */
		double real = sqlite3_column_type(statement, column) == SQLITE_NULL
				      ? NAN
				      : sqlite3_column_double(statement, column);

		memcpy(to, &real, sizeof(real));
		return;
	}
	number = sqlite3_column_int64(statement, column);
	switch (type) {
	case COLUMN_U8:
		*(uint8_t *)to = (uint8_t)number;
		break;
	case COLUMN_U16:
		*(uint16_t *)to = (uint16_t)number;
		break;
	case COLUMN_U32:
		*(uint32_t *)to = (uint32_t)number;
		break;
	case COLUMN_I32:
		*(int32_t *)to = (int32_t)number;
		break;
	case COLUMN_U64:
	case COLUMN_I64:
	case COLUMN_F64:
		memcpy(to, &number, sizeof(number));
		break;
	}
}

static void fill_own_row(void *row, unsigned int kind, sqlite3_stmt *statement)
{
	const struct kind_desc *desc = kind_desc(kind);

	for (unsigned int c = 0; c < desc->n_columns; c++)
		fill_own_number((char *)row + desc->columns[c].row_offset,
				(enum column_type)desc->columns[c].type, statement, (int)c);
}

static int take_site(struct own *own, size_t id, sqlite3_stmt *statement)
{
	fill_own_row(&own->sites[id], RECORD_SITE, statement);
	return 0;
}

static int take_launch(struct own *own, size_t id, sqlite3_stmt *statement)
{
	fill_own_row(&own->launches[id], RECORD_LAUNCH, statement);
	return 0;
}

static size_t names_of(unsigned int kind, const char *names[COLUMNS_MOST])
{
	const struct kind_desc *desc = kind_desc(kind);

	for (unsigned int c = 0; c < desc->n_columns; c++)
		names[c] = desc->columns[c].name;
	return desc->n_columns;
}

static int read_dictionaries(struct own *own, struct err *err)
{
	static const char *const string_columns[] = { "id", "text" };
	const char *names[COLUMNS_MOST];
	int r = read_dictionary(own, RECORD_STRING, "MOESCOPE_STRING", string_columns, 2,
				(void **)&own->strings, sizeof(*own->strings), take_string, err);
	size_t n;

	if (r == 0) {
		n = names_of(RECORD_SITE, names);
		r = read_dictionary(own, RECORD_SITE, "MOESCOPE_SITE", names, n,
				    (void **)&own->sites, sizeof(*own->sites), take_site, err);
	}
	if (r == 0) {
		n = names_of(RECORD_LAUNCH, names);
		r = read_dictionary(own, RECORD_LAUNCH, "MOESCOPE_LAUNCH", names, n,
				    (void **)&own->launches, sizeof(*own->launches), take_launch,
				    err);
	}
	return r;
}

enum { SHARD_ID, SHARD_RANK, SHARD_PID, SHARD_OFFSET, SHARD_START, SHARD_END, SHARD_COLUMNS };

static int add_seat(struct own *own, sqlite3_stmt *statement)
{
	struct seat *seats = realloc(own->seats, (own->n_seats + 1) * sizeof(*seats));
	struct intake_process *process;
	struct seat *seat;

	if (!seats)
		return -ENOMEM;
	own->seats = seats;
	seat = &seats[own->n_seats];
	*seat = (struct seat){ .shard = sqlite3_column_int64(statement, SHARD_ID) };
	process = intake_process(own->intake, (uint32_t)sqlite3_column_int64(statement, SHARD_RANK),
				 (uint32_t)sqlite3_column_int64(statement, SHARD_PID));
	if (!process)
		return -ENOMEM;
	process->rank_known = true;
	process->from_ns = sqlite3_column_int64(statement, SHARD_START);
	process->to_ns = sqlite3_column_int64(statement, SHARD_END);
	process->lived = process->from_ns < process->to_ns;
	/* All times were put on the clock of the first when the run was exported. */
	if (!own->n_seats)
		own->realtime_offset_ns = sqlite3_column_int64(statement, SHARD_OFFSET);
	process->realtime_offset_ns = own->realtime_offset_ns;
	seat->part = intake_part(process);
	own->n_seats++;
	for (unsigned int d = RECORD_STRING; d <= RECORD_LAUNCH; d++) {
		seat->ids[d] = calloc(own->n[d], sizeof(*seat->ids[d]));
		if (!seat->ids[d])
			return -ENOMEM;
	}
	return seat->part ? 0 : -ENOMEM;
}

/* What the exported run had lost is in columns that this version need not know. */
static void note_losses(struct own *own)
{
	sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v2(own->db, "SELECT rank, * FROM MOESCOPE_SHARD", -1, &statement,
			       NULL) != SQLITE_OK)
		return;
	while (sqlite3_step(statement) == SQLITE_ROW) {
		for (int c = 1 + SHARD_KNOWN; c < sqlite3_column_count(statement); c++) {
			sqlite3_int64 n = sqlite3_column_int64(statement, c);
			const char *name = sqlite3_column_name(statement, c);

			if (n > 0 && name && strcmp(name, "salvaged") != 0)
				intake_note(own->intake,
					    "rank %lld: the exported run had lost %lld: %s.",
					    (long long)sqlite3_column_int64(statement, 0),
					    (long long)n, name);
		}
	}
	sqlite3_finalize(statement);
}

static int read_seats(struct own *own, struct err *err)
{
	static const char *const columns[SHARD_COLUMNS] = {
		[SHARD_ID] = "shard",	    [SHARD_RANK] = "rank",
		[SHARD_PID] = "pid",	    [SHARD_OFFSET] = "realtime_offset_ns",
		[SHARD_START] = "start_ns", [SHARD_END] = "end_ns",
	};
	sqlite3_stmt *statement = NULL;
	int r, code = SQLITE_DONE;

	if (!has_table(own, "MOESCOPE_SHARD"))
		return err_set(err, -EBADMSG,
			       "the exported run has no table MOESCOPE_SHARD, so its records have "
			       "no process");
	r = select_columns(own, "MOESCOPE_SHARD", columns, SHARD_COLUMNS, &statement, err);
	while (r == 0 && (code = sqlite3_step(statement)) == SQLITE_ROW &&
	       own->n_seats < UINT16_MAX)
		r = add_seat(own, statement);
	if (r == 0 && code != SQLITE_DONE && code != SQLITE_ROW)
		r = say_own_failure(own, err);
	sqlite3_finalize(statement);
	if (r == 0)
		note_losses(own);
	return r;
}

static struct seat *seat_of(struct own *own, sqlite3_int64 shard)
{
	/* Written in order, from 0. */
	if (shard >= 0 && (uint64_t)shard < own->n_seats && own->seats[shard].shard == shard)
		return &own->seats[shard];
	for (size_t i = 0; i < own->n_seats; i++)
		if (own->seats[i].shard == shard)
			return &own->seats[i];
	return NULL;
}

/* The id that a process has for one of the file's; 0: there is no such thing. */
static uint32_t id_of(struct own *own, struct seat *seat, unsigned int kind, uint32_t id)
{
	uint32_t *known;

	if (!id || id >= own->n[kind])
		return 0;
	known = &seat->ids[kind][id];
	if (*known)
		return *known;
	if (kind == RECORD_STRING) {
		*known = part_string(seat->part, own->strings[id].bytes, own->strings[id].length);
	} else if (kind == RECORD_SITE) {
		struct row_site site = own->sites[id];

		site.name = id_of(own, seat, RECORD_STRING, site.name);
		*known = part_place(seat->part, &site);
	} else {
		struct row_launch launch = own->launches[id];

		launch.name = id_of(own, seat, RECORD_STRING, launch.name);
		*known = part_launch(seat->part, &launch);
	}
	return *known;
}

/* "[1,2,3]" into values of the column's type; how many there are, or -1: it is none, or too long. */
static int64_t parse_list(const char *text, enum column_type type, struct buf *out)
{
	size_t size = column_type_size(type);
	int64_t n = 0;

	out->size = 0;
	if (!text || *text != '[')
		return -1;
	for (text++; *text && *text != ']'; n++) {
		char *end;
		long long value = strtoll(text, &end, 10);

		if (end == text || (size_t)n >= LIST_MOST)
			return -1;
		/* Little end first, as all machines that this runs on have it. */
		buf_append(out, &value, size);
		text = *end == ',' ? end + 1 : end;
		if (*end != ',' && *end != ']')
			return -1;
	}
	return *text == ']' && !out->failed ? n : -1;
}

/* The lists of a row, and the columns that count them. False: they are damaged. */
static bool put_lists(struct own *own, void *row, unsigned int kind, sqlite3_stmt *statement)
{
	const struct kind_desc *desc = kind_desc(kind);
	size_t list = 0;

	for (unsigned int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		const char *text;
		uint32_t count;
		int64_t n;

		if (column->count_column < 0)
			continue;
		text = (const char *)sqlite3_column_text(statement, (int)c + 1);
		n = parse_list(text, (enum column_type)column->type, &own->lists[list]);
		if (n < 0)
			return false;
		count = (uint32_t)n;
		memcpy((char *)row + desc->columns[column->count_column].row_offset, &count,
		       sizeof(count));
		memcpy((char *)row + column->row_offset, &own->lists[list].data, sizeof(char *));
		list++;
	}
	return true;
}

#define ROW_MOST 512
#define KIND(id, NAME, name)                                                                       \
	_Static_assert(sizeof(struct row_##name) <= ROW_MOST, "a row of any kind fits");
RECORD_KINDS(KIND)
#undef KIND

static int read_own_row(struct own *own, unsigned int kind, sqlite3_stmt *statement,
			uint64_t number)
{
	const struct kind_desc *desc = kind_desc(kind);
	struct seat *seat = seat_of(own, sqlite3_column_int64(statement, 0));
	_Alignas(8) char row[ROW_MOST] = { 0 };

	if (!seat) {
		part_damaged(own->seats[0].part, number, "a row of a process that is not there");
		return 0;
	}
	for (unsigned int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		char *to = row + column->row_offset;
		uint32_t id;

		if (column->count_column >= 0)
			continue;
		fill_own_number(to, (enum column_type)column->type, statement, (int)c + 1);
		if (!column->refers)
			continue;
		memcpy(&id, to, sizeof(id));
		id = id_of(own, seat, column->refers, id);
		memcpy(to, &id, sizeof(id));
	}
	if (desc->n_lists && !put_lists(own, row, kind, statement)) {
		part_damaged(seat->part, number, "no list of numbers where one should be");
		return 0;
	}
	return part_add(seat->part, (enum record_kind)kind, row);
}

static int read_kind(struct own *own, unsigned int kind, struct err *err)
{
	const char *names[COLUMNS_MOST + 1] = { "shard" };
	size_t n = names_of(kind, names + 1) + 1;
	sqlite3_stmt *statement = NULL;
	uint64_t number = 0;
	char table[64];
	int r, code;

	snprintf(table, sizeof(table), "MOESCOPE_%s", kind_desc(kind)->name);
	for (char *at = table; *at; at++)
		*at = (char)toupper((unsigned char)*at);
	if (!intake_wants(own->intake, (enum record_kind)kind) || !has_table(own, table))
		return 0;
	r = select_columns(own, table, names, n, &statement, err);
	if (r < 0)
		return r;
	while (r == 0 && (code = sqlite3_step(statement)) == SQLITE_ROW)
		r = read_own_row(own, kind, statement, ++number);
	/* What came before the damage is kept. */
	if (r == 0 && code == SQLITE_NOMEM)
		r = -ENOMEM;
	else if (r == 0 && code != SQLITE_DONE)
		part_damaged(own->seats[0].part, number, sqlite3_errmsg(own->db));
	sqlite3_finalize(statement);
	return r;
}

/* The number of a fact that is known, else 0. */
static int64_t fact_number(struct own *own, const char *key)
{
	sqlite3_stmt *statement = NULL;
	int64_t number = 0;

	if (sqlite3_prepare_v2(own->db, "SELECT value FROM MOESCOPE_RUN WHERE key = ?", -1,
			       &statement, NULL) == SQLITE_OK) {
		sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
		if (sqlite3_step(statement) == SQLITE_ROW)
			number = sqlite3_column_int64(statement, 0);
	}
	sqlite3_finalize(statement);
	return number;
}

/* What the file says of the run as a whole, but for its name: that is the new file's. */
static int read_about(struct own *own, struct err *err)
{
	struct intake_about about = {
		.cpus = (int)fact_number(own, "cpus"),
		.exit_status = (int)fact_number(own, "exit_status"),
		.signal = (int)fact_number(own, "signal"),
		.started_realtime_ns = fact_number(own, "started_realtime_ns"),
		.duration_ns = fact_number(own, "duration_ns"),
	};
	const struct {
		const char *key, **text;
	} texts[] = {
		{ "command", &about.command }, { "host", &about.host },
		{ "cpu", &about.cpu },	       { "level", &about.level },
		{ "status", &about.status },   { "notes", &about.notes },
	};
	enum { N = sizeof(texts) / sizeof(texts[0]) };
	char *copies[N] = { 0 };
	sqlite3_stmt *statement = NULL;
	int r = 0;

	if (sqlite3_prepare_v2(own->db, "SELECT key, value FROM MOESCOPE_RUN", -1, &statement,
			       NULL) != SQLITE_OK)
		return say_own_failure(own, err);
	while (r == 0 && sqlite3_step(statement) == SQLITE_ROW) {
		const char *key = (const char *)sqlite3_column_text(statement, 0);
		const char *value = (const char *)sqlite3_column_text(statement, 1);

		for (size_t t = 0; key && value && t < N; t++) {
			if (strcmp(texts[t].key, key) != 0 || copies[t])
				continue;
			copies[t] = strdup(value);
			*texts[t].text = copies[t];
			r = copies[t] ? 0 : -ENOMEM;
		}
	}
	sqlite3_finalize(statement);
	if (r == 0)
		r = intake_about(own->intake, &about);
	for (size_t t = 0; t < N; t++)
		free(copies[t]);
	return r;
}

static void own_release(struct own *own)
{
	for (size_t i = 0; i < own->n_seats; i++)
		for (unsigned int d = RECORD_STRING; d <= RECORD_LAUNCH; d++)
			free(own->seats[i].ids[d]);
	free(own->seats);
	for (size_t i = 0; own->strings && i < own->n[RECORD_STRING]; i++)
		free(own->strings[i].bytes);
	free(own->strings);
	free(own->sites);
	free(own->launches);
	buf_release(&own->lists[0]);
	buf_release(&own->lists[1]);
}

int own_sqlite_read(sqlite3 *db, struct intake *intake, struct err *err)
{
	struct own own = { .db = db, .intake = intake };
	int r = read_dictionaries(&own, err);

	if (r == 0)
		r = read_seats(&own, err);
	if (r == 0 && !own.n_seats)
		r = err_set(err, -EBADMSG, "the exported run has no process");
	if (r == 0)
		r = read_about(&own, err);
	for (unsigned int k = RECORD_LAUNCH + 1; r == 0 && k < RECORD_KIND_LIMIT; k++)
		r = read_kind(&own, k, err);
	own_release(&own);
	return r;
}
