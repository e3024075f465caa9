/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/runs/{run}/sql: a query and its rows, or the tables there are; see sql_desk.h.
 */
#include "surfaces/http/sql_desk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "surfaces/http/routes.h"
#include "surfaces/json/fields_json.h"
#include "surfaces/sql/sql.h"

#define MOST_ROWS 10000
#define MOST_BYTES (16 << 20) /* of an answer */
#define MOST_S 10
#define EXACT INT64_C(9007199254740992) /* integers up to here are exact in every JSON reader */

void sql_desk_init(struct sql_desk *desk)
{
	*desk = (struct sql_desk){ 0 };
	pthread_mutex_init(&desk->lock, NULL);
}

void sql_desk_close(struct sql_desk *desk)
{
	pthread_mutex_lock(&desk->lock);
	desk->closed = true;
	if (desk->running)
		sql_interrupt(desk->running);
	pthread_mutex_unlock(&desk->lock);
}

void sql_desk_release(struct sql_desk *desk)
{
	pthread_mutex_destroy(&desk->lock);
}

static bool desk_take(struct sql_desk *desk)
{
	bool mine;

	pthread_mutex_lock(&desk->lock);
	mine = !desk->taken && !desk->closed;
	desk->taken |= mine;
	pthread_mutex_unlock(&desk->lock);
	return mine;
}

static void desk_leave(struct sql_desk *desk)
{
	pthread_mutex_lock(&desk->lock);
	desk->taken = false;
	pthread_mutex_unlock(&desk->lock);
}

/* False: the desk has been closed. */
static bool desk_watch(struct sql_desk *desk, struct sql *sql)
{
	bool open;

	pthread_mutex_lock(&desk->lock);
	desk->running = sql;
	open = !desk->closed;
	pthread_mutex_unlock(&desk->lock);
	return open;
}

struct query {
	const struct routes *routes;
	const char *run, *text;
	FILE *out;
	struct json json;
	bool begun, second, full;
};

static int load_run(void *context, size_t i, const struct run_want *want, struct run **ret_run,
		    struct err *err)
{
	const struct query *query = context;

	(void)i;
	return routes_load(query->routes, query->run, want, ret_run, err);
}

static void put_limits(struct json *json)
{
	json_key(json, "limits");
	json_object_line(json);
	json_key(json, "rows");
	json_int(json, MOST_ROWS);
	json_key(json, "bytes");
	json_int(json, MOST_BYTES);
	json_key(json, "seconds");
	json_int(json, MOST_S);
	json_object_end(json);
}

static void begin_answer(struct json *json, const char *schema, FILE *out)
{
	json_init_file(json, out, 2);
	json_object(json);
	json_key(json, "schema");
	json_string(json, schema);
	put_limits(json);
}

static int begin_rows(void *context, const char *const *names, size_t n)
{
	struct query *query = context;
	struct json *json = &query->json;

	query->second = query->begun;
	if (query->second)
		return -EINVAL;
	query->begun = true;
	begin_answer(json, "moescope/query/1", query->out);
	json_key(json, "columns");
	json_array_line(json);
	for (size_t i = 0; i < n; i++)
		json_string(json, names[i]);
	json_array_end(json);
	json_key(json, "rows");
	json_array(json);
	return 0;
}

static void put_cell(struct json *json, const struct cell *cell)
{
	char text[24];

	if (cell->kind == CELL_INT && (cell->i > EXACT || cell->i < -EXACT)) {
		snprintf(text, sizeof(text), "%lld", (long long)cell->i);
		json_string(json, text);
	} else {
		grid_json_plain(json, cell);
	}
}

static int put_row(void *context, const struct cell *cells, size_t n)
{
	struct query *query = context;

	query->full = ftello(query->out) > MOST_BYTES;
	if (query->full)
		return -E2BIG;
	json_array_line(&query->json);
	for (size_t i = 0; i < n; i++)
		put_cell(&query->json, &cells[i]);
	json_array_end(&query->json);
	return 0;
}

static int end_rows(void *context)
{
	(void)context;
	return 0;
}

static int end_answer(struct query *query, bool more, int64_t took_ns)
{
	json_array_end(&query->json);
	json_key(&query->json, "more");
	json_bool(&query->json, more);
	json_key(&query->json, "took_ns");
	json_int(&query->json, took_ns);
	json_object_end(&query->json);
	return json_finish(&query->json, NULL);
}

/* What is wrong with it, in the words of whoever asks over HTTP. */
static int query_failed(const struct query *query, int r, struct err *err)
{
	if (query->second)
		return err_set(err, -EINVAL, "give one query at a time.");
	if (r == -ETIME)
		return err_set(err, r,
			       "the query was stopped after %d seconds; let it read or make fewer "
			       "rows.",
			       MOST_S);
	if (r == -EINTR)
		return err_set(err, -EBUSY, "the server is being ended.");
	if (r == 0)
		return err_set(err, -EINVAL, "the query has no rows; it must be a SELECT.");
	return r;
}

static int run_query(struct query *query, struct err *err)
{
	struct sql_source source = { 1, &query->run, load_run, run_free, query };
	struct sql_sink sink = { begin_rows, put_row, end_rows, query };
	int64_t start_ns = clock_monotonic_ns();
	bool more = false;
	struct sql *sql;
	int r = sql_open(&source, &sql, err);

	if (r < 0)
		return r;
	sql_guard(sql, MOST_S * INT64_C(1000000000));
	r = desk_watch(query->routes->desk, sql)
		    ? sql_run(sql, query->text, MOST_ROWS, &sink, &more, err)
		    : -EINTR;
	desk_watch(query->routes->desk, NULL);
	sql_close(sql);
	if (query->full && !query->second)
		r = 0;
	if (r == 0 && query->begun && !query->second)
		return end_answer(query, more || query->full, clock_monotonic_ns() - start_ns);
	if (query->begun)
		json_finish(&query->json, NULL);
	return query_failed(query, r, err);
}

static int print_query(const void *what, FILE *out, struct err *err)
{
	struct query query = *(const struct query *)what;
	int r;

	query.out = out;
	if (!desk_take(query.routes->desk))
		return err_set(err, -EBUSY,
			       "another query is running; ask again when it has ended.");
	r = run_query(&query, err);
	desk_leave(query.routes->desk);
	return r;
}

struct listing {
	struct json json;
	char table[64]; /* that is open */
};

static int put_column(void *context, const char *table, const char *name, const char *type)
{
	struct listing *listing = context;
	struct json *json = &listing->json;

	if (strcmp(table, listing->table) != 0) {
		if (listing->table[0]) {
			json_array_end(json);
			json_object_end(json);
		}
		snprintf(listing->table, sizeof(listing->table), "%s", table);
		json_object(json);
		json_key(json, "name");
		json_string(json, table);
		json_key(json, "columns");
		json_array(json);
	}
	json_object_line(json);
	json_key(json, "name");
	json_string(json, name);
	json_key(json, "type");
	json_string(json, type);
	json_object_end(json);
	return 0;
}

static int print_tables(const void *what, FILE *out, struct err *err)
{
	const struct query *query = what;
	char *path = library_find(&query->routes->library, query->run, err);
	struct listing listing = { .table = "" };
	struct json *json = &listing.json;
	int r, written;

	if (!path)
		return -ENOENT;
	free(path);
	begin_answer(json, "moescope/sql-tables/1", out);
	json_key(json, "tables");
	json_array(json);
	r = sql_columns(put_column, &listing);
	if (listing.table[0]) {
		json_array_end(json);
		json_object_end(json);
	}
	json_array_end(json);
	json_object_end(json);
	written = json_finish(json, NULL);
	if (r == -ENOTSUP)
		return err_set(
			err, r,
			"this moescope was built without SQLite, so it has no SQL; build it with "
			"-Dsqlite=enabled.");
	return r < 0 ? r : written;
}

static struct reply make_reply(const struct routes *routes, const struct target *target)
{
	struct query query = { .routes = routes,
			       .run = target->segments[2],
			       .text = target_value(target, "query") };

	return printed_reply(JSON_TYPE, query.text ? print_query : print_tables, &query);
}

static const struct http_parameter parameters[] = {
	{ "query", "one SELECT of SQLite; without it: the tables and their columns", NULL },
	{ NULL, NULL, NULL },
};

const struct http_route route_sql = {
	.path = "/api/runs/{run}/sql",
	.summary = "a query over the records of the run, read-only",
	.answer = "The columns, at most 10,000 rows, and whether there are more.",
	.parameters = parameters,
	.make = make_reply,
};
