/* SPDX-License-Identifier: Apache-2.0
 *
 * The objects that fields make; see parts.h.
 */
#include "cmd/definitions/parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/definitions/metrics.h"
#include "documents/document.h"
#include "documents/sheet.h"

#define ALL_FORMS (~0U)

static const struct part *find_name(const struct parts *parts, const char *name)
{
	for (size_t i = 0; i < parts->n; i++)
		if (!strcmp(parts->items[i].name, name))
			return &parts->items[i];
	return NULL;
}

static int collect_groups(struct parts *parts, const struct field *fields, size_t n);

/* A part that several groups share is listed once. */
static int collect(struct parts *parts, const struct part *part)
{
	if (find_name(parts, part->name))
		return 0;
	if (parts->n == PARTS_MAX)
		return -ENOSPC;
	parts->items[parts->n++] = *part;
	return collect_groups(parts, part->fields, part->n_fields);
}

static int collect_group(struct parts *parts, const struct field_group *group)
{
	const struct field_set *set = group->table;
	struct part part = { .meaning = set ? set->meaning : group->meaning,
			     .fields = set ? set->fields : group->fields,
			     .n_fields = set ? set->n_fields : group->n_fields,
			     .forms = ALL_FORMS };
	const char *name = set ? set->part : group->part;

	if (group->shape != FIELD_OBJECT && group->shape != FIELD_LIST)
		part.n_fields = 1;
	if (group->shape == FIELD_MAP)
		part.map = group;
	/* Arrays and what stands beside other fields are no objects of their own. */
	if (!name)
		return collect_groups(parts, part.fields, part.n_fields);
	snprintf(part.name, sizeof(part.name), "%s", name);
	return collect(parts, &part);
}

static int collect_groups(struct parts *parts, const struct field *fields, size_t n)
{
	int r = 0;

	for (size_t i = 0; !r && i < n; i++)
		if (fields[i].of)
			r = collect_group(parts, fields[i].of);
	return r;
}

static int collect_section(struct parts *parts, const struct section *section, bool row)
{
	const struct field_set *set = row ? section->rows : section->total;
	struct part part = { .meaning = set->meaning ? set->meaning : "All rows together.",
			     .fields = set->fields,
			     .n_fields = set->n_fields,
			     .forms = section->form ? ALL_FORMS : 1,
			     .section = section,
			     .row = row };

	snprintf(part.name, sizeof(part.name), "%s_%s", section->name, row ? "row" : "total");
	/* Sections with the same total, under the name of the first. */
	for (size_t i = 0; i < parts->n; i++)
		if (parts->items[i].fields == set->fields)
			return 0;
	return collect(parts, &part);
}

static int collect_sheet(struct parts *parts, const struct field_set *set)
{
	struct part part = { .meaning = set->meaning,
			     .fields = set->fields,
			     .n_fields = set->n_fields,
			     .forms = ALL_FORMS,
			     .sheet = true };

	snprintf(part.name, sizeof(part.name), "%s", set->part);
	return collect(parts, &part);
}

/* What a document shows besides sections. */
static int collect_document(struct parts *parts, const struct document *document)
{
	int r = 0;

	for (const struct document_part *p = document->parts; !r && document_has(p); p++) {
		struct part part = { .forms = ALL_FORMS, .rows = p->rows };

		if (!p->fields)
			continue;
		part.meaning = p->fields->meaning;
		part.fields = p->fields->fields;
		part.n_fields = p->fields->n_fields;
		if (p->key)
			snprintf(part.name, sizeof(part.name), "%s", p->key);
		r = p->key ? collect(parts, &part)
			   : collect_groups(parts, part.fields, part.n_fields);
	}
	return r;
}

int parts_collect(struct parts *parts)
{
	int r;

	parts->n = 0;
	r = collect_groups(parts, run_head_fields.fields, run_head_fields.n_fields);
	for (const struct section *const *s = sections; !r && *s; s++) {
		if ((*s)->document) {
			r = collect_document(parts, (*s)->document);
			continue;
		}
		r = collect_section(parts, *s, false);
		if (!r)
			r = collect_section(parts, *s, true);
	}
	for (const struct sheet *const *s = sheets; !r && *s; s++)
		r = collect_sheet(parts, (*s)->fields);
	return r;
}

const struct part *parts_find(const struct parts *parts, const char *name)
{
	for (size_t i = 0; i < parts->n; i++)
		if (parts->items[i].row && !strcmp(parts->items[i].section->name, name))
			return &parts->items[i];
	return find_name(parts, name);
}

static bool may_be_null(const struct field *field)
{
	return !field->optional &&
	       (field->absent || field->none || field->read_may_lack ||
		(!field->of && (field->type == FIELD_VALUE || field->type == FIELD_WHOLE)));
}

/* A key may be read in one way here and in another there: all of them together. */
static void visit_key(const struct part *part, size_t i, part_visit visit, void *data)
{
	struct part_key key = { .key = part->fields[i].key, .field = &part->fields[i] };
	unsigned int forms = 0;
	bool optional = false;

	for (size_t j = 0; j < part->n_fields; j++) {
		const struct field *field = &part->fields[j];

		if (!field_exists(field, part->forms) || strcmp(field->key, key.key) != 0)
			continue;
		if (j < i)
			return;
		forms |= field->forms ? field->forms : ALL_FORMS;
		key.nullable |= may_be_null(field);
		optional |= field->optional;
	}
	key.always = !optional && !(part->forms & ~forms);
	visit(part, &key, data);
}

static void visit_beside(const struct part *part, const struct field *field, part_visit visit,
			 void *data)
{
	const struct field_group *group = field->of;

	for (size_t i = 0; i < group->items.most; i++) {
		struct field_row at = { .index = i };
		struct part_key key = { .field = group->fields,
					.nullable = may_be_null(group->fields),
					.always = true };

		key.key = group->name(&at, key.room, sizeof(key.room));
		visit(part, &key, data);
	}
}

void part_each(const struct part *part, part_visit visit, void *data)
{
	if (part->map)
		return;
	for (size_t i = 0; i < part->n_fields; i++) {
		const struct field *field = &part->fields[i];

		if (!field_exists(field, part->forms))
			continue;
		if (field->of && field->of->shape == FIELD_BESIDE)
			visit_beside(part, field, visit, data);
		else
			visit_key(part, i, visit, data);
	}
}

const char *part_key_meaning(const struct part_key *key)
{
	const struct metric *metric;
	const char *words = key->field->meaning;

	if (!words)
		words = key_meaning(key->key);
	if (words)
		return words;
	metric = metric_find(key->key, NULL);
	return metric && !strcmp(metric->name, key->key) ? metric->definition : NULL;
}
