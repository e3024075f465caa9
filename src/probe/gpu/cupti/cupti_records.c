/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI's activity records: buffers in, neutral rows out. On CUPTI's own thread, or on whichever
 * thread flushes.
 *
 * Versions: CUPTI's records only grow at their end, and the fields read here are in every version
 * since 11.0, so one build serves them all.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "moescope.h"
#include "probe/gpu/clients/clients.h"
#include "probe/gpu/cupti/cupti_inside.h"
#include "probe/core/device_rows.h"
#include "probe/core/name_filter.h"
#include "probe/gpu/cupti/launches.h"
#include "probe/core/probe.h"

struct cupti_atomic_sums cupti_added;
_Atomic bool cupti_closing;
struct name_filter kernel_filter = KERNEL_FILTER;

PROBE_LOCK(translating);
static bool unfinished; /* a record of the current buffer; under the lock */

void cupti_records_start(void)
{
	static uint32_t session;

	pthread_mutex_lock(&translating);
	if (session != atomic_load(&probe_session))
		name_filter_start(&kernel_filter);
	session = atomic_load(&probe_session);
	pthread_mutex_unlock(&translating);
}

static void add_relaxed(_Atomic uint64_t *sum, uint64_t value)
{
	atomic_fetch_add_explicit(sum, value, memory_order_relaxed);
}

/* Start and duration of a device record. Untimed records get their delivery time. */
static bool device_times(uint64_t start, uint64_t end, int64_t *ret_start, int64_t *ret_duration)
{
	if (!start || end < start) {
		*ret_start = clock_monotonic_ns();
		*ret_duration = 0;
		unfinished = true;
		return false;
	}
	*ret_start = cupti_clock_ns(start);
	*ret_duration = cupti_clock_duration_ns(start, end);
	return true;
}

/* The same for a call or wait on the host. The one in whose callback CUPTI is being detached ends a
 * moment from now. */
static bool host_times(uint64_t start, uint64_t end, int64_t *ret_start, int64_t *ret_duration)
{
	if (probe_on_program_thread && !end) {
		unfinished = true;
		cupti_api.cuptiGetTimestamp(&end);
	}
	return device_times(start, end, ret_start, ret_duration);
}

static void take_kernel(const CUpti_ActivityKernel10 *from)
{
	uint32_t name = moescope_intern(from->name);
	struct row_launch launch = {
		.name = name,
		.grid_x = (uint32_t)from->gridX,
		.grid_y = (uint32_t)from->gridY,
		.grid_z = (uint32_t)from->gridZ,
		.block_x = (uint32_t)from->blockX,
		.block_y = (uint32_t)from->blockY,
		.block_z = (uint32_t)from->blockZ,
		.registers = from->registersPerThread,
		.static_shared_bytes = (uint32_t)from->staticSharedMemory,
		.dynamic_shared_bytes = (uint32_t)from->dynamicSharedMemory,
	};
	struct row_kernel row = {
		.stream = from->streamId,
		.device = from->deviceId,
		.correlation = from->correlationId,
		.context = from->contextId,
		.graph = from->graphId,
		.graph_node = from->graphNodeId,
	};

	add_relaxed(from->graphNodeId ? &cupti_added.nodes : &cupti_added.launches, 1);
	if (from->graphNodeId)
		cupti_note_graphs();
	if (!name_filter_keeps(&kernel_filter, name, from->name))
		return;
	row.launch = launch_id(&launch);
	row.untimed = !device_times(from->start, from->end, &row.start_ns, &row.duration_ns);
	probe_push_device(RECORD_KERNEL, &row, sizeof(row));
}

/* The fields that both kinds of copy records share by name. */
#define COPY_ROW(from)                                                                             \
	{                                                                                          \
		.bytes = (from)->bytes, .kind = (from)->copyKind,                                  \
		.source_memory = (from)->srcKind, .target_memory = (from)->dstKind,                \
		.device = (from)->deviceId, .source_device = (from)->deviceId,                     \
		.target_device = (from)->deviceId, .stream = (from)->streamId,                     \
		.correlation = (from)->correlationId,                                              \
		.asynchronous = ((from)->flags & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC) != 0,           \
		.context = (from)->contextId, .graph = (from)->graphId,                            \
		.graph_node = (from)->graphNodeId                                                  \
	}

static void push_copy(struct row_copy *row, uint64_t start, uint64_t end)
{
	row->untimed = !device_times(start, end, &row->start_ns, &row->duration_ns);
	probe_push_device(RECORD_COPY, row, sizeof(*row));
}

static void take_copy(const CUpti_ActivityMemcpy6 *from)
{
	struct row_copy row = COPY_ROW(from);

	push_copy(&row, from->start, from->end);
}

static void take_peer_copy(const CUpti_ActivityMemcpyPtoP4 *from)
{
	struct row_copy row = COPY_ROW(from);

	row.source_device = from->srcDeviceId;
	row.target_device = from->dstDeviceId;
	push_copy(&row, from->start, from->end);
}

static void take_set(const CUpti_ActivityMemset4 *from)
{
	struct row_set row = {
		.bytes = from->bytes,
		.memory = (uint8_t)from->memoryKind,
		.device = from->deviceId,
		.stream = from->streamId,
		.correlation = from->correlationId,
		.context = from->contextId,
		.graph = from->graphId,
		.graph_node = from->graphNodeId,
	};

	row.untimed = !device_times(from->start, from->end, &row.start_ns, &row.duration_ns);
	probe_push_device(RECORD_SET, &row, sizeof(row));
}

static void take_call(const CUpti_ActivityAPI *from)
{
	bool driver = from->kind == CUPTI_ACTIVITY_KIND_DRIVER;
	CUpti_CallbackDomain domain = driver ? CUPTI_CB_DOMAIN_DRIVER_API
					     : CUPTI_CB_DOMAIN_RUNTIME_API;
	struct row_api row = {
		.name = cupti_call_name(domain, from->cbid),
		.thread = from->threadId,
		.correlation = from->correlationId,
		.driver = driver,
		.status = from->returnValue,
	};

	add_relaxed(&cupti_added.calls, 1);
	if (!cupti_is_chosen(domain, from->cbid))
		return;
	/* Without times it says nothing, and a zero would say something wrong. */
	if (!host_times(from->start, from->end, &row.start_ns, &row.duration_ns)) {
		probe_lost_device(!atomic_load(&cupti_closing), 0);
		return;
	}
	probe_push_device(RECORD_API, &row, sizeof(row));
}

static void take_sync(const CUpti_ActivitySynchronization2 *from)
{
	struct row_sync row = {
		.type = (uint8_t)from->type,
		.context = from->contextId,
		.stream = from->streamId,
		.correlation = from->correlationId,
	};

	/* Without times it says nothing, and a zero would say something wrong. */
	if (!host_times(from->start, from->end, &row.start_ns, &row.duration_ns)) {
		probe_lost_device(!atomic_load(&cupti_closing), 0);
		return;
	}
	probe_push_device(RECORD_SYNC, &row, sizeof(row));
}

/* Each attach announces the devices again; a session wants them once. */
static bool device_is_known(uint32_t device)
{
	static uint32_t session;
	static uint64_t known;
	uint32_t now = atomic_load(&probe_session);
	bool was;

	if (session != now) {
		session = now;
		known = 0;
	}
	was = device < 64 && known >> device & 1;
	if (device < 64)
		known |= UINT64_C(1) << device;
	return was;
}

static void take_device(const CUpti_ActivityDevice5 *from)
{
	char uuid[48] = "GPU-";
	struct row_device row = {
		.device = from->id,
		.name = moescope_intern(from->name),
		.memory_bytes = from->globalMemorySize,
		.multiprocessors = from->numMultiprocessors,
		.capability = from->computeCapabilityMajor * 10 + from->computeCapabilityMinor,
		.clock_khz = from->coreClockRate,
		.memory_bytes_per_s = from->globalMemoryBandwidth * 1000, /* given in kB/s */
		.l2_bytes = from->l2CacheSize,
		.threads_per_multiprocessor = from->maxWarpsPerMultiprocessor *
					      from->numThreadsPerWarp,
		.registers_per_multiprocessor = from->maxRegistersPerMultiprocessor,
		.shared_bytes_per_multiprocessor = from->maxSharedMemoryPerMultiprocessor,
		.blocks_per_multiprocessor = from->maxBlocksPerMultiprocessor,
	};

	if (device_is_known(from->id))
		return;
	for (int i = 0; i < 16; i++)
		sprintf(uuid + strlen(uuid), "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			(unsigned char)from->uuid.bytes[i]);
	row.uuid = moescope_intern(uuid);
	probe_push_device(RECORD_DEVICE, &row, sizeof(row));
}

static void take_memory(const CUpti_ActivityMemory4 *from)
{
	struct row_device_memory row = {
		.event = from->memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE,
		.address = from->address,
		.bytes = from->bytes,
		.memory = (uint8_t)from->memoryKind,
		.device = from->deviceId,
		.correlation = from->correlationId,
		.pool = from->memoryPoolConfig.address,
	};
	int64_t none;

	device_times(from->timestamp, from->timestamp, &row.time_ns, &none);
	probe_push_device(RECORD_DEVICE_MEMORY, &row, sizeof(row));
}

static void take_pool(const CUpti_ActivityMemoryPool3 *from)
{
	struct row_pool row = {
		.event = (uint8_t)(from->memoryPoolOperationType -
				   CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED),
		.address = from->address,
		.device = from->deviceId,
		.bytes = from->size,
		.used_bytes = from->utilizedSize,
		.release_bytes = from->releaseThreshold,
	};
	int64_t none;

	device_times(from->timestamp, from->timestamp, &row.time_ns, &none);
	probe_push_device(RECORD_POOL, &row, sizeof(row));
}

/* CUPTI's own account of its cost; summed up, see struct row_device_cost. */
static void take_overhead(const CUpti_ActivityOverhead3 *from)
{
	switch (from->overheadKind) {
	case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH:
	case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION:
	case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE:
	case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST:
		if (from->end > from->start)
			add_relaxed(&cupti_added.overhead_ns, from->end - from->start);
		break;
	default: /* loading, compiling: the program's own */
		break;
	}
}

/* False for a kind that nothing here requests. */
static bool take_record(const CUpti_Activity *record)
{
	switch (record->kind) {
	case CUPTI_ACTIVITY_KIND_KERNEL:
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		take_kernel((const CUpti_ActivityKernel10 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		take_copy((const CUpti_ActivityMemcpy6 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		take_peer_copy((const CUpti_ActivityMemcpyPtoP4 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		take_set((const CUpti_ActivityMemset4 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_RUNTIME:
	case CUPTI_ACTIVITY_KIND_DRIVER:
		take_call((const CUpti_ActivityAPI *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
		take_sync((const CUpti_ActivitySynchronization2 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_DEVICE:
		take_device((const CUpti_ActivityDevice5 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_MEMORY2:
		take_memory((const CUpti_ActivityMemory4 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
		take_pool((const CUpti_ActivityMemoryPool3 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_OVERHEAD:
		take_overhead((const CUpti_ActivityOverhead3 *)record);
		return true;
	default:
		return false;
	}
}

void CUPTIAPI cupti_buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer,
				     size_t size, size_t valid)
{
	int64_t start_ns = clock_thread_cpu_ns();
	CUpti_Activity *record = NULL;
	uint64_t unknown = 0;
	size_t dropped = 0;
	bool keep;

	cupti_handed_over(buffer);
	if (clients_deliver(context, stream, buffer, size, valid))
		return;
	/* Concurrent deliveries are rare; the launch table and the ring allow one at a time. */
	pthread_mutex_lock(&translating);
	if (!probe_on_program_thread)
		probe_attach_large();
	unfinished = false;
	while (valid &&
	       cupti_api.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
		unknown += !take_record(record);
	if (cupti_api.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) ==
		    CUPTI_SUCCESS &&
	    dropped)
		probe_lost_device(dropped, 0);
	if (unknown)
		probe_lost_device(0, unknown);
	keep = unfinished || !valid;
	pthread_mutex_unlock(&translating);
	cupti_buffer_release(buffer, keep);
	add_relaxed(&cupti_added.translate_ns, (uint64_t)(clock_thread_cpu_ns() - start_ns));
}
