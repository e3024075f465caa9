/* SPDX-License-Identifier: Apache-2.0
 *
 * A run as a folder of CSV files; see csv_kinds.h. One thread.
 */
#include "exports/csv/csv_kinds.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exports/columns/schema.h"
#include "exports/columns/store.h"
#include "exports/csv/csv_cells.h"
#include "subjects/pages/grid.h"

static int write_rows(struct store *store, struct store_data *data, FILE *out)
{
	const struct sql_table *table = data->table;
	struct cell cells[SQL_COLUMNS_MAX];
	bool failed = false;
	size_t parent = 0;

	for (size_t c = 0; c < table->n; c++)
		cells[c] = cell_text(table->columns[c].name);
	csv_row(cells, table->n, out);
	for (size_t i = 0; i < data->n && !failed; i++) {
		for (size_t c = 0; c < table->n; c++)
			cells[c] = store_cell(store, data, c, i, &parent, &failed);
		csv_row(cells, table->n, out);
	}
	return failed ? -ENOMEM : 0;
}

/* Where a column comes from, in words. */
static void describe_column(const struct sql_table *table, const struct sql_column *column,
			    char *out, size_t size)
{
	const struct kind_desc *desc = kind_desc(table->kind);
	static const char *const sources[] = {
		[FROM_RUN] = "name of the run",
		[FROM_RANK] = "rank of the process",
		[FROM_PID] = "process that recorded it",
		[FROM_END] = "start_ns + duration_ns",
		[FROM_STEP] = "step that it belongs to, by its launch call or its time",
		[FROM_PATH] = "ranges around the launch call, outermost first",
		[FROM_LAYER] = "of the innermost range around the launch call that names one",
		[FROM_EXPERT] = "of the innermost range around the launch call that names one",
		[FROM_PHASE] = "of the innermost range around the launch call that names one",
		[FROM_NUMBER] = "place in the list, from 0",
	};
	static const char *const refers[] = {
		[RECORD_STRING] = "", [RECORD_SITE] = " (site)", [RECORD_LAUNCH] = " (launch)"
	};

	if (column->from == FROM_FIELD || column->from == FROM_VALUE)
		snprintf(out, size, "record %s, column %s%s%s", desc->name,
			 desc->columns[column->field].name,
			 column->refers ? refers[column->refers] : "",
			 column->absent ? "; empty: unknown" : "");
	else
		snprintf(out, size, "%s", sources[column->from]);
}

static void write_columns(const struct sql_table *table, FILE *out)
{
	char file[64], how[160];

	snprintf(file, sizeof(file), "%s.csv", table->name);
	for (size_t c = 0; c < table->n; c++) {
		struct cell cells[] = { cell_text(file), cell_text(table->columns[c].name),
					cell_text(sql_type_name(table->columns[c].type)),
					cell_text(how) };

		describe_column(table, &table->columns[c], how, sizeof(how));
		csv_row(cells, 4, out);
	}
}

static FILE *open_file(const char *directory, const char *name, struct err *err)
{
	char *path;
	FILE *file;

	if (asprintf(&path, "%s/%s.csv", directory, name) < 0) {
		err_sys(err, -ENOMEM, "cannot write the tables");
		return NULL;
	}
	file = fopen(path, "wxe");
	if (!file)
		err_sys(err, -errno, "cannot write '%s'", path);
	free(path);
	return file;
}

/* 0 or -errno; closes the file. */
static int finish_file(FILE *file, const char *name, int r, struct err *err)
{
	bool lost = ferror(file) != 0;

	errno = EIO;
	if (fclose(file) != 0 || lost)
		r = r < 0 ? r : -errno;
	return r < 0 ? err_sys(err, r, "cannot write '%s.csv'", name) : 0;
}

static int write_table(struct store *store, const struct schema *schema, size_t t,
		       const char *directory, FILE *columns, struct err *err)
{
	const struct sql_table *table = &schema->tables[t];
	struct store_data *data;
	FILE *file;
	int r = store_open(store, schema, table, ~UINT64_C(0), &data);

	if (r < 0)
		return err_sys(err, r, "cannot write the tables");
	if (!data->n)
		return 0;
	file = open_file(directory, table->name, err);
	if (!file)
		return -EIO;
	write_columns(table, columns);
	return finish_file(file, table->name, write_rows(store, data, file), err);
}

static int write_tables(const struct run *run, const struct schema *schema, const char *directory,
			struct err *err)
{
	struct cell titles[] = { cell_text("file"), cell_text("column"), cell_text("type"),
				 cell_text("how") };
	FILE *columns = open_file(directory, "columns", err);
	struct store store;
	int r;

	if (!columns)
		return -EIO;
	r = store_init(&store, run, run->info.name);
	if (r < 0)
		return finish_file(columns, "columns", r, err);
	csv_row(titles, 4, columns);
	for (size_t t = 0; r == 0 && t < schema->n; t++)
		r = write_table(&store, schema, t, directory, columns, err);
	store_release(&store);
	if (r < 0) {
		fclose(columns);
		return r;
	}
	return finish_file(columns, "columns", 0, err);
}

/* What has been written before a failure. */
static void remove_directory(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
	rmdir(path);
}

static int usual_mode(const char *path)
{
	mode_t mask = umask(0);

	umask(mask);
	return chmod(path, 0777 & ~mask) < 0 ? -errno : 0;
}

int csv_kinds_write(const struct run *run, const char *path, struct err *err)
{
	struct schema *schema = malloc(sizeof(*schema));
	size_t length = strlen(path);
	char *temporary;
	int r;

	while (length > 1 && path[length - 1] == '/')
		length--;
	if (!schema || asprintf(&temporary, "%.*s.XXXXXX", (int)length, path) < 0) {
		free(schema);
		return err_sys(err, -ENOMEM, "cannot write the tables");
	}
	schema_init(schema);
	if (!mkdtemp(temporary)) {
		r = err_sys(err, -errno, "cannot make the directory '%s'", path);
	} else {
		r = write_tables(run, schema, temporary, err);
		if (r == 0 && (usual_mode(temporary) < 0 || rename(temporary, path) < 0))
			r = err_sys(err, -errno, "cannot make the directory '%s'", path);
		if (r < 0)
			remove_directory(temporary);
	}
	free(temporary);
	free(schema);
	return r;
}
