/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison as JSON and CSV; its rows have one set of columns. See compare.h.
 */
#include "present/comparison/compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "present/comparison/compare_inside.h"

static const struct grid_column columns[] = {
	{ .key = "table", .unit = UNIT_TEXT },
	{ .key = "group", .unit = UNIT_TEXT },
	{ .key = "metric", .unit = UNIT_TEXT },
	{ .key = "of", .unit = UNIT_TEXT, .data_only_when_set = true },
	{ .key = "unit", .unit = UNIT_TEXT },
	{ .key = "baseline", .unit = UNIT_RATIO },
	{ .key = "value", .unit = UNIT_RATIO },
	{ .key = "difference", .unit = UNIT_RATIO },
	{ .key = "difference_low", .unit = UNIT_RATIO },
	{ .key = "difference_high", .unit = UNIT_RATIO },
	{ .key = "difference_pct", .unit = UNIT_PCT },
	{ .key = "low_pct", .unit = UNIT_PCT },
	{ .key = "high_pct", .unit = UNIT_PCT },
	{ .key = "value_low", .unit = UNIT_RATIO },
	{ .key = "value_high", .unit = UNIT_RATIO },
	{ .key = "p", .unit = UNIT_RATIO },
	{ .key = "p_adjusted", .unit = UNIT_RATIO },
	{ .key = "visible", .unit = UNIT_RATIO },
	{ .key = "visible_pct", .unit = UNIT_PCT },
	{ .key = "compared", .unit = UNIT_TEXT },
	{ .key = "n_baseline", .unit = UNIT_INT },
	{ .key = "n", .unit = UNIT_INT },
	{ .key = "verdict", .unit = UNIT_TEXT },
	{ .key = "state", .unit = UNIT_TEXT, .data_only_when_set = true },
	{ .key = "count_baseline", .unit = UNIT_COUNT, .data_only_when_set = true },
	{ .key = "count", .unit = UNIT_COUNT, .data_only_when_set = true },
	{ .key = "explains_pct", .unit = UNIT_PCT },
	{ .key = "call_baseline_ns", .unit = UNIT_NS, .data_only_when_set = true },
	{ .key = "call_ns", .unit = UNIT_NS, .data_only_when_set = true },
	{ .key = "call_pct", .unit = UNIT_PCT, .data_only_when_set = true },
	{ .key = "call_low_pct", .unit = UNIT_PCT, .data_only_when_set = true },
	{ .key = "call_high_pct", .unit = UNIT_PCT, .data_only_when_set = true },
	{ .key = "call_p", .unit = UNIT_RATIO, .data_only_when_set = true },
	{ .key = "call_verdict", .unit = UNIT_TEXT, .data_only_when_set = true },
};

const char *compare_result_name(enum condition_result result)
{
	static const char *const names[] = { "holds", "not", "unknown" };

	return names[result];
}

/* Six digits of what is an estimate itself: more would be noise, and not the same on every
 * machine. */
static struct cell rounded(struct value value)
{
	char text[32];

	if (!value.known)
		return cell_absent(value.reason);
	snprintf(text, sizeof(text), "%.6g", value.v);
	return cell_real(strtod(text, NULL));
}

static struct cell *difference_cells(struct cell *cell, const struct difference *d,
				     const char *what)
{
	*cell++ = cell_value(d->a);
	*cell++ = cell_value(d->b);
	*cell++ = cell_value(d->diff);
	*cell++ = rounded(d->low);
	*cell++ = rounded(d->high);
	*cell++ = rounded(d->pct);
	*cell++ = rounded(d->low_pct);
	*cell++ = rounded(d->high_pct);
	*cell++ = rounded(d->b_low);
	*cell++ = rounded(d->b_high);
	*cell++ = rounded(d->p);
	*cell++ = rounded(d->p_adjusted);
	*cell++ = rounded(d->visible);
	*cell++ = rounded(d->visible_pct);
	*cell++ = cell_text(d->by_runs ? "runs" : what);
	*cell++ = cell_uint(d->n_a);
	*cell++ = cell_uint(d->n_b);
	*cell++ = cell_text(compare_verdict_name(d->verdict));
	return cell;
}

static const char *figures_of(enum compare_metric_id metric)
{
	if (compare_metrics[metric].statistic == FIGURE_ONE)
		return "runs";
	return metric == COMPARE_TTFT || metric == COMPARE_TPOT ? "requests"
	       : metric == COMPARE_ITL				? "tokens"
								: "steps";
}

static int add_figures(const struct compare_pair *pair, struct grid *grid)
{
	for (size_t i = 0; i < pair->n; i++) {
		const struct compare_figure *f = &pair->figures[i];
		const struct compare_metric *metric = &compare_metrics[f->metric];
		struct cell *cell = grid_add(grid, f);

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_text("figures");
		*cell++ = cell_text(pair->other->name);
		*cell++ = cell_text(metric->name);
		*cell++ = f->of[0] ? cell_text(f->of) : cell_absent("the whole run");
		*cell++ = cell_text(figure_unit_name(metric->unit));
		cell = difference_cells(cell, &f->d, pair->whole ? "runs" : figures_of(f->metric));
		for (int c = 0; c < 11; c++)
			*cell++ = cell_absent("of kernels and operations only");
	}
	return 0;
}

/* As keys of a comparison, and as the column "table". */
static const char *const table_names[] = { [COMPARE_KERNELS] = "kernels",
					   [COMPARE_CLASSES] = "classes",
					   [COMPARE_RANGES] = "launch_ranges",
					   [COMPARE_COLLECTIVES] = "collectives",
					   [COMPARE_HOST] = "host" };

static void call_cells(struct cell *cell, const struct difference *call)
{
	*cell++ = rounded(call->a);
	*cell++ = rounded(call->b);
	*cell++ = rounded(call->pct);
	*cell++ = rounded(call->low_pct);
	*cell++ = rounded(call->high_pct);
	*cell++ = rounded(call->p_adjusted);
	*cell++ = cell_text(compare_verdict_name(call->verdict));
}

static int add_rows(const struct compare_pair *pair, enum compare_table table, struct grid *grid)
{
	const struct compare_rows *rows = &pair->tables[table];
	bool host = table == COMPARE_HOST;

	for (size_t i = 0; i < rows->n; i++) {
		const struct compare_row *row = &rows->rows[i];
		struct cell *cell = grid_add(grid, row);

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_text(!host	 ? table_names[table]
				    : row->is_op ? "operations"
						 : "ranges");
		*cell++ = cell_text(pair->other->name);
		*cell++ = cell_text(host ? "self_time" : "kernel_time");
		*cell++ = cell_text(row->name);
		*cell++ = cell_text("ns");
		cell = difference_cells(cell, &row->d, pair->whole ? "runs" : "steps");
		*cell++ = cell_text(row->is_new ? "new" : row->is_gone ? "gone" : "both");
		*cell++ = cell_value(row->count_a);
		*cell++ = cell_value(row->count_b);
		*cell++ = rounded(row->explains_pct);
		call_cells(cell, &row->call);
	}
	return 0;
}

static void start(struct grid *grid)
{
	grid_init(grid, columns, sizeof(columns) / sizeof(columns[0]));
}

int compare_grid_rows(const struct compare_scene *scene, const struct compare_pair *pair,
		      enum compare_table table, struct grid *grid, struct err *err)
{
	int r;

	start(grid);
	r = add_rows(pair, table, grid);
	if (r < 0)
		return err_sys(err, r, "cannot make the table of the comparison");
	return grid_sort(grid, scene->options->sort, err);
}

static void json_groups(const struct comparison *c, struct json *json)
{
	json_key(json, "groups");
	json_array(json);
	for (size_t g = 0; g < c->n_groups; g++) {
		json_object(json);
		json_key(json, "name");
		json_string(json, c->groups[g].name);
		json_key(json, "runs");
		json_array(json);
		for (size_t i = 0; i < c->groups[g].n; i++) {
			const struct run_digest *run = &c->groups[g].runs[i];
			const struct {
				const char *key;
				uint64_t v;
			} counts[] = { { "steps", run->steps },
				       { "warmup_steps", run->warmup },
				       { "unfinished_steps", run->unfinished },
				       { "partial_steps", run->partial },
				       { "device_covered_steps", run->covered },
				       { "lost", run->lost } };

			json_object_line(json);
			json_key(json, "name");
			json_string(json, run->name);
			json_key(json, "path");
			json_string(json, run->path);
			for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
				json_key(json, counts[k].key);
				json_uint(json, counts[k].v);
			}
			json_object_end(json);
		}
		json_array_end(json);
		json_object_end(json);
	}
	json_array_end(json);
}

static void json_facts(const struct comparison *c, struct json *json)
{
	json_key(json, "differ");
	json_array(json);
	for (size_t i = 0; i < c->n_facts; i++) {
		json_object_line(json);
		json_key(json, "fact");
		json_string(json, c->facts[i].key);
		json_key(json, "doubtful");
		json_bool(json, c->facts[i].doubtful);
		json_key(json, "values");
		json_array_line(json);
		for (size_t g = 0; g < c->n_groups; g++)
			json_string(json, c->facts[i].values[g]);
		json_array_end(json);
		json_object_end(json);
	}
	json_array_end(json);
}

static void json_checks(const struct compare_scene *scene, struct json *json)
{
	json_key(json, "conditions");
	json_array(json);
	for (size_t i = 0; i < scene->n_checks; i++) {
		const struct compare_check *check = &scene->checks[i];
		const struct judgement *j = &check->judgement;
		struct cell edge, of;

		json_object_line(json);
		json_key(json, "condition");
		json_string(json, check->condition->text);
		json_key(json, "group");
		json_string(json, check->pair->other->name);
		json_key(json, "result");
		json_string(json, compare_result_name(j->result));
		of = !j->figure		? cell_absent(j->reason)
		     : j->figure->of[0] ? cell_text(j->figure->of)
					: cell_absent("the whole run");
		grid_json_cell(json, "of", &of);
		json_key(json, "relative");
		json_bool(json, check->condition->relative);
		json_key(json, "limit");
		json_double(json, check->condition->value);
		edge = rounded(j->near_edge.known ? j->near_edge : value_absent(j->reason));
		grid_json_cell(json, "compared_value", &edge);
		json_object_end(json);
	}
	json_array_end(json);
}

static int json_rows(const struct compare_scene *scene, const struct compare_pair *pair,
		     enum compare_table table, struct json *json, struct err *err)
{
	const char *reason = pair->tables[table].reason;
	const char *key = table_names[table];
	struct grid grid;
	int r;

	if (reason) {
		grid_json_value(json, key, value_absent(reason));
		return 0;
	}
	r = compare_grid_rows(scene, pair, table, &grid, err);
	if (r >= 0) {
		json_key(json, key);
		grid_json(&grid, scene->options->limit, json);
	}
	grid_release(&grid);
	return r;
}

static int json_pair(const struct compare_scene *scene, const struct compare_pair *pair,
		     struct json *json, struct err *err)
{
	struct grid grid;
	int r;

	start(&grid);
	r = add_figures(pair, &grid);
	json_object(json);
	json_key(json, "baseline");
	json_string(json, pair->base->name);
	json_key(json, "group");
	json_string(json, pair->other->name);
	json_key(json, "compared");
	json_string(json, pair->whole ? "whole runs" : "steps");
	json_key(json, "figures");
	grid_json(&grid, 0, json);
	grid_release(&grid);
	if (r < 0)
		return err_sys(err, r, "cannot make the table of the comparison");
	for (int t = 0; r >= 0 && t < COMPARE_TABLES; t++)
		r = json_rows(scene, pair, (enum compare_table)t, json, err);
	json_object_end(json);
	return r;
}

static int render_json(const struct compare_scene *scene, FILE *out, struct err *err)
{
	const struct comparison *c = scene->comparison;
	struct json json;
	int r = 0, written;

	json_init_file(&json, out, 2);
	json_object(&json);
	json_key(&json, "schema");
	json_string(&json, "moescope/compare/1");
	json_groups(c, &json);
	json_facts(c, &json);
	json_key(&json, "confidence_pct");
	json_double(&json, 100 * (1 - COMPARE_ALPHA));
	json_key(&json, "resolution_pct");
	json_double(&json, COMPARE_RESOLUTION_PCT);
	json_key(&json, "comparisons");
	json_array(&json);
	for (size_t i = 0; r >= 0 && i + 1 < c->n_groups; i++)
		r = json_pair(scene, &c->pairs[i], &json, err);
	json_array_end(&json);
	json_checks(scene, &json);
	json_object_end(&json);
	written = json_finish(&json, NULL);
	if (r >= 0 && written < 0)
		r = err_sys(err, written, "cannot write the JSON of the comparison");
	return r;
}

/* Every row of every pair; the limit is for kernels and operations as elsewhere. */
static int render_csv(const struct compare_scene *scene, FILE *out, struct err *err)
{
	const struct comparison *c = scene->comparison;
	struct grid all, grid;
	int r = 0;

	start(&all);
	for (size_t i = 0; r >= 0 && i + 1 < c->n_groups; i++)
		r = add_figures(&c->pairs[i], &all) < 0
			    ? err_sys(err, -ENOMEM, "cannot make the table of the comparison")
			    : 0;
	for (size_t i = 0; r >= 0 && i < COMPARE_TABLES * (c->n_groups - 1); i++) {
		size_t limit = scene->options->limit;

		r = compare_grid_rows(scene, &c->pairs[i / COMPARE_TABLES],
				      (enum compare_table)(i % COMPARE_TABLES), &grid, err);
		for (size_t j = 0; r >= 0 && j < grid.n && (!limit || j < limit); j++) {
			struct cell *cells = grid_add(&all, grid.rows[j].item);

			if (cells)
				memcpy(cells, grid.rows[j].cells, grid.n_columns * sizeof(*cells));
			else
				r = err_sys(err, -ENOMEM,
					    "cannot make the table of the comparison");
		}
		grid_release(&grid);
	}
	if (r >= 0)
		grid_csv(&all, 0, out);
	grid_release(&all);
	return r;
}

int present_compare(const struct compare_scene *scene, FILE *out, struct err *err)
{
	struct grid none;
	int r;

	/* A wrong key is one also where there is nothing to sort. */
	start(&none);
	r = grid_sort(&none, scene->options->sort, err);
	if (r < 0)
		return r;
	if (scene->options->json)
		return render_json(scene, out, err);
	if (scene->options->csv)
		return render_csv(scene, out, err);
	return compare_text(scene, out, err);
}
