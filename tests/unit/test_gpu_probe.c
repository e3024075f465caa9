/* SPDX-License-Identifier: Apache-2.0
 *
 * What CUPTI and NVML deliver, in the run: every record kind with every field, clocks, buffers in
 * any order, losses. The libraries are the scripted ones of tests/fake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "gpu_child.h"

#define CLOCK_TOLERANCE_NS 100000

/* What a scenario lets its test know. */
static struct {
	uint64_t cupti_ns; /* one moment on both clocks */
	int64_t monotonic_ns;
	struct fake_state state;
} * shared;

static int64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The moment with the tightest pair of readings. */
static void note_clocks(void)
{
	int64_t best = INT64_MAX;

	for (int i = 0; i < 20; i++) {
		int64_t before = monotonic_ns();
		uint64_t theirs = cupti->now();
		int64_t after = monotonic_ns();

		if (after - before < best) {
			best = after - before;
			shared->cupti_ns = theirs;
			shared->monotonic_ns = before + best / 2;
		}
	}
}

static void assert_time(int64_t got_ns, uint64_t cupti_ns)
{
	int64_t want_ns = shared->monotonic_ns + (int64_t)(cupti_ns - shared->cupti_ns);

	if (llabs(got_ns - want_ns) > CLOCK_TOLERANCE_NS)
		fail_msg("%lld ns is not near %lld ns", (long long)got_ns, (long long)want_ns);
}

enum {
	KERNEL,
	COPY,
	PEER_COPY,
	SET,
	RUNTIME,
	DRIVER,
	UNNAMED,
	SYNC,
	DEVICE,
	ALLOC,
	RELEASE,
	KINDS
};

/* One record of each kind, no two fields the same. */
static void make_records(uint64_t now, struct fake_record *r)
{
	memset(r, 0, KINDS * sizeof(*r));
	r[KERNEL].kernel = (CUpti_ActivityKernel10){
		.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
		.registersPerThread = 168,
		.start = now - 90000,
		.end = now - 88766,
		.deviceId = 1,
		.contextId = 2,
		.streamId = 13,
		.gridX = 101,
		.gridY = 102,
		.gridZ = 103,
		.blockX = 104,
		.blockY = 5,
		.blockZ = 6,
		.staticSharedMemory = 1024,
		.dynamicSharedMemory = 99000,
		.correlationId = 0xfffffff0,
		.name = "_Z4gemmPfS_",
		.graphId = 77,
		.graphNodeId = 0x123456789abcull,
	};
	r[COPY].copy = (CUpti_ActivityMemcpy6){
		.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
		.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD,
		.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
		.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
		.flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC,
		.bytes = 5000000001ull,
		.start = now - 80000,
		.end = now - 79000,
		.deviceId = 3,
		.contextId = 4,
		.streamId = 14,
		.correlationId = 201,
		.graphNodeId = 202,
		.graphId = 203,
	};
	r[PEER_COPY].peer_copy = (CUpti_ActivityMemcpyPtoP4){
		.kind = CUPTI_ACTIVITY_KIND_MEMCPY2,
		.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP,
		.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
		.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED,
		.bytes = 301,
		.start = now - 70000,
		.end = now - 68000,
		.deviceId = 5,
		.contextId = 6,
		.streamId = 15,
		.srcDeviceId = 7,
		.dstDeviceId = 8,
		.correlationId = 302,
		.graphNodeId = 303,
		.graphId = 304,
	};
	r[SET].set = (CUpti_ActivityMemset4){
		.kind = CUPTI_ACTIVITY_KIND_MEMSET,
		.bytes = 401,
		.start = now - 60000,
		.end = now - 57000,
		.deviceId = 9,
		.contextId = 10,
		.streamId = 16,
		.correlationId = 402,
		.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
		.graphNodeId = 403,
		.graphId = 404,
	};
	r[RUNTIME].call = (CUpti_ActivityAPI){
		.kind = CUPTI_ACTIVITY_KIND_RUNTIME,
		.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
		.start = now - 50000,
		.end = now - 46000,
		.processId = 1,
		.threadId = 501,
		.correlationId = 502,
		.returnValue = 2,
	};
	r[DRIVER].call = (CUpti_ActivityAPI){
		.kind = CUPTI_ACTIVITY_KIND_DRIVER,
		.cbid = CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2,
		.start = now - 45000,
		.end = now - 40000,
		.processId = 1,
		.threadId = 511,
		.correlationId = 512,
	};
	r[UNNAMED].call = r[RUNTIME].call;
	/* As where another client has left its subscription behind. */
	r[RUNTIME].uninvited = r[DRIVER].uninvited = r[UNNAMED].uninvited = true;
	r[SYNC].uninvited = true;
	r[UNNAMED].call.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020;
	r[SYNC].sync = (CUpti_ActivitySynchronization2){
		.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
		.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE,
		.start = now - 30000,
		.end = now - 24000,
		.correlationId = 601,
		.contextId = 602,
		.streamId = 603,
	};
	r[DEVICE].device = (CUpti_ActivityDevice5){
		.kind = CUPTI_ACTIVITY_KIND_DEVICE,
		.globalMemoryBandwidth = 4800000000ull,
		.globalMemorySize = 150000000000ull,
		.l2CacheSize = 62914560,
		.numThreadsPerWarp = 32,
		.coreClockRate = 1980000,
		.numMultiprocessors = 132,
		.maxWarpsPerMultiprocessor = 64,
		.maxBlocksPerMultiprocessor = 31,
		.maxSharedMemoryPerMultiprocessor = 233472,
		.maxRegistersPerMultiprocessor = 65536,
		.computeCapabilityMajor = 9,
		.computeCapabilityMinor = 3,
		.id = 11,
		.name = "Some GPU",
	};
	for (int i = 0; i < 16; i++)
		r[DEVICE].device.uuid.bytes[i] = (char)(0xf0 - i);
	r[ALLOC].memory = (CUpti_ActivityMemory4){
		.kind = CUPTI_ACTIVITY_KIND_MEMORY2,
		.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION,
		.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
		.correlationId = 701,
		.address = 0x7f0000000200ull,
		.bytes = 6000000001ull,
		.timestamp = now - 20000,
		.deviceId = 12,
		.memoryPoolConfig = { .address = 0x7f0000000300ull },
	};
	r[RELEASE] = r[ALLOC];
	r[RELEASE].memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
	r[RELEASE].memory.timestamp = now - 10000;
}

static enum moescope_level wanted_level;

static void every_kind(void)
{
	struct fake_record records[KINDS];

	cupti->set_clock(-INT64_C(10000000000000000)); /* 115 days behind */
	start_at(wanted_level);
	note_clocks();
	make_records(shared->cupti_ns, records);
	cupti->deliver(0, records, KINDS, 0);
	shared->state = cupti->state();
	moescope_stop();
}

static void assert_kernel(const struct run *run, const CUpti_ActivityKernel10 *want)
{
	struct row_launch launch = run_launch(run, run->kernel.launch[0]);

	assert_int_equal(run->kernel.n, 1);
	assert_string_equal(run_string(run, launch.name), want->name);
	assert_int_equal(launch.grid_x, want->gridX);
	assert_int_equal(launch.grid_y, want->gridY);
	assert_int_equal(launch.grid_z, want->gridZ);
	assert_int_equal(launch.block_x, want->blockX);
	assert_int_equal(launch.block_y, want->blockY);
	assert_int_equal(launch.block_z, want->blockZ);
	assert_int_equal(launch.registers, want->registersPerThread);
	assert_int_equal(launch.static_shared_bytes, want->staticSharedMemory);
	assert_int_equal(launch.dynamic_shared_bytes, want->dynamicSharedMemory);
	assert_time(run->kernel.start_ns[0], want->start);
	assert_int_equal(run->kernel.duration_ns[0], want->end - want->start);
	assert_int_equal(run->kernel.stream[0], want->streamId);
	assert_int_equal(run->kernel.device[0], want->deviceId);
	assert_int_equal(run->kernel.correlation[0], want->correlationId);
	assert_int_equal(run->kernel.untimed[0], 0);
	assert_int_equal(run->kernel.context[0], want->contextId);
	assert_int_equal(run->kernel.graph[0], want->graphId);
	assert_int_equal(run->kernel.graph_node[0], want->graphNodeId);
}

static void assert_copies(const struct run *run, const CUpti_ActivityMemcpy6 *want,
			  const CUpti_ActivityMemcpyPtoP4 *peer)
{
	const struct table_copy *c = &run->copy;

	assert_int_equal(c->n, 2);
	assert_time(c->start_ns[0], want->start);
	assert_int_equal(c->duration_ns[0], want->end - want->start);
	assert_int_equal(c->bytes[0], want->bytes);
	assert_int_equal(c->kind[0], 1);
	assert_int_equal(c->source_memory[0], 2);
	assert_int_equal(c->target_memory[0], 3);
	assert_int_equal(c->device[0], want->deviceId);
	assert_int_equal(c->source_device[0], want->deviceId);
	assert_int_equal(c->target_device[0], want->deviceId);
	assert_int_equal(c->stream[0], want->streamId);
	assert_int_equal(c->correlation[0], want->correlationId);
	assert_int_equal(c->asynchronous[0], 1);
	assert_int_equal(c->untimed[0], 0);
	assert_int_equal(c->context[0], want->contextId);
	assert_int_equal(c->graph[0], want->graphId);
	assert_int_equal(c->graph_node[0], want->graphNodeId);

	assert_time(c->start_ns[1], peer->start);
	assert_int_equal(c->duration_ns[1], peer->end - peer->start);
	assert_int_equal(c->bytes[1], peer->bytes);
	assert_int_equal(c->kind[1], 10);
	assert_int_equal(c->source_memory[1], 3);
	assert_int_equal(c->target_memory[1], 5);
	assert_int_equal(c->device[1], peer->deviceId);
	assert_int_equal(c->source_device[1], peer->srcDeviceId);
	assert_int_equal(c->target_device[1], peer->dstDeviceId);
	assert_int_equal(c->stream[1], peer->streamId);
	assert_int_equal(c->correlation[1], peer->correlationId);
	assert_int_equal(c->asynchronous[1], 0);
	assert_int_equal(c->context[1], peer->contextId);
	assert_int_equal(c->graph[1], peer->graphId);
	assert_int_equal(c->graph_node[1], peer->graphNodeId);
}

static void assert_set(const struct run *run, const CUpti_ActivityMemset4 *want)
{
	assert_int_equal(run->set.n, 1);
	assert_time(run->set.start_ns[0], want->start);
	assert_int_equal(run->set.duration_ns[0], want->end - want->start);
	assert_int_equal(run->set.bytes[0], want->bytes);
	assert_int_equal(run->set.memory[0], 3);
	assert_int_equal(run->set.device[0], want->deviceId);
	assert_int_equal(run->set.stream[0], want->streamId);
	assert_int_equal(run->set.correlation[0], want->correlationId);
	assert_int_equal(run->set.untimed[0], 0);
	assert_int_equal(run->set.context[0], want->contextId);
	assert_int_equal(run->set.graph[0], want->graphId);
	assert_int_equal(run->set.graph_node[0], want->graphNodeId);
}

static void assert_calls(const struct run *run, const struct fake_record *records)
{
	static const char *const names[] = { "cudaLaunchKernel", "cuMemAlloc", "(unnamed call)" };

	assert_int_equal(run->api.n, 3);
	for (int i = 0; i < 3; i++) {
		const CUpti_ActivityAPI *want = &records[RUNTIME + i].call;

		assert_string_equal(run_string(run, run->api.name[i]), names[i]);
		assert_time(run->api.start_ns[i], want->start);
		assert_int_equal(run->api.duration_ns[i], want->end - want->start);
		assert_int_equal(run->api.thread[i], want->threadId);
		assert_int_equal(run->api.correlation[i], want->correlationId);
		assert_int_equal(run->api.driver[i], i == 1);
		assert_int_equal(run->api.status[i], want->returnValue);
	}
}

static void assert_sync(const struct run *run, const CUpti_ActivitySynchronization2 *want)
{
	assert_int_equal(run->sync.n, 1);
	assert_time(run->sync.start_ns[0], want->start);
	assert_int_equal(run->sync.duration_ns[0], want->end - want->start);
	assert_int_equal(run->sync.type[0], 3);
	assert_int_equal(run->sync.context[0], want->contextId);
	assert_int_equal(run->sync.stream[0], want->streamId);
	assert_int_equal(run->sync.correlation[0], want->correlationId);
}

static void assert_device(const struct run *run)
{
	const struct table_device *d = &run->device;

	assert_int_equal(d->n, 1);
	assert_int_equal(d->device[0], 11);
	assert_string_equal(run_string(run, d->name[0]), "Some GPU");
	assert_string_equal(run_string(run, d->uuid[0]),
			    "GPU-f0efeeed-eceb-eae9-e8e7-e6e5e4e3e2e1");
	assert_int_equal(d->memory_bytes[0], 150000000000ull);
	assert_int_equal(d->multiprocessors[0], 132);
	assert_int_equal(d->capability[0], 93);
	assert_int_equal(d->clock_khz[0], 1980000);
	assert_int_equal(d->memory_bytes_per_s[0], 4800000000000ull);
	assert_int_equal(d->l2_bytes[0], 62914560);
	assert_int_equal(d->threads_per_multiprocessor[0], 2048);
	assert_int_equal(d->registers_per_multiprocessor[0], 65536);
	assert_int_equal(d->shared_bytes_per_multiprocessor[0], 233472);
	assert_int_equal(d->blocks_per_multiprocessor[0], 31);
}

static void assert_device_memory(const struct run *run, const struct fake_record *records)
{
	const struct table_device_memory *m = &run->device_memory;

	assert_int_equal(m->n, 2);
	for (int i = 0; i < 2; i++) {
		const CUpti_ActivityMemory4 *want = &records[ALLOC + i].memory;

		assert_time(m->time_ns[i], want->timestamp);
		assert_int_equal(m->event[i], i);
		assert_int_equal(m->address[i], want->address);
		assert_int_equal(m->bytes[i], want->bytes);
		assert_int_equal(m->memory[i], 3);
		assert_int_equal(m->device[i], want->deviceId);
		assert_int_equal(m->correlation[i], want->correlationId);
		assert_int_equal(m->pool[i], want->memoryPoolConfig.address);
	}
}

static void test_every_kind(void **state)
{
	struct fake_record records[KINDS];
	struct run *run;

	(void)state;
	wanted_level = MOESCOPE_FULL;
	run = run_of(every_kind);
	make_records(shared->cupti_ns, records);
	assert_kernel(run, &records[KERNEL].kernel);
	assert_copies(run, &records[COPY].copy, &records[PEER_COPY].peer_copy);
	assert_set(run, &records[SET].set);
	assert_calls(run, records);
	assert_sync(run, &records[SYNC].sync);
	assert_device(run);
	assert_device_memory(run, records);
	assert_non_null(fact_of(run, "GPU"));
	assert_non_null(strstr(fact_of(run, "GPU"), "GPU records from CUPTI"));
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

/* By callbacks, in the order of their types: CUPTI's own records of them are not wanted. */
static const struct {
	CUpti_CallbackId id;
	uint32_t type, stream;
	bool is_call; /* which is recorded, too */
} waits[] = {
	{ CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize, 1, UINT32_MAX, true },
	{ CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent, 2, FAKE_STREAM, false },
	{ CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent_ptsz, 2, FAKE_STREAM + 1, false },
	{ CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, 3, FAKE_STREAM, true },
	{ CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz, 3, FAKE_STREAM + 1, true },
	{ CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize, 4, UINT32_MAX, true },
};
#define WAITS (sizeof(waits) / sizeof(waits[0]))

static void wait_in_every_way(void)
{
	start_at(MOESCOPE_TRACE);
	for (size_t i = 0; i < WAITS; i++)
		cupti->call(CUPTI_CB_DOMAIN_DRIVER_API, waits[i].id);
	moescope_stop();
}

static void test_waits(void **state)
{
	struct run *run = run_of(wait_in_every_way);
	size_t calls = 0;

	(void)state;
	assert_int_equal(run->sync.n, WAITS);
	for (size_t i = 0; i < WAITS; i++) {
		assert_int_equal(run->sync.type[i], waits[i].type);
		assert_int_equal(run->sync.stream[i], waits[i].stream);
		assert_int_equal(run->sync.context[i], FAKE_CONTEXT);
		assert_true(run->sync.duration_ns[i] > 0);
		if (!waits[i].is_call)
			continue;
		assert_int_equal(run->api.start_ns[calls], run->sync.start_ns[i]);
		assert_int_equal(run->api.duration_ns[calls], run->sync.duration_ns[i]);
		assert_int_equal(run->api.correlation[calls++], run->sync.correlation[i]);
	}
	assert_int_equal(run->api.n, calls);
	run_free(run);
}

static void test_levels(void **state)
{
	for (int level = MOESCOPE_COUNTS; level <= MOESCOPE_FULL; level++) {
		bool trace = level >= MOESCOPE_TRACE;
		struct run *run;

		wanted_level = (enum moescope_level)level;
		run = run_of(every_kind);
		assert_int_equal(run->kernel.n, trace);
		assert_int_equal(run->copy.n, trace ? 2 : 0);
		assert_int_equal(run->set.n, trace);
		assert_int_equal(run->api.n, trace ? 3 : 0);
		assert_int_equal(run->sync.n, trace);
		if (trace) /* else NVML tells them */
			assert_int_equal(run->device.n, 1);
		assert_int_equal(run->device_memory.n, level >= MOESCOPE_FULL ? 2 : 0);
		assert_int_equal(shared->state.registered, trace);
		assert_int_equal(shared->state.kinds != 0, trace);
		assert_int_equal(loss_total(&run->loss), 0);
		run_free(run);
		tear_down(state);
		set_up(state);
	}
}

enum {
	UNTIMED_COPY = 5,
	UNTIMED_PEER_COPY,
	UNTIMED_SET,
	UNTIMED_MEMORY,
	UNTIMED_CALL,
	UNTIMED_SYNC,
	UNTIMED
};

static void untimed(void)
{
	struct fake_record records[UNTIMED], timed[KINDS];

	start_at(MOESCOPE_FULL);
	note_clocks();
	make_records(shared->cupti_ns, timed);
	for (uint32_t i = 0; i < 5; i++)
		records[i] = kernel_record("k", i);
	records[0].kernel.start = 0;
	records[1].kernel.end = 0;
	records[2].kernel.end = records[2].kernel.start - 1;
	records[3].kernel.start = records[3].kernel.end = 0;
	records[UNTIMED_COPY] = timed[COPY];
	records[UNTIMED_COPY].copy.start = 0;
	records[UNTIMED_PEER_COPY] = timed[PEER_COPY];
	records[UNTIMED_PEER_COPY].peer_copy.end = 0;
	records[UNTIMED_SET] = timed[SET];
	records[UNTIMED_SET].set.end = timed[SET].set.start - 1;
	records[UNTIMED_MEMORY] = timed[ALLOC];
	records[UNTIMED_MEMORY].memory.timestamp = 0;
	records[UNTIMED_CALL] = timed[RUNTIME];
	records[UNTIMED_CALL].call.start = 0;
	records[UNTIMED_SYNC] = timed[SYNC];
	records[UNTIMED_SYNC].sync.end = 0;
	cupti->deliver(0, records, UNTIMED, 0);
	moescope_stop();
}

/* The moment of delivery: inside the run, whatever the device said. */
static void assert_delivery(const struct run *run, int64_t time_ns)
{
	assert_in_range(time_ns, shared->monotonic_ns, run->shards[0].end_ns);
}

static void test_untimed(void **state)
{
	struct run *run = run_of(untimed);

	(void)state;
	assert_int_equal(run->kernel.n, 5);
	for (size_t i = 0; i < 5; i++) {
		bool timed = run->kernel.correlation[i] == 4;

		assert_int_equal(run->kernel.untimed[i], !timed);
		assert_int_equal(run->kernel.duration_ns[i], timed ? 100 : 0);
		if (!timed)
			assert_delivery(run, run->kernel.start_ns[i]);
	}
	assert_int_equal(run->copy.n, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(run->copy.untimed[i], 1);
		assert_int_equal(run->copy.duration_ns[i], 0);
		assert_delivery(run, run->copy.start_ns[i]);
	}
	assert_int_equal(run->set.n, 1);
	assert_int_equal(run->set.untimed[0], 1);
	assert_int_equal(run->set.duration_ns[0], 0);
	assert_delivery(run, run->set.start_ns[0]);
	assert_int_equal(run->device_memory.n, 1);
	assert_delivery(run, run->device_memory.time_ns[0]);
	/* A call or a wait without times is not a call of no time: it is counted as lost. */
	assert_int_equal(run->api.n, 0);
	assert_int_equal(run->sync.n, 0);
	assert_int_equal(run->loss.dropped_device, 2);
	run_free(run);
}

/* The wall clock is set while the program runs: the next flush finds out. */
static void clock_is_set(void)
{
	struct fake_record record;

	start_at(MOESCOPE_TRACE);
	cupti->set_clock(INT64_C(3600000000000));
	CHECK(cupti->wait_flushes(cupti->state().flushes + 2));
	note_clocks();
	record = kernel_record("k", 1);
	record.kernel.start = shared->cupti_ns;
	record.kernel.end = shared->cupti_ns + 5;
	cupti->deliver(0, &record, 1, 0);
	moescope_stop();
}

static void test_clock_is_set(void **state)
{
	struct run *run = run_of(clock_is_set);

	(void)state;
	assert_int_equal(run->kernel.n, 1);
	assert_time(run->kernel.start_ns[0], shared->cupti_ns);
	run_free(run);
}

/* CUPTI's own default clock is the wall clock: without a reading that is the next best. */
static void no_clock(void)
{
	struct fake_record record;

	cupti->refuse(FAKE_TIMESTAMP, CUPTI_ERROR_NOT_INITIALIZED, CUPTI_ACTIVITY_KIND_INVALID);
	start_at(MOESCOPE_TRACE);
	note_clocks();
	record = kernel_record("k", 1);
	record.kernel.start = shared->cupti_ns;
	record.kernel.end = shared->cupti_ns + 5;
	cupti->deliver(0, &record, 1, 0);
	moescope_stop();
}

static void test_no_clock(void **state)
{
	struct run *run = run_of(no_clock);

	(void)state;
	assert_int_equal(run->kernel.n, 1);
	assert_time(run->kernel.start_ns[0], shared->cupti_ns);
	run_free(run);
}

#define HELD 1000

static void buffers_in_any_order(void)
{
	struct fake_record records[HELD];

	start_at(MOESCOPE_TRACE);
	for (uint32_t i = 0; i < HELD; i++)
		records[i] = kernel_record("some_kernel", i + 1);
	cupti->deliver_empty();
	cupti->hold(records, 500, 7);
	cupti->reverse_held();
	cupti->deliver(1, records + 500, 100, 1); /* overtakes those that wait */
	CHECK(cupti->wait_flushes(cupti->state().flushes + 2));
	CHECK(cupti->state().buffers_completed == cupti->state().buffers_requested);
	cupti->hold(records + 600, 400, 0); /* for the last flush, of the stop */
	moescope_stop();
	CHECK(cupti->state().forced_flushes == 1);
	CHECK(cupti->state().buffers_completed == cupti->state().buffers_requested);
}

static void test_buffers_in_any_order(void **state)
{
	struct run *run = run_of(buffers_in_any_order);

	(void)state;
	assert_kernels(run, HELD);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void losses(void)
{
	struct fake_record odd[3] = { 0 };

	for (int i = 0; i < 3; i++) {
		odd[i].overhead.kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
		odd[i].uninvited = true;
	}
	start_at(MOESCOPE_TRACE);
	deliver_kernels(0, 1, 10);
	cupti->drop(40);
	cupti->deliver(0, odd, 3, 2);
	deliver_kernels(0, 11, 10);
	cupti->drop(2);
	cupti->deliver_empty();
	moescope_stop();
}

static void test_losses(void **state)
{
	struct run *run = run_of(losses);

	(void)state;
	assert_kernels(run, 20);
	assert_int_equal(run->loss.dropped_device, 42);
	assert_int_equal(run->loss.unknown_device, 3);
	assert_int_equal(loss_total(&run->loss), 45);
	run_free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_every_kind),
		TEST(test_waits),
		TEST(test_levels),
		TEST(test_untimed),
		TEST(test_clock_is_set),
		TEST(test_no_clock),
		TEST(test_buffers_in_any_order),
		TEST(test_losses),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
