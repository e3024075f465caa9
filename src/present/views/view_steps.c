/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps: their statistics, phases, and one row each.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/text/format.h"
#include "moescope.h"
#include "present/frame/scene.h"
#include "present/views/slow_text.h"
#include "subjects/shared/coverage.h"
#include "subjects/steps/device_phases.h"
#include "subjects/steps/slow_steps.h"
#include "subjects/steps/steps.h"

/* An engine tells the batch of a step, a training its phases. */
#define COLUMNS(engine)                                                                            \
	{                                                                                          \
		{ .key = "step", .title = "step", .unit = GRID_INT },                              \
			{ .key = "rank", .title = "rank", .unit = GRID_INT },                      \
			{ .key = "start_ns", .title = "start", .unit = GRID_NS },                  \
			{ .key = "time_ns", .title = "time", .unit = GRID_NS },                    \
			{ .key = "forward_ns",                                                     \
			  .title = (engine) ? NULL : "forward",                                    \
			  .unit = GRID_NS,                                                         \
			  .data_only_when_set = true },                                            \
			{ .key = "backward_ns",                                                    \
			  .title = (engine) ? NULL : "backward",                                   \
			  .unit = GRID_NS,                                                         \
			  .data_only_when_set = true },                                            \
			{ .key = "optimizer_ns",                                                   \
			  .title = (engine) ? NULL : "optim.",                                     \
			  .unit = GRID_NS,                                                         \
			  .data_only_when_set = true },                                            \
			{ .key = "data_ns",                                                        \
			  .title = (engine) ? NULL : "data",                                       \
			  .unit = GRID_NS,                                                         \
			  .data_only_when_set = true },                                            \
			{ .key = "stage",                                                          \
			  .title = (engine) ? "stage" : NULL,                                      \
			  .unit = GRID_TEXT,                                                       \
			  .data_only_when_set = true },                                            \
			{ .key = "batch",                                                          \
			  .title = (engine) ? "batch" : NULL,                                      \
			  .unit = GRID_INT,                                                        \
			  .data_only_when_set = true },                                            \
			{ .key = "tokens",                                                         \
			  .title = (engine) ? "tokens" : NULL,                                     \
			  .unit = GRID_COUNT },                                                    \
			{ .key = "tokens_per_s", .title = "tokens/s", .unit = GRID_COUNT },        \
			{ .key = "recorded", .unit = GRID_INT },                                   \
			{ .key = "unfinished", .unit = GRID_INT },                                 \
			{ .key = "outlier", .unit = GRID_INT },                                    \
			{ .key = "source", .unit = GRID_TEXT },                                    \
			{ .key = "probe", .unit = GRID_INT },                                      \
			{ .key = "device_covered", .unit = GRID_INT },                             \
	}

static const struct grid_column columns[] = COLUMNS(false), engine_columns[] = COLUMNS(true);

static struct cell phase_cell(const struct step_row *row, unsigned int phase)
{
	if (!row->phases_known)
		return cell_absent("no range in this step names a phase");
	return row->phase_ns[phase] ? cell_int(row->phase_ns[phase])
				    : cell_absent("no range in this step names this phase");
}

static bool is_engine(const struct steps *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->rows[i].batch)
			return true;
	return false;
}

static int fill(const struct scene *scene, struct grid *grid)
{
	const struct coverage *c = answer_coverage(scene->answers);

	grid_init(grid, is_engine(answer_steps(scene->answers)) ? engine_columns : columns,
		  sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < answer_steps(scene->answers)->n; i++) {
		const struct step_row *row = &answer_steps(scene->answers)->rows[i];
		struct cell *cell = grid_add(grid, row);

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_int(row->step);
		*cell++ = cell_uint(row->rank);
		*cell++ = cell_int(row->start_ns - scene->run->start_ns);
		*cell++ = cell_int(row->duration_ns);
		*cell++ = phase_cell(row, MOESCOPE_FORWARD);
		*cell++ = phase_cell(row, MOESCOPE_BACKWARD);
		*cell++ = phase_cell(row, MOESCOPE_OPTIMIZER);
		*cell++ = phase_cell(row, MOESCOPE_DATA);
		*cell++ = row->stage ? cell_text(step_stage_name(row->stage))
				     : cell_absent("no range names it");
		*cell++ = row->batch ? cell_uint(row->batch) : cell_absent("no range names it");
		*cell++ = cell_value(row->tokens);
		*cell++ = cell_value(row->tokens_per_s);
		*cell++ = cell_bool(row->recorded);
		*cell++ = cell_bool(row->unfinished);
		*cell++ = cell_bool(row->outlier);
		*cell++ = cell_text(step_source_name(row->source));
		*cell++ = cell_uint(row->probe);
		*cell++ = c->watched_ns > 0 ? cell_bool(coverage_has_step(c, scene->run, row->row))
					    : cell_value(c->coverage_pct);
	}
	return 0;
}

static void phases(struct json *json, const int64_t *phase_ns)
{
	json_object_line(json);
	for (unsigned int p = 1; p <= STEP_PHASES; p++) {
		unsigned int phase = p % STEP_PHASES; /* other comes last */

		if (phase && !phase_ns[phase])
			continue;
		json_key(json, phase ? phase_name(phase) : "other");
		json_int(json, phase_ns[phase]);
	}
	json_object_end(json);
}

static void extra(struct json *json, const void *item, const void *context)
{
	const struct step_row *row = item;

	(void)context;
	json_key(json, "phases");
	if (row->phases_known) {
		phases(json, row->phase_ns);
		return;
	}
	json_null(json);
	json_key(json, "phases_reason");
	json_string(json, row->recorded ? "no range in this step names a phase"
					: "the step was not recorded");
}

static void summary(struct json *json, const char *key, const struct stats_summary *s)
{
	const struct {
		const char *key;
		double v;
	} items[] = { { "mean_ns", s->mean }, { "p50_ns", s->p50 }, { "p95_ns", s->p95 },
		      { "p99_ns", s->p99 },   { "min_ns", s->min }, { "max_ns", s->max },
		      { "cv", s->cv } };

	if (!s->n) {
		grid_json_value(json, key, value_absent("no such step is finished"));
		return;
	}
	json_key(json, key);
	json_object_line(json);
	json_key(json, "count");
	json_uint(json, s->n);
	for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
		json_key(json, items[i].key);
		json_double(json, items[i].v);
	}
	json_object_end(json);
}

static void total(const struct scene *scene, struct json *json)
{
	const struct steps *s = answer_steps(scene->answers);
	struct cell found_by = scene->run->steps_found
				       ? cell_text(scene->run->steps_found)
				       : cell_absent(s->n ? "steps are marked" : "there are none");

	summary(json, "time", &s->all);
	summary(json, "time_recorded", &s->recorded);
	json_key(json, "steps");
	json_uint(json, s->n);
	json_key(json, "unfinished");
	json_uint(json, s->n_unfinished);
	json_key(json, "with_set_up");
	json_uint(json, s->n_set_up);
	json_key(json, "not_recorded");
	json_uint(json, s->n_not_recorded);
	json_key(json, "outliers");
	json_uint(json, s->n_outliers);
	grid_json_value(json, "outlier_limit_ns", s->outlier_limit_ns);
	grid_json_value(json, "tokens", s->tokens);
	grid_json_value(json, "tokens_per_s", s->tokens_per_s);
	json_key(json, "phases");
	if (s->n_phased) {
		phases(json, s->phase_ns);
	} else {
		json_null(json);
		json_key(json, "phases_reason");
		json_string(json, "no range names a phase");
	}
	json_key(json, "device_phases");
	if (!answer_device_phases(scene->answers)->reason) {
		phases(json, answer_device_phases(scene->answers)->ns);
	} else {
		json_null(json);
		json_key(json, "device_phases_reason");
		json_string(json, answer_device_phases(scene->answers)->reason);
	}
	json_key(json, "warmup_policy");
	json_string(json, "all finished steps count; none is left out as warm-up");
	grid_json_value(json, "warmup_mean_ns", s->warmup_mean_ns);
	grid_json_value(json, "warmup_ratio", s->warmup_ratio);
	json_key(json, "source");
	json_string(json, s->n ? step_source_name(s->rows[0].source) : "none");
	grid_json_cell(json, "found_by", &found_by);
	slow_json(scene, json);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct steps *s = answer_steps(scene->answers);
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit;
	int r;

	if (!grid->n) {
		fputs(run_is_foreign(scene->run)
			      ? "  no steps in this run or window: the imported file marks none, "
				"and no kernels repeat clearly enough\n"
			      : "  no steps in this run or window: the program marks them with "
				"moescope_step()\n",
		      out);
		return 0;
	}
	if (s->all.n)
		fprintf(out, "  %zu steps  mean %s  p50 %s  p95 %s  p99 %s  cv %s\n",
			s->n - s->n_unfinished, format_ns(s->all.mean).text,
			format_ns(s->all.p50).text, format_ns(s->all.p95).text,
			format_ns(s->all.p99).text, format_pct(100 * s->all.cv).text);
	scene_steps_source(scene, 2, out);
	if (s->n_phased) {
		fputs("  ", out);
		scene_phase_bar(scene, layout.width - 4, out);
		scene_phase_legend(scene, 2, out);
	}
	fputc('\n', out);
	r = grid_print(grid, limit, &layout, out);
	scene_more(limit && limit < grid->n ? limit : grid->n, grid->n, out);
	fprintf(out, "  All finished steps count; %zu of them are outliers", s->n_outliers);
	if (s->outlier_limit_ns.known)
		fprintf(out, " (over %s)", format_ns(s->outlier_limit_ns.v).text);
	fputs(".\n", out);
	if (s->n_not_recorded)
		fprintf(out, "  %zu steps were not recorded; only their time is known.\n",
			s->n_not_recorded);
	if (s->n_set_up)
		fputs("  The set-up of the program is in the time of its first step, which is in no "
		      "statistic; moescope_start() where the loop begins leaves it out.\n",
		      out);
	if (s->n_unfinished)
		fprintf(out, "  %zu steps were cut by the end of the process.\n", s->n_unfinished);
	slow_text(scene, SLOW_STEPS, out);
	return r;
}

const struct section section_steps = {
	.name = "steps",
	.sql = "step_times",
	.reads = READS(&subject_steps, &subject_slow_steps, &subject_device_phases,
		       &subject_coverage),
	.device = true,
	.grid = fill,
	.total = total,
	.extra = extra,
	.text = text,
};
