/* SPDX-License-Identifier: Apache-2.0
 *
 * Perfetto traces, read back: slices, nesting, flows, counters, notes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "exports/exports.h"
#include "exports/perfetto/perfetto.h"
#include "fake_run.h"
#include "perfetto_read.h"

static void test_kernels_add_up(void **state)
{
	struct run *run = fake_gpu_run();
	struct pf_trace trace = pf_read(run);
	uint64_t sum = 0, timed = 0, untimed = 0, ns;
	char note[64];

	(void)state;
	for (size_t i = 0; i < run->kernel.n; i++) {
		untimed += run->kernel.untimed[i];
		timed += !run->kernel.untimed[i];
		sum += (uint64_t)run->kernel.duration_ns[i];
	}
	assert_true(timed > 10 && untimed > 0);
	assert_int_equal(pf_count(&trace, "kernel", &ns), timed);
	assert_int_equal(ns, sum);
	snprintf(note, sizeof(note), "left out: %d kernel records without times", (int)untimed);
	assert_non_null(pf_find(&trace, "note", note));
	sum = 0;
	for (size_t i = 0; i < run->copy.n; i++)
		sum += (uint64_t)run->copy.duration_ns[i];
	assert_int_equal(pf_count(&trace, "copy", &ns), run->copy.n);
	assert_int_equal(ns, sum);
	assert_int_equal(pf_count(&trace, "api", &ns), run->api.n);
	assert_int_equal(pf_count(&trace, "step", &ns), run->step.n);
	pf_release(&trace);
	fake_run_free(run);
}

static void test_kernel_has_its_launch(void **state)
{
	struct run *run = fake_run_new();
	struct pf_trace trace;
	const struct pf_event *event;
	uint32_t name = fake_string(run, "_Z4gemmPfS_i");

	(void)state;
	fake_span(run, 100, 1000);
	fake_add_launch(run, 0,
			&(struct row_launch){ .id = 1,
					      .name = name,
					      .grid_x = 132,
					      .grid_y = 2,
					      .grid_z = 1,
					      .block_x = 256,
					      .block_y = 1,
					      .block_z = 1,
					      .registers = 168,
					      .dynamic_shared_bytes = 65536 });
	fake_add_kernel(run, 0,
			&(struct row_kernel){ .launch = 1,
					      .start_ns = 300,
					      .duration_ns = 50,
					      .stream = 7,
					      .device = 1,
					      .correlation = 99,
					      .context = 3,
					      .graph = 5,
					      .graph_node = 8 });
	trace = pf_read(run);
	event = pf_find(&trace, "kernel", NULL);
	assert_non_null(event);
	/* Demangled where the machine can. */
	assert_true(!strcmp(event->name, "gemm(float*, float*, int)") ||
		    !strcmp(event->name, "_Z4gemmPfS_i"));
	assert_string_equal(event->args,
			    " grid=[132, 2, 1] block=[256, 1, 1] registers=168"
			    " dynamic_shared_bytes=65536 correlation=99 context=3 graph=5"
			    " graph_node=8");
	assert_int_equal(event->time, 200); /* since the run's beginning */
	assert_int_equal(event->duration, 50);
	assert_string_equal(pf_track_of(&trace, event->track)->name, "GPU 1 stream 7");
	assert_int_equal(event->n_ends, 0); /* its call was not recorded */
	pf_release(&trace);
	/* What the file of another profiler does not tell is not there. */
	fake_kernel(run, "bare", 400, 500, 7);
	trace = pf_read(run);
	assert_string_equal(pf_find(&trace, "kernel", "bare")->args, " correlation=7");
	pf_release(&trace);
	fake_run_free(run);
}

static void test_host_nesting(void **state)
{
	struct run *run = fake_run_new();
	uint32_t outer = fake_site(run, "forward", -1, -1, 1),
		 inner = fake_site(run, "mlp", 3, 5, 1);
	const struct pf_event *event;
	struct pf_trace trace;

	(void)state;
	fake_span(run, 0, 1000);
	/* As recorded: inner ones first, for they end first. All of them begin together. */
	fake_call(run, "cudaLaunchKernel", 0, 100, 1);
	fake_op(run, inner, 0, 400, 1, 1, 12);
	fake_range(run, outer, 0, 400, 1, 0);
	fake_range(run, outer, 400, 500, 1, 0); /* touches the one before */
	fake_add_frame(run, 0,
		       &(struct row_frame){ .name = fake_string(run, "train.py: main"),
					    .duration_ns = 500,
					    .thread = 1 });
	fake_add_os_call(run, 0,
			 &(struct row_os_call){ .name = fake_string(run, "poll"),
						.start_ns = 20,
						.duration_ns = 10,
						.thread = 1 });
	fake_add_mark(
		run, 0,
		&(struct row_mark){ .time_ns = 25, .text = fake_string(run, "here"), .thread = 1 });
	trace = pf_read(run);
	event = pf_find(&trace, "frame", "train.py: main");
	assert_int_equal(event->depth, 0);
	assert_int_equal(event->duration, 500);
	assert_int_equal(pf_track_of(&trace, event->track)->tid, 1);
	assert_int_equal(pf_track_of(&trace, event->track)->pid, 4242);
	event = pf_find(&trace, "range", "forward");
	assert_int_equal(event->depth, 1);
	assert_int_equal(event->duration, 400);
	assert_string_equal(event->args, " phase=forward");
	event = pf_find(&trace, "op", "mlp");
	assert_int_equal(event->depth, 2);
	assert_int_equal(event->duration, 400);
	assert_string_equal(event->args, " layer=3 expert=5 phase=forward flops=12 bytes=3");
	event = pf_find(&trace, "api", "cudaLaunchKernel");
	assert_int_equal(event->depth, 3);
	assert_int_equal(event->duration, 100);
	assert_int_equal(pf_find(&trace, "os_call", "poll")->depth, 4);
	assert_int_equal(pf_find(&trace, "mark", "here")->depth, 5);
	assert_int_equal(pf_find(&trace, "mark", "here")->duration, 0);
	for (size_t i = 0; i < trace.n; i++)
		if (!strcmp(trace.events[i].name, "forward") && trace.events[i].time == 400) {
			assert_int_equal(trace.events[i].depth, 1);
			assert_int_equal(trace.events[i].duration, 100);
		}
	pf_release(&trace);
	fake_run_free(run);
}

static void test_crossing_work_has_lanes(void **state)
{
	struct run *run = fake_run_new();
	struct pf_trace trace;
	const struct pf_event *a, *b, *c;

	(void)state;
	fake_span(run, 0, 1000);
	fake_kernel(run, "a", 0, 100, 1);
	fake_kernel(run, "b", 50, 150, 2); /* begins inside a, ends after it */
	fake_kernel(run, "c", 100, 120, 3);
	trace = pf_read(run);
	a = pf_find(&trace, "kernel", "a");
	b = pf_find(&trace, "kernel", "b");
	c = pf_find(&trace, "kernel", "c");
	assert_int_equal(a->duration, 100);
	assert_int_equal(b->duration, 100);
	assert_int_equal(c->duration, 20);
	assert_true(a->track != b->track);
	assert_true(a->track == c->track);
	assert_string_equal(pf_track_of(&trace, b->track)->name, "GPU 0 stream 7 (2)");
	pf_release(&trace);
	fake_run_free(run);
}

static void test_flows(void **state)
{
	struct run *run = fake_run_new();
	const struct pf_event *call, *k1, *k2, *begin, *end;
	struct pf_trace trace;

	(void)state;
	fake_span(run, 0, 1000);
	fake_call(run, "cudaGraphLaunch", 10, 20, 5);
	fake_kernel(run, "k1", 30, 40, 5);
	fake_kernel(run, "k2", 40, 60, 5);
	fake_kernel(run, "alone", 60, 70, 6);
	fake_add_flow(run, 0,
		      &(struct row_flow){ .name = fake_string(run, "fwdbwd"),
					  .start_ns = 100,
					  .duration_ns = 50,
					  .thread = 1,
					  .end_thread = 2,
					  .id = 77 });
	trace = pf_read(run);
	call = pf_find(&trace, "api", NULL);
	k1 = pf_find(&trace, "kernel", "k1");
	k2 = pf_find(&trace, "kernel", "k2");
	assert_int_equal(call->n_flows, 2);
	assert_int_equal(k1->n_ends, 1);
	assert_int_equal(k2->n_ends, 1);
	assert_true(k1->ends[0] != k2->ends[0]);
	assert_int_equal(call->flows[0], k1->ends[0]);
	assert_int_equal(call->flows[1], k2->ends[0]);
	assert_int_equal(pf_find(&trace, "kernel", "alone")->n_ends, 0);
	begin = pf_find(&trace, "flow", NULL);
	end = begin + 1;
	while (strcmp(end->category, "flow"))
		end++;
	assert_int_equal(begin->time, 100);
	assert_int_equal(end->time, 150);
	assert_int_equal(begin->flows[0], end->ends[0]);
	assert_true(begin->flows[0] != k1->ends[0] && begin->flows[0] != k2->ends[0]);
	assert_int_equal(pf_track_of(&trace, begin->track)->tid, 1);
	assert_int_equal(pf_track_of(&trace, end->track)->tid, 2);
	assert_string_equal(begin->args, " id=77");
	pf_release(&trace);
	fake_run_free(run);
}

/* The value of a counter of that name at a time. */
static double counted(const struct pf_trace *trace, const char *parent, const char *name,
		      uint64_t time)
{
	for (size_t i = 0; i < trace->n; i++) {
		const struct pf_track *track;

		if (trace->events[i].type != 4 || trace->events[i].time != time)
			continue;
		track = pf_track_of(trace, trace->events[i].track);
		assert_true(track->counter);
		if (!strcmp(track->name, name) &&
		    !strcmp(pf_track_of(trace, track->parent)->name, parent))
			return trace->events[i].value;
	}
	fail_msg("no reading of %s", name);
	return 0;
}

static void test_counters(void **state)
{
	static const uint32_t load[4] = { 6, 2, 0, 0 };
	struct run *run = fake_run_new();
	const char *process = "rank 0 (process 4242)";
	struct pf_trace trace;

	(void)state;
	fake_span(run, 0, 1000);
	fake_routing(run, 0, 500, 2, 2, 4, load);
	fake_step(run, 0, 100, 600, 4);
	fake_add_counter(run, 0,
			 &(struct row_counter){
				 .time_ns = 50, .name = fake_string(run, "loss"), .value = 2.5 });
	fake_add_sample(run, 0,
			&(struct row_sample){ .time_ns = 60,
					      .device = 1,
					      .metric = fake_string(run, "power_w"),
					      .value = 700 });
	fake_add_memory(run, 0,
			&(struct row_memory){ .time_ns = 70, .address = 4096, .bytes = 1000 });
	fake_add_memory(run, 0,
			&(struct row_memory){ .time_ns = 900, .event = 1, .address = 4096 });
	trace = pf_read(run);
	assert_true(counted(&trace, process, "loss", 50) == 2.5);
	assert_true(counted(&trace, process, "GPU 1 power_w", 60) == 700);
	assert_true(counted(&trace, process, "tokens of the step", 100) == 4);
	assert_true(counted(&trace, process, "GPU 0 allocated bytes", 70) == 1000);
	assert_true(counted(&trace, process, "GPU 0 allocated bytes", 900) == 0);
	/* 8 assignments to 4 experts: the mean is 2, the most 6. */
	assert_true(counted(&trace, "layer 2 forward", "imbalance", 500) == 3);
	assert_true(counted(&trace, "layer 2 forward", "utilization_pct of the busiest expert",
			    500) == 75);
	assert_true(counted(&trace, "layer 2 forward", "dropped tokens", 500) == 0);
	/* -(3/4 ln 3/4 + 1/4 ln 1/4) / ln 4 */
	assert_float_equal(counted(&trace, "layer 2 forward", "entropy_norm", 500), 0.405639, 1e-5);
	assert_true(counted(&trace, "layer 2 forward", "load expert 0", 500) == 6);
	assert_true(counted(&trace, "layer 2 forward", "load expert 3", 500) == 0);
	pf_release(&trace);
	fake_run_free(run);
}

static void test_odd_names(void **state)
{
	static const char *const names[] = { "\xff\xfe-broken", "say \"hi\"\n\t;", "" };
	static const char *const shown[] = { "\xef\xbf\xbd\xef\xbf\xbd-broken", "say \"hi\"\n\t;",
					     "(no name)" };
	struct run *run = fake_run_new();
	char long_name[5001];
	struct pf_trace trace;

	(void)state;
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	fake_span(run, 0, 1000);
	for (int i = 0; i < 3; i++)
		fake_range(run, fake_site(run, names[i], -1, -1, 0), 10 * i, 10 * i + 5, 1, 0);
	fake_range(run, fake_site(run, long_name, -1, -1, 0), 100, 105, 1, 0);
	fake_kernel(run, long_name, 0, 10, 1);
	run->info.notes = realloc(run->info.notes, 64);
	strcpy(run->info.notes, "first \xc3\nsecond");
	trace = pf_read(run);
	for (int i = 0; i < 3; i++)
		assert_non_null(pf_find(&trace, "range", shown[i]));
	assert_non_null(pf_find(&trace, "note", "first \xef\xbf\xbd"));
	assert_non_null(pf_find(&trace, "note", "second"));
	pf_release(&trace);
	fake_run_free(run);
}

static void test_empty(void **state)
{
	struct run *run = fake_run_new();
	struct pf_trace trace = pf_read(run);

	(void)state;
	for (size_t i = 0; i < trace.n; i++)
		if (trace.events[i].type == 1)
			assert_string_equal(trace.events[i].category, "note");
	assert_non_null(pf_find(&trace, "note", "status: exited; 0 things lost"));
	pf_release(&trace);
	fake_run_free(run);
}

static void test_losses_are_noted(void **state)
{
	struct run *run = fake_run_new();
	struct pf_trace trace;

	(void)state;
	run->loss.dropped_ring_full = 12;
	trace = pf_read(run);
	assert_non_null(pf_find(&trace, "note", "loss: 12 records dropped: buffer full"));
	assert_non_null(pf_find(&trace, "note", "status: exited; 12 things lost"));
	pf_release(&trace);
	fake_run_free(run);
}

/* Nothing is missing without a word: layers with too many experts for tracks, and odd readings. */
static void test_what_has_no_place_is_noted(void **state)
{
	struct run *run = fake_run_new();
	uint32_t loads[256] = { 0 };
	struct pf_trace trace;

	(void)state;
	loads[3] = 8;
	fake_span(run, 0, 1000);
	fake_routing(run, 0, 100, 1, 2, 256, loads);
	fake_add_counter(run, 0,
			 &(struct row_counter){ .name = fake_string(run, "loss"), .value = NAN });
	trace = pf_read(run);
	assert_non_null(pf_find(&trace, "note",
				"left out: the loads of single experts of 1 routing records, whose "
				"layers have more than 64"));
	assert_non_null(pf_find(&trace, "note",
				"left out: how many tokens went to how many experts, of 1 routing "
				"records"));
	assert_non_null(
		pf_find(&trace, "note", "left out: 1 readings that are infinite or no number"));
	/* The rest of the record is there. */
	assert_non_null(strstr(pf_find(&trace, "record", "routing")->args, " experts=256"));
	pf_release(&trace);
	fake_run_free(run);
}

static void test_ranks(void **state)
{
	struct run *run = fake_run_new();
	uint16_t other = fake_shard(run, 1, 4242); /* another host's process of the same number */
	struct pf_trace trace;
	const struct pf_track *track;
	uint64_t pids[2] = { 0 };

	(void)state;
	fake_span(run, 0, 1000);
	fake_range(run, fake_site(run, "zero", -1, -1, 0), 10, 20, 9, 0);
	fake_add_range(run, other,
		       &(struct row_range){ .site = fake_site(run, "one", -1, -1, 0),
					    .start_ns = 10,
					    .duration_ns = 10,
					    .thread = 9 });
	fake_add_kernel(run, other,
			&(struct row_kernel){ .launch = fake_launch(run, "k"),
					      .start_ns = 20,
					      .duration_ns = 5 });
	trace = pf_read(run);
	for (size_t i = 0; i < trace.n_tracks; i++) {
		if (!strcmp(trace.tracks[i].name, "rank 0 (process 4242)"))
			pids[0] = trace.tracks[i].pid;
		if (!strcmp(trace.tracks[i].name, "rank 1 (process 4242)"))
			pids[1] = trace.tracks[i].pid;
	}
	assert_int_equal(pids[0], 4242);
	assert_true(pids[1] && pids[1] != 4242 && pids[1] <= INT32_MAX);
	assert_int_equal(pf_track_of(&trace, pf_find(&trace, "range", "zero")->track)->pid, 4242);
	assert_int_equal(pf_track_of(&trace, pf_find(&trace, "range", "one")->track)->pid, pids[1]);
	track = pf_track_of(&trace, pf_find(&trace, "kernel", "k")->track);
	assert_string_equal(pf_track_of(&trace, track->parent)->name, "rank 1 (process 4242)");
	pf_release(&trace);
	fake_run_free(run);
}

/* Events that are not notes, and notes of what was left out. */
static void tally(const struct run *run, size_t *ret_events, size_t *ret_left_out)
{
	struct pf_trace trace = pf_read(run);

	*ret_events = *ret_left_out = 0;
	for (size_t i = 0; i < trace.n; i++) {
		if (!strncmp(trace.events[i].name, "left out", 8))
			++*ret_left_out;
		else if (trace.events[i].type != 2 && strcmp(trace.events[i].category, "note"))
			++*ret_events;
	}
	pf_release(&trace);
}

/* A row of any kind is in the file, names something there, or is named as left out. */
static void test_every_kind(void **state)
{
	static const uint32_t one = 1;

	(void)state;
	for (unsigned int kind = 1; kind < RECORD_KIND_LIMIT; kind++) {
		struct run *run = fake_run_new();
		size_t events, left_out;
		bool leaves_out = false;

		if (!kind_desc(kind))
			continue;
		assert_non_null(perfetto_fate(kind, &leaves_out));
		fake_span(run, 0, 1000);
		switch (kind) {
		case RECORD_STRING:
		case RECORD_SITE:
		case RECORD_LAUNCH:
		case RECORD_THREAD:
			fake_run_free(run);
			continue; /* names: what has them is tested above */
		case RECORD_ROUTING:
			fake_add_routing(run, 0,
					 &(struct row_routing){ .time_ns = 5,
								.k = 1,
								.tokens = 1,
								.experts = 1,
								.load = &one });
			break;
		case RECORD_ROUTED:
			fake_add_routed(run, 0,
					&(struct row_routed){ .k = 1,
							      .slots = 1,
							      .expert = (const int32_t *)&one });
			break;
#define KIND(id, NAME, name)                                                                       \
	case RECORD_##NAME: {                                                                      \
		struct row_##name row = { 0 };                                                     \
                                                                                                   \
		fake_add_##name(run, 0, &row);                                                     \
		break;                                                                             \
	}
			KIND(4, KERNEL, kernel)
			KIND(5, RANGE, range)
			KIND(6, OP, op)
			KIND(7, STEP, step)
			KIND(8, MEMORY, memory)
			KIND(9, COUNTER, counter)
			KIND(10, MARK, mark)
			KIND(13, MOE_LAYER, moe_layer)
			KIND(14, TOKEN, token)
			KIND(15, FACT, fact)
			KIND(17, COST, cost)
			KIND(18, COPY, copy)
			KIND(19, SET, set)
			KIND(20, API, api)
			KIND(21, SYNC, sync)
			KIND(22, DEVICE, device)
			KIND(23, SAMPLE, sample)
			KIND(24, DEVICE_MEMORY, device_memory)
			KIND(25, GEAR, gear)
			KIND(26, GRAPH_NODE, graph_node)
			KIND(27, PROCESS, process)
			KIND(28, POOL, pool)
			KIND(29, DEVICE_COST, device_cost)
			KIND(30, SPAN, span)
			KIND(31, PAYLOAD, payload)
			KIND(32, COLLECTIVE, collective)
			KIND(33, FRAME, frame)
			KIND(34, FLOW, flow)
			KIND(35, METRIC, metric)
			KIND(36, OS_CALL, os_call)
			KIND(37, STACK, stack)
			KIND(38, STACK_SAMPLE, stack_sample)
			KIND(39, HOST_SAMPLE, host_sample)
			KIND(40, HEAP_SAMPLE, heap_sample)
			KIND(41, CALL_COUNT, call_count)
			KIND(42, LIBRARY_CALL, library_call)
			KIND(43, COUNTED, counted)
			KIND(44, PC_SAMPLE, pc_sample)
#undef KIND
		default:
			fail_msg("%s is not tested", kind_desc(kind)->name);
		}
		tally(run, &events, &left_out);
		assert_int_equal(left_out, leaves_out);
		assert_int_equal(events > 0, !leaves_out);
		fake_run_free(run);
	}
}

/* Columns of what has no form of its own. */
static void test_rows(void **state)
{
	struct run *run = fake_run_new();
	const struct pf_event *event;
	struct pf_trace trace;

	(void)state;
	fake_span(run, 0, 1000);
	fake_add_fact(run, 0,
		      &(struct row_fact){ .key = fake_string(run, "model"),
					  .value = fake_string(run, "tiny") });
	fake_add_fact(run, 0,
		      &(struct row_fact){ .key = fake_string(run, "dtype"),
					  .value = fake_string(run, "bf16") });
	fake_add_memory(run, 0,
			&(struct row_memory){ .time_ns = 10,
					      .address = 64,
					      .bytes = 9,
					      .device = -1,
					      .site = fake_string(run, "here.c:3") });
	fake_add_payload(run, 0,
			 &(struct row_payload){ .time_ns = 20,
						.thread = 1,
						.name = fake_string(run, "p"),
						.type = 2,
						.bits = (uint64_t)-5 });
	trace = pf_read(run);
	event = pf_find(&trace, "record", "fact");
	assert_string_equal(event->args, " key=model value=tiny");
	assert_int_equal(event->depth, 0);
	/* Of the same time, and beside the first, not in it. */
	for (event++; strcmp(event->name, "fact");)
		event++;
	assert_string_equal(event->args, " key=dtype value=bf16");
	assert_int_equal(event->depth, 0);
	event = pf_find(&trace, "record", "memory");
	assert_int_equal(event->time, 10);
	assert_string_equal(event->args,
			    " event=0 address=64 bytes=9 device=-1 use=0 site=here.c:3 thread=0");
	assert_string_equal(pf_find(&trace, "payload", "p")->args, " payload=-5");
	pf_release(&trace);
	fake_run_free(run);
}

/* A track of several chunks, which several threads encode: all there, in order. */
static void test_long_track(void **state)
{
	struct run *run = fake_run_new();
	struct err err = { "" };
	const uint8_t *at;
	uint64_t last = 0, begins = 0;
	struct pf_field packet, field, inner;
	char *bytes = NULL;
	size_t size = 0;
	FILE *out;
	const int64_t n = 300000;

	(void)state;
	fake_span(run, 0, 2 * n);
	for (int64_t i = 0; i < n; i++)
		fake_kernel(run, "k", 2 * i, 2 * i + 1, (uint64_t)i);
	out = open_memstream(&bytes, &size);
	assert_int_equal(export_perfetto(run, out, &err), 0);
	fclose(out);
	at = (const uint8_t *)bytes;
	while (pf_next(&at, (const uint8_t *)bytes + size, &packet)) {
		const uint8_t *in = packet.data, *end = in + packet.size;
		uint64_t time = 0;

		while (pf_next(&in, end, &field)) {
			const uint8_t *event = field.data;

			if (field.number == 8)
				time = field.value;
			if (field.number != 11)
				continue;
			assert_true(time >= last);
			last = time;
			while (pf_next(&event, field.data + field.size, &inner))
				begins += inner.number == 9 && inner.value == 1;
		}
	}
	assert_int_equal(begins, n + 2); /* and two notes */
	assert_int_equal(last, 2 * n - 1);
	free(bytes);
	fake_run_free(run);
}

static void test_full_disk(void **state)
{
	struct run *run = fake_gpu_run();
	FILE *full = fopen("/dev/full", "w");
	struct err err = { "" };

	(void)state;
	assert_non_null(full);
	assert_int_equal(export_perfetto(run, full, &err), -ENOSPC);
	assert_true(err.message[0] != '\0');
	fclose(full);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels_add_up),
		cmocka_unit_test(test_kernel_has_its_launch),
		cmocka_unit_test(test_host_nesting),
		cmocka_unit_test(test_crossing_work_has_lanes),
		cmocka_unit_test(test_flows),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_odd_names),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_losses_are_noted),
		cmocka_unit_test(test_what_has_no_place_is_noted),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_every_kind),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_long_track),
		cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
