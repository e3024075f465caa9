/* SPDX-License-Identifier: Apache-2.0
 *
 * A session of queries: the connection, what it is allowed to do, loading what statements need, and
 * running them; see sql.h.
 */
#include "surfaces/sql/sql.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "surfaces/sql/session.h"
#include "surfaces/sql/sums.h"

#define INTERRUPT_EVERY 10000 /* steps of SQLite's machine */

void need_add(struct sql_need *need, unsigned int kind, uint64_t columns)
{
	need->kinds |= UINT64_C(1) << kind;
	need->columns[kind] |= columns;
}

static uint64_t all_columns(unsigned int kind)
{
	return (UINT64_C(1) << kind_desc(kind)->n_columns) - 1;
}

/* Of kinds that a table needs beside its own. */
static uint64_t beside_columns(unsigned int kind)
{
	switch (kind) {
	case RECORD_KERNEL: /* what finds their calls */
		return WANT_COLUMN(kernel, start_ns) | WANT_COLUMN(kernel, correlation) |
		       WANT_COLUMN(kernel, graph_node);
	case RECORD_FRAME: /* to be imported, no more */
		return WANT_COLUMN(frame, depth);
	default:
		return all_columns(kind);
	}
}

void need_table(struct sql_need *need, const struct sql_table *table, uint64_t columns)
{
	uint64_t kinds = schema_kinds(table, columns);

	need_add(need, table->kind, schema_fields(table, columns));
	for (unsigned int k = 1; k < RECORD_KIND_LIMIT; k++)
		if (kinds >> k & 1)
			need_add(need, k, beside_columns(k));
}

static bool need_is_met(const struct sql_need *need, const struct sql_need *by)
{
	if (need->kinds & ~by->kinds)
		return false;
	for (unsigned int k = 1; k < RECORD_KIND_LIMIT; k++)
		if (need->columns[k] & ~by->columns[k])
			return false;
	return true;
}

static struct run_want want_of(const struct sql_need *need)
{
	struct run_want want = { .kinds = need->kinds };

	for (unsigned int k = 1; k < RECORD_KIND_LIMIT; k++) {
		const struct kind_desc *desc = kind_desc(k);
		unsigned int c = 0;

		if (!(need->kinds >> k & 1))
			continue;
		want.columns[k] = need->columns[k];
		/* No column is all columns: one that costs little stands for the rows. */
		while (!want.columns[k] && desc->columns[c].count_column >= 0)
			c++;
		if (!want.columns[k])
			want.columns[k] = UINT64_C(1) << c;
	}
	return want;
}

static void unload_runs(struct sql *sql)
{
	for (size_t i = 0; i < sql->source.n; i++) {
		functions_release(sql->runs[i].functions);
		store_release(&sql->runs[i].store);
		if (sql->runs[i].run)
			sql->source.release(sql->runs[i].run);
		sql->runs[i].run = NULL;
	}
	sql->loaded = (struct sql_need){ 0 };
}

/* What has been asked for, of all runs. Nothing may be open: arrays move. */
static int load_asked(struct sql *sql, struct err *err)
{
	struct run_want want = want_of(&sql->asked);

	if (sql->runs[0].run && need_is_met(&sql->asked, &sql->loaded))
		return 0;
	unload_runs(sql);
	for (size_t i = 0; i < sql->source.n; i++) {
		struct sql_run *run = &sql->runs[i];
		int r = sql->source.load(sql->source.context, i, &want, &run->run, err);

		if (r == 0) {
			r = store_init(&run->store, run->run, sql->source.labels[i]);
			if (r < 0)
				err_sys(err, r, "cannot query run '%s'", sql->source.labels[i]);
		}
		if (r < 0) {
			unload_runs(sql);
			return r;
		}
	}
	sql->loaded = sql->asked;
	return 0;
}

int session_declare(struct sql *sql, sqlite3_str *text)
{
	char *declaration = sqlite3_str_finish(text);
	int r;

	if (!declaration)
		return SQLITE_NOMEM;
	sql->declaring = true;
	r = sqlite3_declare_vtab(sql->db, declaration);
	sql->declaring = false;
	sqlite3_free(declaration);
	return r;
}

void session_result(sqlite3_context *context, const struct cell *cell)
{
	switch (cell->kind) {
	case CELL_ABSENT:
		sqlite3_result_null(context);
		break;
	case CELL_INT:
	case CELL_UINT:
		sqlite3_result_int64(context, cell->i);
		break;
	case CELL_BOOL:
		sqlite3_result_int64(context, cell->i != 0);
		break;
	case CELL_REAL:
	case CELL_DECIMAL:
		sqlite3_result_double(context, cell_number(cell));
		break;
	case CELL_TEXT:
		sqlite3_result_text(context, cell->s, -1, SQLITE_STATIC);
		break;
	}
}

int session_failed(sqlite3_vtab *vtab, int r)
{
	sqlite3_free(vtab->zErrMsg);
	vtab->zErrMsg = sqlite3_mprintf("%s", strerror(-r));
	return r == -ENOMEM ? SQLITE_NOMEM : SQLITE_ERROR;
}

static bool in_list(const char *const *list, const char *name)
{
	for (size_t i = 0; name && list[i]; i++)
		if (!sqlite3_stricmp(list[i], name))
			return true;
	return false;
}

/* A query may read, and write what goes away with it. */
static int authorise(void *context, int action, const char *first, const char *second,
		     const char *database, const char *trigger)
{
	static const char *const pragmas[] = { "table_info",	"table_xinfo",	   "table_list",
					       "database_list", "function_list",   "module_list",
					       "pragma_list",	"collation_list",  "index_list",
					       "index_info",	"compile_options", NULL };
	struct sql *sql = context;
	bool ours = database && !strcmp(database, "temp");
	bool allowed;

	(void)trigger;
	if (sql->declaring)
		return SQLITE_OK;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		allowed = true;
		break;
	case SQLITE_TRANSACTION:
	case SQLITE_SAVEPOINT:
	case SQLITE_CREATE_TEMP_TABLE:
	case SQLITE_CREATE_TEMP_INDEX:
	case SQLITE_CREATE_TEMP_VIEW:
	case SQLITE_DROP_TEMP_TABLE:
	case SQLITE_DROP_TEMP_INDEX:
	case SQLITE_DROP_TEMP_VIEW:
	case SQLITE_REINDEX: /* of what is being made */
		allowed = !sql->most_ns;
		break;
	case SQLITE_INSERT:
	case SQLITE_UPDATE:
	case SQLITE_DELETE:
		allowed = ours && !sql->most_ns;
		break;
	case SQLITE_FUNCTION:
		allowed = sqlite3_stricmp(second ? second : "", "load_extension") != 0;
		break;
	case SQLITE_PRAGMA:
		allowed = in_list(pragmas, first);
		break;
	default:
		allowed = false;
		break;
	}
	sql->denied |= !allowed;
	return allowed ? SQLITE_OK : SQLITE_DENY;
}

/* Tables that SQLite brings are made when they are first used, which a query may not do. */
static void make_known(struct sql *sql)
{
	static const char *const queries[] = {
		"SELECT 1 FROM json_each('[]'), json_tree('[]')",
		"SELECT 1 FROM pragma_table_info('x'), pragma_table_xinfo('x'), pragma_table_list",
	};

	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		sqlite3_stmt *statement = NULL;

		/* One that this SQLite does not have is missed when it is asked for. */
		sqlite3_prepare_v2(sql->db, queries[i], -1, &statement, NULL);
		sqlite3_finalize(statement);
	}
}

static bool is_late(const struct sql *sql)
{
	return sql->until_ns && clock_monotonic_ns() > sql->until_ns;
}

static int is_interrupted(void *context)
{
	struct sql *sql = context;

	return atomic_load(&sql->interrupted) || is_late(sql);
}

static int connect_session(struct sql *sql)
{
	int r = sqlite3_open_v2(":memory:", &sql->db,
				SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
				NULL);

	if (r == SQLITE_OK)
		r = vtab_register(sql);
	if (r == SQLITE_OK)
		r = functions_register(sql);
	if (r == SQLITE_OK)
		r = sums_register(sql);
	if (r == SQLITE_OK)
		make_known(sql);
	if (r == SQLITE_OK)
		r = sqlite3_set_authorizer(sql->db, authorise, sql);
	if (r == SQLITE_OK)
		sqlite3_progress_handler(sql->db, INTERRUPT_EVERY, is_interrupted, sql);
	return r;
}

int sql_open(const struct sql_source *source, struct sql **ret_sql, struct err *err)
{
	struct sql *sql = calloc(1, sizeof(*sql));
	int r;

	if (sql)
		sql->runs = calloc(source->n, sizeof(*sql->runs));
	if (!sql || !sql->runs) {
		free(sql);
		return err_sys(err, -ENOMEM, "cannot start a query");
	}
	sql->source = *source;
	schema_init(&sql->schema);
	r = connect_session(sql);
	if (r != SQLITE_OK) {
		int code = err_set(err, r == SQLITE_NOMEM ? -ENOMEM : -EIO,
				   "cannot start a query: %s", sqlite3_errstr(r));

		sql_close(sql);
		return code;
	}
	*ret_sql = sql;
	return 0;
}

void sql_close(struct sql *sql)
{
	if (!sql)
		return;
	sqlite3_close(sql->db);
	unload_runs(sql);
	free(sql->runs);
	free(sql);
}

void sql_guard(struct sql *sql, int64_t most_ns)
{
	sql->most_ns = most_ns;
	sqlite3_limit(sql->db, SQLITE_LIMIT_LENGTH, SQL_GUARDED_BYTES);
	sqlite3_limit(sql->db, SQLITE_LIMIT_ATTACHED, 0);
	/* Nothing looks at the time while a pattern is tried. */
	sqlite3_limit(sql->db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000);
}

void sql_use_sums(struct sql *sql, bool use)
{
	sql->no_sums = !use;
}

void sql_interrupt(struct sql *sql)
{
	atomic_store(&sql->interrupted, true);
	sqlite3_interrupt(sql->db);
}

bool sql_complete(const char *text)
{
	return sqlite3_complete(text);
}

/* What SQLite says, and where. whole: all that was given; text: the statement in it, or NULL. */
static int statement_failed(struct sql *sql, const char *whole, const char *text, struct err *err)
{
	int code = sqlite3_errcode(sql->db), offset = sqlite3_error_offset(sql->db);
	const char *message = sqlite3_errmsg(sql->db);

	if (code == SQLITE_INTERRUPT && !atomic_load(&sql->interrupted) && is_late(sql))
		return err_set(err, -ETIME, "the query was stopped after %.3g s",
			       (double)sql->most_ns / 1e9);
	if (code == SQLITE_INTERRUPT)
		return err_set(err, -EINTR, "interrupted");
	if (code == SQLITE_NOMEM)
		return err_set(err, -ENOMEM, "no memory for the query");
	if (sql->denied && sql->most_ns)
		return err_set(err, -EPERM, "runs are read-only: %s; ask with SELECT", message);
	if (sql->denied)
		return err_set(err, -EPERM,
			       "runs are read-only: %s; CREATE TEMP TABLE creates a table that "
			       "lasts as long as this command",
			       message);
	if (offset >= 0 && text && (size_t)offset <= strlen(text)) {
		size_t line = 1, column = 1;

		for (const char *at = whole; at < text + offset; at++) {
			bool within = ((unsigned char)*at & 0xc0) == 0x80; /* a character */

			column = *at == '\n' ? 1 : column + !within;
			line += *at == '\n';
		}
		return err_set(err, -EINVAL, "%s, at line %zu, column %zu of the query", message,
			       line, column);
	}
	return err_set(err, -EINVAL, "%s", message);
}

struct result {
	const char **names;
	struct cell *cells;
	char **blobs; /* of the row: texts of blobs */
	size_t n;
};

/* Bytes as SQL writes them: they may be no text, or one with an end inside. */
static char *blob_text(sqlite3_stmt *statement, int c)
{
	const uint8_t *bytes = sqlite3_column_blob(statement, c);
	size_t n = (size_t)sqlite3_column_bytes(statement, c);
	char *text = malloc(2 * n + 4), *at = text;

	if (!text)
		return NULL;
	at += sprintf(at, "x'");
	for (size_t i = 0; i < n; i++)
		at += sprintf(at, "%02x", bytes[i]);
	sprintf(at, "'");
	return text;
}

static struct cell cell_of(struct result *result, sqlite3_stmt *statement, size_t column)
{
	int c = (int)column;
	const char *text;

	switch (sqlite3_column_type(statement, c)) {
	case SQLITE_INTEGER:
		return cell_int(sqlite3_column_int64(statement, c));
	case SQLITE_FLOAT:
		return cell_real(sqlite3_column_double(statement, c));
	case SQLITE_NULL:
		return cell_absent("");
	case SQLITE_BLOB:
		free(result->blobs[c]);
		text = result->blobs[c] = blob_text(statement, c);
		break;
	default:
		text = (const char *)sqlite3_column_text(statement, c);
		break;
	}
	return text ? cell_text(text) : cell_absent("no memory");
}

static int run_rows_of(struct sql *sql, sqlite3_stmt *statement, size_t limit,
		       const struct sql_sink *sink, struct result *result, bool *more,
		       struct err *err)
{
	int code = sqlite3_step(statement), r = 0;
	size_t rows = 0;

	/* Only now: what fails at once leaves nothing half-said. */
	if (result->n && (code == SQLITE_ROW || code == SQLITE_DONE))
		r = sink->begin(sink->context, result->names, result->n);
	if (r < 0)
		return err_sys(err, r, "cannot write the rows");
	for (; code == SQLITE_ROW; code = sqlite3_step(statement)) {
		if (limit && rows++ == limit) {
			*more = true;
			code = SQLITE_DONE;
			break;
		}
		for (size_t c = 0; c < result->n; c++)
			result->cells[c] = cell_of(result, statement, c);
		r = sink->row(sink->context, result->cells, result->n);
		if (r < 0)
			return r == -EPIPE ? r : err_sys(err, r, "cannot write the rows");
	}
	if (code != SQLITE_DONE)
		return statement_failed(sql, NULL, NULL, err);
	r = result->n ? sink->end(sink->context) : 0;
	return r < 0 ? err_sys(err, r, "cannot write the rows") : 0;
}

/* named: the statement as it was given; statement: what says the same. */
static int run_statement(struct sql *sql, sqlite3_stmt *named, sqlite3_stmt *statement,
			 size_t limit, const struct sql_sink *sink, bool *more, struct err *err)
{
	struct result result = { .n = (size_t)sqlite3_column_count(named) };
	int r = 0;

	result.names = calloc(result.n + 1, sizeof(*result.names));
	result.cells = calloc(result.n + 1, sizeof(*result.cells));
	result.blobs = calloc(result.n + 1, sizeof(*result.blobs));
	for (size_t c = 0; result.names && c < result.n; c++) {
		result.names[c] = sqlite3_column_name(named, (int)c);
		if (!result.names[c])
			r = -ENOMEM;
	}
	if (!result.names || !result.cells || !result.blobs || r < 0)
		r = err_set(err, -ENOMEM, "no memory for the query");
	if (r == 0) {
		sql->until_ns = sql->most_ns ? clock_monotonic_ns() + sql->most_ns : 0;
		r = run_rows_of(sql, statement, limit, sink, &result, more, err);
		sql->until_ns = 0;
	}
	for (size_t c = 0; result.blobs && c < result.n; c++)
		free(result.blobs[c]);
	free(result.blobs);
	free(result.names);
	free(result.cells);
	return r;
}

/* Whether a temporary table or view has the name: statements mean that one then. */
static bool is_hidden(struct sql *sql, const struct sql_table *table)
{
	sqlite3_stmt *find = NULL;
	bool hidden = true; /* when in doubt the rows answer */

	if (sqlite3_prepare_v2(sql->db,
			       "SELECT 1 FROM sqlite_temp_master WHERE name = ? COLLATE NOCASE", -1,
			       &find, NULL) == SQLITE_OK) {
		sqlite3_bind_text(find, 1, table->name, -1, SQLITE_STATIC);
		hidden = sqlite3_step(find) != SQLITE_DONE;
	}
	sqlite3_finalize(find);
	return hidden;
}

/* What says the same with sums, or NULL. */
static sqlite3_stmt *over_sums(struct sql *sql, sqlite3_stmt *statement)
{
	const char *text = sqlite3_sql(statement);
	const struct sql_table *table;
	sqlite3_stmt *other = NULL;
	char *rewritten;

	if (!text || sums_rewrite(&sql->schema, text, strlen(text), &rewritten, &table) < 0 ||
	    !rewritten)
		return NULL;
	/* What it does not need then is not loaded. */
	sql->asked = sql->loaded;
	if (is_hidden(sql, table) ||
	    sqlite3_prepare_v2(sql->db, rewritten, -1, &other, NULL) != SQLITE_OK ||
	    sqlite3_column_count(other) != sqlite3_column_count(statement)) {
		sqlite3_finalize(other);
		other = NULL;
	}
	free(rewritten);
	return other;
}

static int run_best(struct sql *sql, sqlite3_stmt *statement, size_t limit,
		    const struct sql_sink *sink, bool *more, struct err *err)
{
	struct sql_need asked = sql->asked;
	sqlite3_stmt *sums = sql->no_sums ? NULL : over_sums(sql, statement);
	int r;

	sql->unsummable = false;
	if (sums) {
		r = load_asked(sql, err);
		if (r == 0)
			r = run_statement(sql, statement, sums, limit, sink, more, err);
		sqlite3_finalize(sums);
		/* Then it has failed before its first row. */
		if (!sql->unsummable)
			return r;
		if (err)
			err->message[0] = '\0';
	}
	sql->asked = asked;
	for (unsigned int k = 1; k < RECORD_KIND_LIMIT; k++)
		sql->asked.columns[k] |= sql->loaded.columns[k];
	sql->asked.kinds |= sql->loaded.kinds;
	r = load_asked(sql, err);
	return r < 0 ? r : run_statement(sql, statement, statement, limit, sink, more, err);
}

static bool is_blank(const char *text)
{
	while (isspace((unsigned char)*text) || *text == ';')
		text++;
	return !*text;
}

int sql_run(struct sql *sql, const char *text, size_t limit, const struct sql_sink *sink,
	    bool *ret_more, struct err *err)
{
	const char *whole = text;
	bool more = false;
	int r = 0;

	while (r == 0 && !is_blank(text)) {
		sqlite3_stmt *statement = NULL;
		const char *tail = text;

		sql->asked = sql->loaded;
		sql->denied = false;
		if (sqlite3_prepare_v2(sql->db, text, -1, &statement, &tail) != SQLITE_OK)
			r = statement_failed(sql, whole, text, err);
		else if (statement)
			r = run_best(sql, statement, limit, sink, &more, err);
		sqlite3_finalize(statement);
		text = tail;
	}
	if (r == 0 && ret_more)
		*ret_more = more;
	atomic_store(&sql->interrupted, false);
	return r;
}

int sql_columns(sql_column_function *each, void *context)
{
	struct schema *schema = malloc(sizeof(*schema));
	int r = 0;

	if (!schema)
		return -ENOMEM;
	schema_init(schema);
	for (size_t t = 0; t < schema->n; t++) {
		const struct sql_table *table = &schema->tables[t];

		for (size_t c = 0; r >= 0 && c < table->n; c++)
			r = each(context, table->name, table->columns[c].name,
				 sql_type_name(table->columns[c].type));
	}
	free(schema);
	return r < 0 ? r : functions_columns(each, context);
}

#define SCHEMA_WIDTH 96

struct schema_print {
	const char *prefix;
	FILE *out;
	char table[64]; /* that is open */
	size_t at;	/* in the line */
};

/* As many columns in a line as fit. */
static int print_column(void *context, const char *table, const char *name, const char *type)
{
	struct schema_print *print = context;
	size_t length = strlen(name) + strlen(type) + 3;

	if (print->prefix && strncmp(table, print->prefix, strlen(print->prefix)) != 0)
		return 0;
	if (strcmp(table, print->table) != 0) {
		fprintf(print->out, "%sCREATE TABLE %s(", print->at ? ");\n" : "", table);
		snprintf(print->table, sizeof(print->table), "%s", table);
		fputs("\n  ", print->out);
		print->at = 2;
	} else if (print->at + length > SCHEMA_WIDTH) {
		fputs(",\n  ", print->out);
		print->at = 2;
	} else {
		fputs(", ", print->out);
	}
	print->at += length;
	fprintf(print->out, "%s %s", name, type);
	return 0;
}

int sql_schema(const char *prefix, FILE *out)
{
	struct schema_print print = { .prefix = prefix, .out = out };
	int r = sql_columns(print_column, &print);

	if (print.at)
		fputs(");\n", out);
	return r;
}

void sql_tables(FILE *out)
{
	struct schema *schema = malloc(sizeof(*schema));

	if (!schema)
		return;
	schema_init(schema);
	for (size_t t = 0; t < schema->n; t++)
		fprintf(out, "%s\n", schema->tables[t].name);
	free(schema);
	functions_list(out);
}
