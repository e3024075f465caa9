/* SPDX-License-Identifier: Apache-2.0
 *
 * Nsight Systems exports: real files of three versions against figures computed elsewhere, and files
 * made here with the oddities that others have.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "imported.h"
#include "nsight_file.h"

static int by_start(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return x[0] < y[0] ? -1 : x[0] > y[0];
}

/* Length of the union of a device's kernels. */
static int64_t busy_of(const struct run *run, uint32_t device)
{
	int64_t(*spans)[2] = calloc(run->kernel.n + 1, sizeof(*spans)), busy = 0, end = INT64_MIN;
	size_t n = 0;

	assert_non_null(spans);
	for (size_t i = 0; i < run->kernel.n; i++) {
		if (run->kernel.device[i] != device)
			continue;
		spans[n][0] = run->kernel.start_ns[i];
		spans[n++][1] = run->kernel.start_ns[i] + run->kernel.duration_ns[i];
	}
	qsort(spans, n, sizeof(*spans), by_start);
	for (size_t i = 0; i < n; i++) {
		int64_t from = spans[i][0] > end ? spans[i][0] : end;

		if (spans[i][1] > from)
			busy += spans[i][1] - from;
		end = spans[i][1] > end ? spans[i][1] : end;
	}
	free(spans);
	return busy;
}

static int64_t sum(const int64_t *values, size_t n)
{
	int64_t total = 0;

	for (size_t i = 0; i < n; i++)
		total += values[i];
	return total;
}

static int64_t sum_bytes(const uint64_t *values, size_t n)
{
	int64_t total = 0;

	for (size_t i = 0; i < n; i++)
		total += (int64_t)values[i];
	return total;
}

static void check_busy(const struct run *run, const struct json_node *figures)
{
	const struct json_node *busy = json_get(figures, "kernel_busy_ns_by_device");

	assert_non_null(busy);
	for (const struct json_node *d = busy->child; d; d = d->next)
		assert_int_equal(busy_of(run, (uint32_t)atoi(d->key)), atoll(d->text));
}

static void check_top(const struct run *run, const struct json_node *figures)
{
	const struct json_node *top = json_get(figures, "top5_kernels");

	for (const struct json_node *t = top->child; t; t = t->next) {
		const char *name = t->child->text;
		int64_t count = 0, time = 0;

		for (size_t i = 0; i < run->kernel.n; i++) {
			uint32_t id = run_launch(run, run->kernel.launch[i]).name;

			if (strncmp(run_string(run, id), name, 100) != 0)
				continue;
			count++;
			time += run->kernel.duration_ns[i];
		}
		/* Several names may be alike for a hundred characters: their sum is not less. */
		assert_true(count >= atoll(t->child->next->text));
		assert_true(time >= atoll(t->child->next->next->text));
	}
}

static void check_fixture(const char *file, const struct json_node *root)
{
	const struct json_node *figures = json_get(root, file);
	char path[512];
	struct imported in;
	const struct run *run;

	snprintf(path, sizeof(path), FIXTURES "%s", file);
	in = import_path(path, WANT_ALL);
	run = in.run;
	assert_non_null(run);
	assert_int_equal(run->loss.damaged_events, 0);
	assert_int_equal(run->kernel.n, json_get_int(figures, "kernels", -1));
	assert_int_equal(sum(run->kernel.duration_ns, run->kernel.n),
			 json_get_int(figures, "kernel_time_ns", -1));
	check_busy(run, figures);
	check_top(run, figures);
	assert_int_equal(run->copy.n, json_get_int(figures, "copys", -1));
	assert_int_equal(sum_bytes(run->copy.bytes, run->copy.n),
			 json_get_int(figures, "copy_bytes", -1));
	assert_int_equal(sum(run->copy.duration_ns, run->copy.n),
			 json_get_int(figures, "copy_time_ns", -1));
	assert_int_equal(run->set.n, json_get_int(figures, "sets", 0));
	assert_int_equal(sum_bytes(run->set.bytes, run->set.n),
			 json_get_int(figures, "set_bytes", 0));
	assert_int_equal(sum(run->set.duration_ns, run->set.n),
			 json_get_int(figures, "set_time_ns", 0));
	assert_int_equal(run->api.n, json_get_int(figures, "api_calls", -1));
	assert_int_equal(sum(run->api.duration_ns, run->api.n),
			 json_get_int(figures, "api_time_ns", -1));
	assert_int_equal(run->range.n, json_get_int(figures, "nvtx_push_pop_ranges", -1));
	imported_release(&in);
}

static void test_real_files(void **state)
{
	struct json_node *root = fixture_figures();

	(void)state;
	if (!root)
		skip();
	check_fixture("nsys-saxpy-old-schema.sqlite", root);
	check_fixture("nsys-3.20-power-iteration.sqlite", root);
	check_fixture("nsys-3.25-h100-2gpu.sqlite", root);
	json_node_free(root);
}

/* Two processes, a GPU each: two ranks; names without the numbers of operations. */
static void test_real_processes(void **state)
{
	struct imported in;
	size_t views = 0;

	(void)state;
	if (access(FIXTURES "nsys-3.25-h100-2gpu.sqlite", R_OK))
		skip();
	in = import_path(FIXTURES "nsys-3.25-h100-2gpu.sqlite", WANT_ALL);
	assert_non_null(in.run);
	assert_int_equal(in.run->n_shards, 2);
	assert_int_equal(in.run->shards[0].rank, 0);
	assert_int_equal(in.run->shards[0].pid, 111);
	assert_int_equal(in.run->shards[1].rank, 1);
	assert_int_equal(in.run->shards[1].pid, 112);
	for (size_t i = 0; i < in.run->range.n; i++)
		views += !strcmp(run_string(in.run, run_site(in.run, in.run->range.site[i]).name),
				 "aten::view");
	assert_true(views > 100);
	assert_non_null(strstr(in.run->info.notes, "CUPTI_ACTIVITY_KIND_OVERHEAD 198"));
	imported_release(&in);
}

#define GLOBAL(pid, tid) ((INT64_C(1) << 48) | (int64_t)(pid) << 24 | (tid))

static const char small_schema[] =
	"create table StringIds (id integer primary key, value text);"
	"insert into StringIds values (1, 'cudaLaunchKernel_v7000'), (2, 'cuLaunchKernel'),"
	" (3, 'mul(float *)'), (4, 'step'), (5, 'read'), (6, 'worker');"
	"create table META_DATA_EXPORT (name text, value text);";

/* All kinds of records, with columns of few versions; every value by hand. */
static void test_every_kind(void **state)
{
	struct nsight_file file = nsight_file_new();
	struct imported in;
	const struct run *run;

	(void)state;
	nsight_run(&file, small_schema);
	nsight_run(
		&file,
		"create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer);"
		"insert into TARGET_INFO_SESSION_START_TIME values (1700000000000000000);"
		"create table ANALYSIS_DETAILS (duration integer);"
		"insert into ANALYSIS_DETAILS values (9000);"
		"create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId,"
		" correlationId, globalPid, shortName, gridX, blockX, graphNodeId, graphId);"
		"create table CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, streamId,"
		" correlationId, globalPid, bytes, copyKind, srcKind, dstKind);"
		"create table CUPTI_ACTIVITY_KIND_MEMSET (start, end, bytes, memKind, globalPid);"
		"create table CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId,"
		" nameId, returnValue);"
		"create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start, end, globalPid,"
		" streamId, syncType, eventId);"
		"create table NVTX_EVENTS (start, end, eventType, text, globalTid, endGlobalTid,"
		" textId, domainId, category, uint64Value, doubleValue);"
		"create table OSRT_API (start, end, globalTid, nameId);"
		"create table CUBLAS_EVENTS (start, end, eventClass, globalTid, nameId);"
		"create table CUDNN_EVENTS (start, end, eventClass, globalTid, nameId);"
		"create table GPU_METRICS (timestamp, typeId, metricId, value);"
		"create table TARGET_INFO_GPU_METRICS (typeId, metricId, metricName);"
		"insert into TARGET_INFO_GPU_METRICS values (513, 4, 'SMs Active [%]');"
		"create table CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, address,"
		" bytes, memKind, memoryOperationType, correlationId);"
		"create table CUDA_GRAPH_NODE_EVENTS (start, globalTid, graphNodeId,"
		" originalGraphNodeId);"
		"create table ThreadNames (nameId, globalTid);"
		"create table PROCESSES (globalPid, pid, name);"
		"create table SCHED_EVENTS (start, cpu);"
		"insert into SCHED_EVENTS values (1, 0), (2, 0), (3, 0);"
		"create table TARGET_INFO_GPU (id, cuDevice, name, uuid, totalMemory, smCount,"
		" clockRate, computeMajor, computeMinor, maxWarpsPerSm, threadsPerWarp);"
		"insert into TARGET_INFO_GPU values (0, 2, 'NVIDIA H200', 'abcd', 150, 132,"
		" 1980000000, 9, 0, 64, 32);");
	nsight_runf(&file,
		    "insert into CUPTI_ACTIVITY_KIND_KERNEL values (100, 150, 2, 7, 11, %lld,"
		    " 3, 64, 256, 77, 5)",
		    (long long)GLOBAL(40, 0));
	nsight_runf(&file,
		    "insert into CUPTI_ACTIVITY_KIND_MEMCPY values (200, 260, 2, 8, 12, %lld,"
		    " 4096, 1, 0, 2), (300, 310, 2, 8, 13, %lld, 64, 12, 4, 0)",
		    (long long)GLOBAL(40, 0), (long long)GLOBAL(40, 0));
	nsight_runf(&file, "insert into CUPTI_ACTIVITY_KIND_MEMSET values (400, 405, 32, 2, %lld)",
		    (long long)GLOBAL(40, 0));
	nsight_runf(&file,
		    "insert into CUPTI_ACTIVITY_KIND_RUNTIME values (50, 60, %lld, 11, 1, 0),"
		    " (190, 199, %lld, 12, 2, 700)",
		    (long long)GLOBAL(40, 41), (long long)GLOBAL(40, 41));
	nsight_runf(&file,
		    "insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values"
		    " (500, 600, %lld, 7, 2, 4294967295), (610, 620, %lld, 7, 2, 3)",
		    (long long)GLOBAL(40, 0), (long long)GLOBAL(40, 0));
	nsight_runf(
		&file,
		"insert into NVTX_EVENTS values (0, null, 75, 'NCCL', %1$lld, null, null, 9, null,"
		" null, null), (10, 90, 59, null, %1$lld, null, 4, 0, null, null, null),"
		" (20, 80, 59, 'ncclAllReduce', %1$lld, null, null, 9, 6, 123, null),"
		" (30, 70, 60, 'span', %1$lld, %2$lld, null, 9, null, null, 1.5),"
		" (35, null, 34, 'mark', %1$lld, null, null, 0, null, null, null),"
		" (8000, null, 59, 'open', %1$lld, null, null, 0, null, null, null),"
		" (36, null, 33, 'category', %1$lld, null, null, 0, null, null, null)",
		(long long)GLOBAL(40, 41), (long long)GLOBAL(40, 43));
	nsight_runf(&file, "insert into OSRT_API values (700, 750, %lld, 5)",
		    (long long)GLOBAL(40, 42));
	nsight_runf(&file, "insert into CUBLAS_EVENTS values (710, 730, 9, %lld, 5)",
		    (long long)GLOBAL(40, 42));
	nsight_runf(&file, "insert into CUDNN_EVENTS values (740, 790, 8, %lld, 6)",
		    (long long)GLOBAL(40, 43));
	nsight_run(&file, "insert into GPU_METRICS values (800, 513, 4, 87)");
	nsight_runf(&file,
		    "insert into CUDA_GPU_MEMORY_USAGE_EVENTS values (810, %1$lld, 2, 4096,"
		    " 512, 2, 0, 14), (820, %1$lld, 2, 4096, 512, 2, 1, 15)",
		    (long long)GLOBAL(40, 0));
	nsight_runf(&file, "insert into CUDA_GRAPH_NODE_EVENTS values (45, %lld, 77, 76)",
		    (long long)GLOBAL(40, 41));
	nsight_runf(&file, "insert into ThreadNames values (6, %lld), (6, %lld)",
		    (long long)GLOBAL(40, 42), (long long)GLOBAL(99, 42));
	nsight_runf(&file, "insert into PROCESSES values (%lld, 40, 'python3')",
		    (long long)GLOBAL(40, 0));

	in = nsight_import(&file, WANT_ALL);
	run = in.run;
	assert_non_null(run);
	assert_int_equal(run->n_shards, 1);
	assert_int_equal(run->shards[0].pid, 40);
	assert_int_equal(run->loss.damaged_events, 0);

	assert_int_equal(run->kernel.n, 1);
	assert_int_equal(run->kernel.duration_ns[0], 50);
	assert_int_equal(run->kernel.device[0], 2);
	assert_int_equal(run->kernel.stream[0], 7);
	assert_int_equal(run->kernel.correlation[0], 11);
	assert_int_equal(run->kernel.graph_node[0], 77);
	assert_int_equal(run->kernel.graph[0], 5);
	assert_string_equal(run_string(run, run_launch(run, run->kernel.launch[0]).name),
			    "mul(float *)");
	assert_int_equal(run_launch(run, run->kernel.launch[0]).grid_x, 64);
	assert_int_equal(run_launch(run, run->kernel.launch[0]).block_x, 256);

	assert_int_equal(run->copy.n, 2);
	assert_int_equal(run->copy.kind[0], 1);
	assert_int_equal(run->copy.source_memory[0], 1);
	assert_int_equal(run->copy.target_memory[0], 3);
	assert_int_equal(run->copy.source_device[0], 2);
	assert_int_equal(run->copy.kind[1], 2); /* the driver's own move of managed memory */
	assert_int_equal(run->copy.source_memory[1], 5);
	assert_int_equal(run->set.n, 1);
	assert_int_equal(run->set.bytes[0], 32);
	assert_int_equal(run->set.memory[0], 3);

	assert_int_equal(run->api.n, 2);
	assert_string_equal(run_string(run, run->api.name[0]), "cudaLaunchKernel");
	assert_int_equal(run->api.driver[0], 0);
	assert_int_equal(run->api.thread[0], 41);
	assert_string_equal(run_string(run, run->api.name[1]), "cuLaunchKernel");
	assert_int_equal(run->api.driver[1], 1);
	assert_int_equal(run->api.status[1], 700);

	assert_int_equal(run->sync.n, 2);
	assert_int_equal(run->sync.type[0], 3); /* without an event it is no wait for one */
	assert_int_equal(run->sync.type[1], 2);

	assert_int_equal(run->range.n, 3);
	assert_string_equal(run_string(run, run_site(run, run->range.site[0]).name),
			    "NCCL/ncclAllReduce");
	assert_int_equal(run->range.depth[0], 1);
	assert_string_equal(run_string(run, run_site(run, run->range.site[1]).name), "step");
	assert_int_equal(run->range.duration_ns[1], 80);
	assert_int_equal(run->range.unfinished[1], 0);
	assert_int_equal(run->range.unfinished[2], 1);
	assert_int_equal(run->range.duration_ns[2], 1000); /* until the recording ended */
	assert_int_equal(run->span.n, 1);
	assert_string_equal(run_string(run, run->span.domain[0]), "NCCL");
	assert_int_equal(run->span.end_thread[0], 43);
	assert_int_equal(run->mark.n, 1);
	assert_string_equal(run_string(run, run->mark.text[0]), "mark");
	assert_int_equal(run->payload.n, 2);
	assert_int_equal(run->payload.type[0], 1);
	assert_int_equal(run->payload.bits[0], 123);
	assert_int_equal(run->payload.category[0], 6);
	assert_int_equal(run->payload.type[1], 3);

	assert_int_equal(run->os_call.n, 1);
	assert_string_equal(run_string(run, run->os_call.name[0]), "read");
	assert_int_equal(run->os_call.thread[0], 42);
	assert_int_equal(run->library_call.n, 2);
	for (int i = 0; i < 2; i++) {
		const char *library = run_string(run, run->library_call.library[i]);
		bool cublas = !strcmp(library, "cublas");

		assert_string_equal(library, cublas ? "cublas" : "cudnn");
		assert_int_equal(run->library_call.duration_ns[i], cublas ? 20 : 50);
		assert_int_equal(run->library_call.thread[i], cublas ? 42 : 43);
		assert_int_equal(run->library_call.status[i], API_NOT_TOLD);
	}
	assert_int_equal(run->sample.n, 1);
	assert_string_equal(run_string(run, run->sample.metric[0]), "SMs Active [%]");
	assert_int_equal(run->sample.device[0], 1);
	assert_true(run->sample.value[0] == 87.0);
	assert_int_equal(run->device_memory.n, 2);
	assert_int_equal(run->device_memory.event[1], 1);
	assert_int_equal(run->device_memory.memory[0], 3);
	assert_int_equal(run->graph_node.n, 1);
	assert_int_equal(run->graph_node.source[0], 76);
	assert_int_equal(run->thread.n, 1); /* processes without records have no threads here */
	assert_string_equal(run_string(run, run->thread.name[0]), "worker");
	assert_int_equal(run->device.n, 1);
	assert_int_equal(run->device.device[0], 2);
	assert_string_equal(run_string(run, run->device.uuid[0]), "GPU-abcd");
	assert_int_equal(run->device.capability[0], 90);
	assert_int_equal(run->device.clock_khz[0], 1980000);
	assert_int_equal(run->device.threads_per_multiprocessor[0], 2048);
	/* The first record is 10 ns into the recording. */
	assert_int_equal(run->info.started_realtime_ns, INT64_C(1700000000000000010));
	assert_non_null(strstr(run->info.notes, "SCHED_EVENTS 3"));
	assert_non_null(strstr(run->info.notes, "no ranges or marks: 1"));
	imported_release(&in);
	nsight_file_release(&file);
}

/* Numbers as texts are read; what is not a number, and time that runs backwards, is damage. */
static void test_damage(void **state)
{
	struct nsight_file file = nsight_file_new();
	struct imported in;

	(void)state;
	nsight_run(&file, small_schema);
	nsight_run(
		&file,
		"create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, correlationId,"
		" globalPid, demangledName);"
		"insert into CUPTI_ACTIVITY_KIND_KERNEL values ('100', '150', '1', 1, null, 3),"
		" (200, 190, 0, 1, null, 3), (null, 300, 0, 1, null, 3), ('x', 300, 0, 1, null, 3),"
		" (400, 410, null, 1, null, 999), (1e300, 410, 0, 1, null, 3),"
		" (9223372036854775807, 9223372036854775807, 0, 1, null, 3),"
		" (500.0, 510, 0, 1, null, 'in the row');");
	in = nsight_import(&file, WANT_ALL);
	assert_non_null(in.run);
	assert_int_equal(in.run->kernel.n, 3);
	assert_int_equal(in.run->kernel.duration_ns[0], 50);
	assert_int_equal(in.run->kernel.device[0], 1);
	assert_int_equal(in.run->kernel.correlation[1], 1); /* the same id twice stays twice */
	assert_string_equal(run_string(in.run, run_launch(in.run, in.run->kernel.launch[1]).name),
			    "");
	assert_string_equal(run_string(in.run, run_launch(in.run, in.run->kernel.launch[2]).name),
			    "in the row");
	assert_int_equal(in.run->loss.damaged_events, 5);
	imported_release(&in);
	nsight_file_release(&file);
}

/* Launches of graphs that were recorded as a whole are work of the device, too. */
static void test_graphs(void **state)
{
	struct nsight_file file = nsight_file_new();
	const struct table_kernel *t;
	struct imported in;

	(void)state;
	nsight_run(&file, small_schema);
	nsight_run(&file,
		   "create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid,"
		   " shortName); create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end,"
		   " deviceId, contextId, greenContextId, streamId, correlationId, globalPid,"
		   " graphId, graphExecId);");
	nsight_runf(&file, "insert into CUPTI_ACTIVITY_KIND_KERNEL values (100, 150, 1, %lld, 3)",
		    (long long)GLOBAL(40, 0));
	nsight_runf(&file,
		    "insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values"
		    " (200, 900, 1, 4, null, 7, 12, %1$lld, 5, 6),"
		    " (1000, 1500, 1, 4, null, 7, 13, %1$lld, 5, 6),"
		    " (1600, 0, 1, 4, null, 7, 14, %1$lld, 5, 6)",
		    (long long)GLOBAL(40, 0));
	in = nsight_import(&file, WANT_ALL);
	assert_non_null(in.run);
	t = &in.run->kernel;
	assert_int_equal(t->n, 3);
	assert_int_equal(busy_of(in.run, 1), 50 + 700 + 500);
	assert_string_equal(run_string(in.run, run_launch(in.run, t->launch[1]).name),
			    "cudaGraph#5");
	assert_int_equal(t->graph[1], 5);
	assert_int_equal(t->correlation[2], 13);
	assert_int_equal(t->stream[2], 7);
	assert_int_equal(t->context[2], 4);
	assert_int_equal(in.run->loss.damaged_events, 1);
	assert_non_null(strstr(in.run->info.notes, "2 launches of CUDA graphs"));
	assert_null(strstr(in.run->info.notes, "not read, with"));
	imported_release(&in);
	nsight_file_release(&file);
}

/* Kinds of devices have metrics of their own; what tells them apart is anywhere in their number. */
static void test_metrics(void **state)
{
	static const char *const expected[] = { "a", "b", "c", "d", "a", "c", "a" };
	struct nsight_file file = nsight_file_new();
	struct imported in;

	(void)state;
	nsight_run(&file, small_schema);
	nsight_run(&file,
		   "create table GPU_METRICS (rawTimestamp, timestamp, typeId, metricId, value);"
		   "create table TARGET_INFO_GPU_METRICS (typeId, sourceId, metricId, metricName);"
		   "insert into TARGET_INFO_GPU_METRICS values (1 << 56, 1, 0, 'a'),"
		   " (1 << 56, 1, 1, 'b'), (2 << 56, 1, 0, 'c'), (2 << 56, 1, 1, 'd');"
		   "insert into GPU_METRICS values (0, 1, 1 << 56, 0, 0), (0, 1, 1 << 56, 1, 1),"
		   " (0, 1, 2 << 56, 0, 2), (0, 1, 2 << 56, 1, 3), (0, 2, 1 << 56, 0, 4),"
		   " (0, 2, 2 << 56, 0, 5), (0, 3, 3 << 56, 0, 6), (0, 3, 1 << 56, 9, 7);");
	in = nsight_import(&file, WANT_ALL);
	assert_non_null(in.run);
	assert_int_equal(in.run->sample.n, 7);
	for (size_t i = 0; i < 7; i++) {
		assert_true(in.run->sample.value[i] == (double)i);
		assert_string_equal(run_string(in.run, in.run->sample.metric[i]), expected[i]);
	}
	assert_int_equal(in.run->loss.damaged_events, 1);
	imported_release(&in);
	nsight_file_release(&file);
}

/* Devices and metrics of files that say less of them. */
static void test_few_columns(void **state)
{
	struct nsight_file file = nsight_file_new();
	struct imported in;

	(void)state;
	nsight_run(&file, small_schema);
	nsight_run(&file,
		   "create table GPU_METRICS (timestamp, typeId, metricId, value);"
		   "create table TARGET_INFO_GPU_METRICS (metricId, metricName);"
		   "insert into TARGET_INFO_GPU_METRICS values (4, 'SMs Active [%]');"
		   "insert into GPU_METRICS values (800, 1, 4, 87);"
		   "create table TARGET_INFO_GPU (id, name);"
		   "insert into TARGET_INFO_GPU values (0, 'NVIDIA A100'), (1, 'NVIDIA H200');");
	in = nsight_import(&file, WANT_ALL);
	assert_non_null(in.run);
	assert_int_equal(in.run->sample.n, 1);
	assert_string_equal(run_string(in.run, in.run->sample.metric[0]), "SMs Active [%]");
	assert_int_equal(in.run->sample.device[0], 1);
	assert_int_equal(in.run->device.n, 2);
	assert_int_equal(in.run->device.device[1], 1);
	assert_string_equal(run_string(in.run, in.run->device.name[1]), "NVIDIA H200");
	assert_int_equal(in.run->loss.damaged_events, 0);
	imported_release(&in);
	nsight_file_release(&file);
}

/* Processes that see a GPU each, and both call it 0; devices do not depend on what else is read. */
static void test_devices_of_processes(void **state)
{
	struct nsight_file file = nsight_file_new();
	struct imported in;

	(void)state;
	nsight_run(&file, small_schema);
	nsight_run(&file,
		   "create table TARGET_INFO_GPU (id, cuDevice, name, uuid, smCount);"
		   "insert into TARGET_INFO_GPU values (0, 0, 'NVIDIA A100', 'aa', 108),"
		   " (1, 1, 'NVIDIA H200', 'bb', 132), (2, 2, 'NVIDIA H200', 'cc', 132);"
		   "create table TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid);"
		   "insert into TARGET_INFO_CUDA_DEVICE values (0, 0, 40), (1, 0, 50),"
		   " (2, 1, 50);"
		   "create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid);"
		   "create table ThreadNames (nameId, globalTid);");
	nsight_runf(&file,
		    "insert into CUPTI_ACTIVITY_KIND_KERNEL values (1, 2, 0, %lld),"
		    " (3, 4, 0, %lld)",
		    (long long)GLOBAL(40, 0), (long long)GLOBAL(50, 0));
	nsight_runf(&file, "insert into ThreadNames values (6, %lld), (6, %lld)",
		    (long long)GLOBAL(50, 51), (long long)GLOBAL(99, 99));
	nsight_file_close(&file);
	for (int all = 1; all >= 0; all--) {
		const struct table_device *t;

		in = import_path(file.path, all ? WANT_ALL : WANT(DEVICE) | WANT(THREAD));
		assert_non_null(in.run);
		assert_int_equal(in.run->n_shards, 2);
		t = &in.run->device;
		assert_int_equal(t->n, 3);
		for (size_t i = 0; i < 3; i++) {
			assert_int_equal(in.run->shards[t->shard[i]].rank, i > 0);
			assert_int_equal(t->device[i], i == 2);
			assert_string_equal(run_string(in.run, t->uuid[i]), i == 0   ? "GPU-aa"
									    : i == 1 ? "GPU-bb"
										     : "GPU-cc");
		}
		assert_int_equal(in.run->thread.n, 1);
		assert_int_equal(in.run->thread.thread[0], 51);
		imported_release(&in);
	}
	nsight_file_release(&file);
}

/* Only what is asked for. */
static void test_wanted_kinds(void **state)
{
	struct nsight_file file = nsight_file_new();
	struct imported in;

	(void)state;
	nsight_run(&file, small_schema);
	nsight_run(&file, "create table CUPTI_ACTIVITY_KIND_KERNEL (start, end);"
			  "insert into CUPTI_ACTIVITY_KIND_KERNEL values (1, 2);"
			  "create table CUPTI_ACTIVITY_KIND_RUNTIME (start, end);"
			  "insert into CUPTI_ACTIVITY_KIND_RUNTIME values (1, 2);");
	nsight_runf(&file,
		    "create table NVTX_EVENTS (start, end, eventType, text, globalTid, domainId);"
		    "insert into NVTX_EVENTS values (0, null, 75, 'NCCL', %1$lld, 9),"
		    " (1, null, 34, 'mark', %1$lld, 9)",
		    (long long)GLOBAL(40, 41));
	in = nsight_import(&file, WANT(KERNEL));
	assert_non_null(in.run);
	assert_int_equal(in.run->kernel.n, 1);
	assert_int_equal(in.run->api.n, 0);
	imported_release(&in);
	/* Domains are wanted for whatever has one. */
	in = import_path(file.path, WANT(MARK));
	assert_non_null(in.run);
	assert_int_equal(in.run->kernel.n, 0);
	assert_int_equal(in.run->mark.n, 1);
	assert_string_equal(run_string(in.run, in.run->mark.text[0]), "NCCL/mark");
	imported_release(&in);
	nsight_file_release(&file);
}

static void test_strangers(void **state)
{
	struct nsight_file file = nsight_file_new();
	struct imported in;

	(void)state;
	nsight_run(&file, "create table cats (name, age); insert into cats values ('Tom', 3);");
	in = nsight_import(&file, WANT_ALL);
	assert_null(in.run);
	assert_non_null(strstr(in.err.message, "not an export of Nsight Systems"));
	imported_release(&in);
	nsight_file_release(&file);

	in = import_text("SQLite format 3\0 and then nothing of it", 40);
	assert_null(in.run);
	assert_non_null(strstr(in.err.message, "SQLite"));
	imported_release(&in);
}

/* A file that ends in the middle: what is left of it is read, and the rest is counted. */
static void test_truncated(void **state)
{
	struct nsight_file file = nsight_file_new();
	struct imported in;
	uint64_t kernels;

	(void)state;
	nsight_run(&file, small_schema);
	nsight_run(
		&file,
		"create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, demangledName, globalPid);"
		"with recursive n(i) as (select 0 union all select i + 1 from n where i < 9999)"
		" insert into CUPTI_ACTIVITY_KIND_KERNEL select 100 * i, 100 * i + 50, 3, 0 from n;");
	nsight_file_close(&file);
	assert_int_equal(truncate(file.path, nsight_file_bytes(&file) / 2 / 4096 * 4096), 0);
	in = nsight_import(&file, WANT_ALL);
	assert_non_null(in.run);
	kernels = in.run->kernel.n;
	assert_true(kernels > 1000 && kernels < 9000);
	assert_non_null(strstr(in.run->info.notes, "pages of table CUPTI_ACTIVITY_KIND_KERNEL"));
	imported_release(&in);
	nsight_file_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_real_files),   cmocka_unit_test(test_real_processes),
		cmocka_unit_test(test_every_kind),   cmocka_unit_test(test_damage),
		cmocka_unit_test(test_graphs),	     cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_few_columns),  cmocka_unit_test(test_devices_of_processes),
		cmocka_unit_test(test_wanted_kinds), cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_truncated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
