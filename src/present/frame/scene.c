/* SPDX-License-Identifier: Apache-2.0
 *
 * What views share; see scene.h.
 */
#include "present/frame/scene.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "device/sheets/kernel_class.h"
#include "device/sheets/peaks.h"
#include "present/frame/fields_json.h"
#include "subjects/answers/subject.h"
#include "subjects/coverage/coverage_fields.h"
#include "subjects/routing/routing.h"
#include "subjects/shared/coverage.h"
#include "subjects/steps/steps.h"

struct question scene_question(const struct present_options *options)
{
	struct question question = {
		.sel = { options->step_first, options->step_last, options->layer, options->phase },
		.by_shape = options->by_shape,
		.by_stack = options->by_stack,
		.n_capacity_factors = options->n_capacity_factors,
		.tile_rows = options->tile_rows,
		.kernels_by = options->kernels_by,
	};

	_Static_assert(sizeof(question.capacity_factors) == sizeof(options->capacity_factors),
		       "as many as the options can hold");
	memcpy(question.capacity_factors, options->capacity_factors,
	       sizeof(question.capacity_factors));
	return question;
}

struct asked section_asked(const struct section *section, const struct present_options *options)
{
	struct asked asked = { scene_question(options), { section->name, section->reads } };

	asked.question.router_time = section->router_time;
	asked.question.routed_tokens = section->routed_tokens;
	return asked;
}

static void lend(struct asked *asked, size_t n, const struct kernel_classes *classes,
		 const struct peaks_file *peaks)
{
	for (size_t i = 0; i < n; i++) {
		asked[i].question.classes = classes;
		asked[i].question.peaks = peaks;
	}
}

int scene_compute(const struct run *run, const struct present_options *options, struct asked *asked,
		  size_t n, struct answers *ret_answers, struct err *err)
{
	struct kernel_classes *classes = NULL;
	struct peaks_file peaks = { 0 };
	struct plan plan = { 0 };
	int r = 0;

	for (size_t i = 0; i < n; i++)
		plan_subjects(&plan, &asked[i].question, asked[i].reader.reads);
	if (plan.needs & NEEDS_CLASSES)
		r = kernel_classes_new(options->classes, &classes, err);
	if (r < 0)
		return r;
	if (options->peaks && plan.needs & NEEDS_PEAKS)
		r = peaks_read(options->peaks, &peaks);
	if (r < 0) {
		kernel_classes_free(classes);
		return err_sys(err, r, "cannot read the measured peaks in '%s'", options->peaks);
	}
	lend(asked, n, classes, &peaks);
	r = answers_compute(run, asked, n, ret_answers);
	lend(asked, n, NULL, NULL);
	kernel_classes_free(classes);
	peaks_release(&peaks);
	return r < 0 ? err_sys(err, r, "cannot analyse run '%s'", run->info.name) : 0;
}

struct run_want section_want(const struct section *section, const struct present_options *options)
{
	struct asked asked[ASKED_MAX];
	struct plan plan = { 0 };
	size_t n = 1;

	if (section->ask)
		n = section->ask(NULL, options, asked);
	else
		asked[0] = section_asked(section, options);
	for (size_t i = 0; i < n; i++)
		plan_subjects(&plan, &asked[i].question, asked[i].reader.reads);
	/* The head of the JSON lists the devices that ran kernels. */
	plan_kinds(&plan, WANT(KERNEL) | section->kinds);
	return plan.want;
}

struct scene section_scene(const struct section *section, const struct scene *scene,
			   struct answers *ret_answers)
{
	*ret_answers = answers_for(scene->answers,
				   (struct reader){ section->name, section->reads });
	return (struct scene){ scene->run, scene->options, ret_answers };
}

bool scene_has_device(const struct run *run)
{
	return run->kernel.n || run->copy.n || run->set.n || run->api.n;
}

void scene_no_device(const struct scene *scene, FILE *out)
{
	fputs("  ", out);
	text_wrap(
		out,
		run_is_foreign(scene->run)
			? "no device records in this run: the file that it was imported from has none"
			: "no device records in this run: the program used no GPU, or its GPU was not "
			  "recorded ('moescope doctor' says what works here)",
		(size_t)scene_layout(scene, 0).width, 2, 2);
}

void scene_sampled(const struct scene *scene, const char *what, FILE *out)
{
	const struct coverage *c = answer_coverage(scene->answers);

	if (!c->sampled)
		return;
	fprintf(out, "  %ssampled: %zu window%s, %s of the run", what, c->n_windows,
		c->n_windows == 1 ? "" : "s", format_pct(c->coverage_pct.v).text);
	if (c->steps)
		fprintf(out, ", %zu of %zu steps", c->steps_covered, c->steps);
	fputc('\n', out);
}

struct field_row section_from(const struct section *section, const struct scene *scene)
{
	ANSWERS_CHECK(scene->answers, section->subject);
	return (struct field_row){ .run = scene->run,
				   .item = scene->answers->of[section->subject->id],
				   .form = section->form ? section->form(scene) : 1,
				   .answers = scene->answers };
}

int section_grid(const struct section *section, const struct scene *scene, struct grid *ret_grid)
{
	struct field_row from = section_from(section, scene);

	return grid_fill(ret_grid, section->rows, &from);
}

static const struct field sampled = FIELD_SAMPLED;

void section_json(const struct section *section, const struct scene *scene, const struct grid *grid,
		  struct json *json)
{
	struct field_row from = section_from(section, scene);

	if (section->device)
		field_json(json, &sampled, &from);
	json_key(json, "total");
	json_object(json);
	fields_json(json, section->total->fields, section->total->n_fields, &from);
	json_object_end(json);
	json_key(json, "rows");
	grid_json(grid, scene->options->limit, json);
}

static int render_json(const struct section *section, const struct scene *scene,
		       const struct grid *grid, FILE *out, struct err *err)
{
	struct json json;
	int r;

	json_init_file(&json, out, 2);
	json_object(&json);
	scene_json_head(&json, scene->run, section->name);
	section_json(section, scene, grid, &json);
	json_object_end(&json);
	r = json_finish(&json, NULL);
	return r < 0 ? err_sys(err, r, "cannot write the JSON of '%s'", section->name) : 0;
}

/* Sort keys are checked before a byte is written. */
static int render_rows(const struct section *section, const struct scene *scene, FILE *out,
		       struct err *err)
{
	struct grid grid;
	int r = section_grid(section, scene, &grid);

	if (r < 0)
		err_sys(err, r, "cannot make the table '%s'", section->name);
	else
		r = grid_sort(&grid, scene->options->sort, err);
	if (r >= 0 && scene->options->json) {
		r = render_json(section, scene, &grid, out, err);
	} else if (r >= 0 && scene->options->csv) {
		grid_csv(&grid, scene->options->limit, out);
	} else if (r >= 0) {
		scene_heading(scene, section->name, out);
		r = section->text(scene, &grid, out);
		if (r < 0)
			err_sys(err, r, "cannot print the table '%s'", section->name);
	}
	grid_release(&grid);
	return r;
}

int section_render(const struct section *section, const struct run *run,
		   const struct present_options *options, FILE *out, struct err *err)
{
	struct asked asked;
	struct answers answers;
	struct scene scene = { run, options, &answers };
	int r;

	if (section->render)
		return section->render(run, options, out, err);
	asked = section_asked(section, options);
	r = scene_compute(run, options, &asked, 1, &answers, err);
	if (r < 0)
		return r;
	r = render_rows(section, &scene, out, err);
	answers_release(&answers);
	return r;
}

static void json_devices(struct json *json, const struct run *run)
{
	uint64_t seen[4] = { 0 };

	json_key(json, "devices");
	json_array_line(json);
	for (size_t i = 0; i < run->kernel.n; i++) {
		uint32_t device = run->kernel.device[i];

		if (device >= 256 || seen[device / 64] >> (device % 64) & 1)
			continue;
		seen[device / 64] |= UINT64_C(1) << (device % 64);
		json_uint(json, device);
	}
	json_array_end(json);
}

static void json_run(struct json *json, const struct run *run)
{
	const struct run_info *info = &run->info;
	struct cell duration, started;

	json_key(json, "run");
	json_object(json);
	json_key(json, "name");
	json_string(json, info->name);
	json_key(json, "command");
	json_string(json, info->command);
	if (info->source[0]) {
		json_key(json, "source");
		json_string(json, info->source);
	}
	duration = info->duration_known
			   ? cell_int(info->duration_ns)
			   : cell_absent(info->source[0] ? NOT_IN_FILE
							 : "the program has not ended");
	grid_json_cell(json, "duration_ns", &duration);
	json_devices(json, run);
	json_key(json, "ranks");
	json_array_line(json);
	for (size_t i = 0; i < run->n_shards; i++)
		json_uint(json, run->shards[i].rank);
	json_array_end(json);
	json_key(json, "status");
	json_string(json, info->status);
	json_key(json, "exit_status");
	if (!strcmp(info->status, "exited")) {
		json_int(json, info->exit_status);
	} else {
		json_null(json);
		json_key(json, "exit_status_reason");
		json_string(json,
			    info->source[0] ? NOT_IN_FILE : "the program did not exit by itself");
	}
	json_key(json, "host");
	json_string(json, info->host);
	json_key(json, "cpu");
	json_string(json, info->cpu);
	json_key(json, "level");
	json_string(json, info->level);
	json_key(json, "version");
	json_string(json, info->version);
	started = info->source[0] && !info->started_realtime_ns
			  ? cell_absent(NOT_IN_FILE)
			  : cell_int(info->started_realtime_ns);
	grid_json_cell(json, "started_realtime_ns", &started);
	json_key(json, "notes");
	json_string(json, info->notes);
	json_object_end(json);
}

void scene_json_head(struct json *json, const struct run *run, const char *name)
{
	char schema[64];

	snprintf(schema, sizeof(schema), "moescope/%s/1", name);
	json_key(json, "schema");
	json_string(json, schema);
	json_run(json, run);
	json_key(json, "loss");
	json_object(json);
#define LOSS(field, words)                                                                         \
	json_key(json, #field);                                                                    \
	json_uint(json, run->loss.field);
	LOSS_COUNTERS(LOSS)
#undef LOSS
	json_object_end(json);
}

struct text_layout scene_layout(const struct scene *scene, int indent)
{
	return (struct text_layout){ .width = scene->options->width > 0 ? scene->options->width
									: 80,
				     .indent = indent,
				     .color = scene->options->color,
				     .utf8 = scene->options->utf8 };
}

void scene_title(const struct scene *scene, const char *title, FILE *out)
{
	bool color = scene->options->color;

	fprintf(out, "\n%s%s%s\n", text_style_on(TEXT_BOLD, color), title,
		text_style_off(TEXT_BOLD, color));
}

void scene_more(size_t shown, size_t n, FILE *out)
{
	if (shown < n)
		fprintf(out, "  ... %zu more rows (--limit 0 shows all)\n", n - shown);
}

void scene_heading(const struct scene *scene, const char *title, FILE *out)
{
	bool color = scene->options->color;

	fprintf(out, "%smoescope %s%s  ", text_style_on(TEXT_BOLD, color), title,
		text_style_off(TEXT_BOLD, color));
	text_wrap(out, scene->run->info.name, 1000, 0, 0);
	if (scene_trouble(scene, true, out)) {
		scene_trouble(scene, false, out);
		fputc('\n', out);
	}
}

static void trouble_line(const struct scene *scene, const char *text, FILE *out)
{
	bool color = scene->options->color;

	fprintf(out, "%s!%s ", text_style_on(TEXT_YELLOW, color),
		text_style_off(TEXT_YELLOW, color));
	text_wrap(out, text, (size_t)scene_layout(scene, 0).width, 2, 2);
}

/* Lines of one kind that are shown; of the rest there is a count. */
#define PROCESSES_MOST 8
#define NOTES_MOST 40

static void trouble_more(const struct scene *scene, size_t n, size_t shown, const char *words,
			 FILE *out)
{
	char line[160];

	if (n <= shown)
		return;
	snprintf(line, sizeof(line), "and %zu more %s", n - shown, words);
	trouble_line(scene, line, out);
}

static size_t trouble_notes(const struct scene *scene, bool count_only, FILE *out)
{
	const char *at = scene->run->info.notes;
	size_t n = 0;

	while (*at) {
		size_t length = strcspn(at, "\n");
		char line[1024];

		if (length) {
			snprintf(line, sizeof(line), "%.*s", (int)(length < 1000 ? length : 1000),
				 at);
			if (!count_only && n < NOTES_MOST)
				trouble_line(scene, line, out);
			n++;
		}
		at += length;
		at += *at == '\n';
	}
	if (!count_only)
		trouble_more(scene, n, NOTES_MOST, "notes; run.json has them all", out);
	return n;
}

enum shard_trouble { NOT_READ, NOT_CLOSED, NOT_ENDED, SHARD_TROUBLES, NO_TROUBLE };

static enum shard_trouble shard_trouble(const struct run *run, const struct run_shard *shard)
{
	if (shard->trouble.message[0])
		return NOT_READ;
	if (shard->state == SHARD_CRASHED)
		return NOT_CLOSED;
	if (shard->state == SHARD_LIVE && strcmp(run->info.status, "running") != 0)
		return NOT_ENDED;
	return NO_TROUBLE;
}

static size_t trouble_shards(const struct scene *scene, bool count_only, FILE *out)
{
	static const char *const words[SHARD_TROUBLES] = {
		[NOT_CLOSED] = "ended without closing its recording",
		[NOT_ENDED] = "still records although the command has ended; figures may grow",
	};
	static const char *const more[SHARD_TROUBLES] = {
		[NOT_READ] = "processes whose shards could not be read, or not wholly",
		[NOT_CLOSED] = "processes that ended without closing their recordings",
		[NOT_ENDED] = "processes that still record",
	};
	const struct run *run = scene->run;
	size_t n[NO_TROUBLE + 1] = { 0 };

	for (size_t i = 0; i < run->n_shards; i++) {
		const struct run_shard *shard = &run->shards[i];
		enum shard_trouble trouble = shard_trouble(run, shard);
		char line[1400];

		if (trouble == NO_TROUBLE || ++n[trouble] > PROCESSES_MOST || count_only)
			continue;
		snprintf(line, sizeof(line), "rank %u, process %u%s %s", shard->rank, shard->pid,
			 trouble == NOT_READ ? ":" : "",
			 trouble == NOT_READ ? shard->trouble.message : words[trouble]);
		trouble_line(scene, line, out);
	}
	for (int t = 0; !count_only && t < SHARD_TROUBLES; t++)
		trouble_more(scene, n[t], PROCESSES_MOST, more[t], out);
	return n[NOT_READ] + n[NOT_CLOSED] + n[NOT_ENDED];
}

size_t scene_trouble(const struct scene *scene, bool count_only, FILE *out)
{
	const struct routing *routing = answers_has(scene->answers, &subject_routing)
						? answer_routing(scene->answers)
						: NULL;
	size_t n = 0;
	char line[256];

	if (routing && routing->records && !routing->self_check_ok) {
		snprintf(line, sizeof(line), "routing self-check failed: %s", routing->self_check);
		if (!count_only)
			trouble_line(scene, line, out);
		n++;
	}
#define LOSS(field, words)                                                                         \
	if (scene->run->loss.field) {                                                              \
		snprintf(line, sizeof(line), "%" PRIu64 " %s", scene->run->loss.field, words);     \
		if (!count_only)                                                                   \
			trouble_line(scene, line, out);                                            \
		n++;                                                                               \
	}
	LOSS_COUNTERS(LOSS)
#undef LOSS
	n += trouble_shards(scene, count_only, out);
	n += trouble_notes(scene, count_only, out);
	return n;
}

void scene_steps_source(const struct scene *scene, int indent, FILE *out)
{
	const struct steps *s = answer_steps(scene->answers);
	size_t of_stage[STEP_MIXED + 1] = { 0 }, stages = 0;
	unsigned int source = s->n ? s->rows[0].source : STEP_TOLD;

	if (source == STEP_REPEATED && scene->run->steps_found) {
		fprintf(out, "%*sest.: nobody marks steps; found by ", indent, "");
		text_fit(out, scene->run->steps_found, strlen(scene->run->steps_found), false,
			 scene->options->utf8);
		fputc('\n', out);
	} else if (source == STEP_BY_NAME) {
		fprintf(out, "%*sby the names of the engine's ranges\n", indent, "");
	} else if (source == STEP_ON_DEVICE) {
		fprintf(out, "%*sby the names of ranges on the device, with its times\n", indent,
			"");
	}
	for (size_t i = 0; i < s->n; i++)
		of_stage[s->rows[i].stage <= STEP_MIXED ? s->rows[i].stage : 0]++;
	for (unsigned int stage = STEP_PREFILL; stage <= STEP_MIXED; stage++)
		if (of_stage[stage])
			fprintf(out, "%*s%zu %s", stages++ ? 2 : indent, "", of_stage[stage],
				step_stage_name(stage));
	if (stages)
		fputc('\n', out);
}
