/* SPDX-License-Identifier: Apache-2.0
 *
 * What an Nsight Systems file says of the machine, its clock, its processes and devices, and what of
 * it was not read; see nsight_inside.h. Small tables: SQLite reads them. One thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "ingest/nsight/nsight_inside.h"

/* Calls row for all rows of a query; one that the file has no tables or columns for has none. */
static int query_rows(struct nsight *ns, const char *sql,
		      int (*row)(struct nsight *, sqlite3_stmt *))
{
	sqlite3_stmt *stmt;
	int code = sqlite3_prepare_v2(ns->scan.db, sql, -1, &stmt, NULL), r = 0;

	if (code != SQLITE_OK)
		return code == SQLITE_NOMEM ? -ENOMEM : 0;
	while (r >= 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW)
		r = row(ns, stmt);
	sqlite3_finalize(stmt);
	return code == SQLITE_NOMEM ? -ENOMEM : r;
}

static int take_cuda_pid(struct nsight *ns, sqlite3_stmt *stmt)
{
	uint32_t pid = (uint32_t)(sqlite3_column_int64(stmt, 0) & 0xffffff);
	size_t at = 0;

	if (sqlite3_column_type(stmt, 0) != SQLITE_INTEGER)
		return 0;
	while (at < ns->n_cuda_pids && ns->cuda_pids[at] < pid)
		at++;
	if (at < ns->n_cuda_pids && ns->cuda_pids[at] == pid)
		return 0;
	if (array_grow(&ns->cuda_pids, &ns->cuda_pids_capacity, ns->n_cuda_pids + 1,
		       sizeof(*ns->cuda_pids)) < 0)
		return -ENOMEM;
	memmove(ns->cuda_pids + at + 1, ns->cuda_pids + at,
		(ns->n_cuda_pids - at) * sizeof(*ns->cuda_pids));
	ns->cuda_pids[at] = pid;
	ns->n_cuda_pids++;
	return 0;
}

static int take_start(struct nsight *ns, sqlite3_stmt *stmt)
{
	int64_t ns_since_1970 = sqlite3_column_int64(stmt, 0);

	/* Years 1970 to 2262 fit; times of events are added to it. */
	if (ns_since_1970 > 0 && ns_since_1970 < INT64_MAX / 2) {
		ns->shift_ns = ns_since_1970;
		ns->wall_clock = true;
	}
	return 0;
}

static int take_session_end(struct nsight *ns, sqlite3_stmt *stmt)
{
	int64_t duration = sqlite3_column_int64(stmt, 0);

	if (duration > 0 && duration < (int64_t)1 << 62 && duration > ns->end_ns)
		ns->end_ns = duration;
	return 0;
}

static int take_metric(struct nsight *ns, sqlite3_stmt *stmt)
{
	const char *name = (const char *)sqlite3_column_text(stmt, 2);
	struct ns_metric *metric;

	if (!name || !*name)
		return 0;
	if (array_grow(&ns->metrics, &ns->metrics_capacity, ns->n_metrics + 1,
		       sizeof(*ns->metrics)) < 0)
		return -ENOMEM;
	metric = &ns->metrics[ns->n_metrics];
	metric->type = sqlite3_column_int64(stmt, 0);
	metric->id = sqlite3_column_int64(stmt, 1);
	metric->name = strdup(name);
	if (!metric->name)
		return -ENOMEM;
	ns->n_metrics++;
	return 0;
}

int ns_info_begin(struct nsight *ns)
{
	static const struct {
		const char *sql;
		int (*row)(struct nsight *ns, sqlite3_stmt *stmt);
	} queries[] = {
		{ "select distinct processId from TARGET_INFO_CUDA_STREAM", take_cuda_pid },
		{ "select distinct processId from TARGET_INFO_CUDA_CONTEXT_INFO", take_cuda_pid },
		{ "select distinct processId from TARGET_INFO_CUDA_NULL_STREAM", take_cuda_pid },
		{ "select distinct pid from TARGET_INFO_CUDA_DEVICE", take_cuda_pid },
		{ "select utcEpochNs from TARGET_INFO_SESSION_START_TIME limit 1", take_start },
		{ "select duration from ANALYSIS_DETAILS", take_session_end },
		{ "select typeId, metricId, metricName from TARGET_INFO_GPU_METRICS", take_metric },
	};
	int r = 0;

	ns->end_ns = INT64_MIN;
	for (size_t i = 0; r >= 0 && i < sizeof(queries) / sizeof(queries[0]); i++)
		r = query_rows(ns, queries[i].sql, queries[i].row);
	if (r >= 0 && !ns->n_metrics)
		r = query_rows(ns, "select 0, metricId, metricName from TARGET_INFO_GPU_METRICS",
			       take_metric);
	/* Only the first rows are looked at: all would be a scan of the largest table. */
	if (r >= 0 && !ns->n_cuda_pids)
		r = query_rows(ns,
			       "select distinct globalPid >> 24 from (select globalPid from "
			       "CUPTI_ACTIVITY_KIND_KERNEL limit 10000)",
			       take_cuda_pid);
	if (ns->n_cuda_pids)
		ns->default_pid = ns->cuda_pids[0];
	return r;
}

/* A moment's rows have the metrics in their order: the next one is nearly always that behind the last.
 * One of another kind of device stands in where a kind has none. n_metrics: there is none. */
static size_t find_metric(struct ns_worker *worker, int64_t type, int64_t id)
{
	const struct nsight *ns = worker->ns;
	size_t other = ns->n_metrics;

	for (size_t i = 0; i < ns->n_metrics; i++) {
		size_t at = (worker->metric_next + i) % ns->n_metrics;

		if (ns->metrics[at].id != id)
			continue;
		if (ns->metrics[at].type == type) {
			worker->metric_next = at + 1;
			return at;
		}
		other = at < other ? at : other;
	}
	return other;
}

uint32_t ns_metric_name(struct ns_worker *worker, struct ns_seat *seat, int64_t type, int64_t id)
{
	const struct nsight *ns = worker->ns;
	size_t metric = find_metric(worker, type, id);
	int64_t key = -1 - (int64_t)metric;
	uint32_t name;

	if (metric == ns->n_metrics)
		return 0;
	name = ns_map_get(&seat->names, key);
	if (name)
		return name;
	name = part_text(seat->part, ns->metrics[metric].name);
	if (name)
		ns_map_add(&seat->names, key, name);
	return name;
}

/* What the rows of info tables are added to. */
struct info {
	struct nsight *ns;
	struct ns_worker *worker;
	sqlite3_stmt *stmt;
};

static const char *column_text(sqlite3_stmt *stmt, int i)
{
	const char *text = (const char *)sqlite3_column_text(stmt, i);

	return text ? text : "";
}

static bool is_of_run(const struct nsight *ns, uint32_t pid)
{
	for (size_t i = 0; i < ns->n_pids; i++)
		if (ns->pids[i] == pid)
			return true;
	return false;
}

static int add_nsight_fact(struct ns_worker *worker, uint32_t pid, const char *key,
			   const char *value)
{
	struct ns_seat *seat = ns_seat(worker, pid);

	if (!seat)
		return -ENOMEM;
	if (!*value)
		return 0;
	return part_add(seat->part, RECORD_FACT,
			&(struct row_fact){ .key = part_text(seat->part, key),
					    .value = part_text(seat->part, value) });
}

/* One value by its name; "" when there is none. */
static void look_up_value(struct nsight *ns, const char *table, const char *name, char *out,
			  size_t size)
{
	sqlite3_stmt *stmt = NULL;
	char *sql = sqlite3_mprintf("select value from \"%w\" where name = %Q limit 1", table,
				    name);

	*out = 0;
	if (sql && sqlite3_prepare_v2(ns->scan.db, sql, -1, &stmt, NULL) == SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW)
		snprintf(out, size, "%s", column_text(stmt, 0));
	sqlite3_finalize(stmt);
	sqlite3_free(sql);
}

static int add_facts(struct nsight *ns, struct ns_worker *worker)
{
	static const struct {
		const char *table, *name, *key;
	} facts[] = {
		{ "META_DATA_EXPORT", "EXPORT_PRODUCT_VERSION", "nsight_systems_version" },
		{ "EXPORT_META_DATA", "EXPORT_PRODUCT_VERSION", "nsight_systems_version" },
		{ "META_DATA_EXPORT", "EXPORT_SCHEMA_VERSION", "nsight_systems_schema" },
		{ "EXPORT_META_DATA", "EXPORT_SCHEMA_VERSION", "nsight_systems_schema" },
		{ "TARGET_INFO_SYSTEM_ENV", "OsDescription", "os" },
		{ "TARGET_INFO_SYSTEM_ENV", "NvDriverVersion", "driver_version" },
		{ "TARGET_INFO_SYSTEM_ENV", "CudaDriverVersion", "cuda_driver_version" },
	};
	char text[256], cpu[256];
	struct intake_about about = { 0 };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < sizeof(facts) / sizeof(facts[0]); i++) {
		look_up_value(ns, facts[i].table, facts[i].name, text, sizeof(text));
		r = add_nsight_fact(worker, ns->default_pid, facts[i].key, text);
	}
	if (r < 0)
		return r;
	look_up_value(ns, "TARGET_INFO_SYSTEM_ENV", "CpuCores", text, sizeof(text));
	about.cpus = atoi(text) > 0 ? atoi(text) : 0;
	look_up_value(ns, "TARGET_INFO_SYSTEM_ENV", "Hostname", text, sizeof(text));
	look_up_value(ns, "TARGET_INFO_SYSTEM_ENV", "CpuDescription", cpu, sizeof(cpu));
	about.host = *text ? text : NULL;
	about.cpu = *cpu && strcmp(cpu, "unknown") != 0 ? cpu : NULL;
	return intake_about(ns->intake, &about);
}

static int add_program(struct info *info)
{
	uint32_t pid = ns_pid(sqlite3_column_int64(info->stmt, 0));

	if (!is_of_run(info->ns, pid))
		return 0;
	return add_nsight_fact(info->worker, pid, "program", column_text(info->stmt, 1));
}

static int add_thread(struct info *info)
{
	int64_t global = sqlite3_column_int64(info->stmt, 0);
	struct row_thread row = { .thread = ns_tid(global) };
	struct ns_seat *seat;

	if (!is_of_run(info->ns, ns_pid(global)))
		return 0;
	seat = ns_seat(info->worker, ns_pid(global));
	if (!seat)
		return -ENOMEM;
	row.name = ns_name(info->worker, seat, sqlite3_column_int64(info->stmt, 1), NS_PLAIN);
	return row.name ? part_add(seat->part, RECORD_THREAD, &row) : 0;
}

static uint32_t u32_at(sqlite3_stmt *stmt, int i)
{
	int64_t v = sqlite3_column_int64(stmt, i);

	return v >= 0 && v <= UINT32_MAX ? (uint32_t)v : 0;
}

static int add_device_of(struct info *info, uint32_t pid, uint32_t device)
{
	sqlite3_stmt *stmt = info->stmt;
	struct ns_seat *seat = ns_seat(info->worker, pid);
	struct row_device row = { .device = device };
	const char *uuid = column_text(stmt, 2);
	char text[64];

	if (!seat)
		return -ENOMEM;
	snprintf(text, sizeof(text), "%s%.48s", !*uuid || !strncmp(uuid, "GPU-", 4) ? "" : "GPU-",
		 uuid);
	row.name = part_text(seat->part, column_text(stmt, 1));
	row.uuid = part_text(seat->part, text);
	row.memory_bytes = (uint64_t)sqlite3_column_int64(stmt, 3);
	row.memory_bytes_per_s = (uint64_t)sqlite3_column_int64(stmt, 4);
	row.clock_khz = (uint32_t)((uint64_t)sqlite3_column_int64(stmt, 5) / 1000);
	row.multiprocessors = u32_at(stmt, 6);
	row.l2_bytes = u32_at(stmt, 7);
	row.capability = 10 * u32_at(stmt, 8) + u32_at(stmt, 9);
	row.threads_per_multiprocessor = u32_at(stmt, 10) * u32_at(stmt, 11);
	row.registers_per_multiprocessor = u32_at(stmt, 12);
	row.shared_bytes_per_multiprocessor = u32_at(stmt, 13);
	row.blocks_per_multiprocessor = u32_at(stmt, 14);
	return part_add(seat->part, RECORD_DEVICE, &row);
}

/* The number that a process has a GPU by; false: the process does not see it. Older files do not say:
 * the number is the device's own then. */
static int cuda_number_of(struct info *info, uint32_t pid, uint32_t *ret_device, bool *ret_seen)
{
	sqlite3_stmt *stmt = NULL;
	char *sql = sqlite3_mprintf(
		"select cudaId, gpuId = %lld from TARGET_INFO_CUDA_DEVICE where pid & 16777215 = "
		"%lld order by 2 desc limit 1",
		sqlite3_column_int64(info->stmt, 15), (sqlite3_int64)pid);

	if (!sql)
		return -ENOMEM;
	/* The oldest have no number of CUDA's. */
	*ret_device = u32_at(info->stmt,
			     sqlite3_column_type(info->stmt, 0) == SQLITE_NULL ? 15 : 0);
	*ret_seen = true;
	if (sqlite3_prepare_v2(info->ns->scan.db, sql, -1, &stmt, NULL) == SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW) {
		*ret_device = u32_at(stmt, 0);
		*ret_seen = sqlite3_column_int(stmt, 1);
	}
	sqlite3_finalize(stmt);
	sqlite3_free(sql);
	return 0;
}

/* A device has the number that CUDA gives it, which may differ by process. */
static int add_nsight_device(struct info *info)
{
	const struct nsight *ns = info->ns;
	/* Others of the run have no device. */
	const uint32_t *pids = ns->n_cuda_pids ? ns->cuda_pids : ns->pids;
	size_t n = ns->n_cuda_pids ? ns->n_cuda_pids : ns->n_pids;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		uint32_t pid = pids[i], device;
		bool seen;

		r = cuda_number_of(info, pid, &device, &seen);
		if (r >= 0 && seen)
			r = add_device_of(info, pid, device);
	}
	return r;
}

/* Rows of a table whose columns may be missing: NULL stands for those. */
static int each_info_row(struct info *info, const char *table, const char *const *columns, size_t n,
			 int (*row)(struct info *))
{
	struct scan_table known;
	struct buf sql = { 0 };
	int r = scan_table_open(&info->ns->scan, table, columns, n, &known), code;

	if (r <= 0)
		return r;
	for (size_t i = 0; i < n; i++)
		buf_printf(&sql, known.has[i] ? "%s\"%s\"" : "%snull", i ? ", " : "select ",
			   columns[i]);
	buf_printf(&sql, " from \"%s\"", table);
	buf_append(&sql, "", 1);
	scan_table_close(&known);
	code = sql.failed ? SQLITE_NOMEM
			  : sqlite3_prepare_v2(info->ns->scan.db, sql.data, -1, &info->stmt, NULL);
	buf_release(&sql);
	if (code != SQLITE_OK)
		return code == SQLITE_NOMEM ? -ENOMEM : 0;
	while (r >= 0 && sqlite3_step(info->stmt) == SQLITE_ROW)
		r = row(info);
	sqlite3_finalize(info->stmt);
	return r < 0 ? r : 0;
}

static bool is_known(const char *name)
{
	static const char *const known[] = {
		"StringIds",	 "ThreadNames", "PROCESSES", "META_DATA_*",	 "EXPORT_META_DATA",
		"TARGET_INFO_*", "ENUM_*",	"sqlite_*",  "ANALYSIS_DETAILS", "UnwindMethodType"
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		size_t length = strlen(known[i]);
		bool prefix = known[i][length - 1] == '*';

		if (prefix ? !strncasecmp(name, known[i], length - 1) : !strcasecmp(name, known[i]))
			return true;
	}
	return false;
}

static bool is_read(const struct nsight *ns, const char *name)
{
	for (size_t i = 0; i < ns_tables_n; i++)
		if (!strcasecmp(ns_tables[i].name, name)) {
			struct scan_table table;
			int r = scan_table_open(&ns->scan, name, &ns_tables[i].needs, 1, &table);

			scan_table_close(&table);
			return r > 0 && table.has[0];
		}
	return false;
}

/* Tables are only ever written to their end, so that the last row's number is their size: counting
 * would read all of them. */
static int64_t count_rows(const struct nsight *ns, const char *name)
{
	sqlite3_stmt *stmt = NULL;
	char *sql = sqlite3_mprintf("select max(rowid) - min(rowid) + 1 from \"%w\"", name);
	int64_t n = 0;

	if (sql && sqlite3_prepare_v2(ns->scan.db, sql, -1, &stmt, NULL) == SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW)
		n = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_free(sql);
	return n;
}

static int note_rest(struct nsight *ns)
{
	struct buf list = { 0 };
	sqlite3_stmt *stmt;

	if (sqlite3_prepare_v2(ns->scan.db,
			       "select name from sqlite_master where type = 'table' order by name",
			       -1, &stmt, NULL) != SQLITE_OK)
		return 0;
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		const char *name = column_text(stmt, 0);
		int64_t n = is_known(name) || is_read(ns, name) ? 0 : count_rows(ns, name);

		if (n > 0)
			buf_printf(&list, "%s%.80s %lld", list.size ? ", " : "", name,
				   (long long)n);
	}
	sqlite3_finalize(stmt);
	buf_append(&list, "", 1);
	if (!list.failed && list.size > 1)
		intake_note(ns->intake, "%s: not read, with their rows: %s.", ns->file->path,
			    list.data);
	if (ns->op_ids)
		intake_note(ns->intake,
			    "%s: the numbers of operations (op_id, seq) at the end of range names "
			    "are left out.",
			    ns->file->path);
	if (ns->nvtx_other)
		intake_note(ns->intake,
			    "%s: rows of NVTX_EVENTS that are no ranges or marks: %llu.",
			    ns->file->path, (unsigned long long)ns->nvtx_other);
	if (ns->graphs)
		intake_note(
			ns->intake,
			"%s: %llu launches of CUDA graphs were recorded as a whole, and stand as "
			"kernels named 'cudaGraph#N'; nsys profile --cuda-graph-trace=node has "
			"the kernels in them.",
			ns->file->path, (unsigned long long)ns->graphs);
	if (ns->n_cuda_pids > 1)
		intake_note(
			ns->intake,
			"%s: %zu processes use CUDA; their ranks are not recorded, and numbered by "
			"process id.",
			ns->file->path, ns->n_cuda_pids);
	buf_release(&list);
	return list.failed ? -ENOMEM : 0;
}

int ns_info_end(struct nsight *ns, struct ns_worker *worker)
{
	static const char *const processes[] = { "globalPid", "name" };
	static const char *const threads[] = { "globalTid", "nameId" };
	static const char *const devices[] = {
		"cuDevice",	     "name",	      "uuid",		"totalMemory",
		"memoryBandwidth",   "clockRate",     "smCount",	"l2CacheSize",
		"computeMajor",	     "computeMinor",  "maxWarpsPerSm",	"threadsPerWarp",
		"maxRegistersPerSm", "maxShmemPerSm", "maxBlocksPerSm", "id",
	};
	struct info info = { .ns = ns, .worker = worker };
	int r = add_facts(ns, worker);

	/* Those that use CUDA are of the run, whatever kinds of rows were wanted. */
	for (size_t i = 0; r >= 0 && i < ns->n_cuda_pids; i++)
		r = ns_seat(worker, ns->cuda_pids[i]) ? 0 : -ENOMEM;
	if (r >= 0)
		r = each_info_row(&info, "PROCESSES", processes, 2, add_program);
	if (r >= 0)
		r = each_info_row(&info, "ThreadNames", threads, 2, add_thread);
	if (r >= 0)
		r = each_info_row(&info, "TARGET_INFO_GPU", devices,
				  sizeof(devices) / sizeof(devices[0]), add_nsight_device);
	return r < 0 ? r : note_rest(ns);
}
