/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections and documents as JSON; see section_json.h.
 */
#include "surfaces/json/section_json.h"

#include "documents/document.h"
#include "subjects/answers/subject.h"
#include "subjects/coverage/coverage_fields.h"
#include "surfaces/json/fields_json.h"

static const struct field sampled = FIELD_SAMPLED;

/* "total" and "rows" into the object that is open. */
static void table_json(const struct section *section, const struct scene *scene,
		       const struct grid *grid, struct json *json)
{
	struct field_row from = section_from(section, scene);

	if (section->device)
		field_json(json, &sampled, &from);
	json_key(json, "total");
	json_object(json);
	fields_json(json, section->total->fields, section->total->n_fields, &from);
	json_object_end(json);
	json_key(json, "rows");
	grid_json(grid, scene->limit, json);
}

static int part_section_json(struct json *json, const struct scene *scene,
			     const struct document_part *part)
{
	const struct section *section = part->section;
	const char *absent = part->absent ? part->absent(scene) : NULL;
	struct answers answers;
	struct scene own = section_scene(section, scene, &answers);
	struct grid grid;
	int r;

	if (absent) {
		grid_json_value(json, section->name, value_absent(absent));
		return 0;
	}
	r = section_grid(section, &own, &grid);
	json_key(json, section->name);
	json_object(json);
	if (r >= 0)
		table_json(section, &own, &grid, json);
	json_object_end(json);
	grid_release(&grid);
	return r;
}

/* The rows that stand beside the fields of a part. */
static int part_rows_json(struct json *json, const struct scene *scene,
			  const struct document_part *part)
{
	struct answers answers;
	struct scene own = section_scene(part->rows, scene, &answers);
	struct grid grid;
	int r = section_grid(part->rows, &own, &grid);

	if (r >= 0)
		r = grid_sort(&grid, part->rows_by, NULL);
	json_key(json, "rows");
	grid_json(&grid, 0, json);
	grid_release(&grid);
	return r;
}

static int part_fields_json(struct json *json, const struct scene *scene, const void *own,
			    const struct document_part *part)
{
	struct field_row at = { .run = scene->run,
				.item = part->own	? own
					: part->subject ? scene->answers->of[part->subject->id]
							: NULL,
				.answers = scene->answers };
	int r = 0;

	if (part->key) {
		json_key(json, part->key);
		json_object(json);
	}
	fields_json(json, part->fields->fields, part->fields->n_fields, &at);
	if (part->rows)
		r = part_rows_json(json, scene, part);
	if (part->key)
		json_object_end(json);
	return r;
}

/* The parts of a document into the object that is open. */
static int parts_json(const struct document *document, const struct scene *scene, const void *own,
		      struct json *json)
{
	int r = 0;

	for (const struct document_part *part = document->parts; r >= 0 && document_has(part);
	     part++)
		r = part->section ? part_section_json(json, scene, part)
				  : part_fields_json(json, scene, own, part);
	return r;
}

/* "schema", "run" and "loss" into the object that is open. */
static void head_json(struct json *json, const struct section *section, const struct run *run)
{
	struct run_head head;
	struct field_row at = { .run = run, .item = &head };
	char schema[64];

	section_schema(section, schema, sizeof(schema));
	json_key(json, "schema");
	json_string(json, schema);
	run_head_make(run, &head);
	fields_json(json, run_head_fields.fields, run_head_fields.n_fields, &at);
}

int section_json(const struct section *section, const struct scene *scene, const struct grid *grid,
		 const void *own, FILE *out)
{
	struct json json;
	int r = 0;

	json_init_file(&json, out, 2);
	json_object(&json);
	head_json(&json, section, scene->run);
	if (section->document)
		r = parts_json(section->document, scene, own, &json);
	else
		table_json(section, scene, grid, &json);
	if (r < 0)
		return r;
	json_object_end(&json);
	return json_finish(&json, NULL);
}
