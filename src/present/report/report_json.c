/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one JSON object: every table under its name, and what only the report has.
 */
#include "present/frame/whole_views.h"
#include "present/views/device_text.h"
#include "subjects/comm/comm.h"
#include "subjects/inference/inference.h"
#include "subjects/overhead/overhead.h"
#include "subjects/spans/named_spans.h"

#define FIRST_DEVICE_SECTION 5 /* kernels and what follows it */

static void summary(struct json *json, const char *key, const struct stats_summary *s,
		    const char *reason)
{
	if (!s->n) {
		grid_json_value(json, key, value_absent(reason));
		return;
	}
	json_key(json, key);
	json_object_line(json);
	json_key(json, "count");
	json_uint(json, s->n);
	json_key(json, "mean");
	json_double(json, s->mean);
	json_key(json, "p50");
	json_double(json, s->p50);
	json_key(json, "p95");
	json_double(json, s->p95);
	json_key(json, "p99");
	json_double(json, s->p99);
	json_key(json, "min");
	json_double(json, s->min);
	json_key(json, "max");
	json_double(json, s->max);
	json_object_end(json);
}

static void stage(struct json *json, const char *key, const struct inference_stage *stage)
{
	json_key(json, key);
	json_object(json);
	grid_json_value(json, "time_ns", stage->time_ns);
	grid_json_value(json, "tokens", stage->tokens);
	grid_json_value(json, "tokens_per_s", stage->tokens_per_s);
	grid_json_value(json, "range_ns", stage->range_ns);
	grid_json_value(json, "device_ns", stage->device_ns);
	json_object_end(json);
}

static int inference(struct json *json, const struct scene *scene)
{
	static const char none[] = "no tokens were generated";
	const struct inference *f = answer_inference(scene->answers);
	struct grid grid;
	int r = requests_grid(scene, &grid);

	json_key(json, "inference");
	json_object(json);
	json_key(json, "requests");
	json_uint(json, f->requests);
	json_key(json, "finished");
	json_uint(json, f->finished);
	json_key(json, "without_begin");
	json_uint(json, f->without_begin);
	json_key(json, "prompt_tokens");
	json_uint(json, f->prompt_tokens);
	json_key(json, "tokens");
	json_uint(json, f->tokens);
	grid_json_value(json, "tokens_per_s", f->tokens_per_s);
	summary(json, "ttft_ns", &f->ttft_ns, none);
	summary(json, "tpot_ns", &f->tpot_ns, "no request has two tokens");
	summary(json, "itl_ns", &f->itl_ns, "no request has two tokens");
	summary(json, "request_tokens_per_s", &f->request_tokens_per_s, none);
	stage(json, "prefill", &f->stages[STAGE_PREFILL]);
	stage(json, "decode", &f->stages[STAGE_DECODE]);
	json_key(json, "rows");
	grid_json(&grid, 0, json, NULL, NULL);
	json_object_end(json);
	grid_release(&grid);
	return r;
}

static void verdict(struct json *json, const struct verdict *v)
{
	json_object(json);
	json_key(json, "id");
	json_string(json, v->id);
	json_key(json, "severity");
	json_string(json, severity_name(v->severity));
	json_key(json, "title");
	json_string(json, v->title);
	json_key(json, "evidence");
	json_object_line(json);
	for (size_t i = 0; i < v->n_evidence; i++) {
		json_key(json, v->evidence[i].key);
		json_double(json, v->evidence[i].v);
	}
	json_object_end(json);
	grid_json_value(json, "gain_pct", v->gain_pct);
	json_key(json, "gain_assumption");
	json_string(json, v->gain_assumption);
	json_key(json, "advice");
	json_string(json, v->advice);
	json_object_end(json);
}

static void overhead(struct json *json, const struct scene *scene)
{
	const struct overhead *o = answer_overhead(scene->answers);
	const struct run_info *info = &scene->run->info;

	json_key(json, "overhead");
	json_object(json);
	grid_json_value(json, "budget_pct",
			!info->budget_known    ? value_absent("no budget was set for this run")
			: info->budget_pct > 0 ? value_of(info->budget_pct)
					       : value_absent("the budget is off"));
	grid_json_value(json, "measured_pct", o->measured_pct);
	grid_json_value(json, "measured_low_pct", o->low_pct);
	grid_json_value(json, "measured_high_pct", o->high_pct);
	json_key(json, "pairs");
	json_uint(json, o->pairs);
	grid_json_value(json, "on_median_ns", o->on_median_ns);
	grid_json_value(json, "off_median_ns", o->off_median_ns);
	grid_json_value(json, "own_cpu_pct", o->own_cpu_pct);
	grid_json_value(json, "own_cpu_ns", o->own_cpu_ns);
	json_key(json, "records");
	json_uint(json, o->records);
	device_json_cost(scene, json);
	json_object_end(json);
}

static void spans(struct json *json, const struct scene *scene)
{
	const struct named_spans *spans = answer_named_spans(scene->answers);

	json_key(json, "spans");
	json_array(json);
	for (size_t i = 0; i < spans->n; i++) {
		const struct named_span *span = &spans->rows[i];
		struct cell domain = span->domain ? cell_text(run_string(scene->run, span->domain))
						  : cell_absent("the default domain");

		json_object_line(json);
		json_key(json, "name");
		json_string(json, run_string(scene->run, span->name));
		grid_json_cell(json, "domain", &domain);
		json_key(json, "count");
		json_uint(json, span->count);
		json_key(json, "time_ns");
		json_int(json, span->time_ns);
		json_key(json, "max_ns");
		json_int(json, span->max_ns);
		json_key(json, "moved");
		json_uint(json, span->moved);
		json_key(json, "unfinished");
		json_uint(json, span->unfinished);
		json_object_end(json);
	}
	json_array_end(json);
}

static int put_section(struct json *json, const struct scene *scene, const struct section *section)
{
	struct answers answers;
	struct scene own = section_scene(section, scene, &answers);
	struct grid grid;
	int r = section->grid(&own, &grid);

	json_key(json, section->name);
	json_object(json);
	section_json(section, &own, &grid, json);
	json_object_end(json);
	grid_release(&grid);
	return r;
}

int report_json(const struct scene *scene, const struct verdicts *verdicts, FILE *out,
		struct err *err)
{
	static const struct section *const parts[] = { &section_ops,	    &section_steps,
						       &section_routing,    &section_memory,
						       &section_efficiency, &section_kernels,
						       &section_api,	    &section_transfers,
						       &section_comm,	    &section_moe };
	struct json json;
	int r = 0;

	json_init_file(&json, out, 2);
	json_object(&json);
	scene_json_head(&json, scene->run, "report");
	json_key(&json, "verdicts");
	json_array(&json);
	for (size_t i = 0; i < verdicts->n; i++)
		verdict(&json, &verdicts->items[i]);
	json_array_end(&json);
	for (size_t i = 0; r >= 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		/* Collectives may be of hosts alone. */
		bool there = scene_has_device(scene->run) ||
			     (parts[i] == &section_comm && answer_comm(scene->answers)->n);

		if (i >= FIRST_DEVICE_SECTION && !there)
			grid_json_value(&json, parts[i]->name,
					value_absent("no device records in this run"));
		else
			r = put_section(&json, scene, parts[i]);
	}
	if (r >= 0)
		r = inference(&json, scene);
	if (r < 0)
		return r;
	device_json_timeline(scene, &json);
	device_json_state(scene, &json);
	spans(&json, scene);
	overhead(&json, scene);
	json_object_end(&json);
	r = json_finish(&json, NULL);
	return r < 0 ? err_sys(err, r, "cannot write the JSON of the report") : 0;
}
