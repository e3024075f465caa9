/* SPDX-License-Identifier: Apache-2.0
 *
 * See html.h.
 */
#include "surfaces/html/html.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_write.h"
#include "documents/document.h"
#include "subjects/answers/subject.h"
#include "surfaces/html/page_files.h"
#include "surfaces/json/section_json.h"
#include "surfaces/views/scene.h"

#define VIEW_BYTES ((size_t)192 << 10) /* of the JSON of one table, about */
#define ROWS_FIRST 2000
#define ROWS_LEAST 20

/* The report and every table; other documents show what is in these. */
static bool is_in_file(const struct section *section)
{
	return !section->document || section == &section_report;
}

static struct view_options data_options(const struct view_options *options, size_t limit)
{
	struct view_options data = *options;

	data.json = true;
	data.csv = data.markdown = false;
	data.sort = NULL;
	data.limit = limit;
	return data;
}

struct run_want html_want(const struct view_options *options)
{
	struct view_options data = data_options(options, 0);
	struct run_want want = { 0 };

	for (const struct section *const *s = sections; *s; s++)
		if (is_in_file(*s)) {
			struct run_want more = section_want(*s, &data);

			want_add(&want, &more);
		}
	return want;
}

/* The tables of the file: all questions are answered at once, so that they share what they compute. */
struct tables {
	struct asked *asked;
	struct answers *answers;
	size_t n;
};

static void tables_release(struct tables *tables)
{
	if (tables->answers)
		answers_release(tables->answers);
	free(tables->answers);
	free(tables->asked);
}

static int tables_compute(struct tables *tables, const struct run *run,
			  const struct view_options *options, struct err *err)
{
	struct view_options data = data_options(options, 0);
	size_t n = 0;

	*tables = (struct tables){ 0 };
	while (sections[n])
		n++;
	tables->asked = calloc(n, sizeof(*tables->asked));
	tables->answers = calloc(n, sizeof(*tables->answers));
	if (!tables->asked || !tables->answers)
		return -ENOMEM;
	for (const struct section *const *s = sections; *s; s++)
		if (is_in_file(*s) && !(*s)->document)
			tables->asked[tables->n++] = section_asked(*s, &data);
	return scene_compute(run, &data, tables->asked, tables->n, tables->answers, err);
}

/* A section as it is written with some limit: of a table, the rows are there already. */
struct shown {
	const struct section *section;
	const struct run *run;
	const struct grid *grid; /* NULL: a document */
	struct scene scene;	 /* of the grid */
};

static int shown_json(struct shown *shown, const struct view_options *options, char **ret_text,
		      size_t *ret_size, struct err *err)
{
	FILE *out = open_memstream(ret_text, ret_size);
	int r = -ENOMEM;

	shown->scene.limit = options->limit;
	if (out && shown->grid)
		r = section_json(shown->section, &shown->scene, shown->grid, NULL, out);
	else if (out)
		r = section_render(shown->section, shown->run, options, out, err);
	if (out && fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	if (r < 0) {
		free(*ret_text);
		*ret_text = NULL;
	}
	return r;
}

/* Its JSON, with fewer rows where it would be large. */
static int fitted_json(struct shown *shown, const struct view_options *options, char **ret_text,
		       size_t *ret_left_out, struct err *err)
{
	size_t limit = options->limit ? options->limit : ROWS_FIRST, size;

	for (;; limit /= 2) {
		struct view_options data = data_options(options, limit);
		int r = shown_json(shown, &data, ret_text, &size, err);

		if (r < 0)
			return r;
		if (size <= VIEW_BYTES || limit / 2 < ROWS_LEAST)
			break;
		free(*ret_text);
	}
	*ret_left_out = shown->grid ? shown->grid->n - grid_shown(shown->grid, limit) : 0;
	return 0;
}

static int table_json(const struct section *section, const struct run *run,
		      const struct answers *answers, const struct view_options *options,
		      char **ret_text, size_t *ret_left_out, struct err *err)
{
	struct view_options data = data_options(options, 0);
	struct grid grid;
	struct shown shown = { section, run, &grid, scene_of(run, &data, answers) };
	int r = section_grid(section, &shown.scene, &grid);

	if (r >= 0)
		r = grid_sort(&grid, NULL, err);
	if (r >= 0)
		r = fitted_json(&shown, options, ret_text, ret_left_out, err);
	grid_release(&grid);
	return r;
}

/* JSON inside a script: no text may end it, or begin a comment. */
static void put_json(const char *text, FILE *out)
{
	for (; *text; text++)
		if (*text == '<')
			fputs("\\u003c", out);
		else
			fputc(*text, out);
}

static int put_views(const struct run *run, const struct view_options *options, FILE *out,
		     struct err *err)
{
	const struct answers *answers;
	struct json left_out;
	struct tables tables;
	const char *before = "";
	char *text = NULL;
	int r = tables_compute(&tables, run, options, err);

	answers = tables.answers;
	json_init_buffer(&left_out, 0);
	json_object(&left_out);
	for (const struct section *const *s = sections; r == 0 && *s; s++) {
		size_t n = 0;

		if (!is_in_file(*s))
			continue;
		if ((*s)->document) {
			struct shown shown = { .section = *s, .run = run };

			r = fitted_json(&shown, options, &text, &n, err);
		} else {
			r = table_json(*s, run, answers++, options, &text, &n, err);
		}
		if (r < 0)
			break;
		fprintf(out, "%s\"%s\":", before, (*s)->name);
		put_json(text, out);
		free(text);
		text = NULL;
		before = ",";
		if (n) {
			json_key(&left_out, (*s)->name);
			json_uint(&left_out, n);
		}
	}
	tables_release(&tables);
	free(text);
	json_object_end(&left_out);
	if (json_finish(&left_out, &text) < 0)
		return r < 0 ? r : -ENOMEM;
	fprintf(out, "},\"left_out\":%s", text);
	free(text);
	return r;
}

static int put_data(const struct run *run, const struct view_options *options, FILE *out,
		    struct err *err)
{
	struct json name;
	char *text;
	int r;

	json_init_buffer(&name, 0);
	json_string(&name, run->info.name);
	r = json_finish(&name, &text);
	if (r < 0)
		return r;
	fputs("<script type=\"application/json\" id=\"data\">{\"run\":", out);
	put_json(text, out);
	free(text);
	fputs(",\"views\":{", out);
	r = put_views(run, options, out, err);
	fputs("}</script>\n", out);
	return r;
}

static void put_file(const char *name, const char *before, const char *after, FILE *out)
{
	const struct page_file *file = page_file_find(name);

	fputs(before, out);
	fwrite(file->data, 1, file->size, out);
	fputs(after, out);
}

/* Up to where `text` stands in the page; what follows it. NULL: it does not stand there. */
static const char *put_until(const char *page, const char *text, FILE *out)
{
	const char *at = strstr(page, text);

	if (!at)
		return NULL;
	fwrite(page, 1, (size_t)(at - page), out);
	return at + strlen(text);
}

int html_print(const struct run *run, const struct view_options *options, FILE *out,
	       struct err *err)
{
	const struct page_file *index = page_file_find("index.html");
	const char *at;
	char *page;
	int r;

	if (!page_file_find("page.js"))
		return err_set(err, -ENOSYS, NO_PAGE);
	page = strndup((const char *)index->data, index->size);
	if (!page)
		return err_set(err, -ENOMEM, "no memory for the page.");
	at = put_until(page, "<link rel=\"stylesheet\" href=\"page.css\">", out);
	put_file("page.css", "<style>\n", "</style>", out);
	at = put_until(at, "<script src=\"page.js\"></script>", out);
	r = put_data(run, options, out, err);
	put_file("page.js", "<script>\n", "</script>", out);
	fputs(at, out);
	free(page);
	if (r < 0 && !err->message[0])
		err_sys(err, r, "cannot make the page of '%s'", run->info.name);
	return r;
}
