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

static int view_json(const struct section *section, const struct run *run,
		     const struct view_options *options, char **ret_text, size_t *ret_size,
		     struct err *err)
{
	FILE *out = open_memstream(ret_text, ret_size);
	int r = out ? section_render(section, run, options, out, err) : -ENOMEM;

	if (out && fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	if (r < 0) {
		free(*ret_text);
		*ret_text = NULL;
	}
	return r;
}

/* Rows that a limit leaves out. */
static int count_left_out(const struct section *section, const struct run *run,
			  const struct view_options *options, size_t *ret_left_out, struct err *err)
{
	struct asked asked = section_asked(section, options);
	struct answers answers;
	struct scene scene;
	struct grid grid;
	int r;

	*ret_left_out = 0;
	if (section->document)
		return 0;
	r = scene_compute(run, options, &asked, 1, &answers, err);
	if (r < 0)
		return r;
	scene = scene_of(run, options, &answers);
	r = section_grid(section, &scene, &grid);
	if (r == 0)
		*ret_left_out = grid.n - grid_shown(&grid, options->limit);
	grid_release(&grid);
	answers_release(&answers);
	return r;
}

/* The JSON of a view, with fewer rows where it would be large. */
static int fitted_json(const struct section *section, const struct run *run,
		       const struct view_options *options, char **ret_text, size_t *ret_left_out,
		       struct err *err)
{
	size_t limit = options->limit ? options->limit : ROWS_FIRST, size;
	struct view_options data;

	for (;;) {
		int r;

		data = data_options(options, limit);
		r = view_json(section, run, &data, ret_text, &size, err);
		if (r < 0)
			return r;
		if (size <= VIEW_BYTES || limit / 2 < ROWS_LEAST)
			return count_left_out(section, run, &data, ret_left_out, err);
		free(*ret_text);
		limit /= 2;
	}
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
	struct json left_out;
	const char *before = "";
	char *text = NULL;
	int r = 0;

	json_init_buffer(&left_out, 0);
	json_object(&left_out);
	for (const struct section *const *s = sections; r == 0 && *s; s++) {
		size_t n = 0;

		if (!is_in_file(*s))
			continue;
		r = fitted_json(*s, run, options, &text, &n, err);
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
		return err_set(err, -ENOSYS,
			       "this moescope was built without its web page; install esbuild and "
			       "build it again.");
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
