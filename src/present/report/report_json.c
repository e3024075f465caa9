/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one JSON object: every table under its name, and what only the report has.
 */
#include "present/frame/fields_json.h"
#include "present/frame/whole_views.h"
#include "subjects/comm/comm.h"
#include "subjects/device/device_fields.h"
#include "subjects/inference/inference.h"
#include "subjects/overhead/overhead.h"
#include "subjects/spans/named_spans.h"

#define FIRST_DEVICE_SECTION 5 /* kernels and what follows it */

static void put_fields(struct json *json, const struct scene *scene, const struct field_set *set,
		       const void *answer)
{
	struct field_row at = { .run = scene->run, .item = answer, .answers = scene->answers };

	fields_json(json, set->fields, set->n_fields, &at);
}

static int inference(struct json *json, const struct scene *scene)
{
	struct grid grid;
	int r = requests_grid(scene, &grid);

	json_key(json, "inference");
	json_object(json);
	put_fields(json, scene, &inference_total, answer_inference(scene->answers));
	json_key(json, "rows");
	grid_json(&grid, 0, json);
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

static int put_section(struct json *json, const struct scene *scene, const struct section *section)
{
	struct answers answers;
	struct scene own = section_scene(section, scene, &answers);
	struct grid grid;
	int r = section_grid(section, &own, &grid);

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
	put_fields(&json, scene, &device_fields, NULL);
	put_fields(&json, scene, &named_spans_fields, NULL);
	put_fields(&json, scene, &overhead_fields, NULL);
	json_object_end(&json);
	r = json_finish(&json, NULL);
	return r < 0 ? err_sys(err, r, "cannot write the JSON of the report") : 0;
}
