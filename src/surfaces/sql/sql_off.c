/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands in for queries and the SQLite export in a build without SQLite.
 */
#include <errno.h>

#include "exports/sqlite/sqlite_write.h"
#include "surfaces/sql/sql.h"

#define WORDS "this build of moescope has no SQLite; build it with -Dsqlite=enabled."

int sql_open(const struct sql_source *source, struct sql **ret_sql, struct err *err)
{
	(void)source;
	(void)ret_sql;
	return err_set(err, -ENOTSUP, WORDS);
}

void sql_close(struct sql *sql)
{
	(void)sql;
}

int sql_run(struct sql *sql, const char *text, size_t limit, const struct sql_sink *sink,
	    bool *ret_more, struct err *err)
{
	(void)sql;
	(void)text;
	(void)limit;
	(void)sink;
	(void)ret_more;
	return err_set(err, -ENOTSUP, WORDS);
}

void sql_guard(struct sql *sql, int64_t most_ns)
{
	(void)sql;
	(void)most_ns;
}

void sql_use_sums(struct sql *sql, bool use)
{
	(void)sql;
	(void)use;
}

bool sql_complete(const char *text)
{
	(void)text;
	return true;
}

void sql_interrupt(struct sql *sql)
{
	(void)sql;
}

int sql_columns(sql_column_function *each, void *context)
{
	(void)each;
	(void)context;
	return -ENOTSUP;
}

int sql_schema(const char *prefix, FILE *out)
{
	(void)prefix;
	(void)out;
	return -ENOTSUP;
}

void sql_tables(FILE *out)
{
	(void)out;
}

int sqlite_write(const struct run *run, const char *path, struct err *err)
{
	(void)run;
	(void)path;
	return err_set(err, -ENOTSUP, WORDS);
}
