/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of any size, as a training on one GPU makes it: steps of 2000 kernels in 200 ranges three
 * deep (phase, layer, operation), the calls that launch them from two threads, a side stream, a
 * replayed CUDA graph, copies, synchronisations, allocations, routing of every layer.
 *
 * Kernels come stream by stream and calls thread by thread in blocks, as CUPTI delivers them: the
 * files are nearly but not wholly in order.
 *
 *   make_run DATA_DIR RUN.mscope KERNELS [OPS]   OPS: operations around every launch, default 0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moescope.h"
#include "samples.h"
#include "trace/rundir.h"
#include "trace/shard.h"

#define LAYERS 16
#define OPS_A_LAYER 5
#define KERNELS_AN_OP 12
#define GRAPH_KERNELS 40
#define EXPERTS 8
#define FLUSH_RECORDS 400000
#define SIDE_EVERY 5

enum { MAIN_THREAD = 100, BACKWARD_THREAD = 101 };
enum { MAIN_STREAM = 7, SIDE_STREAM = 13 };
enum { CALL_LAUNCH, CALL_GRAPH, CALL_SYNC, CALL_COPY, CALL_COPY_ASYNC, CALLS };

/* Rows waiting for their turn. */
struct held {
	enum record_kind kind;
	size_t size, n, most;
	char *rows;
};

struct maker {
	struct encoder encoder;
	struct shard_writer *writer;
	uint64_t records, kernels, ops_a_kernel;
	uint32_t launch_ids[SAMPLES_LAUNCHES], call_names[CALLS], sites[3][LAYERS + 1][8], shape;
	size_t sample;
	int64_t host_ns, device_ns[2];
	uint64_t correlation;
	struct held streams[2], threads[2];
};

static void die(const char *what, int r)
{
	fprintf(stderr, "make_run: %s: %s\n", what, strerror(-r));
	exit(1);
}

static void flush(struct maker *m)
{
	int r = encoder_finish(&m->encoder);

	if (r == 0)
		r = shard_write(m->writer, &m->encoder);
	if (r < 0)
		die("cannot write", r);
	m->records = 0;
}

static void add(struct maker *m, enum record_kind kind, const void *row)
{
	int r = encoder_append(&m->encoder, kind, row);

	if (r < 0)
		die("cannot append", r);
	if (++m->records >= FLUSH_RECORDS)
		flush(m);
}

#define ADD(m, NAME, name, ...) add(m, RECORD_##NAME, &(struct row_##name){ __VA_ARGS__ })

static void let_go(struct maker *m, struct held *held)
{
	for (size_t i = 0; i < held->n; i++)
		add(m, held->kind, held->rows + i * held->size);
	held->n = 0;
}

static void hold(struct maker *m, struct held *held, const void *row)
{
	memcpy(held->rows + held->n++ * held->size, row, held->size);
	if (held->n == held->most)
		let_go(m, held);
}

static struct held held_new(enum record_kind kind, size_t size, size_t most)
{
	struct held held = { .kind = kind, .size = size, .most = most };

	held.rows = calloc(most, size);
	if (!held.rows)
		die("rows", -ENOMEM);
	return held;
}

static int64_t about(int64_t ns)
{
	return ns + (int64_t)(samples_random() % (uint64_t)(ns / 4 + 1));
}

static uint32_t add_string(struct maker *m, const char *text)
{
	static uint32_t id;

	ADD(m, STRING, string, .id = ++id, .length = (uint32_t)strlen(text), .text = text);
	return id;
}

static void add_names(struct maker *m)
{
	static const char *const calls[CALLS] = { "cudaLaunchKernel", "cudaGraphLaunch",
						  "cudaStreamSynchronize", "cudaMemcpy",
						  "cudaMemcpyAsync" };
	static const char *const ops[8] = { "layer",   "attention", "router", "dispatch",
					    "experts", "combine",   "phase",  "aten::op" };
	uint32_t names[8];

	/* First, because samples.launches names them by number. */
	for (size_t l = 0; l < samples.n_launches; l++)
		add_string(m, samples.names[l]);
	for (size_t l = 0; l < samples.n_launches; l++)
		m->launch_ids[l] = encoder_launch(&m->encoder, &samples.launches[l]);
	for (int c = 0; c < CALLS; c++)
		m->call_names[c] = add_string(m, calls[c]);
	for (int o = 0; o < 8; o++)
		names[o] = add_string(m, ops[o]);
	m->shape = add_string(m, "[4096, 1024]");
	for (int p = 0; p < 3; p++)
		for (int l = 0; l <= LAYERS; l++)
			for (int o = 0; o < 8; o++)
				m->sites[p][l][o] = encoder_site(
					&m->encoder,
					&(struct row_site){ .name = names[o],
							    .layer = l < LAYERS ? l : -1,
							    .expert = -1,
							    .phase = (uint8_t)(p + 1) });
	ADD(m, THREAD, thread, .thread = MAIN_THREAD, .name = names[6]);
	ADD(m, DEVICE, device, .name = add_string(m, "a device"), .memory_bytes = 150000000000,
	    .multiprocessors = 132, .capability = 90, .clock_khz = 1980000,
	    .memory_bytes_per_s = 4800000000000);
	for (int l = 0; l < LAYERS; l++)
		ADD(m, MOE_LAYER, moe_layer, .layer = l, .experts = EXPERTS, .k = 2, .hidden = 1024,
		    .inner = 3584, .matrices = 3, .expert_bytes = 22020096);
	/* Created inside the first range of the first step, which begins a millisecond later. */
	for (uint64_t node = 1; node <= GRAPH_KERNELS; node++)
		ADD(m, GRAPH_NODE, graph_node, .time_ns = m->host_ns + 1020000,
		    .thread = MAIN_THREAD, .graph = 1, .node = node);
}

/* A call of the thread that takes about that long; returns its correlation id. */
static uint64_t call(struct maker *m, int name, uint32_t thread, int64_t duration_ns)
{
	struct row_api row = { .name = m->call_names[name],
			       .start_ns = m->host_ns,
			       .duration_ns = about(duration_ns),
			       .thread = thread,
			       .correlation = ++m->correlation };

	hold(m, &m->threads[thread - MAIN_THREAD], &row);
	m->host_ns += row.duration_ns;
	return row.correlation;
}

static int64_t device_begin(struct maker *m, int side, int64_t called_ns)
{
	int64_t free_ns = m->device_ns[side] + about(400);

	return free_ns > called_ns + 4000 ? free_ns : called_ns + about(4000);
}

static void kernel(struct maker *m, int side, int64_t called_ns, uint64_t correlation,
		   uint64_t node)
{
	const struct sample *s = &samples.kernels[m->sample++ % samples.n];
	struct row_kernel row = { .launch = m->launch_ids[s->launch],
				  .start_ns = device_begin(m, side, called_ns),
				  .duration_ns = samples_alike(s)->duration_ns +
						 (int64_t)(samples_random() % 3) * 32,
				  .stream = side ? SIDE_STREAM : MAIN_STREAM,
				  .context = 1,
				  .correlation = correlation,
				  .graph = node != 0,
				  .graph_node = node };

	m->device_ns[side] = row.start_ns + row.duration_ns;
	hold(m, &m->streams[side], &row);
	m->kernels++;
}

static void range(struct maker *m, uint32_t site, int64_t start_ns, uint32_t thread, uint8_t depth)
{
	ADD(m, RANGE, range, .site = site, .start_ns = start_ns,
	    .duration_ns = m->host_ns - start_ns, .thread = thread, .depth = depth);
}

static void launch(struct maker *m, int phase, int layer, int side, uint32_t thread)
{
	int64_t start_ns[8], called_ns;

	for (uint64_t o = 0; o < m->ops_a_kernel; o++) {
		start_ns[o] = m->host_ns;
		m->host_ns += about(300);
	}
	called_ns = m->host_ns;
	kernel(m, side, called_ns, call(m, CALL_LAUNCH, thread, 2200), 0);
	for (uint64_t o = m->ops_a_kernel; o-- > 0;) {
		m->host_ns += about(300);
		ADD(m, OP, op, .site = m->sites[phase][layer][7], .start_ns = start_ns[o],
		    .duration_ns = m->host_ns - start_ns[o], .thread = thread,
		    .depth = (uint8_t)(3 + o), .shape = m->shape, .flops = 1 << 20,
		    .unknown = OP_BYTES_UNKNOWN);
	}
	m->host_ns += about(900);
}

static void layer(struct maker *m, int phase, int number, uint32_t thread)
{
	int64_t layer_start = m->host_ns;

	for (int o = 0; o < OPS_A_LAYER; o++) {
		int64_t start = m->host_ns;

		for (int k = 0; k < KERNELS_AN_OP; k++)
			launch(m, phase, number, o == SIDE_EVERY - 1, thread);
		range(m, m->sites[phase][number][1 + o], start, thread, 2);
	}
	range(m, m->sites[phase][number][0], layer_start, thread, 1);
}

static void route(struct maker *m, int64_t step, int number)
{
	const uint32_t tokens = 4096, k = 2;
	uint32_t load[EXPERTS], k_hist[3] = { 0, 0, tokens }, left = tokens * k;

	for (int e = 0; e < EXPERTS; e++) {
		load[e] = e == EXPERTS - 1 ? left : left / (uint32_t)(EXPERTS - e);
		if (e < EXPERTS - 1)
			load[e] -= (uint32_t)(samples_random() % (load[e] / 8 + 1));
		left -= load[e];
	}
	ADD(m, ROUTING, routing, .time_ns = m->host_ns, .step = step, .layer = number, .phase = 1,
	    .k = k, .tokens = tokens, .experts = EXPERTS, .k_slots = k + 1, .load = load,
	    .k_hist = k_hist);
}

static void allocate(struct maker *m, int number, uint8_t event)
{
	ADD(m, MEMORY, memory, .time_ns = m->host_ns, .event = event,
	    .address = UINT64_C(0x7f0000000000) + (uint64_t)number * (64u << 20),
	    .bytes = event ? 0 : 48u << 20, .use = 4, .thread = MAIN_THREAD);
}

static void copy(struct maker *m, int kind, int name)
{
	int64_t called_ns = m->host_ns, start = device_begin(m, 0, called_ns);
	struct row_copy row = { .start_ns = start,
				.duration_ns = about(9000),
				.bytes = 131072,
				.kind = (uint8_t)kind,
				.source_memory = kind == 1 ? 2 : 3,
				.target_memory = kind == 1 ? 3 : 1,
				.stream = MAIN_STREAM,
				.context = 1,
				.asynchronous = name == CALL_COPY_ASYNC };

	row.correlation = call(m, name, MAIN_THREAD, 3000);
	m->device_ns[0] = row.start_ns + row.duration_ns;
	add(m, RECORD_COPY, &row);
}

static void synchronize(struct maker *m)
{
	int64_t last = m->device_ns[0] > m->device_ns[1] ? m->device_ns[0] : m->device_ns[1];
	int64_t wait = last > m->host_ns ? last - m->host_ns : 1000, start = m->host_ns;
	uint64_t correlation = call(m, CALL_SYNC, MAIN_THREAD, 0);

	m->host_ns = start + wait;
	ADD(m, SYNC, sync, .start_ns = start, .duration_ns = wait, .type = 3, .context = 1,
	    .stream = MAIN_STREAM, .correlation = correlation);
}

static void add_step(struct maker *m, int64_t step)
{
	int64_t start = m->host_ns, phase_start;

	copy(m, 1, CALL_COPY_ASYNC);
	for (int phase = 0; phase < 2; phase++) {
		uint32_t thread = phase ? BACKWARD_THREAD : MAIN_THREAD;

		phase_start = m->host_ns;
		for (int l = 0; l < LAYERS; l++) {
			int number = phase ? LAYERS - 1 - l : l;

			allocate(m, number, (uint8_t)phase);
			layer(m, phase, number, thread);
			if (!phase)
				route(m, step, number);
		}
		range(m, m->sites[phase][LAYERS][6], phase_start, thread, 0);
	}
	phase_start = m->host_ns;
	for (int i = 0; i < 2; i++) {
		int64_t called_ns = m->host_ns;
		uint64_t correlation = call(m, CALL_GRAPH, MAIN_THREAD, 9000);

		for (uint64_t node = 1; node <= GRAPH_KERNELS; node++)
			kernel(m, 0, called_ns, correlation, node);
	}
	range(m, m->sites[2][LAYERS][6], phase_start, MAIN_THREAD, 0);
	synchronize(m);
	copy(m, 2, CALL_COPY);
	m->host_ns += about(50000);
	ADD(m, STEP, step, .step = step, .start_ns = start, .duration_ns = m->host_ns - start,
	    .tokens = 4096, .tokens_known = 1, .recorded = 1);
}

static void write_shard(const char *run, uint64_t kernels, uint64_t ops)
{
	static struct maker m;
	char *path;
	int r = rundir_new_shard(run, 0, &path, &m.writer);

	if (r < 0)
		die(run, r);
	m.host_ns = m.writer->header.monotonic_ns;
	m.ops_a_kernel = ops;
	encoder_init(&m.encoder, 1, 1, 0);
	for (int i = 0; i < 2; i++) {
		m.streams[i] = held_new(RECORD_KERNEL, sizeof(struct row_kernel), 512);
		m.threads[i] = held_new(RECORD_API, sizeof(struct row_api), 1024);
	}
	add_names(&m);
	m.host_ns += 1000000;
	for (int64_t step = 0; m.kernels < kernels; step++)
		add_step(&m, step);
	for (int i = 0; i < 2; i++) {
		let_go(&m, &m.streams[i]);
		let_go(&m, &m.threads[i]);
		free(m.streams[i].rows);
		free(m.threads[i].rows);
	}
	flush(&m);
	r = shard_close(m.writer, &m.encoder);
	if (r < 0)
		die(path, r);
	encoder_release(&m.encoder);
	free(path);
}

int main(int argc, char **argv)
{
	uint64_t kernels = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	uint64_t ops = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
	struct rundir_meta meta = { .argc = argc, .argv = argv, .level = "trace" };
	struct rundir_end end = { .exited = true };
	struct err err = { "" };
	char *path;
	int r;

	if (!kernels || ops > 8) {
		fprintf(stderr, "usage: make_run DATA_DIR RUN.mscope KERNELS [OPS]\n");
		return 2;
	}
	r = samples_read(argv[1]);
	if (r < 0)
		die(argv[1], r);
	r = rundir_create(argv[2], &meta, &path, &err);
	if (r < 0)
		die(err.message, r);
	write_shard(path, kernels, ops);
	r = rundir_finish(path, &end, &err);
	if (r < 0)
		die(err.message, r);
	free(path);
	return 0;
}
