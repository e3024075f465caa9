/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of queries out; see sql_output.h.
 */
#include "cmd/results/sql_output.h"
#include "exports/csv/csv_cells.h"
#include "surfaces/json/fields_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int sql_output_init(struct sql_output *output, enum sql_format format,
		    const struct text_layout *layout, FILE *target)
{
	*output = (struct sql_output){
		.format = format, .layout = *layout, .target = target, .out = target
	};
	if (format == SQL_JSON)
		output->out = open_memstream(&output->text, &output->text_size);
	return output->out ? 0 : -ENOMEM;
}

/* One result is an object, several are an array of them, as with several runs. */
int sql_output_finish(struct sql_output *output)
{
	int r = 0;

	if (output->format != SQL_JSON)
		return 0;
	if (fclose(output->out) != 0)
		r = -ENOMEM;
	output->out = NULL;
	if (r == 0)
		fprintf(output->target, output->n > 1 ? "[\n%s]\n" : "%s", output->text);
	return r;
}

static void clear_result(struct sql_output *output)
{
	for (size_t i = 0; output->names && i < output->n_names; i++)
		free(output->names[i]);
	free(output->names);
	free(output->numbers);
	buf_release(&output->rows);
	output->names = NULL;
	output->numbers = NULL;
	output->n_names = output->n_cells = 0;
	output->rows = (struct buf){ 0 };
}

void sql_output_release(struct sql_output *output)
{
	clear_result(output);
	if (output->format == SQL_JSON && output->out)
		fclose(output->out);
	output->out = NULL;
	free(output->text);
	output->text = NULL;
}

static int begin_json(struct sql_output *output, const char *const *names, size_t n)
{
	struct json *json = &output->json;

	fputs(output->n > 1 ? ",\n" : "", output->out);
	json_init_file(json, output->out, 2);
	json_object(json);
	json_key(json, "schema");
	json_string(json, "moescope/sql/1");
	json_key(json, "columns");
	json_array_line(json);
	for (size_t i = 0; i < n; i++)
		json_string(json, names[i]);
	json_array_end(json);
	json_key(json, "rows");
	json_array(json);
	return 0;
}

static int begin_text(struct sql_output *output, const char *const *names, size_t n)
{
	output->names = calloc(n, sizeof(*output->names));
	output->numbers = malloc(n);
	if (!output->names || !output->numbers)
		return -ENOMEM;
	output->n_names = n;
	memset(output->numbers, 1, n);
	for (size_t i = 0; i < n; i++) {
		output->names[i] = strdup(names[i]);
		if (!output->names[i])
			return -ENOMEM;
	}
	return 0;
}

static int begin_rows(void *context, const char *const *names, size_t n)
{
	struct sql_output *output = context;

	output->n++;
	switch (output->format) {
	case SQL_JSON:
		return begin_json(output, names, n);
	case SQL_CSV:
		if (output->n > 1)
			fputc('\n', output->out);
		for (size_t i = 0; i < n; i++) {
			struct cell cell = cell_text(names[i]);

			if (i)
				fputc(',', output->out);
			csv_cells(&cell, 1, output->out);
		}
		fputc('\n', output->out);
		return 0;
	case SQL_TEXT_TABLE:
		break;
	}
	return begin_text(output, names, n);
}

/* Cells are kept as texts with their NUL: widths are known at the end. */
static int keep_row(struct sql_output *output, const struct cell *cells, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char number[40];
		const char *text = cells[i].kind == CELL_TEXT ? cells[i].s : number;

		if (cells[i].kind == CELL_INT)
			snprintf(number, sizeof(number), "%" PRId64, cells[i].i);
		else if (cells[i].kind == CELL_REAL)
			json_format_double(number, sizeof(number), cells[i].d);
		else if (cells[i].kind == CELL_ABSENT)
			snprintf(number, sizeof(number), "NULL");
		else
			output->numbers[i] = 0;
		buf_append(&output->rows, text, strlen(text) + 1);
		output->n_cells++;
	}
	return output->rows.failed ? -ENOMEM : 0;
}

static int put_row(void *context, const struct cell *cells, size_t n)
{
	struct sql_output *output = context;

	switch (output->format) {
	case SQL_JSON:
		json_array_line(&output->json);
		for (size_t i = 0; i < n; i++)
			grid_json_plain(&output->json, &cells[i]);
		json_array_end(&output->json);
		return 0;
	case SQL_CSV:
		csv_row(cells, n, output->out);
		return 0;
	case SQL_TEXT_TABLE:
		break;
	}
	return keep_row(output, cells, n);
}

static int print_table(struct sql_output *output)
{
	struct text_column *columns = calloc(output->n_names, sizeof(*columns));
	struct text_table *table = NULL;
	const char *at = output->rows.data;
	bool flexible = false;
	int r = -ENOMEM;

	for (size_t i = 0; columns && i < output->n_names; i++) {
		columns[i].title = output->names[i];
		columns[i].align = output->numbers[i] ? TEXT_RIGHT : TEXT_LEFT;
		/* Names are what is long. */
		columns[i].flexible = !output->numbers[i] && !flexible;
		flexible |= columns[i].flexible;
	}
	if (columns)
		table = text_table_new(columns, output->n_names);
	for (size_t i = 0; table && i < output->n_cells; i++) {
		text_table_cell(table, at, TEXT_PLAIN);
		at += strlen(at) + 1;
	}
	if (table)
		r = text_table_print(table, &output->layout, output->out);
	text_table_free(table);
	free(columns);
	return r;
}

static int end_rows(void *context)
{
	struct sql_output *output = context;
	int r = 0;

	if (output->format == SQL_JSON) {
		json_array_end(&output->json);
		json_object_end(&output->json);
		return json_finish(&output->json, NULL);
	}
	if (output->format == SQL_TEXT_TABLE) {
		if (output->n > 1)
			fputc('\n', output->out);
		r = print_table(output);
		clear_result(output);
	}
	return r;
}

struct sql_sink sql_output_sink(struct sql_output *output)
{
	return (struct sql_sink){ begin_rows, put_row, end_rows, output };
}
