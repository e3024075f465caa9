/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool `sql`: a query on a run, read-only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "surfaces/mcp/tool.h"
#include "surfaces/sql/sql.h"

struct query {
	const struct tool_call *call;
	const char *run;
	size_t offset, at;  /* rows to leave out, and rows so far */
	unsigned int begun; /* statements with rows */
	struct listing listing;
};

static int load_run(void *context, size_t i, const struct run_want *want, struct run **ret_run,
		    struct err *err)
{
	const struct query *query = context;
	const struct mcp_host *host = query->call->host;

	(void)i;
	return host->load(host->context, query->run, want, true, ret_run, err);
}

static int begin_rows(void *context, const char *const *names, size_t n)
{
	struct query *query = context;
	struct json *json = &query->listing.json;

	if (query->begun++)
		return -E2BIG;
	listing_begin(&query->listing);
	json_key(json, "run");
	json_string(json, query->run);
	json_key(json, "columns");
	json_array(json);
	for (size_t i = 0; i < n; i++)
		json_string(json, names[i]);
	json_array_end(json);
	json_key(json, "rows");
	json_array(json);
	return 0;
}

/* Rows that have no room are counted: how many there are is an answer, too. */
static int put_row(void *context, const struct cell *cells, size_t n)
{
	struct query *query = context;
	struct json item;

	if (query->at++ < query->offset)
		return 0;
	if (query->listing.left_out) {
		query->listing.left_out++;
		return 0;
	}
	json_init_buffer(&item, 0);
	json_array(&item);
	for (size_t i = 0; i < n; i++)
		json_brief_cell(&item, &cells[i]);
	json_array_end(&item);
	listing_add(&query->listing, &item);
	return 0;
}

static int end_rows(void *context)
{
	(void)context;
	return 0;
}

static int finish(struct query *query, FILE *out, struct err *err)
{
	bool none = query->listing.left_out && !query->listing.shown;

	if (none)
		json_finish(&query->listing.json, NULL);
	return none ? err_set(err, -EMSGSIZE,
			      "a row of this query is longer than an answer may be; "
			      "select fewer columns.")
		    : listing_end(&query->listing, query->offset, out);
}

static int run_query(struct query *query, const char *text, FILE *out, struct err *err)
{
	const struct mcp_host *host = query->call->host;
	struct sql_source source = { 1, &query->run, load_run, host->release, query };
	struct sql_sink sink = { begin_rows, put_row, end_rows, query };
	struct sql *sql;
	int r = sql_open(&source, &sql, err);

	if (r < 0)
		return r;
	host->watch(host->context, sql);
	r = sql_run(sql, text, 0, &sink, NULL, err);
	host->watch(host->context, NULL);
	sql_close(sql);
	if (r < 0 && query->begun)
		json_finish(&query->listing.json, NULL);
	if (r == -EINTR)
		return err_set(err, r, "the query took too long; ask for fewer rows.");
	if (query->begun > 1)
		return err_set(err, -EINVAL, "give one query at a time.");
	if (r < 0)
		return r;
	if (!query->begun)
		return err_set(err, -EINVAL, "the query has no rows; it must be a SELECT.");
	return finish(query, out, err);
}

static int print_schema(const char *prefix, FILE *out, struct err *err)
{
	char *text = NULL;
	size_t size, left_out;
	FILE *memory = open_memstream(&text, &size);
	int r = 0;

	if (!memory)
		return -ENOMEM;
	if (*prefix)
		r = sql_schema(prefix, memory);
	else
		sql_tables(memory);
	if (fclose(memory) != 0 && r >= 0)
		r = -ENOMEM;
	if (r == -ENOTSUP)
		err_set(err, r, "this build of moescope has no SQLite.");
	else if (r >= 0 && !*text)
		r = err_set(err, -ENOENT, "no table of SQL begins with '%.60s'.", prefix);
	if (r >= 0) {
		left_out = text_fitted(text, ANSWER_BYTES - 100, out);
		if (left_out)
			fprintf(out, "-- %zu more lines; give more of a table's name\n", left_out);
	}
	free(text);
	return r;
}

static int call_sql(const struct tool_call *call, FILE *out, struct err *err)
{
	const char *text = tool_argument(call, "query"), *schema = tool_argument(call, "schema");
	struct query query = { .call = call, .offset = tool_number(call, "offset") };
	char *run = NULL;
	int r;

	if (!text)
		return print_schema(schema ? schema : "", out, err);
	r = tool_run(call, "run", &run, err);
	query.run = run;
	if (r >= 0)
		r = run_query(&query, text, out, err);
	free(run);
	return r;
}

const struct tool tool_sql = {
	.name = "sql",
	.description =
		"A SELECT (SQLite) over the records of a run. Without a query: the tables, or with "
		"schema their columns.",
	.arguments = { ARGUMENT_RUN,
		       { .name = "query", .help = "one SELECT" },
		       { .name = "schema", .help = "beginning of the names of tables" },
		       ARGUMENT_OFFSET },
	.call = call_sql,
};
