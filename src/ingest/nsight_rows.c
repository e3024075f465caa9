/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the large tables of an Nsight Systems file into records; see nsight_inside.h. Columns that a
 * version does not have are NULL here. Any thread, each with its worker.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "ingest/nsight_inside.h"

#define BIT(kind) (UINT64_C(1) << (kind))

/* Beyond two centuries a time is an error, and sums of two would overflow. */
#define TIME_MOST ((int64_t)1 << 62)

static inline bool int_of(const struct scan_value *v, int64_t *ret)
{
	if (v->type != SCAN_INT)
		return scan_int(v, ret);
	*ret = v->i;
	return true;
}

/* What is no number of that size is told as 0, as NULL is. */
static inline uint32_t u32_of(const struct scan_value *v)
{
	int64_t i;

	return int_of(v, &i) && i >= 0 && i <= UINT32_MAX ? (uint32_t)i : 0;
}

static inline uint64_t u64_of(const struct scan_value *v)
{
	int64_t i;

	return int_of(v, &i) ? (uint64_t)i : 0;
}

static struct ns_seat *seat_of_global(struct ns_worker *worker, const struct scan_value *global)
{
	int64_t id;

	return ns_seat(worker, int_of(global, &id) ? ns_pid(id) : worker->ns->default_pid);
}

static bool time_of(struct ns_seat *seat, int64_t rowid, const struct scan_value *v, int64_t *ret)
{
	if (int_of(v, ret) && *ret > -TIME_MOST && *ret < TIME_MOST)
		return true;
	part_damaged(seat->part, (uint64_t)rowid, "no time where the start or end should be");
	return false;
}

static bool times_of(struct ns_seat *seat, int64_t rowid, const struct scan_value *v,
		     int64_t *ret_start, int64_t *ret_duration)
{
	int64_t end;

	if (!time_of(seat, rowid, &v[0], ret_start) || !time_of(seat, rowid, &v[1], &end))
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
	*ret_seat = seat_of_global(worker, &v[2]);
	if (!*ret_seat)
		return -ENOMEM;
	return times_of(*ret_seat, rowid, v, ret_start, ret_duration);
}

static uint32_t thread_of(const struct scan_value *global)
{
	int64_t id;

	return int_of(global, &id) ? ns_tid(id) : 0;
}

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
		else if (int_of(&v[i], &id))
			launch.name = ns_name(worker, seat, id, NS_PLAIN);
	}
	launch.grid_x = u32_of(&v[12]);
	launch.grid_y = u32_of(&v[13]);
	launch.grid_z = u32_of(&v[14]);
	launch.block_x = u32_of(&v[15]);
	launch.block_y = u32_of(&v[16]);
	launch.block_z = u32_of(&v[17]);
	launch.registers = u32_of(&v[18]);
	launch.static_shared_bytes = u32_of(&v[19]);
	launch.dynamic_shared_bytes = u32_of(&v[20]);
	row.launch = part_launch(seat->part, &launch);
	row.device = u32_of(&v[3]);
	row.context = u32_of(&v[4]);
	row.stream = u32_of(&v[5]);
	row.correlation = u64_of(&v[6]);
	row.graph_node = u64_of(&v[7]);
	row.graph = u32_of(&v[8]);
	return part_add(seat->part, RECORD_KERNEL, &row);
}

/* Nsight counts kinds of memory from 0, CUPTI and we from 1; its 7 is our 0, not known. */
static uint8_t memory_of(const struct scan_value *v)
{
	int64_t kind;

	return int_of(v, &kind) && kind >= 0 && kind < 7 ? (uint8_t)(kind + 1) : 0;
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
	uint32_t kind = u32_of(&v[8]);
	int64_t device;
	int r = begin_row(worker, rowid, v, &seat, &row.start_ns, &row.duration_ns);

	if (r <= 0)
		return r;
	row.device = u32_of(&v[3]);
	row.context = u32_of(&v[4]);
	row.stream = u32_of(&v[5]);
	row.correlation = u64_of(&v[6]);
	row.bytes = u64_of(&v[7]);
	row.kind = kind < sizeof(kinds) ? kinds[kind] : 0;
	row.source_memory = memory_of(&v[9]);
	row.target_memory = memory_of(&v[10]);
	row.source_device = int_of(&v[11], &device) ? u32_of(&v[11]) : row.device;
	row.target_device = int_of(&v[12], &device) ? u32_of(&v[12]) : row.device;
	row.graph_node = u64_of(&v[13]);
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
	row.device = u32_of(&v[3]);
	row.context = u32_of(&v[4]);
	row.stream = u32_of(&v[5]);
	row.correlation = u64_of(&v[6]);
	row.bytes = u64_of(&v[7]);
	row.memory = memory_of(&v[8]);
	row.graph_node = u64_of(&v[9]);
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
	if (int_of(&v[4], &id)) {
		uint32_t name = ns_name(worker, seat, id, NS_CALL);

		row.name = name / 2;
		row.driver = name & 1;
	} else if (v[6].type == SCAN_TEXT) {
		row.name = part_string(seat->part, v[6].text, v[6].length);
	}
	row.thread = thread_of(&v[2]);
	row.correlation = u64_of(&v[3]);
	row.status = int_of(&v[5], &id) ? u32_of(&v[5]) : API_NOT_TOLD;
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
	row.context = u32_of(&v[3]);
	row.stream = u32_of(&v[4]);
	row.correlation = u64_of(&v[5]);
	if (int_of(&v[6], &type) || int_of(&v[7], &type))
		row.type = type >= 0 && type <= 4 ? (uint8_t)type : 0;
	/* Version 2025.3 counts some kinds one too low: a stream that waits for an event has one. */
	if (row.type == 2 && int_of(&v[8], &event) && event == UINT32_MAX)
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
	if (int_of(&v[3], &id))
		row.name = ns_name(worker, seat, id, NS_PLAIN);
	row.thread = thread_of(&v[2]);
	return part_add(seat->part, RECORD_OS_CALL, &row);
}

static const char *const memory_columns[] = {
	"start",   "globalPid",		  "deviceId",	   "address", "bytes",
	"memKind", "memoryOperationType", "correlationId",
};

static int memory_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct ns_seat *seat = seat_of_global(worker, &v[1]);
	struct row_device_memory row = { 0 };
	uint32_t what = u32_of(&v[6]);

	if (!seat)
		return -ENOMEM;
	if (!time_of(seat, rowid, &v[0], &row.time_ns))
		return 0;
	if (what > 1) {
		part_damaged(seat->part, (uint64_t)rowid, "neither an allocation nor a free");
		return 0;
	}
	row.event = (uint8_t)what;
	row.device = u32_of(&v[2]);
	row.address = u64_of(&v[3]);
	row.bytes = u64_of(&v[4]);
	row.memory = memory_of(&v[5]);
	row.correlation = u64_of(&v[7]);
	return part_add(seat->part, RECORD_DEVICE_MEMORY, &row);
}

static const char *const node_columns[] = { "start", "globalTid", "graphNodeId",
					    "originalGraphNodeId", "graphId" };

static int node_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct ns_seat *seat = seat_of_global(worker, &v[1]);
	struct row_graph_node row = { 0 };

	if (!seat)
		return -ENOMEM;
	row.node = u64_of(&v[2]);
	if (!row.node)
		return 0;
	if (!time_of(seat, rowid, &v[0], &row.time_ns))
		return 0;
	row.thread = thread_of(&v[1]);
	row.source = u64_of(&v[3]);
	row.graph = u32_of(&v[4]);
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
	if (!time_of(seat, rowid, &v[0], &row.time_ns))
		return 0;
	if (!scan_real(&v[3], &row.value) || !int_of(&v[2], &metric)) {
		part_damaged(seat->part, (uint64_t)rowid, "no number where the metric should be");
		return 0;
	}
	int_of(&v[1], &type);
	row.device = (uint32_t)(type & 0xff);
	row.metric = ns_metric_name(worker, seat, type, metric);
	if (!row.metric) {
		part_damaged(seat->part, (uint64_t)rowid, "a metric that has no name");
		return 0;
	}
	return part_add(seat->part, RECORD_SAMPLE, &row);
}

static const char *const nvtx_columns[] = {
	"start",	"end",	       "eventType",   "text",	    "globalTid",
	"endGlobalTid", "textId",      "domainId",    "category",   "uint64Value",
	"int64Value",	"doubleValue", "uint32Value", "int32Value", "floatValue",
};

/* As Nsight numbers them; those of imported NVTXT files are the same, further up. */
enum {
	NVTX_MARK = 34,
	NVTX_PUSH_POP = 59,
	NVTX_START_END = 60,
	NVTXT_MARK = 65,
	NVTXT_PUSH_POP = 70,
	NVTXT_START_END = 71,
	NVTX_DOMAIN_CREATED = 75,
	NVTX_DOMAIN_DESTROYED = 76
};

struct nvtx {
	struct ns_worker *worker;
	struct ns_seat *seat;
	const struct scan_value *v;
	const char *domain; /* NULL: the default one */
	int64_t start_ns;
};

static const char *text_of(const struct nvtx *n, size_t *ret_length)
{
	const char *text = NULL;
	int64_t id;

	*ret_length = 0;
	if (n->v[3].type == SCAN_TEXT) {
		*ret_length = n->v[3].length;
		return n->v[3].text;
	}
	if (int_of(&n->v[6], &id))
		text = ns_string(n->worker->ns, id, ret_length);
	return text ? text : "";
}

/* Ranges and marks of other domains are named DOMAIN/NAME. */
static int full_name(const struct nvtx *n, uint32_t *ret_name)
{
	size_t length, kept;
	const char *text = text_of(n, &length);
	struct buf name = { 0 };
	int r = 0;

	kept = ns_range_length(text, length);
	n->worker->op_ids += kept != length;
	if (!n->domain) {
		*ret_name = part_string(n->seat->part, text, kept);
		return 0;
	}
	buf_printf(&name, "%s/", n->domain);
	buf_append(&name, text, kept);
	if (name.failed)
		r = -ENOMEM;
	else
		*ret_name = part_string(n->seat->part, name.data, name.size);
	buf_release(&name);
	return r;
}

static int site_of(const struct nvtx *n, uint32_t *ret_site)
{
	uint32_t name = 0;
	int64_t id;
	int r;

	if (!n->domain && n->v[3].type != SCAN_TEXT && int_of(&n->v[6], &id)) {
		*ret_site = ns_name(n->worker, n->seat, id, NS_RANGE);
		return 0;
	}
	r = full_name(n, &name);
	*ret_site = name ? part_site(n->seat->part, name) : 0;
	return r;
}

/* What was open when the recording ended has no end: it is cut there. */
static bool end_of(const struct nvtx *n, int64_t rowid, int64_t *ret_duration, uint8_t *ret_open)
{
	int64_t end;

	*ret_open = n->v[1].type == SCAN_NULL;
	if (*ret_open)
		end = n->worker->ns->end_ns;
	else if (!time_of(n->seat, rowid, &n->v[1], &end))
		return false;
	if (*ret_open && end == INT64_MIN) {
		part_damaged(n->seat->part, (uint64_t)rowid, "a range that has no end");
		return false;
	}
	if (*ret_open && end < n->start_ns)
		end = n->start_ns;
	*ret_duration = end - n->start_ns;
	if (*ret_duration < 0) {
		part_damaged(n->seat->part, (uint64_t)rowid, "it ends before it begins");
		return false;
	}
	return true;
}

static int add_range(const struct nvtx *n, int64_t rowid)
{
	struct row_range row = { .start_ns = n->start_ns, .thread = thread_of(&n->v[4]) };
	int r;

	if (!end_of(n, rowid, &row.duration_ns, &row.unfinished))
		return 0;
	r = site_of(n, &row.site);
	if (r < 0)
		return r;
	if (!row.site) {
		part_damaged(n->seat->part, (uint64_t)rowid, "a range that has no name");
		return 0;
	}
	return part_add(n->seat->part, RECORD_RANGE, &row);
}

static int add_span(const struct nvtx *n, int64_t rowid)
{
	struct row_span row = { .start_ns = n->start_ns, .thread = thread_of(&n->v[4]) };
	size_t length;
	const char *text = text_of(n, &length);

	if (!end_of(n, rowid, &row.duration_ns, &row.unfinished))
		return 0;
	row.name = part_string(n->seat->part, text, length);
	row.end_thread = row.unfinished ? 0 : thread_of(&n->v[5]);
	row.domain = n->domain ? part_text(n->seat->part, n->domain) : 0;
	return part_add(n->seat->part, RECORD_SPAN, &row);
}

static int add_mark(const struct nvtx *n)
{
	struct row_mark row = { .time_ns = n->start_ns, .thread = thread_of(&n->v[4]) };
	int r = full_name(n, &row.text);

	return r < 0 ? r : part_add(n->seat->part, RECORD_MARK, &row);
}

/* The number that it carries, if any; integers of both widths, then floating point. */
static int add_payload(const struct nvtx *n)
{
	static const struct {
		uint8_t column, type;
	} numbers[] = { { 9, 1 }, { 10, 2 }, { 12, 1 }, { 13, 2 }, { 11, 3 }, { 14, 3 } };
	struct row_payload row = { .time_ns = n->start_ns,
				   .thread = thread_of(&n->v[4]),
				   .category = u32_of(&n->v[8]) };
	size_t length;
	const char *text;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !row.type; i++) {
		const struct scan_value *v = &n->v[numbers[i].column];
		double d;

		if (numbers[i].type == 3 && scan_real(v, &d)) {
			row.type = 3;
			memcpy(&row.bits, &d, sizeof(d));
		} else if (numbers[i].type != 3 && v->type != SCAN_NULL) {
			row.type = numbers[i].type;
			row.bits = u64_of(v);
		}
	}
	if (!row.type && !row.category)
		return 0;
	text = text_of(n, &length);
	row.name = part_string(n->seat->part, text, length);
	row.domain = n->domain ? part_text(n->seat->part, n->domain) : 0;
	return part_add(n->seat->part, RECORD_PAYLOAD, &row);
}

static int nvtx_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct nvtx n = { .worker = worker, .seat = seat_of_global(worker, &v[4]), .v = v };
	uint32_t type = u32_of(&v[2]);
	int64_t domain;
	int r;

	if (!n.seat)
		return -ENOMEM;
	if (type == NVTX_DOMAIN_CREATED || type == NVTX_DOMAIN_DESTROYED)
		return 0;
	if (!time_of(n.seat, rowid, &v[0], &n.start_ns))
		return 0;
	if (int_of(&v[7], &domain) && domain)
		n.domain = ns_domain_name(worker->ns, n.seat->pid, domain);
	switch (type) {
	case NVTX_PUSH_POP:
	case NVTXT_PUSH_POP:
		r = add_range(&n, rowid);
		break;
	case NVTX_START_END:
	case NVTXT_START_END:
		r = add_span(&n, rowid);
		break;
	case NVTX_MARK:
	case NVTXT_MARK:
		r = add_mark(&n);
		break;
	default:
		worker->nvtx_other++;
		return 0;
	}
	return r < 0 ? r : add_payload(&n);
}

#define COLUMNS(list) list, sizeof(list) / sizeof(list[0])

const struct ns_table ns_tables[] = {
	{ "CUPTI_ACTIVITY_KIND_KERNEL", BIT(RECORD_KERNEL), "start", COLUMNS(kernel_columns),
	  kernel_row },
	{ "CUPTI_ACTIVITY_KIND_MEMCPY", BIT(RECORD_COPY), "start", COLUMNS(copy_columns),
	  copy_row },
	{ "CUPTI_ACTIVITY_KIND_MEMSET", BIT(RECORD_SET), "start", COLUMNS(set_columns), set_row },
	{ "CUPTI_ACTIVITY_KIND_RUNTIME", BIT(RECORD_API), "start", COLUMNS(api_columns), api_row },
	{ "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", BIT(RECORD_SYNC), "start", COLUMNS(sync_columns),
	  sync_row },
	{ "NVTX_EVENTS",
	  BIT(RECORD_RANGE) | BIT(RECORD_SPAN) | BIT(RECORD_MARK) | BIT(RECORD_PAYLOAD), "start",
	  COLUMNS(nvtx_columns), nvtx_row },
	{ "OSRT_API", BIT(RECORD_OS_CALL), "start", COLUMNS(os_columns), os_row },
	{ "GPU_METRICS", BIT(RECORD_SAMPLE), "timestamp", COLUMNS(metric_columns), metric_row },
	{ "CUDA_GPU_MEMORY_USAGE_EVENTS", BIT(RECORD_DEVICE_MEMORY), "start",
	  COLUMNS(memory_columns), memory_row },
	{ "CUDA_GRAPH_EVENTS", BIT(RECORD_GRAPH_NODE), "graphNodeId", COLUMNS(node_columns),
	  node_row },
	{ "CUDA_GRAPH_NODE_EVENTS", BIT(RECORD_GRAPH_NODE), "graphNodeId", COLUMNS(node_columns),
	  node_row },
};
const size_t ns_tables_n = sizeof(ns_tables) / sizeof(ns_tables[0]);
