/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the large tables of an Nsight Systems file into records; see nsight_inside.h. Columns that a
 * version does not have are NULL here. Any thread, each with its worker.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "ingest/nsight/nsight_inside.h"

#define BIT(kind) (UINT64_C(1) << (kind))

/* Beyond two centuries a time is an error, and sums of two would overflow. */
#define TIME_MOST ((int64_t)1 << 62)

struct ns_seat *ns_seat_of(struct ns_worker *worker, const struct scan_value *global)
{
	int64_t id;

	return ns_seat(worker, ns_int(global, &id) ? ns_pid(id) : worker->ns->default_pid);
}

bool ns_time(struct ns_seat *seat, int64_t rowid, const struct scan_value *v, int64_t *ret)
{
	if (ns_int(v, ret) && *ret > -TIME_MOST && *ret < TIME_MOST)
		return true;
	part_damaged(seat->part, (uint64_t)rowid, "no time where the start or end should be");
	return false;
}

static bool times_of(struct ns_seat *seat, int64_t rowid, const struct scan_value *v,
		     int64_t *ret_start, int64_t *ret_duration)
{
	int64_t end;

	if (!ns_time(seat, rowid, &v[0], ret_start) || !ns_time(seat, rowid, &v[1], &end))
		return false;
	*ret_duration = end - *ret_start;
	if (*ret_duration >= 0)
		return true;
	part_damaged(seat->part, (uint64_t)rowid, "it ends before it begins");
	return false;
}

/* Rows of all these tables begin with start, end and the process or thread. 1, 0: its times make no
 * sense, -ENOMEM. */
static int begin_row(struct ns_worker *worker, int64_t rowid, const struct scan_value *v,
		     struct ns_seat **ret_seat, int64_t *ret_start, int64_t *ret_duration)
{
	*ret_seat = ns_seat_of(worker, &v[2]);
	if (!*ret_seat)
		return -ENOMEM;
	return times_of(*ret_seat, rowid, v, ret_start, ret_duration);
}

/* Of rows that are work of a device: what the next four columns hold. */
#define TAKE_DEVICE(row, v)                                                                        \
	do {                                                                                       \
		(row).device = ns_u32(&(v)[3]);                                                    \
		(row).context = ns_u32(&(v)[4]);                                                   \
		(row).stream = ns_u32(&(v)[5]);                                                    \
		(row).correlation = ns_u64(&(v)[6]);                                               \
	} while (0)

static const char *const kernel_columns[] = {
	"start",
	"end",
	"globalPid",
	"deviceId",
	"contextId",
	"streamId",
	"correlationId",
	"graphNodeId",
	"graphId",
	"demangledName",
	"shortName",
	"mangledName",
	"gridX",
	"gridY",
	"gridZ",
	"blockX",
	"blockY",
	"blockZ",
	"registersPerThread",
	"staticSharedMemory",
	"dynamicSharedMemory",
};

static int kernel_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct ns_seat *seat;
	struct row_launch launch = { 0 };
	struct row_kernel row = { 0 };
	int r = begin_row(worker, rowid, v, &seat, &row.start_ns, &row.duration_ns);

	if (r <= 0)
		return r;
	for (int i = 9; i < 12 && !launch.name; i++) {
		int64_t id;

		if (v[i].type == SCAN_TEXT)
			launch.name = part_string(seat->part, v[i].text, v[i].length);
		else if (ns_int(&v[i], &id))
			launch.name = ns_name(worker, seat, id, NS_PLAIN);
	}
	launch.grid_x = ns_u32(&v[12]);
	launch.grid_y = ns_u32(&v[13]);
	launch.grid_z = ns_u32(&v[14]);
	launch.block_x = ns_u32(&v[15]);
	launch.block_y = ns_u32(&v[16]);
	launch.block_z = ns_u32(&v[17]);
	launch.registers = ns_u32(&v[18]);
	launch.static_shared_bytes = ns_u32(&v[19]);
	launch.dynamic_shared_bytes = ns_u32(&v[20]);
	row.launch = part_launch(seat->part, &launch);
	TAKE_DEVICE(row, v);
	row.graph_node = ns_u64(&v[7]);
	row.graph = ns_u32(&v[8]);
	return part_add(seat->part, RECORD_KERNEL, &row);
}

static const char *const graph_columns[] = { "start",	  "end",      "globalPid",     "deviceId",
					     "contextId", "streamId", "correlationId", "graphId" };

/* Without --cuda-graph-trace=node, Nsight has one row for all that a launch of a graph did. To the
 * device it is work like a kernel: left out, it would be idle all that time. */
static int graph_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct ns_seat *seat;
	struct row_launch launch = { 0 };
	struct row_kernel row = { 0 };
	char name[32];
	int r = begin_row(worker, rowid, v, &seat, &row.start_ns, &row.duration_ns);

	if (r <= 0)
		return r;
	row.graph = ns_u32(&v[7]);
	snprintf(name, sizeof(name), "cudaGraph#%" PRIu32, row.graph);
	launch.name = part_text(seat->part, name);
	row.launch = part_launch(seat->part, &launch);
	TAKE_DEVICE(row, v);
	worker->graphs++;
	return part_add(seat->part, RECORD_KERNEL, &row);
}

/* Nsight counts kinds of memory from 0, CUPTI and we from 1; its 7 is our 0, not known. */
static uint8_t memory_of(const struct scan_value *v)
{
	int64_t kind;

	return ns_int(v, &kind) && kind >= 0 && kind < 7 ? (uint8_t)(kind + 1) : 0;
}

static const char *const copy_columns[] = {
	"start", "end",	     "globalPid", "deviceId", "contextId",   "streamId",    "correlationId",
	"bytes", "copyKind", "srcKind",	  "dstKind",  "srcDeviceId", "dstDeviceId", "graphNodeId",
};

static int copy_row(void *context, int64_t rowid, const struct scan_value *v)
{
	/* Moves of managed memory by the driver, 11 to 13, are copies like others. */
	static const uint8_t kinds[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 8 };
	struct ns_worker *worker = context;
	struct ns_seat *seat;
	struct row_copy row = { .asynchronous = COPY_NOT_TOLD };
	uint32_t kind = ns_u32(&v[8]);
	int64_t device;
	int r = begin_row(worker, rowid, v, &seat, &row.start_ns, &row.duration_ns);

	if (r <= 0)
		return r;
	TAKE_DEVICE(row, v);
	row.bytes = ns_u64(&v[7]);
	row.kind = kind < sizeof(kinds) ? kinds[kind] : 0;
	row.source_memory = memory_of(&v[9]);
	row.target_memory = memory_of(&v[10]);
	row.source_device = ns_int(&v[11], &device) ? ns_u32(&v[11]) : row.device;
	row.target_device = ns_int(&v[12], &device) ? ns_u32(&v[12]) : row.device;
	row.graph_node = ns_u64(&v[13]);
	return part_add(seat->part, RECORD_COPY, &row);
}

static const char *const set_columns[] = {
	"start",    "end",	     "globalPid", "deviceId", "contextId",
	"streamId", "correlationId", "bytes",	  "memKind",  "graphNodeId",
};

static int set_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct ns_seat *seat;
	struct row_set row = { 0 };
	int r = begin_row(worker, rowid, v, &seat, &row.start_ns, &row.duration_ns);

	if (r <= 0)
		return r;
	TAKE_DEVICE(row, v);
	row.bytes = ns_u64(&v[7]);
	row.memory = memory_of(&v[8]);
	row.graph_node = ns_u64(&v[9]);
	return part_add(seat->part, RECORD_SET, &row);
}

static const char *const api_columns[] = {
	"start", "end", "globalTid", "correlationId", "nameId", "returnValue", "name",
};

static int api_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct ns_seat *seat;
	struct row_api row = { 0 };
	int64_t id;
	int r = begin_row(worker, rowid, v, &seat, &row.start_ns, &row.duration_ns);

	if (r <= 0)
		return r;
	if (ns_int(&v[4], &id)) {
		uint32_t name = ns_name(worker, seat, id, NS_CALL);

		row.name = name / 2;
		row.driver = name & 1;
	} else if (v[6].type == SCAN_TEXT) {
		row.name = part_string(seat->part, v[6].text, v[6].length);
	}
	row.thread = ns_thread(&v[2]);
	row.correlation = ns_u64(&v[3]);
	row.status = ns_int(&v[5], &id) ? ns_u32(&v[5]) : API_NOT_TOLD;
	return part_add(seat->part, RECORD_API, &row);
}

static const char *const sync_columns[] = {
	"start",	 "end",	     "globalPid",	   "contextId", "streamId",
	"correlationId", "syncType", "deprecatedSyncType", "eventId",
};

static int sync_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct ns_seat *seat;
	struct row_sync row = { 0 };
	int64_t type, event;
	int r = begin_row(worker, rowid, v, &seat, &row.start_ns, &row.duration_ns);

	if (r <= 0)
		return r;
	row.context = ns_u32(&v[3]);
	row.stream = ns_u32(&v[4]);
	row.correlation = ns_u64(&v[5]);
	if (ns_int(&v[6], &type) || ns_int(&v[7], &type))
		row.type = type >= 0 && type <= 4 ? (uint8_t)type : 0;
	/* Version 2025.3 counts some kinds one too low: a stream that waits for an event has one. */
	if (row.type == 2 && ns_int(&v[8], &event) && event == UINT32_MAX)
		row.type = 3;
	return part_add(seat->part, RECORD_SYNC, &row);
}

static const char *const os_columns[] = { "start", "end", "globalTid", "nameId" };

static int os_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct ns_seat *seat;
	struct row_os_call row = { 0 };
	int64_t id;
	int r = begin_row(worker, rowid, v, &seat, &row.start_ns, &row.duration_ns);

	if (r <= 0)
		return r;
	if (ns_int(&v[3], &id))
		row.name = ns_name(worker, seat, id, NS_PLAIN);
	row.thread = ns_thread(&v[2]);
	return part_add(seat->part, RECORD_OS_CALL, &row);
}

/* The columns are those of the operating system's. Sizes are not in the file. */
static int library_row(struct ns_worker *worker, int64_t rowid, const struct scan_value *v,
		       const char *library)
{
	struct ns_seat *seat;
	struct row_library_call row = { .peer = -1, .status = API_NOT_TOLD };
	int64_t id;
	int r = begin_row(worker, rowid, v, &seat, &row.start_ns, &row.duration_ns);

	if (r <= 0)
		return r;
	if (ns_int(&v[3], &id))
		row.name = ns_name(worker, seat, id, NS_PLAIN);
	row.thread = ns_thread(&v[2]);
	row.library = part_text(seat->part, library);
	return part_add(seat->part, RECORD_LIBRARY_CALL, &row);
}

static int cublas_row(void *context, int64_t rowid, const struct scan_value *v)
{
	return library_row(context, rowid, v, "cublas");
}

static int cudnn_row(void *context, int64_t rowid, const struct scan_value *v)
{
	return library_row(context, rowid, v, "cudnn");
}

static const char *const memory_columns[] = {
	"start",   "globalPid",		  "deviceId",	   "address", "bytes",
	"memKind", "memoryOperationType", "correlationId",
};

static int memory_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct ns_seat *seat = ns_seat_of(worker, &v[1]);
	struct row_device_memory row = { 0 };
	uint32_t what = ns_u32(&v[6]);

	if (!seat)
		return -ENOMEM;
	if (!ns_time(seat, rowid, &v[0], &row.time_ns))
		return 0;
	if (what > 1) {
		part_damaged(seat->part, (uint64_t)rowid, "neither an allocation nor a free");
		return 0;
	}
	row.event = (uint8_t)what;
	row.device = ns_u32(&v[2]);
	row.address = ns_u64(&v[3]);
	row.bytes = ns_u64(&v[4]);
	row.memory = memory_of(&v[5]);
	row.correlation = ns_u64(&v[7]);
	return part_add(seat->part, RECORD_DEVICE_MEMORY, &row);
}

static const char *const node_columns[] = { "start", "globalTid", "graphNodeId",
					    "originalGraphNodeId", "graphId" };

static int node_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct ns_seat *seat = ns_seat_of(worker, &v[1]);
	struct row_graph_node row = { 0 };

	if (!seat)
		return -ENOMEM;
	row.node = ns_u64(&v[2]);
	if (!row.node)
		return 0;
	if (!ns_time(seat, rowid, &v[0], &row.time_ns))
		return 0;
	row.thread = ns_thread(&v[1]);
	row.source = ns_u64(&v[3]);
	row.graph = ns_u32(&v[4]);
	return part_add(seat->part, RECORD_GRAPH_NODE, &row);
}

static const char *const metric_columns[] = { "timestamp", "typeId", "metricId", "value" };

/* The kind of a device is in the high bytes of typeId, its number in the lowest. */
static int metric_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct ns_seat *seat = ns_seat(worker, worker->ns->default_pid);
	struct row_sample row = { 0 };
	int64_t type = 0, metric = -1;

	if (!seat)
		return -ENOMEM;
	if (!ns_time(seat, rowid, &v[0], &row.time_ns))
		return 0;
	if (!scan_real(&v[3], &row.value) || !ns_int(&v[2], &metric)) {
		part_damaged(seat->part, (uint64_t)rowid, "no number where the metric should be");
		return 0;
	}
	ns_int(&v[1], &type);
	row.device = (uint32_t)(type & 0xff);
	row.metric = ns_metric_name(worker, seat, type, metric);
	if (!row.metric) {
		part_damaged(seat->part, (uint64_t)rowid, "a metric that has no name");
		return 0;
	}
	return part_add(seat->part, RECORD_SAMPLE, &row);
}

#define COLUMNS(list) list, sizeof(list) / sizeof(list[0])

const struct ns_table ns_tables[] = {
	{ "CUPTI_ACTIVITY_KIND_KERNEL", BIT(RECORD_KERNEL), "start", COLUMNS(kernel_columns),
	  kernel_row },
	{ "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", BIT(RECORD_KERNEL), "start", COLUMNS(graph_columns),
	  graph_row },
	{ "CUPTI_ACTIVITY_KIND_MEMCPY", BIT(RECORD_COPY), "start", COLUMNS(copy_columns),
	  copy_row },
	{ "CUPTI_ACTIVITY_KIND_MEMSET", BIT(RECORD_SET), "start", COLUMNS(set_columns), set_row },
	{ "CUPTI_ACTIVITY_KIND_RUNTIME", BIT(RECORD_API), "start", COLUMNS(api_columns), api_row },
	{ "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", BIT(RECORD_SYNC), "start", COLUMNS(sync_columns),
	  sync_row },
	{ "NVTX_EVENTS",
	  BIT(RECORD_RANGE) | BIT(RECORD_SPAN) | BIT(RECORD_MARK) | BIT(RECORD_PAYLOAD) |
		  BIT(RECORD_STEP),
	  "start", ns_nvtx_columns, NS_NVTX_COLUMNS, ns_nvtx_row },
	{ "OSRT_API", BIT(RECORD_OS_CALL), "start", COLUMNS(os_columns), os_row },
	{ "CUBLAS_EVENTS", BIT(RECORD_LIBRARY_CALL), "start", COLUMNS(os_columns), cublas_row },
	{ "CUDNN_EVENTS", BIT(RECORD_LIBRARY_CALL), "start", COLUMNS(os_columns), cudnn_row },
	{ "GPU_METRICS", BIT(RECORD_SAMPLE), "timestamp", COLUMNS(metric_columns), metric_row },
	{ "CUDA_GPU_MEMORY_USAGE_EVENTS", BIT(RECORD_DEVICE_MEMORY), "start",
	  COLUMNS(memory_columns), memory_row },
	{ "CUDA_GRAPH_EVENTS", BIT(RECORD_GRAPH_NODE), "graphNodeId", COLUMNS(node_columns),
	  node_row },
	{ "CUDA_GRAPH_NODE_EVENTS", BIT(RECORD_GRAPH_NODE), "graphNodeId", COLUMNS(node_columns),
	  node_row },
};
const size_t ns_tables_n = sizeof(ns_tables) / sizeof(ns_tables[0]);
