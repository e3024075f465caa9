/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: the tables MOESCOPE_* of a file that moescope did not write. The input is not a file,
 * which SQLite itself reads, but what stands in the tables: bytes choose tables, columns that are
 * missing, and values of every type.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "fuzz.h"
#include "ingest/nsight/own_sqlite.h"
#include "ingest/shared/intake.h"

struct input {
	const uint8_t *at, *end;
};

static unsigned int next_byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static sqlite3_int64 next_number(struct input *in)
{
	uint64_t number = 0;

	for (int i = 0; i < 8; i++)
		number = number << 8 | next_byte(in);
	return (sqlite3_int64)number;
}

static void bind(struct input *in, sqlite3_stmt *insert, int at)
{
	static const char *const lists[] = { "[]", "[1,2,3]", "[-1", "[9999999999999999999999]",
					     "x",  "[1,,2]" };
	size_t length;

	switch (next_byte(in) % 8) {
	case 0:
		break;
	case 1:
		sqlite3_bind_int64(insert, at, next_number(in));
		break;
	case 2:
		sqlite3_bind_double(insert, at, (double)next_number(in) / 3);
		break;
	case 3:
		sqlite3_bind_text(insert, at, lists[next_byte(in) % 6], -1, SQLITE_STATIC);
		break;
	case 4: /* text and blobs of the input itself */
	case 5:
		length = next_byte(in);
		if (length > (size_t)(in->end - in->at))
			length = (size_t)(in->end - in->at);
		if (length % 2)
			sqlite3_bind_text(insert, at, (const char *)in->at, (int)length,
					  SQLITE_TRANSIENT);
		else
			sqlite3_bind_blob(insert, at, in->at, (int)length, SQLITE_TRANSIENT);
		in->at += length;
		break;
	default: /* mostly ids that exist */
		sqlite3_bind_int64(insert, at, next_byte(in) % 6);
		break;
	}
}

/* A table with some of its columns and a few rows. */
static void make_table(struct input *in, sqlite3 *db, const char *kind, const char *const *columns,
		       size_t n)
{
	sqlite3_str *create = sqlite3_str_new(db), *fill = sqlite3_str_new(db);
	sqlite3_stmt *insert = NULL;
	unsigned int rows = next_byte(in) % 6;
	char name[64], *sql;

	snprintf(name, sizeof(name), "MOESCOPE_%s", kind);
	for (char *c = name; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	sqlite3_str_appendf(create, "CREATE TABLE %s(other", name);
	sqlite3_str_appendf(fill, "INSERT INTO %s VALUES(?", name);
	for (size_t c = 0; c < n; c++) {
		bool missing = rows == 5 && next_byte(in) % 4 == 0;

		sqlite3_str_appendf(create, ", \"%s%s\"", missing ? "no_" : "", columns[c]);
		sqlite3_str_appendall(fill, ", ?");
	}
	sqlite3_str_appendall(create, ")");
	sqlite3_str_appendall(fill, ")");
	sql = sqlite3_str_finish(create);
	sqlite3_exec(db, sql, NULL, NULL, NULL);
	sqlite3_free(sql);
	sql = sqlite3_str_finish(fill);
	sqlite3_prepare_v2(db, sql, -1, &insert, NULL);
	sqlite3_free(sql);
	for (unsigned int i = 0; insert && i < rows; i++) {
		for (size_t c = 0; c <= n; c++)
			bind(in, insert, (int)c + 1);
		sqlite3_step(insert);
		sqlite3_reset(insert);
		sqlite3_clear_bindings(insert);
	}
	sqlite3_finalize(insert);
}

static void make_kind(struct input *in, sqlite3 *db, unsigned int kind)
{
	const struct kind_desc *desc = kind_desc(kind);
	const char *columns[64] = { "shard" };

	for (unsigned int c = 0; c < desc->n_columns; c++)
		columns[c + 1] = desc->columns[c].name;
	make_table(in, db, desc->name, columns, desc->n_columns + 1u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const shard[] = { "shard",	 "rank",   "pid",
					     "start_ns", "end_ns", "realtime_offset_ns",
					     "lost" };
	static const char *const run[] = { "key", "value" };
	static const char *const string[] = { "id", "text" };
	struct input in = { data, data + size };
	struct intake *intake = NULL;
	struct err err = { "" };
	sqlite3 *db = NULL;
	int r;

	if (sqlite3_open(":memory:", &db) != SQLITE_OK || intake_new(WANT_ALL, &intake) < 0)
		abort();
	make_table(&in, db, "run", run, 2);
	make_table(&in, db, "shard", shard, 7);
	/* Without a process there is nothing behind it to test. */
	sqlite3_exec(db, "INSERT INTO MOESCOPE_SHARD(shard, rank, pid) VALUES(0, 0, 7)", NULL, NULL,
		     NULL);
	make_table(&in, db, "string", string, 2);
	make_kind(&in, db, RECORD_SITE);
	make_kind(&in, db, RECORD_LAUNCH);
	while (in.at < in.end)
		make_kind(&in, db,
			  RECORD_LAUNCH + 1 +
				  next_byte(&in) % (RECORD_KIND_LIMIT - RECORD_LAUNCH - 1));
	r = own_sqlite_read(db, intake, &err);
	if (r < 0 && !err.message[0])
		abort(); /* a failure without a sentence */
	intake_free(intake);
	sqlite3_close(db);
	return 0;
}
