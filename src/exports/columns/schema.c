/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of SQL, made from the list of record kinds; see schema.h.
 */
#include "exports/columns/schema.h"

#include <string.h>

#include "tables/tables.h"

/* In words that a query can use. Dictionaries have no table: they are resolved. */
static const char *const table_names[RECORD_KIND_LIMIT] = {
	[RECORD_KERNEL] = "kernels",
	[RECORD_RANGE] = "ranges",
	[RECORD_OP] = "operations",
	[RECORD_STEP] = "steps",
	[RECORD_MEMORY] = "memory_events",
	[RECORD_COUNTER] = "counters",
	[RECORD_MARK] = "marks",
	[RECORD_ROUTING] = "routing",
	[RECORD_ROUTED] = "routed",
	[RECORD_MOE_LAYER] = "layers",
	[RECORD_TOKEN] = "tokens",
	[RECORD_FACT] = "facts",
	[RECORD_THREAD] = "threads",
	[RECORD_COST] = "costs",
	[RECORD_COPY] = "copies",
	[RECORD_SET] = "sets",
	[RECORD_API] = "api_calls",
	[RECORD_SYNC] = "syncs",
	[RECORD_DEVICE] = "devices",
	[RECORD_SAMPLE] = "samples",
	[RECORD_DEVICE_MEMORY] = "device_memory",
	[RECORD_GEAR] = "gears",
	[RECORD_GRAPH_NODE] = "graph_nodes",
	[RECORD_PROCESS] = "processes",
	[RECORD_POOL] = "pools",
	[RECORD_DEVICE_COST] = "device_costs",
	[RECORD_SPAN] = "spans",
	[RECORD_PAYLOAD] = "payloads",
	[RECORD_COLLECTIVE] = "collectives",
	[RECORD_FRAME] = "frames",
	[RECORD_FLOW] = "flows",
	[RECORD_METRIC] = "metrics",
	[RECORD_OS_CALL] = "os_calls",
	[RECORD_STACK] = "stack_nodes",
	[RECORD_STACK_SAMPLE] = "stack_samples",
	[RECORD_HOST_SAMPLE] = "host_samples",
	[RECORD_HEAP_SAMPLE] = "heap_samples",
	[RECORD_CALL_COUNT] = "call_counts",
	[RECORD_LIBRARY_CALL] = "library_calls",
	[RECORD_COUNTED] = "counted_launches",
	[RECORD_PC_SAMPLE] = "pc_samples",
};

/* Columns that SQL would take for words of its own, and those that two dictionaries have. */
static const struct {
	unsigned int kind;
	const char *field, *name;
} renamed[] = {
	{ RECORD_COLLECTIVE, "group", "group_name" },
};

static const struct {
	unsigned int kind;
	const char *field;
	enum sql_absent absent;
	const char *by;
} absences[] = {
	{ RECORD_OP, "flops", ABSENT_BIT_0, "unknown" },
	{ RECORD_OP, "bytes", ABSENT_BIT_1, "unknown" },
	{ RECORD_STEP, "tokens", ABSENT_UNLESS, "tokens_known" },
	{ RECORD_COLLECTIVE, "sequence", ABSENT_UNLESS, "sequence_known" },
	{ RECORD_API, "status", ABSENT_MOST, NULL },
	{ RECORD_OS_CALL, "bytes", ABSENT_UNLESS, "bytes_known" },
	{ RECORD_LIBRARY_CALL, "gemm_m", ABSENT_ZERO, NULL },
	{ RECORD_LIBRARY_CALL, "gemm_n", ABSENT_ZERO, NULL },
	{ RECORD_LIBRARY_CALL, "gemm_k", ABSENT_ZERO, NULL },
	{ RECORD_LIBRARY_CALL, "batch", ABSENT_ZERO, NULL },
	{ RECORD_LIBRARY_CALL, "elements", ABSENT_ZERO, NULL },
	{ RECORD_LIBRARY_CALL, "communicator", ABSENT_ZERO, NULL },
	{ RECORD_LIBRARY_CALL, "status", ABSENT_MOST, NULL },
	{ RECORD_LIBRARY_CALL, "peer", ABSENT_NEGATIVE, NULL },
	{ RECORD_COPY, "bytes", ABSENT_MOST, NULL },
	{ RECORD_SET, "bytes", ABSENT_MOST, NULL },
	{ RECORD_COPY, "asynchronous", ABSENT_MOST, NULL },
	{ RECORD_COLLECTIVE, "device", ABSENT_MOST, NULL },
	{ RECORD_COLLECTIVE, "in_elements", ABSENT_ZERO, NULL },
	{ RECORD_COLLECTIVE, "out_elements", ABSENT_ZERO, NULL },
	{ RECORD_DEVICE, "memory_bytes", ABSENT_ZERO, NULL },
	{ RECORD_DEVICE, "multiprocessors", ABSENT_ZERO, NULL },
	{ RECORD_DEVICE, "capability", ABSENT_ZERO, NULL },
	{ RECORD_DEVICE, "clock_khz", ABSENT_ZERO, NULL },
	{ RECORD_DEVICE, "memory_bytes_per_s", ABSENT_ZERO, NULL },
	{ RECORD_DEVICE, "l2_bytes", ABSENT_ZERO, NULL },
	{ RECORD_DEVICE, "threads_per_multiprocessor", ABSENT_ZERO, NULL },
	{ RECORD_DEVICE, "registers_per_multiprocessor", ABSENT_ZERO, NULL },
	{ RECORD_DEVICE, "shared_bytes_per_multiprocessor", ABSENT_ZERO, NULL },
	{ RECORD_DEVICE, "blocks_per_multiprocessor", ABSENT_ZERO, NULL },
	{ RECORD_GEAR, "cost_pct", ABSENT_ZERO, NULL },
	{ RECORD_PROCESS, "bytes", ABSENT_ZERO, NULL },
	{ RECORD_ROUTING, "layer", ABSENT_NEGATIVE, NULL },
	{ RECORD_ROUTED, "layer", ABSENT_NEGATIVE, NULL },
};

/* Importing a file makes these columns from records of other kinds; a run that is there has them. */
static const struct {
	unsigned int kind;
	const char *field;
	uint64_t from;
} imported[] = {
	{ RECORD_OP, "stack", WANT(FRAME) },
	{ RECORD_OP, "depth", WANT(RANGE) },
	{ RECORD_RANGE, "depth", WANT(OP) },
};

/* Tables of lists. elements: what the values of the list are called; */
static const struct {
	const char *name;
	unsigned int kind;
	const char *list, *number, *value;
} lists[] = {
	{ "routing_load", RECORD_ROUTING, "load", "expert", "load" },
	{ "routing_slots", RECORD_ROUTING, "k_hist", "slots_used", "tokens" },
	{ "routed_slots", RECORD_ROUTED, "expert", "slot", "expert" },
	{ "routed_weights", RECORD_ROUTED, "weight", "slot", "weight_255ths" },
};

static const struct {
	enum sql_part part;
	const char *name;
	enum sql_type type;
} launch_parts[] = {
	{ PART_NAME, "name", SQL_TEXT },
	{ PART_SHORT_NAME, "short_name", SQL_TEXT },
	{ PART_CLASS, "class", SQL_TEXT },
	{ PART_SYMBOL, "symbol", SQL_TEXT },
	{ PART_GRID_X, "grid_x", SQL_INTEGER },
	{ PART_GRID_Y, "grid_y", SQL_INTEGER },
	{ PART_GRID_Z, "grid_z", SQL_INTEGER },
	{ PART_BLOCK_X, "block_x", SQL_INTEGER },
	{ PART_BLOCK_Y, "block_y", SQL_INTEGER },
	{ PART_BLOCK_Z, "block_z", SQL_INTEGER },
	{ PART_REGISTERS, "registers", SQL_INTEGER },
	{ PART_STATIC_SHARED, "static_shared_bytes", SQL_INTEGER },
	{ PART_DYNAMIC_SHARED, "dynamic_shared_bytes", SQL_INTEGER },
}, site_parts[] = {
	{ PART_NAME, "name", SQL_TEXT },
	{ PART_LAYER, "layer", SQL_INTEGER },
	{ PART_EXPERT, "expert", SQL_INTEGER },
	{ PART_PHASE, "phase", SQL_TEXT },
};
#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

const char *sql_type_name(unsigned int type)
{
	static const char *const names[] = { "INTEGER", "REAL", "TEXT" };

	return names[type];
}

static struct sql_column *add_column(struct sql_table *table, const char *name, enum sql_type type,
				     enum sql_from from)
{
	struct sql_column *column = &table->columns[table->n++];

	snprintf(column->name, sizeof(column->name), "%s", name);
	column->type = (uint8_t)type;
	column->from = (uint8_t)from;
	return column;
}

static struct sql_column *add_field(struct sql_table *table, const char *name, enum sql_type type,
				    unsigned int field, enum sql_part part)
{
	const struct column_desc *desc = &kind_desc(table->kind)->columns[field];
	struct sql_column *column = add_column(table, name, type, FROM_FIELD);

	column->field = (uint8_t)field;
	column->field_type = desc->type;
	column->refers = desc->refers;
	column->part = (uint8_t)part;
	return column;
}

static unsigned int field_index(unsigned int kind, const char *name)
{
	const struct kind_desc *desc = kind_desc(kind);
	unsigned int i = 0;

	while (i + 1 < desc->n_columns && strcmp(desc->columns[i].name, name) != 0)
		i++;
	return i;
}

static void add_launch(struct sql_table *table, unsigned int field)
{
	/* A metric has a name of its own. */
	bool prefixed = table->kind == RECORD_METRIC;

	for (size_t p = 0; p < N_OF(launch_parts); p++) {
		char name[48];

		snprintf(name, sizeof(name), "%s%s", prefixed && p < 3 ? "kernel_" : "",
			 launch_parts[p].name);
		add_field(table, name, launch_parts[p].type, field, launch_parts[p].part);
	}
}

static void set_absence(const struct sql_table *table, const char *field, struct sql_column *column)
{
	for (size_t i = 0; i < N_OF(absences); i++) {
		if (absences[i].kind != table->kind || strcmp(absences[i].field, field) != 0)
			continue;
		column->absent = (uint8_t)absences[i].absent;
		if (absences[i].by)
			column->absent_by = (uint8_t)field_index(table->kind, absences[i].by);
	}
}

static void add_kind_field(struct sql_table *table, unsigned int field)
{
	const struct column_desc *desc = &kind_desc(table->kind)->columns[field];
	enum sql_type type = desc->refers == RECORD_STRING ? SQL_TEXT
			     : desc->type == COLUMN_F64	   ? SQL_REAL
							   : SQL_INTEGER;
	const char *name = desc->name;
	enum sql_part part = PART_SELF;

	if (desc->refers == RECORD_LAUNCH) {
		add_launch(table, field);
		return;
	}
	if (desc->refers == RECORD_SITE) {
		for (size_t p = 0; p < N_OF(site_parts); p++)
			add_field(table, site_parts[p].name, site_parts[p].type, field,
				  site_parts[p].part);
		return;
	}
	for (size_t i = 0; i < N_OF(renamed); i++)
		if (renamed[i].kind == table->kind && !strcmp(renamed[i].field, name))
			name = renamed[i].name;
	if (!strcmp(name, "phase")) {
		part = PART_PHASE;
		type = SQL_TEXT;
	} else if (table->kind == RECORD_MEMORY && !strcmp(name, "use")) {
		part = PART_USE;
		type = SQL_TEXT;
	} else if (table->kind == RECORD_STACK_SAMPLE && !strcmp(name, "wait")) {
		part = PART_WAIT;
		type = SQL_TEXT;
	}
	set_absence(table, desc->name, add_field(table, name, type, field, part));
}

static bool is_placed(unsigned int kind)
{
	return kind == RECORD_KERNEL || kind == RECORD_COPY || kind == RECORD_SET ||
	       kind == RECORD_COLLECTIVE;
}

static struct sql_table *begin_table(struct schema *schema, const char *name, unsigned int kind)
{
	struct sql_table *table = &schema->tables[schema->n++];

	*table = (struct sql_table){ .kind = kind, .list = -1, .placed = is_placed(kind) };
	snprintf(table->name, sizeof(table->name), "%s", name);
	add_column(table, "run", SQL_TEXT, FROM_RUN);
	add_column(table, "rank", SQL_INTEGER, FROM_RANK);
	add_column(table, "pid", SQL_INTEGER, FROM_PID);
	/* The driver's list of processes has their pids. */
	if (kind == RECORD_PROCESS)
		snprintf(table->columns[2].name, sizeof(table->columns[2].name), "recorder_pid");
	return table;
}

static bool has_column(const struct sql_table *table, const char *name)
{
	for (size_t c = 0; c < table->n; c++)
		if (!strcmp(table->columns[c].name, name))
			return true;
	return false;
}

static void add_kind(struct schema *schema, unsigned int kind)
{
	const struct kind_desc *desc = kind_desc(kind);
	struct sql_table *table = begin_table(schema, table_names[kind], kind);

	for (unsigned int c = 0; c < desc->n_columns; c++) {
		if (desc->columns[c].count_column >= 0)
			continue;
		add_kind_field(table, c);
		if ((int)c == desc->duration_column)
			add_column(table, "end_ns", SQL_INTEGER, FROM_END);
	}
	if (desc->time_column >= 0 && !has_column(table, "step"))
		add_column(table, "step", SQL_INTEGER, FROM_STEP);
	if (table->placed) {
		add_column(table, "range", SQL_TEXT, FROM_PATH);
		add_column(table, "layer", SQL_INTEGER, FROM_LAYER);
		add_column(table, "expert", SQL_INTEGER, FROM_EXPERT);
		add_column(table, "phase", SQL_TEXT, FROM_PHASE);
	}
}

static void add_list(struct schema *schema, size_t i)
{
	const struct kind_desc *desc = kind_desc(lists[i].kind);
	struct sql_table *table = begin_table(schema, lists[i].name, lists[i].kind);
	struct sql_column *column;

	table->list = (int)field_index(lists[i].kind, lists[i].list);
	for (unsigned int c = 0; c < desc->n_columns; c++) {
		static const char *const keys[] = { "time_ns", "step", "layer", "phase", "first" };

		for (size_t k = 0; k < N_OF(keys); k++)
			if (!strcmp(desc->columns[c].name, keys[k]))
				add_kind_field(table, c);
	}
	add_column(table, lists[i].number, SQL_INTEGER, FROM_NUMBER);
	column = add_column(table, lists[i].value, SQL_INTEGER, FROM_VALUE);
	column->field = (uint8_t)table->list;
	column->field_type = desc->columns[table->list].type;
}

void schema_init(struct schema *schema)
{
	schema->n = 0;
	for (unsigned int kind = 1; kind < RECORD_KIND_LIMIT; kind++)
		if (table_names[kind])
			add_kind(schema, kind);
	for (size_t i = 0; i < N_OF(lists); i++)
		add_list(schema, i);
}

const struct sql_table *schema_find(const struct schema *schema, const char *name)
{
	for (size_t i = 0; i < schema->n; i++)
		if (!strcmp(schema->tables[i].name, name))
			return &schema->tables[i];
	return NULL;
}

static uint64_t column_fields(const struct sql_table *table, const struct sql_column *column)
{
	const struct kind_desc *desc = kind_desc(table->kind);
	uint64_t fields = 0;

	switch ((enum sql_from)column->from) {
	case FROM_FIELD:
		fields = UINT64_C(1) << column->field;
		if (column->absent >= ABSENT_UNLESS)
			fields |= UINT64_C(1) << column->absent_by;
		return fields;
	case FROM_NUMBER:
	case FROM_VALUE:
		return UINT64_C(1) << table->list;
	case FROM_END:
		return UINT64_C(1) << desc->time_column | UINT64_C(1) << desc->duration_column;
	case FROM_STEP:
	case FROM_PATH:
	case FROM_LAYER:
	case FROM_EXPERT:
	case FROM_PHASE:
		fields = UINT64_C(1) << desc->time_column;
		for (unsigned int c = 0; table->placed && c < desc->n_columns; c++)
			if (!strcmp(desc->columns[c].name, "correlation") ||
			    !strcmp(desc->columns[c].name, "graph_node"))
				fields |= UINT64_C(1) << c;
		return fields;
	case FROM_RUN:
	case FROM_RANK:
	case FROM_PID:
		return 0;
	}
	return 0;
}

uint64_t schema_fields(const struct sql_table *table, uint64_t columns)
{
	const struct kind_desc *desc = kind_desc(table->kind);
	uint64_t fields = 0;

	for (size_t c = 0; c < table->n; c++)
		if (columns >> c & 1)
			fields |= column_fields(table, &table->columns[c]);
	/* Elements are counted by their list. */
	if (table->list >= 0)
		fields |= UINT64_C(1) << table->list;
	for (unsigned int c = 0; c < desc->n_columns; c++)
		if (fields >> c & 1 && desc->columns[c].count_column >= 0)
			fields |= UINT64_C(1) << desc->columns[c].count_column;
	return fields;
}

static uint64_t imported_from(const struct sql_table *table, const struct sql_column *column)
{
	const char *field = kind_desc(table->kind)->columns[column->field].name;

	for (size_t i = 0; i < sizeof(imported) / sizeof(imported[0]); i++)
		if (imported[i].kind == table->kind && !strcmp(imported[i].field, field))
			return imported[i].from;
	return 0;
}

uint64_t schema_kinds(const struct sql_table *table, uint64_t columns)
{
	uint64_t kinds = 0;

	for (size_t c = 0; c < table->n; c++) {
		unsigned int from = table->columns[c].from;

		if (!(columns >> c & 1))
			continue;
		if (from == FROM_FIELD)
			kinds |= imported_from(table, &table->columns[c]);
		if (from < FROM_STEP || from > FROM_PHASE)
			continue;
		kinds |= WANT(STEP);
		if (table->placed)
			kinds |= WANT(API) | WANT(RANGE) | WANT(OP) | WANT(GRAPH_NODE) |
				 WANT(KERNEL) | WANT(COPY) | WANT(SET);
	}
	return kinds;
}
