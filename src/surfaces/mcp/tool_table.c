/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool `table`: one section of a run, as its page in Markdown, with as many rows as have room.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/nearest.h"
#include "surfaces/markdown/markdown.h"
#include "surfaces/mcp/tool.h"
#include "surfaces/views/scene.h"

#define ROW_BYTES 20 /* no row has fewer */
#define ROWS_USUAL 20
#define PAGE_COLUMNS 100 /* where lines of a page are broken */
#define WORDS_MAX 32

struct window {
	size_t offset, n; /* rows */
	size_t blocks;	  /* of the page at most */
};

struct view {
	const char *run;
	const char *sort; /* NULL: the table's own order */
	const struct section *section;
	const struct scene *scene;
	const struct grid *grid;
};

static const struct grid *first_table(const struct page *page)
{
	for (size_t i = 0; i < page->n; i++)
		if (page->blocks[i].kind == BLOCK_TABLE)
			return page->blocks[i].grid;
	return NULL;
}

/* Where the rows come from and what the columns are called, for the next question. */
static int evidence_line(const struct view *view, const struct window *window,
			 const struct grid *shown, FILE *out)
{
	size_t end = window->offset + window->n;
	struct json json;

	json_init_file(&json, out, 0);
	json_object(&json);
	json_key(&json, "run");
	json_string(&json, view->run);
	json_key(&json, "table");
	json_string(&json, view->section->name);
	if (view->sort) {
		json_key(&json, "sort");
		json_string(&json, view->sort);
	}
	json_key(&json, "columns");
	json_array(&json);
	for (size_t c = 0; shown && c < shown->n_columns; c++)
		if (shown->columns[c].title)
			json_string(&json, shown->columns[c].key);
	json_array_end(&json);
	json_key(&json, "offset");
	json_uint(&json, window->offset);
	json_key(&json, "shown");
	json_uint(&json, window->n);
	json_key(&json, "of");
	json_uint(&json, view->grid->n);
	if (end < view->grid->n) {
		json_key(&json, "left_out");
		json_uint(&json, view->grid->n - end);
		json_key(&json, "next");
		json_object(&json);
		json_key(&json, "offset");
		json_uint(&json, end);
		json_object_end(&json);
	}
	json_object_end(&json);
	return json_finish(&json, NULL);
}

/* The page of the section with the rows and blocks of the window. */
static int print_page(const struct view *view, const struct window *window, struct page *page,
		      FILE *out)
{
	const struct text_layout layout = { .width = PAGE_COLUMNS };
	const struct grid *shown;
	struct scene scene = *view->scene;
	struct grid grid = *view->grid;
	size_t blocks;
	int r;

	grid.rows += window->offset;
	grid.n = window->n;
	scene.limit = window->n;
	heading_page(&scene, view->section->name, page);
	view->section->page(&scene, &grid, page);
	shown = first_table(page);
	blocks = page->n;
	if (page->n > window->blocks)
		page->n = window->blocks;
	r = page_markdown(page, &layout, out);
	if (blocks > page->n)
		fprintf(out,
			"\n(%zu more lines or tables of this page are left out; a narrower "
			"question, such as one layer, has room)\n",
			blocks - page->n);
	fputc('\n', out);
	return r < 0 ? r : evidence_line(view, window, shown, out);
}

/* Fewer rows until the answer is short enough, then fewer blocks. */
static int page_fitted(const struct view *view, struct window *window, FILE *out)
{
	for (;;) {
		struct page page = { 0 };
		char *text = NULL;
		size_t size = 0, blocks;
		FILE *memory = open_memstream(&text, &size);
		int r = memory ? print_page(view, window, &page, memory) : -ENOMEM;

		blocks = page.n;
		page_release(&page);
		if (memory && fclose(memory) != 0 && r >= 0)
			r = -ENOMEM;
		if (r >= 0 && size <= ANSWER_BYTES)
			fputs(text, out);
		free(text);
		if (r < 0 || size <= ANSWER_BYTES)
			return r;
		/* By a little more than what is too much: what comes with the rows stays as it is. */
		size += size / 8;
		if (window->n > 1)
			window->n = window->n * ANSWER_BYTES / size > 1
					    ? window->n * ANSWER_BYTES / size
					    : 1;
		else
			window->blocks = blocks * ANSWER_BYTES / size;
	}
}

static int show_table(const struct tool_call *call, const struct view *of,
		      const struct view_options *options, FILE *out, struct err *err)
{
	size_t offset = tool_number(call, "offset");
	size_t limit = tool_argument(call, "limit") ? options->limit : ROWS_USUAL;
	struct view view = *of;
	struct window window = { .offset = offset, .blocks = SIZE_MAX };
	struct grid grid;
	int r = section_grid(view.section, view.scene, &grid);

	if (r >= 0)
		r = grid_sort(&grid, options->sort, err);
	if (r >= 0 && offset && offset >= grid.n)
		r = err_set(err, -ERANGE, "'%s' has %zu rows; offset %zu is behind them.",
			    view.section->name, grid.n, offset);
	if (r >= 0) {
		view.grid = &grid;
		view.sort = options->sort;
		window.n = grid.n - offset;
		if (limit && window.n > limit)
			window.n = limit;
		if (window.n > ANSWER_BYTES / ROW_BYTES)
			window.n = ANSWER_BYTES / ROW_BYTES;
		r = page_fitted(&view, &window, out);
	}
	grid_release(&grid);
	return r;
}

static int load_and_show(const struct tool_call *call, const struct view *of,
			 const struct view_options *options, FILE *out, struct err *err)
{
	const struct mcp_host *host = call->host;
	struct view view = *of;
	struct run_want want = section_want(view.section, options);
	struct asked asked = section_asked(view.section, options);
	struct answers answers;
	struct scene scene;
	struct run *run;
	int r = host->load(host->context, view.run, &want, false, &run, err);

	if (r < 0)
		return r;
	r = scene_compute(run, options, &asked, 1, &answers, err);
	if (r >= 0) {
		scene = scene_of(run, options, &answers);
		view.scene = &scene;
		r = show_table(call, &view, options, out, err);
		answers_release(&answers);
	}
	host->release(run);
	return r;
}

static const struct section *find_table(const char *name, struct err *err)
{
	struct nearest nearest = nearest_to(name);
	const struct section *section;

	for (size_t i = 0; (section = tool_table_at(i)); i++) {
		if (!strcmp(section->name, name))
			return section;
		nearest_offer(&nearest, section->name);
	}
	err_set(err, -ENOENT, "there is no table '%.60s'; %s%s%s", name,
		nearest.best ? "did you mean '" : "the description of the tool lists them",
		nearest.best ? nearest.best : "", nearest.best ? "'?" : ".");
	return NULL;
}

/* Not for the command of the table. */
static bool is_own(const char *name)
{
	return !strcmp(name, "table") || !strcmp(name, "run") || !strcmp(name, "offset");
}

static int call_table(const struct tool_call *call, FILE *out, struct err *err)
{
	const struct mcp_host *host = call->host;
	const struct section *section = find_table(tool_argument(call, "table"), err);
	struct view view = { .section = section };
	struct mcp_word words[WORDS_MAX];
	struct view_options options;
	char *run = NULL;
	size_t n = 0;
	int r;

	if (!section)
		return -ENOENT;
	for (const struct json_node *node = call->arguments ? call->arguments->child : NULL;
	     node && n < WORDS_MAX; node = node->next) {
		const char *value = tool_argument(call, node->key);

		if (value && !is_own(node->key))
			words[n++] = (struct mcp_word){ node->key, value };
	}
	r = host->options(host->context, tool_table_owner(section)->name, words, n, &options, err);
	if (r >= 0)
		r = tool_run(call, "run", &run, err);
	view.run = run;
	if (r >= 0)
		r = load_and_show(call, &view, &options, out, err);
	free(run);
	return r;
}

const struct tool tool_table = {
	.name = "table",
	.description =
		"One table of a run with its totals, 20 rows unless `limit` is given. The last line is "
		"JSON: the keys of the columns, for `sort` and for `explain` as TABLE.KEY, and which "
		"rows are shown.",
	.arguments = { { .name = "table", .help = "which", .required = true },
		       ARGUMENT_RUN,
		       { .name = "sort", .help = "key of a column; the largest first" },
		       { .name = "limit",
			 .help = "rows; 0: as many as have room",
			 .kind = ARGUMENT_WHOLE },
		       ARGUMENT_OFFSET },
	.of_tables = true,
	.call = call_table,
};
