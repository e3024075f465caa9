/* SPDX-License-Identifier: Apache-2.0
 *
 * The Chrome trace of devices and of the run as a whole, field by field: what PyTorch's profiler
 * writes and its readers look for, and what goes out beside it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "chrome_trace.h"

static struct run *one_kernel(void)
{
	struct run *run = fake_run_new();

	fake_add_launch(run, 0,
			&(struct row_launch){ .id = 1,
					      .name = fake_string(run, "gemm<\"float\">"),
					      .grid_x = 264,
					      .grid_y = 2,
					      .grid_z = 1,
					      .block_x = 96,
					      .block_y = 1,
					      .block_z = 1,
					      .registers = 40,
					      .static_shared_bytes = 1024,
					      .dynamic_shared_bytes = 2048 });
	fake_add_device(run, 0,
			&(struct row_device){ .device = 2,
					      .name = fake_string(run, "NVIDIA H200"),
					      .memory_bytes = 150109880320,
					      .multiprocessors = 132,
					      .capability = 90,
					      .threads_per_multiprocessor = 2048,
					      .memory_bytes_per_s = 4800000000000 });
	fake_add_kernel(run, 0,
			&(struct row_kernel){ .launch = 1,
					      .start_ns = 5001,
					      .duration_ns = 7042,
					      .device = 2,
					      .stream = 9,
					      .correlation = 77,
					      .context = 3,
					      .graph = 5,
					      .graph_node = 6000000001 });
	fake_add_kernel(run, 0, &(struct row_kernel){ .launch = 1, .start_ns = 5, .untimed = 1 });
	fake_call(run, "cudaLaunchKernel", 1000, 1500, 77);
	fake_span(run, 0, 20000);
	return run;
}

static void test_kernel(void **state)
{
	struct run *run = one_kernel();
	struct trace trace;
	const struct json_node *kernel, *record;

	(void)state;
	run->loss.dropped_names = 4;
	trace = trace_of(run);
	assert_int_equal(count(&trace, "X", "kernel", NULL), 1);
	kernel = find(&trace, "X", "kernel", "gemm<\"float\">", 0);
	check(kernel, "pid", "2");
	check(kernel, "tid", "9");
	check(kernel, "ts", "5.001");
	check(kernel, "dur", "7.042");
	check(kernel, "args.device", "2");
	check(kernel, "args.context", "3");
	check(kernel, "args.stream", "9");
	check(kernel, "args.correlation", "77");
	check(kernel, "args.registers per thread", "40");
	check(kernel, "args.shared memory", "3072");
	check(kernel, "args.blocks per SM", "4.000000");
	check(kernel, "args.warps per SM", "12.000000");
	check(kernel, "args.graph id", "5");
	check(kernel, "args.graph node id", "6000000001");
	check(kernel, "args.moescope.static_shared_bytes", "1024");
	check_list(kernel, "args.grid", (const char *const[]){ "264", "2", "1", NULL });
	check_list(kernel, "args.block", (const char *const[]){ "96", "1", "1", NULL });
	/* Without times it cannot be drawn, but it is there. */
	record = find(&trace, "X", "moescope", "kernel", 0);
	check(record, "args.record", "kernel");
	check(record, "args.untimed", "1");
	check(record, "ts", "0.005");
	check(record, "args.launch.name", "gemm<\"float\">");
	check(record, "args.launch.dynamic_shared_bytes", "2048");
	check(at(trace.root, "moescope"), "lost", "4");
	check(at(trace.root, "moescope"), "loss.dropped_names", "4");
	trace_release(&trace);
	fake_run_free(run);
}

/* What the file of another profiler does not tell of a launch is not there: it is not 0. */
static void test_bare_kernel(void **state)
{
	static const char *const keys[] = { "args.registers per thread", "args.shared memory",
					    "args.grid", "args.block" };
	struct run *run = fake_run_new();
	const struct json_node *kernel;
	struct trace trace;

	(void)state;
	fake_kernel(run, "bare", 10, 20, 1);
	trace = trace_of(run);
	kernel = find(&trace, "X", "kernel", "bare", 0);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		assert_null(at(kernel, keys[i]));
	trace_release(&trace);
	fake_run_free(run);
}

static void test_top_level(void **state)
{
	struct run *run = one_kernel();
	const struct json_node *device;
	struct trace trace;

	(void)state;
	run->shards[0].realtime_offset_ns = 1700000000000000000;
	run->start_ns = 123;
	trace = trace_of(run);
	check(trace.root, "schemaVersion", "1");
	check(trace.root, "displayTimeUnit", "ms");
	check(trace.root, "baseTimeNanoseconds", "1700000000000000123");
	check(trace.root, "traceName", "fake");
	check(trace.root, "distributedInfo.rank", "0");
	check(trace.root, "distributedInfo.world_size", "1");
	device = at(trace.root, "deviceProperties")->child;
	check(device, "id", "2");
	check(device, "name", "NVIDIA H200");
	check(device, "totalGlobalMem", "150109880320");
	check(device, "computeMajor", "9");
	check(device, "computeMinor", "0");
	check(device, "numSms", "132");
	check(device, "maxThreadsPerMultiprocessor", "2048");
	check(device, "moescope.memory_bytes_per_s", "4800000000000");
	assert_null(at(device, "moescope.l2_bytes"));
	assert_null(json_get(device, "regsPerMultiprocessor")); /* the driver did not say */
	check(trace.root, "moescope.command", "./train --steps 12");
	check(trace.root, "moescope.host", "testhost");
	check(trace.root, "moescope.status", "exited");
	check(trace.root, "moescope.exit_status", "0");
	check(trace.root, "moescope.duration_ns", "1500000000");
	trace_release(&trace);
	fake_run_free(run);
}

/* The call is joined with the first of its work alone, and only when it has some. */
static void test_arrows(void **state)
{
	struct run *run = one_kernel();
	const struct json_node *begin, *end;
	struct trace trace;

	(void)state;
	fake_add_kernel(run, 0,
			&(struct row_kernel){ .launch = 1,
					      .start_ns = 15000,
					      .duration_ns = 1,
					      .device = 2,
					      .correlation = 77 });
	fake_call(run, "cudaFree", 2000, 2100, 78);
	fake_kernel(run, "no call", 9000, 9100, 1234);
	fake_add_flow(run, 0,
		      &(struct row_flow){ .name = fake_string(run, "fwdbwd"),
					  .start_ns = 100,
					  .duration_ns = 50,
					  .thread = 1,
					  .end_thread = 2,
					  .id = 12 });
	fake_add_flow(run, 0,
		      &(struct row_flow){ .name = fake_string(run, "queue"),
					  .start_ns = 100,
					  .duration_ns = 50,
					  .thread = 1,
					  .id = 13 });
	trace = trace_of(run);
	assert_int_equal(count(&trace, "s", "ac2g", "ac2g"), 1);
	assert_int_equal(count(&trace, "f", "ac2g", "ac2g"), 1);
	begin = find(&trace, "s", "ac2g", NULL, 0);
	end = find(&trace, "f", "ac2g", NULL, 0);
	assert_string_equal(text_at(begin, "id"), text_at(end, "id"));
	check(begin, "pid", "4242");
	check(begin, "tid", "1");
	check(begin, "ts", "1.000");
	check(end, "pid", "2");
	check(end, "tid", "9");
	check(end, "ts", "5.001");
	check(end, "bp", "e");
	begin = find(&trace, "s", "fwdbwd", "fwdbwd", 0);
	end = find(&trace, "f", "fwdbwd", "fwdbwd", 0);
	check(begin, "id", "12");
	check(begin, "tid", "1");
	check(end, "id", "12");
	check(end, "tid", "2");
	check(end, "ts", "0.150");
	begin = find(&trace, "s", "moescope", "queue", 0);
	check(begin, "args.record", "flow");
	check(begin, "args.duration_ns", "50");
	check(find(&trace, "f", "moescope", "queue", 0), "id", "13");
	trace_release(&trace);
	fake_run_free(run);
}

static void test_copies_sets_and_waits(void **state)
{
	struct run *run = fake_run_new();
	const struct json_node *event;
	struct trace trace;

	(void)state;
	fake_copy(run, 1, 2, 4000, 1000, 2000, 5);
	fake_add_copy(run, 0,
		      &(struct row_copy){ .start_ns = 10,
					  .kind = 10,
					  .source_memory = 3,
					  .target_memory = 77,
					  .source_device = 1,
					  .target_device = 3 });
	fake_add_set(run, 0,
		     &(struct row_set){ .start_ns = 3000,
					.duration_ns = 16,
					.bytes = 64,
					.memory = 3,
					.device = 1,
					.stream = 7 });
	fake_add_sync(run, 0,
		      &(struct row_sync){ .start_ns = 4000,
					  .duration_ns = 10,
					  .type = 3,
					  .stream = 7,
					  .correlation = 9 });
	fake_add_sync(run, 0, &(struct row_sync){ .type = 4, .stream = UINT32_MAX });
	trace = trace_of(run);
	event = find(&trace, "X", "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0);
	check(event, "args.bytes", "4000");
	check(event, "args.memory bandwidth (GB/s)", "4");
	check(event, "args.moescope.asynchronous", "1");
	event = find(&trace, "X", "gpu_memcpy", "Memcpy PtoP (Device -> Unknown)", 0);
	check(event, "args.fromDevice", "1");
	check(event, "args.toDevice", "3");
	check(event, "args.moescope.target_memory", "77");
	assert_null(at(event, "args.memory bandwidth (GB/s)")); /* no time: none */
	event = find(&trace, "X", "gpu_memset", "Memset (Device)", 0);
	check(event, "pid", "1");
	check(event, "args.bytes", "64");
	event = find(&trace, "X", "cuda_sync", "Stream Sync", 0);
	check(event, "args.stream", "7");
	check(event, "args.correlation", "9");
	event = find(&trace, "X", "cuda_sync", "Context Sync", 0);
	check(event, "args.stream", "-1");
	check(event, "args.moescope.stream", "4294967295");
	trace_release(&trace);
	fake_run_free(run);
}

static void test_calls(void **state)
{
	struct run *run = fake_gpu_run();
	struct trace trace = trace_of(run);
	const struct json_node *event;

	(void)state;
	assert_int_equal(count(&trace, "X", "cuda_runtime", NULL) +
				 count(&trace, "X", "cuda_driver", NULL),
			 run->api.n);
	event = find(&trace, "X", "cuda_driver", "cuMemAlloc", 0);
	check(event, "args.correlation", "999");
	check(event, "args.moescope.status", "2");
	event = find(&trace, "X", "cuda_runtime", "cudaLaunchKernel", 0);
	assert_null(at(event, "args.moescope"));
	trace_release(&trace);
	fake_run_free(run);
}

/* Operations are found from kernels by a number that both have. */
static void test_external_ids(void **state)
{
	struct run *run = fake_run_new();
	uint32_t mm = fake_site(run, "mm", -1, -1, 0), step = fake_site(run, "step", -1, -1, 0);
	const struct json_node *op, *call, *kernel;
	struct trace trace;

	(void)state;
	fake_op(run, mm, 1000, 2000, 1, 1, 8);
	fake_range(run, step, 500, 5000, 1, 0);
	fake_call(run, "cudaLaunchKernel", 1100, 1200, 5);
	fake_call(run, "cudaFree", 9000, 9100, 6);
	fake_kernel(run, "k", 3000, 4000, 5);
	fake_kernel(run, "no call", 3000, 4000, 99);
	fake_span(run, 0, 10000);
	trace = trace_of(run);
	op = find(&trace, "X", "cpu_op", "mm", 0);
	call = find(&trace, "X", "cuda_runtime", "cudaLaunchKernel", 0);
	kernel = find(&trace, "X", "kernel", "k", 0);
	assert_string_not_equal(text_at(op, "args.External id"), "");
	check(call, "args.External id", text_at(op, "args.External id"));
	check(kernel, "args.External id", text_at(op, "args.External id"));
	check(find(&trace, "X", "cuda_runtime", "cudaFree", 0), "args.External id", "0");
	check(find(&trace, "X", "kernel", "no call", 0), "args.External id", "0");
	assert_string_not_equal(
		text_at(find(&trace, "X", "user_annotation", "step", 0), "args.External id"),
		text_at(op, "args.External id"));
	trace_release(&trace);
	fake_run_free(run);
}

static void test_collectives(void **state)
{
	struct run *run = fake_run_new();
	struct row_collective row = { .name = fake_string(run, "allreduce"),
				      .start_ns = 1000,
				      .duration_ns = 500,
				      .stream = 7,
				      .correlation = 3,
				      .group = fake_string(run, "default_pg"),
				      .sequence = 17,
				      .sequence_known = 1,
				      .group_size = 8,
				      .type = fake_string(run, "Float"),
				      .in_elements = 100,
				      .out_elements = 200 };
	const struct json_node *event;
	struct trace trace;

	(void)state;
	fake_kernel(run, "ncclDevKernel_AllReduce", 1000, 1500, 3);
	fake_kernel(run, "other", 1000, 1500, 4);
	fake_add_collective(run, 0, &row);
	row.start_ns = 9999; /* its kernel was lost */
	fake_add_collective(run, 0, &row);
	trace = trace_of(run);
	event = find(&trace, "X", "kernel", "ncclDevKernel_AllReduce", 0);
	check(event, "args.Collective name", "allreduce");
	check(event, "args.In msg nelems", "100");
	check(event, "args.Out msg nelems", "200");
	check(event, "args.Group size", "8");
	check(event, "args.dtype", "Float");
	check(event, "args.Process Group Name", "default_pg");
	check(event, "args.Seq", "17");
	event = find(&trace, "X", "kernel", "other", 0);
	assert_null(at(event, "args.Collective name"));
	assert_int_equal(count(&trace, "X", "moescope", "collective"), 1);
	check(find(&trace, "X", "moescope", "collective", 0), "ts", "9.999");
	check(trace.root, "distributedInfo.backend", "nccl");
	trace_release(&trace);
	fake_run_free(run);
}

static struct run *two_ranks(void)
{
	struct run *run = fake_run_new();
	uint16_t other = fake_shard(run, 1, 4242); /* another host: the pid is taken */
	struct row_kernel row = { .launch = fake_launch(run, "k"),
				  .start_ns = 2000,
				  .duration_ns = 10,
				  .stream = 7,
				  .correlation = 5 };

	fake_call(run, "cudaLaunchKernel", 1000, 1500, 5);
	fake_add_api(run, other,
		     &(struct row_api){ .name = fake_string(run, "cudaLaunchKernel"),
					.start_ns = 1100,
					.duration_ns = 10,
					.thread = 1,
					.correlation = 5 });
	fake_add_kernel(run, 0, &row);
	row.start_ns = 2100;
	fake_add_kernel(run, other, &row);
	fake_add_mark(run, other, &(struct row_mark){ .text = fake_string(run, "of rank 1") });
	fake_span(run, 0, 5000);
	return run;
}

/* In one file each has tracks of its own; alone each is as Kineto would write it. */
static void test_ranks(void **state)
{
	struct run *run = two_ranks();
	struct trace all = trace_of(run), one = trace_of_rank(run, 1);
	const struct json_node *first = find(&all, "X", "kernel", "k", 0);
	const struct json_node *second = find(&all, "X", "kernel", "k", 1);

	(void)state;
	assert_string_not_equal(text_at(first, "pid"), text_at(second, "pid"));
	assert_string_not_equal(text_at(find(&all, "X", "cuda_runtime", NULL, 0), "pid"),
				text_at(find(&all, "X", "cuda_runtime", NULL, 1), "pid"));
	assert_string_not_equal(text_at(find(&all, "s", "ac2g", NULL, 0), "id"),
				text_at(find(&all, "s", "ac2g", NULL, 1), "id"));
	assert_null(json_get(all.root, "distributedInfo"));
	assert_int_equal(count(&all, "M", "", "process_name"), 4);
	assert_int_equal(count(&one, "X", "kernel", NULL), 1);
	check(find(&one, "X", "kernel", "k", 0), "pid", "0");
	check(find(&one, "X", "kernel", "k", 0), "ts", "2.100");
	assert_int_equal(count(&one, "X", "cuda_runtime", NULL), 1);
	assert_int_equal(count(&one, "i", "moescope", "of rank 1"), 1);
	check(one.root, "distributedInfo.rank", "1");
	check(one.root, "distributedInfo.world_size", "2");
	trace_release(&all);
	trace_release(&one);
	fake_run_free(run);
}

/* Every record of a run is in its trace, once. */
static void test_nothing_is_left_out(void **state)
{
	struct run *runs[] = { fake_training_run(), fake_gpu_run() };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct run *run = runs[i];
		struct trace trace = trace_of(run);
		size_t records = 0, rows = 0;

		for (const struct json_node *e = json_get(trace.root, "traceEvents")->child; e;
		     e = e->next)
			records += json_get(e, "record") || at(e, "args.record");
#define KIND(id, NAME, name) rows += run->name.n;
		RECORD_KINDS(KIND)
#undef KIND
		rows -= run->string.n + run->site.n + run->launch.n + run->thread.n + run->device.n;
		records += count(&trace, "X", "kernel", NULL) +
			   count(&trace, "X", "gpu_memcpy", NULL) +
			   count(&trace, "X", "gpu_memset", NULL) +
			   count(&trace, "X", "cuda_runtime", NULL) +
			   count(&trace, "X", "cuda_driver", NULL) +
			   count(&trace, "X", "cpu_op", NULL) +
			   count(&trace, "X", "user_annotation", NULL) +
			   count(&trace, "i", "cpu_instant_event", NULL);
		assert_int_equal(records, rows);
		trace_release(&trace);
		fake_run_free(runs[i]);
	}
}

static void test_empty(void **state)
{
	struct run *run = fake_run_new();
	struct trace trace;

	(void)state;
	run->n_shards = 0;
	trace = trace_of(run);
	assert_null(json_get(trace.root, "traceEvents")->child);
	trace_release(&trace);
	run->n_shards = 1;
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_bare_kernel),
		cmocka_unit_test(test_top_level),
		cmocka_unit_test(test_arrows),
		cmocka_unit_test(test_copies_sets_and_waits),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_external_ids),
		cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_nothing_is_left_out),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
