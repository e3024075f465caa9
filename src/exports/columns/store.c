/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded runs as tables; see store.h.
 */
#include "exports/columns/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/demangle.h"
#include "device/sheets/kernel_name.h"
#include "exports/columns/fields.h"
#include "subjects/stacks/sampled_stacks.h"

int store_init(struct store *store, const struct run *run, const char *label)
{
	int r;

	*store = (struct store){ .run = run, .label = label };
	r = kernel_classes_new(NULL, &store->classes, NULL);
	if (r < 0)
		return r;
	return 0;
}

static void data_free(struct store_data *data)
{
	if (!data)
		return;
	for (size_t c = 0; c < SQL_COLUMNS_MAX; c++)
		free(data->columns[c].order);
	free(data->step);
	free(data->path);
	free(data->layer);
	free(data->expert);
	free(data->phase);
	free(data);
}

void store_release(struct store *store)
{
	for (size_t t = 0; t < SQL_TABLES_MAX; t++)
		data_free(store->data[t]);
	for (size_t i = 0; i < store->n_labels; i++) {
		free(store->labels[i].name);
		free(store->labels[i].short_name);
	}
	free(store->labels);
	for (size_t i = 0; store->paths && i <= store->at.n_paths; i++)
		free(store->paths[i]);
	free(store->paths);
	if (store->attributed)
		attribution_release(&store->at);
	if (store->indexed)
		step_index_release(&store->steps);
	if (store->classes) {
		kernel_classes_free(store->classes);
	}
	*store = (struct store){ 0 };
}

static int find_steps(struct store *store, struct store_data *data, const int64_t *times)
{
	size_t hint;

	if (!store->indexed) {
		int r = step_index_init(&store->steps, store->run);

		if (r < 0)
			return r;
		store->indexed = true;
	}
	data->step = array_new(data->n, sizeof(*data->step));
	if (!data->step)
		return -ENOMEM;
	hint = store->steps.n;
	for (size_t i = 0; i < data->n; i++) {
		size_t step = step_index_find_near(&store->steps, store->run, data->shard[i],
						   times[i], &hint);

		data->step[i] = step == SIZE_MAX ? STORE_NO_STEP : store->run->step.step[step];
	}
	return 0;
}

static const uint32_t *calls_of(const struct attribution *at, unsigned int kind)
{
	return kind == RECORD_KERNEL ? at->kernel_call
	       : kind == RECORD_COPY ? at->copy_call
	       : kind == RECORD_SET  ? at->set_call
				     : NULL;
}

static const void *field_named(const struct run *run, unsigned int kind, const char *name)
{
	const struct kind_desc *desc = kind_desc(kind);

	for (unsigned int c = 0; c < desc->n_columns; c++)
		if (!strcmp(desc->columns[c].name, name))
			return field_array(run, kind, c);
	return NULL;
}

static int find_places(struct store *store, struct store_data *data, const int64_t *times)
{
	unsigned int kind = data->table->kind;
	const uint64_t *correlation = field_named(store->run, kind, "correlation");
	const uint64_t *node = field_named(store->run, kind, "graph_node");
	struct attribution_cursor cursor = { 0 };
	const uint32_t *calls;

	if (!store->attributed) {
		int r = attribution_init(&store->at, store->run);

		if (r < 0)
			return r;
		store->attributed = true;
	}
	if (!store->paths)
		store->paths = calloc(store->at.n_paths + 1, sizeof(*store->paths));
	data->step = array_new(data->n, sizeof(*data->step));
	data->path = array_new(data->n, sizeof(*data->path));
	data->layer = array_new(data->n, sizeof(*data->layer));
	data->expert = array_new(data->n, sizeof(*data->expert));
	data->phase = array_new(data->n, sizeof(*data->phase));
	if (!store->paths || !data->step || !data->path || !data->layer || !data->expert ||
	    !data->phase)
		return -ENOMEM;
	calls = calls_of(&store->at, kind);
	for (size_t i = 0; i < data->n; i++) {
		struct place place = { .layer = -1, .expert = -1, .step = NO_STEP };
		struct device_work work = { correlation[i], node ? node[i] : 0, times[i],
					    data->shard[i] };
		bool found = calls ? attribution_find_near(&store->at, &cursor, &work, calls[i],
							   &place)
				   : attribution_find(&store->at, &work, &place);

		if (!found)
			place = (struct place){ .layer = -1, .expert = -1, .step = NO_STEP };
		data->step[i] = place.step == NO_STEP ? STORE_NO_STEP
						      : store->run->step.step[place.step];
		data->path[i] = place.path;
		data->layer[i] = place.layer;
		data->expert[i] = place.expert;
		data->phase[i] = place.phase;
	}
	return 0;
}

static int compute_columns(struct store *store, struct store_data *data, uint64_t columns)
{
	const struct sql_table *table = data->table;
	const int64_t *times;
	bool places = false;

	for (size_t c = 0; c < table->n; c++)
		places |= columns >> c & 1 && table->columns[c].from >= FROM_STEP &&
			  table->columns[c].from <= FROM_PHASE;
	if (!places || data->step || !data->n)
		return 0;
	times = field_array(store->run, table->kind,
			    (unsigned int)kind_desc(table->kind)->time_column);
	return table->placed ? find_places(store, data, times) : find_steps(store, data, times);
}

static void bind_column(struct store *store, struct store_data *data, size_t c)
{
	const struct sql_column *column = &data->table->columns[c];
	struct store_column *to = &data->columns[c];
	unsigned int kind = data->table->kind;

	to->type = column->field_type;
	switch ((enum sql_from)column->from) {
	case FROM_FIELD:
		to->array = field_array(store->run, kind, column->field);
		if (column->absent >= ABSENT_UNLESS)
			to->absent_by = field_array(store->run, kind, column->absent_by);
		break;
	case FROM_VALUE:
		to->array = field_array(store->run, kind, column->field);
		break;
	case FROM_STEP:
		to->array = data->step;
		to->type = COLUMN_I64;
		break;
	case FROM_PATH:
		to->array = data->path;
		to->type = COLUMN_U32;
		break;
	case FROM_LAYER:
		to->array = data->layer;
		to->type = COLUMN_I32;
		break;
	case FROM_EXPERT:
		to->array = data->expert;
		to->type = COLUMN_I32;
		break;
	case FROM_PHASE:
		to->array = data->phase;
		to->type = COLUMN_U8;
		break;
	case FROM_RANK: /* ids: the shards */
	case FROM_PID:
		to->array = data->shard;
		to->type = COLUMN_U16;
		break;
	case FROM_RUN:
	case FROM_END:
	case FROM_NUMBER:
		break;
	}
}

int store_open(struct store *store, const struct schema *schema, const struct sql_table *table,
	       uint64_t columns, struct store_data **ret_data)
{
	struct store_data **slot = &store->data[table - schema->tables];
	int r;

	if (!*slot) {
		*slot = calloc(1, sizeof(**slot));
		if (!*slot)
			return -ENOMEM;
		(*slot)->table = table;
		(*slot)->n = (*slot)->parents = field_rows(store->run, table->kind);
		(*slot)->shard = field_shards(store->run, table->kind);
		if (table->list >= 0) {
			(*slot)->first = field_first(store->run, table->kind,
						     (unsigned int)table->list);
			(*slot)->n = (*slot)->first && (*slot)->parents
					     ? (*slot)->first[(*slot)->parents]
					     : 0;
		}
	}
	r = compute_columns(store, *slot, columns);
	if (r < 0)
		return r;
	for (size_t c = 0; c < table->n; c++)
		bind_column(store, *slot, c);
	*ret_data = *slot;
	return 0;
}

size_t store_parent(const struct store_data *data, size_t element, size_t *hint)
{
	size_t low;

	ORDER_FIND(low, data->parents, *hint, data->first[probe + 1] <= element);
	*hint = low;
	return low;
}

static const struct store_label *label_of(struct store *store, uint32_t name)
{
	struct store_label *label;

	if (name >= store->n_labels) {
		size_t old = store->n_labels;

		if (array_grow(&store->labels, &store->n_labels, (size_t)name + 1,
			       sizeof(*store->labels)) < 0)
			return NULL;
		memset(store->labels + old, 0, (store->n_labels - old) * sizeof(*store->labels));
	}
	label = &store->labels[name];
	if (!label->name) {
		if (demangled(run_string(store->run, name), &label->name) < 0)
			return NULL;
	}
	if (!label->class)
		label->class = kernel_class_of(store->classes, label->name);
	if (!label->class)
		return NULL;
	if (!label->short_name && kernel_short_name(label->name, &label->short_name) < 0)
		return NULL;
	return label;
}

#define NOT_TOLD "unknown"

bool store_launch_told(const struct row_launch *launch)
{
	return launch->grid_x || launch->block_x || launch->registers;
}

static struct cell launch_number(const struct row_launch *launch, uint64_t number, bool shared)
{
	return number || (shared && store_launch_told(launch)) ? cell_uint(number)
							       : cell_absent(NOT_TOLD);
}

static struct cell launch_cell(struct store *store, enum sql_part part, uint32_t id, bool *failed)
{
	struct row_launch launch = run_launch(store->run, id);
	const struct store_label *label;

	switch (part) {
	case PART_NAME:
	case PART_SHORT_NAME:
	case PART_CLASS:
		if (!launch.name)
			return cell_absent(NOT_TOLD);
		label = label_of(store, launch.name);
		if (!label) {
			*failed = true;
			return cell_absent(NOT_TOLD);
		}
		return cell_text(part == PART_NAME	   ? label->name
				 : part == PART_SHORT_NAME ? label->short_name
							   : label->class);
	case PART_SYMBOL:
		return launch.name ? cell_text(run_string(store->run, launch.name))
				   : cell_absent(NOT_TOLD);
	case PART_GRID_X:
		return launch_number(&launch, launch.grid_x, false);
	case PART_GRID_Y:
		return launch_number(&launch, launch.grid_y, false);
	case PART_GRID_Z:
		return launch_number(&launch, launch.grid_z, false);
	case PART_BLOCK_X:
		return launch_number(&launch, launch.block_x, false);
	case PART_BLOCK_Y:
		return launch_number(&launch, launch.block_y, false);
	case PART_BLOCK_Z:
		return launch_number(&launch, launch.block_z, false);
	case PART_REGISTERS:
		return launch_number(&launch, launch.registers, false);
	case PART_STATIC_SHARED:
		return launch_number(&launch, launch.static_shared_bytes, true);
	case PART_DYNAMIC_SHARED:
		return launch_number(&launch, launch.dynamic_shared_bytes, true);
	default:
		return cell_absent(NOT_TOLD);
	}
}

static struct cell place_number(int32_t number)
{
	return number < 0 ? cell_absent("none") : cell_int(number);
}

static struct cell phase_cell(unsigned int phase)
{
	return phase ? cell_text(phase_name(phase)) : cell_absent("none");
}

static struct cell site_cell(struct store *store, enum sql_part part, uint32_t id)
{
	struct site site = run_site(store->run, id);

	switch (part) {
	case PART_NAME:
		return site.name ? cell_text(run_string(store->run, site.name))
				 : cell_absent(NOT_TOLD);
	case PART_LAYER:
		return id ? place_number(site.layer) : cell_absent("none");
	case PART_EXPERT:
		return id ? place_number(site.expert) : cell_absent("none");
	default:
		return phase_cell(site.phase);
	}
}

static struct cell path_cell(struct store *store, size_t path, bool *failed)
{
	if (!path)
		return cell_absent("outside all ranges");
	if (!store->paths[path] &&
	    attribution_path_text(&store->at, (uint32_t)path, &store->paths[path]) < 0) {
		*failed = true;
		return cell_absent(NOT_TOLD);
	}
	return cell_text(store->paths[path]);
}

bool store_is_ids(const struct sql_column *column)
{
	switch ((enum sql_from)column->from) {
	case FROM_RANK:
	case FROM_PID:
	case FROM_PATH:
	case FROM_PHASE:
		return true;
	case FROM_FIELD:
		return column->refers || column->part != PART_SELF;
	default:
		return false;
	}
}

struct cell store_id_cell(struct store *store, const struct store_data *data, size_t c, size_t id,
			  bool *failed)
{
	const struct sql_column *column = &data->table->columns[c];

	switch ((enum sql_from)column->from) {
	case FROM_RANK:
	case FROM_PID:
		if (id >= store->run->n_shards)
			return cell_absent(NOT_TOLD);
		return cell_int(column->from == FROM_RANK ? store->run->shards[id].rank
							  : store->run->shards[id].pid);
	case FROM_PATH:
		return path_cell(store, id, failed);
	case FROM_PHASE:
		return phase_cell((unsigned int)id);
	default:
		break;
	}
	if (column->refers == RECORD_LAUNCH)
		return launch_cell(store, (enum sql_part)column->part, (uint32_t)id, failed);
	if (column->refers == RECORD_SITE)
		return site_cell(store, (enum sql_part)column->part, (uint32_t)id);
	if (column->refers == RECORD_STRING)
		return id ? cell_text(run_string(store->run, (uint32_t)id)) : cell_absent("none");
	if (column->part == PART_USE)
		return cell_text(memory_use_name((unsigned int)id));
	if (column->part == PART_WAIT)
		return cell_text(wait_cause_name((unsigned int)id));
	return phase_cell((unsigned int)id);
}

static bool is_most(uint8_t field_type, int64_t number)
{
	return number == (field_type == COLUMN_U8    ? UINT8_MAX
			  : field_type == COLUMN_U64 ? (int64_t)UINT64_MAX
						     : UINT32_MAX);
}

static struct cell plain_cell(const struct sql_column *column, const struct store_column *from,
			      size_t row)
{
	int64_t number;

	if (column->type == SQL_REAL) {
		double real = ((const double *)from->array)[row];

		return column->absent == ABSENT_ZERO && real == 0 ? cell_absent(NOT_TOLD)
								  : cell_real(real);
	}
	number = field_int(from->array, from->type, row);
	switch ((enum sql_absent)column->absent) {
	case ABSENT_NEVER:
		return cell_int(number);
	case ABSENT_ZERO:
		return number ? cell_int(number) : cell_absent(NOT_TOLD);
	case ABSENT_NEGATIVE:
		return number < 0 ? cell_absent("none") : cell_int(number);
	case ABSENT_MOST:
		return is_most(column->field_type, number) ? cell_absent(NOT_TOLD)
							   : cell_int(number);
	case ABSENT_UNLESS:
		return from->absent_by[row] ? cell_int(number) : cell_absent(NOT_TOLD);
	case ABSENT_BIT_0:
	case ABSENT_BIT_1:
		return from->absent_by[row] >> (column->absent - ABSENT_BIT_0) & 1
			       ? cell_absent(NOT_TOLD)
			       : cell_int(number);
	}
	return cell_absent(NOT_TOLD);
}

struct cell store_value_cell(struct store *store, const struct store_data *data, size_t c,
			     int64_t value, bool *failed)
{
	const struct sql_column *column = &data->table->columns[c];

	if (store_is_ids(column))
		return store_id_cell(store, data, c, (size_t)value, failed);
	switch ((enum sql_from)column->from) {
	case FROM_LAYER:
	case FROM_EXPERT:
		return place_number((int32_t)value);
	case FROM_STEP:
		return value == STORE_NO_STEP ? cell_absent("outside all steps") : cell_int(value);
	default:
		break;
	}
	return (column->absent == ABSENT_ZERO && !value) ||
			       (column->absent == ABSENT_NEGATIVE && value < 0) ||
			       (column->absent == ABSENT_MOST && is_most(column->field_type, value))
		       ? cell_absent(NOT_TOLD)
		       : cell_int(value);
}

static struct cell end_cell(const struct store *store, const struct store_data *data, size_t row)
{
	unsigned int kind = data->table->kind;
	const int64_t *start = field_array(store->run, kind,
					   (unsigned int)kind_desc(kind)->time_column);
	const int64_t *duration = field_array(store->run, kind,
					      (unsigned int)kind_desc(kind)->duration_column);

	/* Damaged runs may hold any number. */
	return cell_int((int64_t)((uint64_t)start[row] + (uint64_t)duration[row]));
}

struct cell store_cell(struct store *store, const struct store_data *data, size_t c, size_t row,
		       size_t *parent, bool *failed)
{
	const struct sql_column *column = &data->table->columns[c];
	const struct store_column *from = &data->columns[c];
	size_t record = row;

	if (data->table->list >= 0 && column->from != FROM_VALUE)
		record = store_parent(data, row, parent);
	switch ((enum sql_from)column->from) {
	case FROM_RUN:
		return cell_text(store->label);
	case FROM_END:
		return end_cell(store, data, row);
	case FROM_NUMBER:
		return cell_uint(row - data->first[record]);
	case FROM_LAYER:
	case FROM_EXPERT:
		return place_number(((const int32_t *)from->array)[row]);
	case FROM_STEP:
		return data->step[row] == STORE_NO_STEP ? cell_absent("outside all steps")
							: cell_int(data->step[row]);
	default:
		break;
	}
	if (store_is_ids(column))
		return store_id_cell(store, data, c,
				     (size_t)field_int(from->array, from->type, record), failed);
	return plain_cell(column, from, record);
}
