/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields as JSON; see fields_json.h.
 */
#include "surfaces/json/fields_json.h"

static void group_json(struct json *json, const struct field_group *group,
		       const struct field_row *at);

static void keyed_json(struct json *json, const char *key, const struct field *field,
		       const struct field_row *at)
{
	struct field_row inner;
	struct cell cell;

	if (!field->of) {
		cell = field_read(field, at);
	} else {
		cell = cell_absent(field_enter(field, at, &inner));
		if (!cell.reason) {
			if (field->of->shape != FIELD_BESIDE)
				json_key(json, key);
			group_json(json, field->of, &inner);
			return;
		}
	}
	if (cell.kind != CELL_ABSENT || !field->optional)
		grid_json_cell(json, key, &cell);
}

struct grouping {
	struct json *json;
	const struct field_group *group;
};

static int item_json(const struct field_row *row, void *data)
{
	const struct grouping *grouping = data;
	const struct field_group *group = grouping->group;
	struct json *json = grouping->json;
	char room[FIELD_NAME_SIZE];
	struct field_row inner;
	struct cell cell;

	switch (group->shape) {
	case FIELD_OBJECT:
		break;
	case FIELD_LIST:
		if (group->layout == FIELD_SPREAD_OUT)
			json_object(json);
		else
			json_object_line(json);
		if (group->table)
			fields_json(json, group->table->fields, group->table->n_fields, row);
		else
			fields_json(json, group->fields, group->n_fields, row);
		json_object_end(json);
		break;
	case FIELD_MAP:
	case FIELD_BESIDE:
		keyed_json(json, group->name(row, room, sizeof(room)), group->fields, row);
		break;
	case FIELD_ARRAY:
		if (group->fields->of && !field_enter(group->fields, row, &inner)) {
			group_json(json, group->fields->of, &inner);
			break;
		}
		cell = field_read(group->fields, row);
		grid_json_plain(json, &cell);
		break;
	}
	return 0;
}

static void object_json(struct json *json, const struct field_group *group,
			const struct field_row *at)
{
	struct grouping grouping = { json, group };

	if (group->layout == FIELD_ON_ONE_LINE)
		json_object_line(json);
	else
		json_object(json);
	if (group->shape == FIELD_OBJECT)
		fields_json(json, group->fields, group->n_fields, at);
	else
		field_items_each(&group->items, at, item_json, &grouping);
	json_object_end(json);
}

static void group_json(struct json *json, const struct field_group *group,
		       const struct field_row *at)
{
	struct grouping grouping = { json, group };

	switch (group->shape) {
	case FIELD_OBJECT:
	case FIELD_MAP:
		object_json(json, group, at);
		break;
	case FIELD_BESIDE:
		field_items_each(&group->items, at, item_json, &grouping);
		break;
	case FIELD_LIST:
	case FIELD_ARRAY:
		if (group->layout == FIELD_ON_ONE_LINE)
			json_array_line(json);
		else
			json_array(json);
		if (group->table)
			field_set_each(group->table, at, item_json, &grouping);
		else
			field_items_each(&group->items, at, item_json, &grouping);
		json_array_end(json);
		break;
	}
}

void field_json(struct json *json, const struct field *field, const struct field_row *at)
{
	if (field_exists(field, at->form))
		keyed_json(json, field->key, field, at);
}

void fields_json(struct json *json, const struct field *fields, size_t n,
		 const struct field_row *at)
{
	for (size_t i = 0; i < n; i++)
		field_json(json, &fields[i], at);
}

void grid_json_plain(struct json *json, const struct cell *cell)
{
	char room[JSON_DECIMAL_SIZE];

	switch (cell->kind) {
	case CELL_ABSENT:
		json_null(json);
		break;
	case CELL_INT:
		json_int(json, cell->i);
		break;
	case CELL_UINT:
		json_uint(json, cell->u);
		break;
	case CELL_REAL:
		json_double(json, cell->d);
		break;
	case CELL_DECIMAL:
		json_raw(json, json_format_decimal(room, cell->i, cell->places));
		break;
	case CELL_TEXT:
		json_string(json, cell->s);
		break;
	case CELL_BOOL:
		json_bool(json, cell->u);
		break;
	}
}

void grid_json_cell(struct json *json, const char *key, const struct cell *cell)
{
	char reason_key[80];

	json_key(json, key);
	grid_json_plain(json, cell);
	if (cell->kind == CELL_ABSENT) {
		snprintf(reason_key, sizeof(reason_key), "%s_reason", key);
		json_key(json, reason_key);
		json_string(json, cell->reason ? cell->reason : "unknown");
	}
}

void grid_json_value(struct json *json, const char *key, struct value value)
{
	struct cell cell = cell_value(value);

	grid_json_cell(json, key, &cell);
}

/* What the fields of a row have besides cells. */
static void groups_json(const struct grid *grid, const struct grid_row *row, struct json *json)
{
	struct field_row at = grid->from;

	at.in = &grid->from;
	at.item = row->item;
	for (size_t i = 0; i < grid->set->n_fields; i++)
		if (grid->set->fields[i].of || grid->set->fields[i].detail)
			field_json(json, &grid->set->fields[i], &at);
}

void grid_json(const struct grid *grid, size_t limit, struct json *json)
{
	size_t rows = grid_shown(grid, limit);

	json_array(json);
	for (size_t i = 0; i < rows; i++) {
		json_object_line(json);
		for (size_t c = 0; c < grid->n_columns; c++) {
			const struct cell *cell = &grid->rows[i].cells[c];

			if (cell->kind != CELL_ABSENT || !grid->columns[c].data_only_when_set)
				grid_json_cell(json, grid->columns[c].key, cell);
		}
		if (grid->set)
			groups_json(grid, &grid->rows[i], json);
		json_object_end(json);
	}
	json_array_end(json);
}
