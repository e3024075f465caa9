/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one JSON object: every table under its name, and what only the report has.
 */
#include "present/whole_views.h"

#define FIRST_DEVICE_SECTION 4 /* kernels and what follows it */

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

static void timeline_device(struct json *json, const struct timeline_device *d)
{
	json_object_line(json);
	json_key(json, "rank");
	json_uint(json, d->rank);
	json_key(json, "device");
	json_uint(json, d->device);
	json_key(json, "window_ns");
	json_int(json, d->end_ns - d->start_ns);
	json_key(json, "busy_ns");
	json_int(json, d->busy_ns);
	json_key(json, "idle_ns");
	json_int(json, d->idle_ns);
	json_key(json, "busy_pct");
	json_double(json, d->busy_pct);
	grid_json_value(json, "idle_by_cause",
			value_absent("causes of idle time are not told apart by this version"));
	json_key(json, "kernel_ns");
	json_int(json, d->kernel_ns);
	json_key(json, "copy_ns");
	json_int(json, d->copy_ns);
	json_key(json, "set_ns");
	json_int(json, d->set_ns);
	json_key(json, "overlap");
	json_object_line(json);
	json_key(json, "compute_copy_ns");
	json_int(json, d->overlap_ns);
	grid_json_value(json, "compute_copy_pct", d->overlap_pct);
	json_object_end(json);
	json_object_end(json);
}

static void timeline(struct json *json, const struct scene *scene)
{
	const struct timeline *t = &scene->f->timeline;
	int64_t copy_ns = 0, overlap_ns = 0;

	if (!t->n) {
		grid_json_value(json, "timeline",
				value_absent(t->untimed ? "no device record was timed"
							: "no device records in this run"));
		return;
	}
	json_key(json, "timeline");
	json_object(json);
	json_key(json, "devices");
	json_array(json);
	for (size_t i = 0; i < t->n; i++) {
		timeline_device(json, &t->devices[i]);
		copy_ns += t->devices[i].copy_ns;
		overlap_ns += t->devices[i].overlap_ns;
	}
	json_array_end(json);
	json_key(json, "overlap");
	json_object_line(json);
	grid_json_value(json, "compute_copy_pct",
			copy_ns ? value_of(100.0 * (double)overlap_ns / (double)copy_ns)
				: value_absent("nothing was copied"));
	json_object_end(json);
	json_key(json, "untimed");
	json_uint(json, t->untimed);
	json_object_end(json);
}

static int put_section(struct json *json, const struct scene *scene, const struct section *section)
{
	struct grid grid;
	int r = section->grid(scene, &grid);

	json_key(json, section->name);
	json_object(json);
	section_json(section, scene, &grid, json);
	json_object_end(json);
	grid_release(&grid);
	return r;
}

int report_json(const struct scene *scene, const struct verdicts *verdicts, FILE *out,
		struct err *err)
{
	static const struct section *const sections[] = { &section_ops,	     &section_steps,
							  &section_routing,  &section_memory,
							  &section_kernels,  &section_api,
							  &section_transfers };
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
		if (i >= FIRST_DEVICE_SECTION && !scene_has_device(scene->run))
			grid_json_value(&json, sections[i]->name,
					value_absent("no device records in this run"));
		else
			r = put_section(&json, scene, sections[i]);
	}
	if (r < 0)
		return r;
	inference(&json, &scene->f->inference);
	timeline(&json, scene);
	overhead(&json, &scene->f->overhead);
	json_object_end(&json);
	r = json_finish(&json, NULL);
	return r < 0 ? err_sys(err, r, "cannot write the JSON of the report") : 0;
}
