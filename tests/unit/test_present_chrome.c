/* SPDX-License-Identifier: Apache-2.0
 *
 * The Chrome trace field by field: what PyTorch's profiler writes and its readers look for, and
 * what goes out beside it.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_read.h"
#include "fake_run.h"
#include "json_check.h"
#include "moescope.h"
#include "present/present.h"

struct trace {
	char *text;
	struct json_node *root;
};

static struct trace trace_of_rank(const struct run *run, int64_t rank)
{
	struct err err = { "" };
	struct trace trace;
	size_t size;
	FILE *out = open_memstream(&trace.text, &size);
	int r = rank < 0 ? present_chrome(run, out, &err)
			 : present_chrome_rank(run, (uint32_t)rank, false, out, &err);

	fclose(out);
	if (r < 0)
		fail_msg("%s", err.message);
	assert_true(json_check(trace.text));
	assert_int_equal(json_parse("trace", trace.text, size, &trace.root, &err), 0);
	return trace;
}

static struct trace trace_of(const struct run *run)
{
	return trace_of_rank(run, -1);
}

static void trace_release(struct trace *trace)
{
	json_node_free(trace->root);
	free(trace->text);
}

static bool is(const struct json_node *event, const char *key, const char *value)
{
	return !value || !strcmp(json_get_string(event, key, ""), value);
}

/* The n-th event with that phase, category and name; NULL for any. */
static const struct json_node *find(const struct trace *trace, const char *phase,
				    const char *category, const char *name, int n)
{
	const struct json_node *events = json_get(trace->root, "traceEvents");

	for (const struct json_node *e = events->child; e; e = e->next)
		if (is(e, "ph", phase) && is(e, "cat", category) && is(e, "name", name) && n-- == 0)
			return e;
	return NULL;
}

static size_t count(const struct trace *trace, const char *phase, const char *category,
		    const char *name)
{
	size_t n = 0;

	while (find(trace, phase, category, name, (int)n))
		n++;
	return n;
}

/* "args.moescope.layer" */
static const struct json_node *at(const struct json_node *node, const char *path)
{
	char word[64];

	while (node && *path) {
		size_t length = strcspn(path, ".");

		/* Names of Kineto's may end with a point, but have none inside. */
		memcpy(word, path, length);
		word[length] = '\0';
		node = json_get(node, word);
		path += length + (path[length] == '.');
	}
	return node;
}

/* A number or string as it stands; "" when it is not there. */
static const char *text_at(const struct json_node *node, const char *path)
{
	node = at(node, path);
	return node && node->text ? node->text : "";
}

static void check(const struct json_node *event, const char *path, const char *value)
{
	if (!event)
		fail_msg("no event with %s", path);
	if (strcmp(text_at(event, path), value) != 0)
		fail_msg("%s is '%s', not '%s'", path, text_at(event, path), value);
}

static void check_list(const struct json_node *event, const char *path, const char *const *values)
{
	const struct json_node *list = at(event, path), *item = list ? list->child : NULL;

	for (; *values; values++, item = item->next) {
		assert_non_null(item);
		assert_string_equal(item->text, *values);
	}
	assert_null(item);
}

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
					      .threads_per_multiprocessor = 2048 });
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

static void add_op(struct run *run, const char *name, const char *shape, const char *stack,
		   uint8_t unknown)
{
	fake_add_op(run, 0,
		    &(struct row_op){ .site = fake_site(run, name, 3, 4, MOESCOPE_FORWARD),
				      .duration_ns = 10,
				      .thread = 1,
				      .shape = *shape ? fake_string(run, shape) : 0,
				      .flops = unknown & OP_FLOPS_UNKNOWN ? 0 : 64,
				      .bytes = unknown & OP_BYTES_UNKNOWN ? 0 : 32,
				      .unknown = unknown,
				      .stack = *stack ? fake_string(run, stack) : 0 });
}

static void test_operations(void **state)
{
	static const char *const odd[] = { "[1,2]x", "x[1]", "[1][2]", "[a]", "(1,2)",
					   "[1,,2]", "[1,]", "[01]",   "[1",  "[[1]]" };
	struct run *run = fake_run_new();
	const struct json_node *event, *dims;
	struct trace trace;
	char name[8];

	(void)state;
	add_op(run, "mm", "[64,8]x[8]x[]", "train.py(3): main;model.py(9): forward", 0);
	add_op(run, "unknown", "", "", OP_FLOPS_UNKNOWN | OP_BYTES_UNKNOWN);
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "odd %d", i);
		add_op(run, name, odd[i], "", 3);
	}
	trace = trace_of(run);
	event = find(&trace, "X", "cpu_op", "mm", 0);
	dims = at(event, "args.Input Dims");
	assert_int_equal(dims->type, JSON_ARRAY);
	assert_string_equal(dims->child->child->text, "64");
	assert_string_equal(dims->child->child->next->text, "8");
	assert_string_equal(dims->child->next->child->text, "8");
	assert_null(dims->child->next->next->child);
	check(event, "args.Call stack", "model.py(9): forward;train.py(3): main");
	check(event, "args.flops", "64");
	check(event, "args.moescope.bytes", "32");
	check(event, "args.moescope.unknown", "0");
	check(event, "args.moescope.layer", "3");
	check(event, "args.moescope.expert", "4");
	check(event, "args.moescope.phase", "1");
	check(event, "args.moescope.phase_name", "forward");
	event = find(&trace, "X", "cpu_op", "unknown", 0);
	assert_null(at(event, "args.flops"));
	assert_null(at(event, "args.moescope.bytes"));
	assert_null(at(event, "args.Input Dims"));
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "odd %d", i);
		check(find(&trace, "X", "cpu_op", name, 0), "args.Input Dims", odd[i]);
	}
	trace_release(&trace);
	fake_run_free(run);
}

static void test_nanoseconds_and_nesting(void **state)
{
	struct run *run = fake_run_new();
	uint32_t a = fake_site(run, "outer", -1, -1, 0), b = fake_site(run, "inner", 3, 4, 1);
	int64_t base = INT64_C(9007199254740993), last; /* 2^53 + 1: no double holds it */
	const char *outer, *inner;
	struct trace trace;

	(void)state;
	last = base + INT64_C(8007199254740991);
	fake_op(run, b, base, last, 1, 1, 8); /* same span: only depth tells them apart */
	fake_range(run, a, base, last, 1, 0);
	fake_span(run, base - 1, last);
	trace = trace_of(run);
	outer = strstr(trace.text, "\"name\":\"outer\"");
	inner = strstr(trace.text, "\"name\":\"inner\"");
	assert_true(outer && inner && outer < inner);
	check(find(&trace, "X", "user_annotation", "outer", 0), "ts", "0.001");
	check(find(&trace, "X", "cpu_op", "inner", 0), "dur", "8007199254740.991");
	trace_release(&trace);
	fake_run_free(run);
}

static void test_steps(void **state)
{
	struct run *run = fake_run_new();
	const struct json_node *event;
	struct trace trace;

	(void)state;
	fake_step(run, 41, 1000, 3000, 64);
	fake_add_step(run, 0, &(struct row_step){ .step = 42, .probe = 2, .unfinished = 1 });
	trace = trace_of(run);
	event = find(&trace, "X", "user_annotation", "ProfilerStep#41", 0);
	check(event, "ts", "1.000");
	check(event, "dur", "2.000");
	check(event, "args.moescope.tokens", "64");
	check(event, "args.moescope.tokens_known", "1");
	check(event, "args.moescope.recorded", "1");
	event = find(&trace, "X", "user_annotation", "ProfilerStep#42", 0);
	assert_null(at(event, "args.moescope.tokens"));
	check(event, "args.moescope.recorded", "0");
	check(event, "args.moescope.probe", "2");
	check(event, "args.moescope.unfinished", "1");
	trace_release(&trace);
	fake_run_free(run);
}

static void add_frame(struct run *run, const char *name, int64_t start, int64_t end,
		      uint32_t thread)
{
	fake_add_frame(run, 0,
		       &(struct row_frame){ .name = fake_string(run, name),
					    .start_ns = start,
					    .duration_ns = end - start,
					    .thread = thread });
}

static void test_frames_have_parents(void **state)
{
	struct run *run = fake_run_new();
	struct trace trace;

	(void)state;
	add_frame(run, "inner", 20, 30, 1);
	add_frame(run, "second", 30, 40, 1);
	add_frame(run, "outer", 10, 90, 1);
	add_frame(run, "elsewhere", 20, 30, 2);
	add_frame(run, "after", 90, 95, 1);
	trace = trace_of(run);
	check(find(&trace, "X", "python_function", "outer", 0), "args.Python id", "1");
	check(find(&trace, "X", "python_function", "inner", 0), "args.Python parent id", "1");
	check(find(&trace, "X", "python_function", "second", 0), "args.Python parent id", "1");
	check(find(&trace, "X", "python_function", "after", 0), "args.Python parent id", "");
	check(find(&trace, "X", "python_function", "elsewhere", 0), "args.Python parent id", "");
	trace_release(&trace);
	fake_run_free(run);
}

static void add_memory(struct run *run, int64_t time_ns, uint8_t event, uint64_t address,
		       uint64_t bytes, int32_t device)
{
	fake_add_memory(run, 0,
			&(struct row_memory){ .time_ns = time_ns,
					      .event = event,
					      .address = address,
					      .bytes = bytes,
					      .device = device,
					      .use = MOESCOPE_MEMORY_ACTIVATIONS,
					      .site = fake_string(run, "x"),
					      .thread = 1 });
}

static void add_sample(struct run *run, int64_t time_ns, const char *metric, double value)
{
	fake_add_sample(run, 0,
			&(struct row_sample){ .time_ns = time_ns,
					      .metric = fake_string(run, metric),
					      .value = value });
}

static void test_memory(void **state)
{
	struct run *run = fake_run_new();
	const struct json_node *event;
	struct trace trace;

	(void)state;
	add_memory(run, 1000, 0, 0x100, 512, 0);
	add_memory(run, 1500, 0, 0x100, 64, -1); /* another device: another block */
	add_memory(run, 2000, 1, 0x100, 0, 0);
	add_memory(run, 3000, 1, 0x999, 0, 0); /* of something older */
	add_memory(run, 4000, 2, 0x9000, 1 << 20, 0);
	add_sample(run, 1000, "allocated_bytes", 512);
	add_sample(run, 1000, "reserved_bytes", 4096);
	add_sample(run, 1700, "power_w", 300.5);
	add_sample(run, 2000, "allocated_bytes", 0);
	trace = trace_of(run);
	assert_int_equal(count(&trace, "i", "cpu_instant_event", "[memory]"), 3);
	event = find(&trace, "i", "cpu_instant_event", "[memory]", 0);
	check(event, "s", "t");
	check(event, "args.Bytes", "512");
	check(event, "args.Addr", "256");
	check(event, "args.Device Type", "1");
	check(event, "args.Device Id", "0");
	check(event, "args.Total Allocated", "512");
	check(event, "args.Total Reserved", "4096");
	check(event, "args.moescope.use", "4");
	check(event, "args.moescope.site", "x");
	event = find(&trace, "i", "cpu_instant_event", "[memory]", 1);
	check(event, "args.Device Type", "0");
	check(event, "args.Device Id", "-1");
	assert_null(at(event, "args.Total Allocated"));
	event = find(&trace, "i", "cpu_instant_event", "[memory]", 2);
	check(event, "args.Bytes", "-512");
	check(event, "args.Total Allocated", "0");
	assert_int_equal(count(&trace, "i", "moescope", "memory"), 2);
	check(find(&trace, "i", "moescope", "memory", 0), "args.address", "2457");
	check(find(&trace, "i", "moescope", "memory", 1), "args.bytes", "1048576");
	/* Readings that the instants tell are not told twice. */
	assert_int_equal(count(&trace, "C", "moescope", "allocated_bytes"), 0);
	event = find(&trace, "C", "moescope", "power_w", 0);
	check(event, "record", "sample");
	check(event, "id", "0");
	check(event, "args.value", "300.5");
	trace_release(&trace);
	fake_run_free(run);
}

static void test_counters(void **state)
{
	struct run *run = fake_run_new();
	uint32_t name = fake_string(run, "loss");
	struct trace trace;

	(void)state;
	fake_add_counter(run, 0, &(struct row_counter){ .name = name, .value = 5.25 });
	fake_add_counter(run, 0, &(struct row_counter){ .name = name, .value = NAN });
	fake_add_counter(run, 0, &(struct row_counter){ .name = name, .value = -INFINITY });
	trace = trace_of(run);
	assert_int_equal(count(&trace, "C", "moescope", "loss"), 1);
	check(find(&trace, "C", "moescope", "loss", 0), "args.value", "5.25");
	check(find(&trace, "i", "moescope", "counter", 0), "args.value", "NaN");
	check(find(&trace, "i", "moescope", "counter", 1), "args.value", "-Infinity");
	trace_release(&trace);
	fake_run_free(run);
}

/* What is drawn for people alone names no record. */
static void test_derived_counters_are_no_records(void **state)
{
	struct run *run = fake_training_run();
	struct trace trace = trace_of(run);
	const struct json_node *event = find(&trace, "C", "moescope", "imbalance layer 1 forward",
					     0);

	(void)state;
	assert_non_null(event);
	assert_null(json_get(event, "record"));
	event = find(&trace, "C", "moescope", "live bytes, host", 0);
	assert_non_null(event);
	assert_null(json_get(event, "record"));
	assert_int_equal(count(&trace, "i", "moescope", "routing"), run->routing.n);
	assert_int_equal(count(&trace, "i", "moescope", "routed"), run->routed.n);
	assert_int_equal(count(&trace, "i", "moescope", "token"), run->token.n);
	event = find(&trace, "i", "moescope", "training \"begins\"", 0);
	check(event, "args.record", "mark");
	check(event, "ts", "2000.000");
	check(find(&trace, "M", "", "thread_name", 0), "args.name", "main");
	trace_release(&trace);
	fake_run_free(run);
}

static void test_spans(void **state)
{
	struct run *run = fake_run_new();
	const struct json_node *begin, *end;
	struct trace trace;

	(void)state;
	fake_add_span(run, 0,
		      &(struct row_span){ .name = fake_string(run, "request"),
					  .start_ns = 1000,
					  .duration_ns = 500,
					  .thread = 7,
					  .end_thread = 8,
					  .domain = fake_string(run, "server") });
	fake_add_span(run, 0,
		      &(struct row_span){ .name = fake_string(run, "open"),
					  .start_ns = 1200,
					  .duration_ns = 800,
					  .thread = 7,
					  .unfinished = 1 });
	trace = trace_of(run);
	begin = find(&trace, "b", "moescope", "request", 0);
	end = find(&trace, "e", "moescope", "request", 0);
	check(begin, "tid", "7");
	check(begin, "ts", "1.000");
	check(begin, "args.record", "span");
	check(begin, "args.domain", "server");
	check(begin, "args.duration_ns", "500");
	check(end, "tid", "8");
	check(end, "ts", "1.500");
	assert_string_equal(text_at(begin, "id"), text_at(end, "id"));
	end = find(&trace, "e", "moescope", "open", 0);
	check(end, "tid", "7");
	check(end, "ts", "2.000");
	assert_string_not_equal(text_at(begin, "id"), text_at(end, "id"));
	trace_release(&trace);
	fake_run_free(run);
}

static void test_payloads(void **state)
{
	static const struct {
		uint8_t type;
		uint64_t bits;
		const char *shown;
	} values[] = {
		{ 1, UINT64_MAX, "18446744073709551615" },
		{ 2, (uint64_t)-5, "-5" },
		{ 3, UINT64_C(0x3ff8000000000000), "1.5" },
	};
	struct run *run = fake_run_new();
	struct trace trace;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		fake_add_payload(run, 0,
				 &(struct row_payload){ .time_ns = 10,
							.thread = 3,
							.name = fake_string(run, "p"),
							.type = values[i].type,
							.bits = values[i].bits });
	fake_add_payload(run, 0,
			 &(struct row_payload){ .name = fake_string(run, "c"),
						.domain = fake_string(run, "d"),
						.category = 3 });
	fake_add_fact(run, 0,
		      &(struct row_fact){ .key = fake_string(run, "NVTX category 3"),
					  .value = fake_string(run, "another domain's") });
	fake_add_fact(run, 0,
		      &(struct row_fact){ .key = fake_string(run, "NVTX category d/3"),
					  .value = fake_string(run, "copies") });
	trace = trace_of(run);
	for (int i = 0; i < 3; i++)
		check(find(&trace, "i", "moescope", "p", i), "args.payload", values[i].shown);
	check(find(&trace, "i", "moescope", "c", 0), "args.category_name", "copies");
	check(find(&trace, "i", "moescope", "c", 0), "args.domain", "d");
	assert_null(at(find(&trace, "i", "moescope", "c", 0), "args.payload"));
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
		rows -= run->string.n + run->site.n + run->launch.n + run->thread.n;
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
		cmocka_unit_test(test_top_level),
		cmocka_unit_test(test_arrows),
		cmocka_unit_test(test_copies_sets_and_waits),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_nanoseconds_and_nesting),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_frames_have_parents),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_derived_counters_are_no_records),
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_payloads),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_nothing_is_left_out),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
