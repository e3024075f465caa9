/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one JSON object: every table under its name, and what only the report has.
 */
#include "present/whole_views.h"

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

static void inference(struct json *json, const struct inference *f)
{
	static const char none[] = "no tokens were generated";

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
	json_object_end(json);
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

static void overhead(struct json *json, const struct overhead *o)
{
	json_key(json, "overhead");
	json_object(json);
	grid_json_value(json, "budget_pct", value_absent("no budget was set for this run"));
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
	grid_json_value(json, "level_changes",
			value_absent("level changes are not recorded by this version"));
	json_object_end(json);
}

static void timeline(struct json *json, const struct run *run)
{
	grid_json_value(json, "timeline",
			value_absent(run->kernel.n
					     ? "device timelines are not analysed by this version"
					     : "no device records in this run"));
}

int report_json(const struct scene *scene, const struct verdicts *verdicts, FILE *out,
		struct err *err)
{
	static const struct section *const sections[] = { &section_ops, &section_steps,
							  &section_routing, &section_memory };
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
	for (size_t i = 0; r >= 0 && i < sizeof(sections) / sizeof(sections[0]); i++) {
		struct grid grid;

		r = sections[i]->grid(scene, &grid);
		json_key(&json, sections[i]->name);
		json_object(&json);
		section_json(sections[i], scene, &grid, &json);
		json_object_end(&json);
		grid_release(&grid);
	}
	if (r < 0)
		return r;
	inference(&json, &scene->f->inference);
	timeline(&json, scene->run);
	overhead(&json, &scene->f->overhead);
	json_object_end(&json);
	r = json_finish(&json, NULL);
	return r < 0 ? err_sys(err, r, "cannot write the JSON of the report") : 0;
}
