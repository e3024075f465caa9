/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool `verdicts`: what is wrong with a run and what to change, each with the rows that show it. Verdicts
 * and tables are those of the report.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "surfaces/mcp/tool.h"
#include "surfaces/text/page_text.h"
#include "surfaces/views/scene.h"

#define ROWS 3	    /* of evidence */
#define ROW_NAMES 3 /* columns that say which row it is */
#define DOUBTS_BYTES 1500
#define LINE_COLUMNS 1000 /* lines stay whole */

struct story {
	const char *run;
	const struct scene *scene;
	struct verdicts verdicts;
};

/* What casts doubt on the figures, a line each. */
static int doubts_json(const struct scene *scene, struct json *json)
{
	struct text_layout layout = { .width = LINE_COLUMNS };
	struct page page = { 0 };
	char *text = NULL, *line, *rest;
	size_t size, used = 0, left_out = 0;
	FILE *memory = open_memstream(&text, &size);
	int r;

	if (!memory)
		return -ENOMEM;
	trouble_page(scene, &page);
	r = page_print(&page, &layout, memory);
	page_release(&page);
	if (fclose(memory) != 0 && r >= 0)
		r = -ENOMEM;
	if (r >= 0 && *text) {
		json_key(json, "doubts");
		json_array(json);
		for (rest = text; (line = strsep(&rest, "\n")) && rest;) {
			used += strlen(line);
			if (used <= DOUBTS_BYTES)
				json_string(json, line);
			else
				left_out++;
		}
		json_array_end(json);
	}
	if (left_out) {
		json_key(json, "doubts_left_out");
		json_uint(json, left_out);
	}
	free(text);
	return r;
}

static void evidence_json(const struct verdict *v, struct json *json)
{
	json_key(json, "evidence");
	json_object(json);
	for (size_t i = 0; i < v->n_evidence; i++) {
		struct cell cell = v->evidence[i].unit == EVIDENCE_COUNT
					   ? cell_int((int64_t)v->evidence[i].v)
					   : cell_real(v->evidence[i].v);

		json_key(json, v->evidence[i].key);
		json_brief_cell(json, &cell);
	}
	json_object_end(json);
}

/* The first columns say which row it is, up to the first figure; of those that people see, where a table has
 * such. */
static bool is_name(const struct grid_column *column)
{
	return column->unit == UNIT_TEXT || column->unit == UNIT_INT || column->unit == UNIT_DEVICE;
}

static bool is_titled(const struct grid *grid)
{
	for (size_t c = 0; c < grid->n_columns; c++)
		if (grid->columns[c].title)
			return true;
	return false;
}

/* What tells it from other rows, and the figure that puts it first. */
static void row_json(const struct grid *grid, const struct cell *cells, const char *key,
		     struct json *json)
{
	bool titled = is_titled(grid);
	size_t names = 0;

	json_object(json);
	for (size_t c = 0; c < grid->n_columns; c++) {
		const struct grid_column *column = &grid->columns[c];
		bool counts = column->title || !titled;
		bool named = counts && names < ROW_NAMES && is_name(column);

		if (counts)
			names = named ? names + 1 : ROW_NAMES;
		if ((!named && strcmp(column->key, key) != 0) || cells[c].kind == CELL_ABSENT)
			continue;
		json_key(json, column->key);
		json_brief_cell(json, &cells[c]);
	}
	json_object_end(json);
}

/* The table that the evidence is in, and its first rows. */
static int place_json(const struct scene *scene, const char *place, struct json *json)
{
	char table[64];
	const char *dot = strchr(place, '.');
	const struct section *section;
	struct answers answers;
	struct scene own;
	struct grid grid;
	int r;

	snprintf(table, sizeof(table), "%.*s", (int)(dot - place), place);
	section = section_find(table);
	own = section_scene(section, scene, &answers);
	r = section_grid(section, &own, &grid);
	if (r >= 0)
		r = grid_sort(&grid, dot + 1, NULL);
	json_key(json, "table");
	json_string(json, table);
	json_key(json, "sort");
	json_string(json, dot + 1);
	json_key(json, "rows");
	json_array(json);
	for (size_t i = 0; r >= 0 && i < grid_shown(&grid, ROWS); i++)
		row_json(&grid, grid.rows[i].cells, dot + 1, json);
	json_array_end(json);
	grid_release(&grid);
	return r;
}

static int verdict_json(const struct scene *scene, const struct verdict *v, struct json *json)
{
	const struct verdict_kind *kind = verdict_kind_find(v->id);
	struct cell gain = cell_value(v->gain_pct);

	json_init_buffer(json, 0);
	json_object(json);
	json_key(json, "id");
	json_string(json, v->id);
	json_key(json, "severity");
	json_string(json, severity_name(v->severity));
	json_key(json, "title");
	json_string(json, v->title);
	if (v->gain_pct.known) {
		json_key(json, "gain_pct");
		json_brief_cell(json, &gain);
		json_key(json, "gain_assumption");
		json_string(json, v->gain_assumption);
	}
	evidence_json(v, json);
	json_key(json, "advice");
	json_string(json, v->advice);
	return kind->place ? place_json(scene, kind->place, json) : 0;
}

static int print_story(const struct story *story, size_t offset, FILE *out)
{
	struct listing listing;
	int r;

	listing_begin(&listing);
	json_key(&listing.json, "run");
	json_string(&listing.json, story->run);
	r = doubts_json(story->scene, &listing.json);
	if (!story->verdicts.n) {
		json_key(&listing.json, "note");
		json_string(&listing.json, "too little was recorded to judge");
	}
	json_key(&listing.json, "verdicts");
	json_array(&listing.json);
	for (size_t i = offset; r >= 0 && i < story->verdicts.n; i++) {
		struct json item;

		r = verdict_json(story->scene, &story->verdicts.items[i], &item);
		json_object_end(&item);
		listing_add(&listing, &item);
	}
	if (r >= 0)
		return listing_end(&listing, offset, out);
	json_finish(&listing.json, NULL);
	return r;
}

static int judge(const struct tool_call *call, const struct run *run, const char *name,
		 const struct view_options *options, FILE *out, struct err *err)
{
	struct question question = options->question;
	struct story story = { .run = name };
	struct asked asked[ASKED_MAX];
	struct answers answers[ASKED_MAX];
	struct scene scene;
	size_t n = section_report.document->ask(run, &question, asked);
	int r = scene_compute(run, options, asked, n, answers, err);

	if (r < 0)
		return r;
	scene = scene_of(run, options, &answers[0]);
	story.scene = &scene;
	r = verdicts_analyze(run, &answers[0], &story.verdicts);
	if (r >= 0) {
		r = print_story(&story, tool_number(call, "offset"), out);
		verdicts_release(&story.verdicts);
	}
	answers_release(answers);
	return r;
}

static int call_verdicts(const struct tool_call *call, FILE *out, struct err *err)
{
	const struct mcp_host *host = call->host;
	struct mcp_word steps = { "steps", tool_argument(call, "steps") };
	struct view_options options;
	struct run_want want;
	struct run *run;
	char *name = NULL;
	int r = host->options(host->context, section_report.name, &steps, steps.value ? 1 : 0,
			      &options, err);

	if (r >= 0)
		r = tool_run(call, "run", &name, err);
	if (r >= 0) {
		want = section_want(&section_report, &options);
		r = host->load(host->context, name, &want, false, &run, err);
	}
	if (r >= 0) {
		r = judge(call, run, name, &options, out, err);
		host->release(run);
	}
	free(name);
	return r;
}

const struct tool tool_verdicts = {
	.name = "verdicts",
	.description =
		"Start here: what is wrong with a run and what to change, most important first. Each "
		"has its id, its evidence, the gain if its assumption holds, advice, and the "
		"table, sort key and first rows that show it.",
	.arguments = { ARGUMENT_RUN, ARGUMENT_STEPS, ARGUMENT_OFFSET },
	.call = call_verdicts,
};
