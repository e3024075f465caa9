/* SPDX-License-Identifier: Apache-2.0
 *
 * Sheets in every form; see sheet_print.h.
 */
#include "surfaces/sheets/sheet_print.h"

#include "surfaces/csv/grid_csv.h"
#include "surfaces/json/fields_json.h"
#include "surfaces/markdown/markdown.h"
#include "surfaces/text/page_text.h"

static int print_json(const struct sheet *sheet, const struct field_row *from, FILE *out)
{
	struct json json;
	char schema[64];

	snprintf(schema, sizeof(schema), "moescope/%s/1", sheet->fields->part);
	json_init_file(&json, out, 2);
	json_object(&json);
	json_key(&json, "schema");
	json_string(&json, schema);
	fields_json(&json, sheet->fields->fields, sheet->fields->n_fields, from);
	json_object_end(&json);
	return json_finish(&json, NULL);
}

static int print_csv(const struct sheet *sheet, const struct field_row *from, FILE *out)
{
	struct grid grid;
	int r = grid_fill(&grid, sheet->rows, from);

	if (r >= 0)
		grid_csv(&grid, 0, out);
	grid_release(&grid);
	return r;
}

static int print_page(const struct sheet *sheet, const void *about,
		      const struct view_options *options, FILE *out)
{
	struct text_layout layout = { .width = options->width > 0 ? options->width : 80,
				      .color = options->color,
				      .utf8 = options->utf8 };
	struct page page = { 0 };
	int r;

	sheet->page(about, &page);
	r = options->markdown ? page_markdown(&page, &layout, out)
			      : page_print(&page, &layout, out);
	page_release(&page);
	return r;
}

int sheet_print(const struct sheet *sheet, const void *about, const struct view_options *options,
		FILE *out, struct err *err)
{
	const struct field_row from = { .item = about, .form = 1 };
	int r = options->json  ? print_json(sheet, &from, out)
		: options->csv ? print_csv(sheet, &from, out)
			       : print_page(sheet, about, options, out);

	return r < 0 ? err_sys(err, r, "cannot print '%s'", sheet->fields->part) : 0;
}
