/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of Nsight Systems that describe: what its numbers mean, processes, metrics, the export.
 * One thread.
 */
#include "base/version.h"
#include "exports/sqlite/sqlite_file.h"

struct label {
	int id;
	const char *name, *label;
};
static const struct label copy_labels[] = {
	{ 0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown" },
	{ 1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device" },
	{ 2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host" },
	{ 3, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array" },
	{ 4, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host" },
	{ 5, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array" },
	{ 6, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device" },
	{ 7, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array" },
	{ 8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device" },
	{ 9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host" },
	{ 10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer" },
	{ -1, NULL, NULL },
}, memory_labels[] = {
	{ 0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable" },
	{ 1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned" },
	{ 2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device" },
	{ 3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array" },
	{ 4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed" },
	{ 5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static" },
	{ 6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static" },
	{ -1, NULL, NULL },
}, sync_labels[] = {
	{ 0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown" },
	{ 1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync" },
	{ 2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync" },
	{ 3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync" },
	{ 4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync" },
	{ -1, NULL, NULL },
}, event_labels[] = {
	{ NVTX_MARK, "NvtxMark", "NvtxMark" },
	{ NVTX_PUSH_POP, "NvtxPushPopRange", "NvtxPushPopRange" },
	{ NVTX_START_END, "NvtxStartEndRange", "NvtxStartEndRange" },
	{ -1, NULL, NULL },
}, class_labels[] = {
	{ 0, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime" },
	{ 1, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver" },
	{ -1, NULL, NULL },
};

static int write_labels(struct sqlite_file *file)
{
	static const struct {
		const char *table;
		const struct label *labels;
	} enums[] = {
		{ "ENUM_CUDA_MEMCPY_OPER", copy_labels },  { "ENUM_CUDA_MEM_KIND", memory_labels },
		{ "ENUM_CUPTI_SYNC_TYPE", sync_labels },   { "ENUM_NSYS_EVENT_TYPE", event_labels },
		{ "ENUM_NSYS_EVENT_CLASS", class_labels },
	};
	int r = SQLITE_OK;

	for (size_t e = 0; r == SQLITE_OK && e < sizeof(enums) / sizeof(enums[0]); e++) {
		sqlite3_stmt *insert = NULL;

		r = file_table(file, enums[e].table,
			       "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT", 3,
			       &insert);
		for (const struct label *l = enums[e].labels; r == SQLITE_OK && l->name; l++) {
			sqlite3_bind_int64(insert, 1, l->id);
			sqlite3_bind_text(insert, 2, l->name, -1, SQLITE_STATIC);
			sqlite3_bind_text(insert, 3, l->label, -1, SQLITE_STATIC);
			r = file_insert(insert);
		}
		sqlite3_finalize(insert);
	}
	return r;
}

static int write_processes(struct sqlite_file *file)
{
	sqlite3_stmt *insert = NULL;
	int r = file_table(file, "PROCESSES", "globalPid INTEGER, pid INTEGER, name TEXT", 3,
			   &insert);

	for (size_t s = 0; r == SQLITE_OK && s < file->run->n_shards; s++) {
		const struct run_shard *shard = &file->run->shards[s];

		sqlite3_bind_int64(insert, 1, file->global_pids[s]);
		sqlite3_bind_int64(insert, 2, shard->pid);
		sqlite3_bind_text(insert, 3, file->run->info.command, -1, SQLITE_STATIC);
		r = file_insert(insert);
	}
	sqlite3_finalize(insert);
	return r;
}

/* The metrics of the samples, each device as a source of its own. */
static int write_metrics(struct sqlite_file *file)
{
	if (!file->run->sample.n)
		return SQLITE_OK;
	return file_exec(file,
			 "CREATE TABLE TARGET_INFO_GPU_METRICS(typeId INTEGER NOT NULL, sourceId "
			 "INTEGER NOT NULL, typeName TEXT NOT NULL, metricId INTEGER NOT NULL, "
			 "metricName TEXT NOT NULL); "
			 "INSERT INTO TARGET_INFO_GPU_METRICS SELECT DISTINCT typeId, typeId, "
			 "'moescope', metricId, value FROM (SELECT DISTINCT typeId, metricId FROM "
			 "GPU_METRICS) JOIN StringIds ON id = metricId");
}

static int write_about(struct sqlite_file *file)
{
	const struct run *run = file->run;
	int r = file_exec(
		file,
		"CREATE TABLE META_DATA_EXPORT(name TEXT NOT NULL, value TEXT); "
		"INSERT INTO META_DATA_EXPORT VALUES('EXPORT_PRODUCT_NAME', 'moescope'), "
		"('EXPORT_PRODUCT_VERSION', %Q), ('EXPORT_SCHEMA_VERSION', '3.20.0'), "
		"('EXPORT_SCHEMA_VERSION_MAJOR', '3'), ('EXPORT_SCHEMA_VERSION_MINOR', '20'), "
		"('EXPORT_SCHEMA_VERSION_MICRO', '0'); "
		"CREATE TABLE ANALYSIS_DETAILS(globalVid INTEGER NOT NULL, duration INTEGER NOT "
		"NULL, startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL); "
		"INSERT INTO ANALYSIS_DETAILS VALUES(0, %lld, %lld, %lld)",
		VERSION_TEXT, (long long)((uint64_t)run->end_ns - (uint64_t)run->start_ns),
		(long long)run->start_ns, (long long)run->end_ns);

	if (r == SQLITE_OK && run->info.started_realtime_ns)
		r = file_exec(file,
			      "CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER, "
			      "utcTime TEXT, localTime TEXT, systemClockNs INTEGER); "
			      "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES(%lld, "
			      "strftime('%%Y-%%m-%%dT%%H:%%M:%%S', %lld, 'unixepoch'), NULL, NULL)",
			      (long long)run->info.started_realtime_ns,
			      (long long)(run->info.started_realtime_ns / 1000000000));
	return r;
}

int file_write_nsight_info(struct sqlite_file *file)
{
	int r = write_labels(file);

	if (r == SQLITE_OK)
		r = write_processes(file);
	if (r == SQLITE_OK)
		r = write_metrics(file);
	if (r == SQLITE_OK)
		r = write_about(file);
	return r;
}
