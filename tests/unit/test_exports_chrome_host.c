/* SPDX-License-Identifier: Apache-2.0
 *
 * The Chrome trace of what threads did, field by field.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "chrome_trace.h"
#include "moescope.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_nanoseconds_and_nesting),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_frames_have_parents),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_derived_counters_are_no_records),
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_payloads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
