/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of Nsight Systems, with their names, columns and numbers (schema 3), so that queries
 * written for its exports run. What a run does not know is NULL. Records without times are only in
 * MOESCOPE_*: here they would be taken for ones of no length. One thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/interned.h"
#include "exports/sqlite/sqlite_file.h"

/* StringIds: the strings of the run, and names for people, which no record has. Each text is there
 * once, since queries group by its id. */
struct names {
	struct sqlite_file *file;
	sqlite3_stmt *insert; /* into StringIds */
	struct launch_names {
		uint32_t demangled, shortened; /* 0: not asked for yet, or it has none */
	} * launches;
	struct interned texts;
	uint32_t *ids; /* of each text */
	size_t n_ids, ids_capacity;
	uint32_t next;
	struct store store;
	struct schema schema;
	struct store_data *kernels;
};

struct value_list {
	sqlite3_stmt *insert;
	int at;
};

static void put_integer(struct value_list *list, int64_t value)
{
	sqlite3_bind_int64(list->insert, list->at++, value);
}

static void put_real(struct value_list *list, double value)
{
	sqlite3_bind_double(list->insert, list->at++, value);
}

static void put_text(struct value_list *list, const char *text)
{
	sqlite3_bind_text(list->insert, list->at++, text, -1, SQLITE_STATIC);
}

static void skip_value(struct value_list *list)
{
	list->at++; /* NULL */
}

static void put_known(struct value_list *list, int64_t value)
{
	if (value)
		put_integer(list, value);
	else
		skip_value(list);
}

static void put_told(struct value_list *list, uint64_t bytes)
{
	if (bytes != BYTES_NOT_TOLD)
		put_integer(list, (int64_t)bytes);
	else
		skip_value(list);
}

/* Nsight counts kinds of memory from 0. */
static void put_memory(struct value_list *list, uint8_t memory)
{
	if (memory)
		put_integer(list, memory - 1);
	else
		skip_value(list);
}

static int64_t global_pid(const struct names *names, uint16_t shard)
{
	return names->file->global_pids[shard];
}

static int64_t global_tid(const struct names *names, uint16_t shard, uint32_t thread)
{
	return global_pid(names, shard) | (thread & 0xffffff);
}

static void put_span(struct value_list *list, int64_t start_ns, int64_t duration_ns)
{
	put_integer(list, start_ns);
	put_integer(list, (int64_t)((uint64_t)start_ns + (uint64_t)duration_ns));
}

static int insert_text(struct names *names, uint32_t id, const char *text)
{
	sqlite3_bind_int64(names->insert, 1, id);
	sqlite3_bind_text(names->insert, 2, text, -1, SQLITE_STATIC);
	return file_insert(names->insert);
}

/* The id of a text: `id` when it is new. */
static int text_id(struct names *names, const char *text, uint32_t id, uint32_t *ret_id)
{
	uint32_t key = interned_id(&names->texts, text, strlen(text));

	if (!key || array_grow(&names->ids, &names->ids_capacity, key, sizeof(*names->ids)) < 0)
		return SQLITE_NOMEM;
	if (key > names->n_ids)
		names->ids[names->n_ids++] = id;
	*ret_id = names->ids[key - 1];
	return SQLITE_OK;
}

/* The id of what a launch is called. */
static int name_id(struct names *names, enum sql_part part, uint32_t launch, uint32_t *ret_id)
{
	const struct sql_table *table = names->kernels->table;
	bool failed = false;
	int r;

	for (size_t c = 0; c < table->n; c++) {
		struct cell cell;

		if (table->columns[c].part != part || table->columns[c].refers != RECORD_LAUNCH)
			continue;
		cell = store_id_cell(&names->store, names->kernels, c, launch, &failed);
		if (failed)
			return SQLITE_NOMEM;
		if (cell.kind != CELL_TEXT)
			return SQLITE_OK;
		r = text_id(names, cell.s, names->next, ret_id);
		if (r == SQLITE_OK && *ret_id == names->next)
			r = insert_text(names, names->next++, cell.s);
		return r;
	}
	return SQLITE_ERROR;
}

static int write_kernel(struct names *names, size_t i, struct value_list *to)
{
	const struct run *run = names->file->run;
	const struct table_kernel *t = &run->kernel;
	struct row_launch launch = run_launch(run, t->launch[i]);
	struct launch_names *of = &names->launches[t->launch[i]];
	int r = SQLITE_OK;

	if (!of->demangled)
		r = name_id(names, PART_NAME, t->launch[i], &of->demangled);
	if (r == SQLITE_OK && !of->shortened)
		r = name_id(names, PART_SHORT_NAME, t->launch[i], &of->shortened);
	put_span(to, t->start_ns[i], t->duration_ns[i]);
	put_integer(to, t->device[i]);
	put_integer(to, t->context[i]);
	skip_value(to);
	put_integer(to, t->stream[i]);
	put_integer(to, (int64_t)t->correlation[i]);
	put_integer(to, global_pid(names, t->shard[i]));
	put_integer(to, of->demangled);
	put_integer(to, of->shortened);
	put_known(to, launch.name);
	skip_value(to);
	skip_value(to);
	put_known(to, launch.registers);
	put_known(to, launch.grid_x);
	put_known(to, launch.grid_y);
	put_known(to, launch.grid_z);
	put_known(to, launch.block_x);
	put_known(to, launch.block_y);
	put_known(to, launch.block_z);
	if (store_launch_told(&launch)) {
		put_integer(to, launch.static_shared_bytes);
		put_integer(to, launch.dynamic_shared_bytes);
	} else {
		to->at += 2;
	}
	to->at += 4;
	put_known(to, (int64_t)t->graph_node[i]);
	skip_value(to);
	put_known(to, t->graph[i]);
	return r;
}

static int write_copy(struct names *names, size_t i, struct value_list *to)
{
	const struct run *run = names->file->run;
	const struct table_copy *t = &run->copy;

	put_span(to, t->start_ns[i], t->duration_ns[i]);
	put_integer(to, t->device[i]);
	put_integer(to, t->context[i]);
	skip_value(to);
	put_integer(to, t->stream[i]);
	put_integer(to, (int64_t)t->correlation[i]);
	put_integer(to, global_pid(names, t->shard[i]));
	put_told(to, t->bytes[i]);
	put_integer(to, t->kind[i]);
	skip_value(to);
	put_memory(to, t->source_memory[i]);
	put_memory(to, t->target_memory[i]);
	put_integer(to, t->source_device[i]);
	skip_value(to);
	put_integer(to, t->target_device[i]);
	skip_value(to);
	skip_value(to);
	put_known(to, (int64_t)t->graph_node[i]);
	return SQLITE_OK;
}

static int write_set(struct names *names, size_t i, struct value_list *to)
{
	const struct run *run = names->file->run;
	const struct table_set *t = &run->set;

	put_span(to, t->start_ns[i], t->duration_ns[i]);
	put_integer(to, t->device[i]);
	put_integer(to, t->context[i]);
	skip_value(to);
	put_integer(to, t->stream[i]);
	put_integer(to, (int64_t)t->correlation[i]);
	put_integer(to, global_pid(names, t->shard[i]));
	skip_value(to);
	put_told(to, t->bytes[i]);
	put_known(to, (int64_t)t->graph_node[i]);
	put_memory(to, t->memory[i]);
	return SQLITE_OK;
}

static int write_api(struct names *names, size_t i, struct value_list *to)
{
	const struct table_api *t = &names->file->run->api;

	put_span(to, t->start_ns[i], t->duration_ns[i]);
	put_integer(to, t->driver[i] ? 1 : 0);
	put_integer(to, global_tid(names, t->shard[i], t->thread[i]));
	put_integer(to, (int64_t)t->correlation[i]);
	put_integer(to, t->name[i]);
	if (t->status[i] != API_NOT_TOLD)
		put_integer(to, t->status[i]);
	return SQLITE_OK;
}

static int write_sync(struct names *names, size_t i, struct value_list *to)
{
	const struct table_sync *t = &names->file->run->sync;

	put_span(to, t->start_ns[i], t->duration_ns[i]);
	skip_value(to);
	put_integer(to, t->context[i]);
	skip_value(to);
	put_integer(to, t->stream[i]);
	put_integer(to, (int64_t)t->correlation[i]);
	put_integer(to, global_pid(names, t->shard[i]));
	skip_value(to);
	put_integer(to, t->type[i]);
	skip_value(to);
	return SQLITE_OK;
}

static void put_nvtx(struct value_list *to, int type, const char *text, int64_t tid,
		     int64_t end_tid)
{
	put_integer(to, type);
	to->at += 3;
	put_text(to, text);
	put_integer(to, tid);
	put_known(to, end_tid);
	to->at += 2;
}

static int write_range(struct names *names, size_t i, struct value_list *to)
{
	const struct run *run = names->file->run;
	const struct table_range *t = &run->range;

	put_span(to, t->start_ns[i], t->duration_ns[i]);
	put_nvtx(to, NVTX_PUSH_POP, run_string(run, run_site(run, t->site[i]).name),
		 global_tid(names, t->shard[i], t->thread[i]), 0);
	return SQLITE_OK;
}

static int write_span(struct names *names, size_t i, struct value_list *to)
{
	const struct run *run = names->file->run;
	const struct table_span *t = &run->span;

	put_span(to, t->start_ns[i], t->duration_ns[i]);
	put_nvtx(to, NVTX_START_END, run_string(run, t->name[i]),
		 global_tid(names, t->shard[i], t->thread[i]),
		 t->unfinished[i] ? 0 : global_tid(names, t->shard[i], t->end_thread[i]));
	return SQLITE_OK;
}

static int write_mark(struct names *names, size_t i, struct value_list *to)
{
	const struct run *run = names->file->run;
	const struct table_mark *t = &run->mark;

	put_integer(to, t->time_ns[i]);
	skip_value(to);
	put_nvtx(to, NVTX_MARK, run_string(run, t->text[i]),
		 global_tid(names, t->shard[i], t->thread[i]), 0);
	return SQLITE_OK;
}

static int write_os_call(struct names *names, size_t i, struct value_list *to)
{
	const struct table_os_call *t = &names->file->run->os_call;

	put_span(to, t->start_ns[i], t->duration_ns[i]);
	skip_value(to);
	put_integer(to, global_tid(names, t->shard[i], t->thread[i]));
	put_integer(to, t->name[i]);
	return SQLITE_OK;
}

static int write_thread(struct names *names, size_t i, struct value_list *to)
{
	const struct table_thread *t = &names->file->run->thread;

	put_integer(to, t->name[i]);
	skip_value(to);
	put_integer(to, global_tid(names, t->shard[i], t->thread[i]));
	return SQLITE_OK;
}

/* Devices are those of a process: two that see the same have a row each. */
static int write_device(struct names *names, size_t i, struct value_list *to)
{
	const struct run *run = names->file->run;
	const struct table_device *t = &run->device;

	put_integer(to, t->shard[i]);
	put_integer(to, t->device[i]);
	put_text(to, run_string(run, t->name[i]));
	to->at += 2;
	put_known(to, t->l2_bytes[i]);
	put_known(to, (int64_t)t->memory_bytes[i]);
	put_known(to, (int64_t)t->memory_bytes_per_s[i]);
	put_known(to, (int64_t)t->clock_khz[i] * 1000);
	put_known(to, t->multiprocessors[i]);
	put_text(to, run_string(run, t->uuid[i]));
	put_integer(to, t->device[i]);
	put_known(to, t->shared_bytes_per_multiprocessor[i]);
	put_known(to, t->registers_per_multiprocessor[i]);
	put_known(to, t->threads_per_multiprocessor[i] / 32);
	put_known(to, t->blocks_per_multiprocessor[i]);
	if (t->capability[i]) {
		put_integer(to, t->capability[i] / 10);
		put_integer(to, t->capability[i] % 10);
	}
	return SQLITE_OK;
}

static int write_sample(struct names *names, size_t i, struct value_list *to)
{
	const struct table_sample *t = &names->file->run->sample;

	put_integer(to, t->time_ns[i]);
	put_integer(to, t->device[i]);
	put_integer(to, t->metric[i]);
	put_real(to, t->value[i]);
	return SQLITE_OK;
}

#define DEVICE_WORK                                                                                \
	"start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, contextId INTEGER, "      \
	"greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "               \
	"globalPid INTEGER"
#define NVTX_COLUMNS                                                                               \
	"start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, "       \
	"category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, "    \
	"textId INTEGER, domainId INTEGER"

#define ROWS(table) offsetof(struct run, table) + offsetof(struct table_##table, n)
#define UNTIMED(table) offsetof(struct run, table) + offsetof(struct table_##table, untimed)

/* A table of Nsight's; several of ours may go into one. */
static const struct nsight_table {
	const char *name, *columns;
	int n_columns;
	size_t rows, untimed; /* offsets in struct run; 0: they all have times */
	int (*write)(struct names *names, size_t row, struct value_list *to);
} tables[] = {
	{ "CUPTI_ACTIVITY_KIND_KERNEL",
	  DEVICE_WORK ", demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, "
		      "mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER, "
		      "registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, "
		      "blockX INTEGER, blockY INTEGER, blockZ INTEGER, "
		      "staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, "
		      "localMemoryPerThread INTEGER, localMemoryTotal INTEGER, gridId INTEGER, "
		      "sharedMemoryExecuted INTEGER, graphNodeId INTEGER, "
		      "sharedMemoryLimitConfig INTEGER, graphId INTEGER",
	  29, ROWS(kernel), UNTIMED(kernel), write_kernel },
	{ "CUPTI_ACTIVITY_KIND_MEMCPY",
	  DEVICE_WORK ", bytes INTEGER, copyKind INTEGER NOT NULL, "
		      "deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, "
		      "srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, "
		      "dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER",
	  19, ROWS(copy), UNTIMED(copy), write_copy },
	{ "CUPTI_ACTIVITY_KIND_MEMSET",
	  DEVICE_WORK ", value INTEGER, bytes INTEGER, graphNodeId INTEGER, "
		      "memKind INTEGER",
	  12, ROWS(set), UNTIMED(set), write_set },
	{ "CUPTI_ACTIVITY_KIND_RUNTIME",
	  "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, "
	  "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, "
	  "returnValue INTEGER, callchainId INTEGER",
	  8, ROWS(api), 0, write_api },
	{ "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
	  DEVICE_WORK ", deprecatedSyncType INTEGER, syncType INTEGER NOT NULL, eventId INTEGER",
	  11, ROWS(sync), 0, write_sync },
	{ "NVTX_EVENTS", NVTX_COLUMNS, 11, ROWS(range), 0, write_range },
	{ "NVTX_EVENTS", NVTX_COLUMNS, 11, ROWS(span), 0, write_span },
	{ "NVTX_EVENTS", NVTX_COLUMNS, 11, ROWS(mark), 0, write_mark },
	{ "OSRT_API",
	  "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER, globalTid INTEGER, "
	  "nameId INTEGER NOT NULL, returnValue INTEGER, nestingLevel INTEGER, "
	  "callchainId INTEGER",
	  8, ROWS(os_call), 0, write_os_call },
	{ "ThreadNames", "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER", 3,
	  ROWS(thread), 0, write_thread },
	{ "TARGET_INFO_GPU",
	  "vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, "
	  "isDiscrete INTEGER, l2CacheSize INTEGER, totalMemory INTEGER, "
	  "memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, uuid TEXT, "
	  "cuDevice INTEGER, maxShmemPerSm INTEGER, maxRegistersPerSm INTEGER, "
	  "maxWarpsPerSm INTEGER, maxBlocksPerSm INTEGER, computeMajor INTEGER, "
	  "computeMinor INTEGER",
	  18, ROWS(device), 0, write_device },
	{ "GPU_METRICS",
	  "timestamp INTEGER NOT NULL, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL, "
	  "value NUMERIC",
	  4, ROWS(sample), 0, write_sample },
};
#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

static size_t rows_of(const struct run *run, const struct nsight_table *table)
{
	size_t n;

	memcpy(&n, (const char *)run + table->rows, sizeof(n));
	return n;
}

static int write_table(struct names *names, const struct nsight_table *table, sqlite3_stmt *insert)
{
	const struct run *run = names->file->run;
	const uint8_t *untimed = NULL;
	int r = SQLITE_OK;

	if (table->untimed)
		memcpy(&untimed, (const char *)run + table->untimed, sizeof(untimed));
	for (size_t i = 0; r == SQLITE_OK && i < rows_of(run, table); i++) {
		struct value_list to = { insert, 1 };

		if (untimed && untimed[i])
			continue;
		r = table->write(names, i, &to);
		if (r == SQLITE_OK)
			r = file_insert(insert);
	}
	return r;
}

/* Tables are there when they have rows, as Nsight makes them. */
static int write_tables(struct names *names)
{
	sqlite3_stmt *insert = NULL;
	int r = SQLITE_OK;

	for (size_t t = 0; r == SQLITE_OK && t < N_TABLES; t++) {
		bool more = t > 0 && !strcmp(tables[t].name, tables[t - 1].name);

		if (!more) {
			sqlite3_finalize(insert);
			insert = NULL;
		}
		if (!rows_of(names->file->run, &tables[t]))
			continue;
		if (!insert)
			r = file_table(names->file, tables[t].name, tables[t].columns,
				       tables[t].n_columns, &insert);
		if (r == SQLITE_OK)
			r = write_table(names, &tables[t], insert);
	}
	sqlite3_finalize(insert);
	return r;
}

static int names_init(struct names *names)
{
	struct sqlite_file *file = names->file;
	int r;

	schema_init(&names->schema);
	names->next = file->n_strings;
	names->launches = calloc(file->n_launches, sizeof(*names->launches));
	if (!names->launches || store_init(&names->store, file->run, "") < 0 ||
	    store_open(&names->store, &names->schema, schema_find(&names->schema, "kernels"), 0,
		       &names->kernels) < 0)
		return SQLITE_NOMEM;
	r = file_table(file, "StringIds", "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL", 2,
		       &names->insert);
	/* What has no name has the id 0: joins keep it. */
	if (r == SQLITE_OK)
		r = insert_text(names, 0, "[Unknown]");
	for (uint32_t id = 1; r == SQLITE_OK && id < file->n_strings; id++) {
		const char *text = run_string(file->run, id);
		uint32_t known;

		r = text_id(names, text, id, &known);
		if (r == SQLITE_OK)
			r = insert_text(names, id, text);
	}
	return r;
}

int file_write_nsight(struct sqlite_file *file)
{
	struct names *names = calloc(1, sizeof(*names));
	int r;

	if (!names)
		return SQLITE_NOMEM;
	names->file = file;
	r = names_init(names);
	if (r == SQLITE_OK)
		r = write_tables(names);
	sqlite3_finalize(names->insert);
	store_release(&names->store);
	interned_release(&names->texts);
	free(names->ids);
	free(names->launches);
	free(names);
	return r == SQLITE_OK ? file_write_nsight_info(file) : r;
}
