/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields as JSON Schema; see schema.h.
 */
#include "cmd/definitions/schema.h"

#include <string.h>

#include "base/text/json_write.h"
#include "cmd/definitions/parts.h"
#include "documents/document.h"
#include "subjects/coverage/coverage_fields.h"

const char *schema_type(const struct field *field)
{
	switch (field->type) {
	case FIELD_BOOL:
		return "boolean";
	case FIELD_U8:
	case FIELD_U16:
	case FIELD_U32:
	case FIELD_U64:
	case FIELD_I32:
	case FIELD_I64:
	case FIELD_TIME:
	case FIELD_WHOLE:
		return "integer";
	case FIELD_REAL:
	case FIELD_VALUE:
		return "number";
	case FIELD_TEXT:
	case FIELD_TEXT_INSIDE:
	case FIELD_STRING:
		return "string";
	case FIELD_UNTYPED:
		break;
	}
	return field->of && (field->of->shape == FIELD_LIST || field->of->shape == FIELD_ARRAY)
		       ? "array"
		       : "object";
}

static void put_text(struct json *json, const char *key, const char *text)
{
	json_key(json, key);
	json_string(json, text);
}

static void put_type(struct json *json, const char *type, bool nullable)
{
	json_key(json, "type");
	if (!nullable) {
		json_string(json, type);
		return;
	}
	json_array_line(json);
	json_string(json, type);
	json_string(json, "null");
	json_array_end(json);
}

static void put_ref(struct json *json, const char *part)
{
	char ref[PART_NAME_SIZE + 16];

	snprintf(ref, sizeof(ref), "#/$defs/%s", part);
	put_text(json, "$ref", ref);
}

static void put_ref_or_null(struct json *json, const char *part, bool nullable)
{
	if (!nullable) {
		put_ref(json, part);
		return;
	}
	json_key(json, "anyOf");
	json_array_line(json);
	json_object_line(json);
	put_ref(json, part);
	json_object_end(json);
	json_object_line(json);
	put_type(json, "null", false);
	json_object_end(json);
	json_array_end(json);
}

static void put_value(struct json *json, const struct field *field, bool nullable)
{
	const struct field_group *group = field->of;

	if (group && (group->shape == FIELD_OBJECT || group->shape == FIELD_MAP)) {
		put_ref_or_null(json, group->part, nullable);
		return;
	}
	put_type(json, schema_type(field), nullable);
	if (!group)
		return;
	json_key(json, "items");
	json_object_line(json);
	if (group->shape == FIELD_LIST)
		put_ref(json, group->table ? group->table->part : group->part);
	else
		put_value(json, group->fields, group->fields->read_may_lack);
	json_object_end(json);
}

/* Words become one description, without a full stop at their end. */
static void put_description(struct json *json, const char *words)
{
	size_t n = words ? strlen(words) : 0;

	json_key(json, "description");
	json_string_n(json, words ? words : "", n && words[n - 1] == '.' ? n - 1 : n);
}

static void put_property(struct json *json, const char *key, const struct field *field,
			 bool nullable, const char *words)
{
	json_key(json, key);
	json_object_line(json);
	put_value(json, field, nullable);
	put_description(json, words);
	json_object_end(json);
}

static void put_reference(struct json *json, const char *key, const char *part, bool nullable,
			  const char *words)
{
	json_key(json, key);
	json_object_line(json);
	put_ref_or_null(json, part, nullable);
	put_description(json, words);
	json_object_end(json);
}

static void put_rows(struct json *json, const struct section *section, const char *words)
{
	char row[PART_NAME_SIZE];

	snprintf(row, sizeof(row), "%s_row", section->name);
	json_key(json, "rows");
	json_object_line(json);
	put_type(json, "array", false);
	json_key(json, "items");
	json_object_line(json);
	put_ref(json, row);
	json_object_end(json);
	put_description(json, words);
	json_object_end(json);
}

static void begin_object(struct json *json, const char *name, const char *words)
{
	json_key(json, name);
	json_object(json);
	put_type(json, "object", false);
	put_description(json, words);
	json_key(json, "properties");
	json_object(json);
}

/* After the properties: reasons may stand beside them, and nothing else. */
static void begin_required(struct json *json)
{
	json_object_end(json);
	json_key(json, "patternProperties");
	json_object_line(json);
	json_key(json, "_reason$");
	json_object_line(json);
	put_type(json, "string", false);
	json_object_end(json);
	json_object_end(json);
	json_key(json, "additionalProperties");
	json_bool(json, false);
	json_key(json, "required");
	json_array_line(json);
}

static void end_object(struct json *json)
{
	json_array_end(json);
	json_object_end(json);
}

static void property(const struct part *part, const struct part_key *key, void *data)
{
	(void)part;
	put_property(data, key->key, key->field, key->nullable, part_key_meaning(key));
}

static void required(const struct part *part, const struct part_key *key, void *data)
{
	(void)part;
	if (key->always)
		json_string(data, key->key);
}

/* Each name once: numbers in reserve have the same. */
static void put_names(struct json *json, const struct field_group *map)
{
	char previous[FIELD_NAME_SIZE] = "", room[FIELD_NAME_SIZE];

	json_key(json, "propertyNames");
	json_object_line(json);
	json_key(json, "enum");
	json_array_line(json);
	for (size_t i = 0; i < map->n_names; i++) {
		struct field_row at = { .index = i };
		const char *name = map->name(&at, room, sizeof(room));

		if (strcmp(name, previous) != 0)
			json_string(json, name);
		snprintf(previous, sizeof(previous), "%s", name);
	}
	json_array_end(json);
	json_object_end(json);
}

static void put_map(struct json *json, const struct part *part)
{
	json_key(json, part->name);
	json_object_line(json);
	put_type(json, "object", false);
	put_description(json, part->meaning);
	json_key(json, "additionalProperties");
	json_object_line(json);
	put_value(json, part->map->fields, false);
	json_object_end(json);
	if (part->map->n_names)
		put_names(json, part->map);
	json_object_end(json);
}

/* The first key of a document. */
static void put_schema(struct json *json, const char *schema)
{
	json_key(json, "schema");
	json_object_line(json);
	put_text(json, "const", schema);
	put_description(json, "name and version of the document");
	json_object_end(json);
}

static void put_sheet(struct json *json, const struct part *part)
{
	char name[PART_NAME_SIZE + 16];

	snprintf(name, sizeof(name), "document_%s", part->name);
	begin_object(json, name, part->meaning);
	snprintf(name, sizeof(name), "moescope/%s/1", part->name);
	put_schema(json, name);
	part_each(part, property, json);
	begin_required(json);
	json_string(json, "schema");
	part_each(part, required, json);
	end_object(json);
}

static void put_part(struct json *json, const struct part *part)
{
	char words[160];

	if (part->map) {
		put_map(json, part);
		return;
	}
	if (part->sheet) {
		put_sheet(json, part);
		return;
	}
	snprintf(words, sizeof(words), part->row ? "One %s" : "%s", part->meaning);
	begin_object(json, part->name, words);
	part_each(part, property, json);
	if (part->rows)
		put_rows(json, part->rows, "one by one");
	begin_required(json);
	part_each(part, required, json);
	if (part->rows)
		json_string(json, "rows");
	end_object(json);
}

static const struct field sampled = FIELD_SAMPLED;

/* The fields of a set among the properties, or the required ones. */
static void each_field(const struct field_set *set, part_visit visit, struct json *json)
{
	const struct part part = { .fields = set->fields, .n_fields = set->n_fields, .forms = 1 };

	part_each(&part, visit, json);
}

/* What every document begins with. */
static void put_head(struct json *json, const struct section *section)
{
	char name[PART_NAME_SIZE];

	section_schema(section, name, sizeof(name));
	json_key(json, "schema");
	json_object_line(json);
	put_text(json, "const", name);
	put_description(json, "name and version of the document");
	json_object_end(json);
	each_field(&run_head_fields, property, json);
}

static void require_head(struct json *json)
{
	json_string(json, "schema");
	each_field(&run_head_fields, required, json);
}

static void begin_document(struct json *json, const struct section *section, const char *words)
{
	char name[PART_NAME_SIZE];

	snprintf(name, sizeof(name), "document_%s",
		 section->schema ? section->schema : section->name);
	begin_object(json, name, words);
	put_head(json, section);
}

/* The document of a table; or the same as a part of the report, which has the head once for all. */
static void put_table(struct json *json, const struct parts *parts, const struct section *section,
		      bool document)
{
	const char *total = NULL;
	char name[PART_NAME_SIZE], words[160];

	for (size_t i = 0; !total && i < parts->n; i++)
		if (parts->items[i].fields == section->total->fields)
			total = parts->items[i].name;
	snprintf(name, sizeof(name), "%s_table", section->name);
	snprintf(words, sizeof(words),
		 document ? "a table with a row for each %s" : "As 'moescope %s'",
		 document ? section->rows->meaning : section->name);
	if (document)
		begin_document(json, section, words);
	else
		begin_object(json, name, words);
	if (section->device)
		put_property(json, "sampled", &sampled, true, sampled.meaning);
	put_reference(json, "total", total, false, "all rows together");
	put_rows(json, section, "the table");
	begin_required(json);
	if (document)
		require_head(json);
	if (section->device)
		json_string(json, "sampled");
	json_string(json, "total");
	json_string(json, "rows");
	end_object(json);
}

static void put_document_section(struct json *json, const struct document_part *part)
{
	char name[PART_NAME_SIZE], words[160];

	snprintf(name, sizeof(name), "%s_table", part->section->name);
	snprintf(words, sizeof(words), "as 'moescope %s'%s", part->section->name,
		 part->absent ? "; null: nothing of it in this run" : "");
	put_reference(json, part->section->name, name, part->absent, words);
}

static void put_document(struct json *json, const struct section *section)
{
	const struct document *document = section->document;

	begin_document(json, section, document->meaning);
	for (const struct document_part *p = document->parts; document_has(p); p++) {
		if (p->section)
			put_document_section(json, p);
		else if (p->key)
			put_reference(json, p->key, p->key, false, p->fields->meaning);
		else
			each_field(p->fields, property, json);
	}
	begin_required(json);
	require_head(json);
	for (const struct document_part *p = document->parts; document_has(p); p++) {
		if (p->section || p->key)
			json_string(json, p->key ? p->key : p->section->name);
		else
			each_field(p->fields, required, json);
	}
	end_object(json);
}

int schema_print(FILE *out)
{
	struct parts parts;
	struct json json;
	int r = parts_collect(&parts);

	if (r < 0)
		return r;
	json_init_file(&json, out, 2);
	json_object(&json);
	json_key(&json, "$defs");
	json_object(&json);
	for (const struct section *const *s = sections; *s; s++)
		if ((*s)->document && (*s)->document->parts)
			put_document(&json, *s);
	for (const struct section *const *s = sections; *s; s++)
		if ((*s)->rows)
			put_table(&json, &parts, *s, true);
	for (size_t i = 0; i < parts.n; i++)
		put_part(&json, &parts.items[i]);
	for (const struct section *const *s = sections; *s; s++)
		if ((*s)->rows)
			put_table(&json, &parts, *s, false);
	json_object_end(&json);
	json_object_end(&json);
	return json_finish(&json, NULL);
}
