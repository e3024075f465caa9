/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope-load: tiny kernels on a GPU, launched one by one and as CUDA graphs, from several
 * threads, with every result checked. `moescope doctor --stress` and the GPU tests and benchmarks
 * run it under the profiler.
 *
 * Each thread has its own stream and its own counters on the device; a kernel adds to one of them,
 * so a kernel that did not run, or ran twice, is noticed. Exit 0: all right; 1: a wrong result or
 * wrong use; 3: a CUDA call failed.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "load/cuda.h"

#define MAX_THREADS 64
#define LAUNCHES 100	     /* of an eager thread between two looks at the clock */
#define ROUNDS_PER_CHECK 128 /* after which a thread compares its counter */
#define ROUNDS_PER_WAIT 4
#define ROUNDS_PER_STEP 16
#define COPY_BYTES 65536
/* Counters are spread over the device's memory, or a kernel would cost whatever the one place of
 * its counter costs. */
#define COUNTERS 256
#define COUNTER_STRIDE 4160

static const char kernels[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
			      ".visible .entry moescope_tick(.param .u64 counter) {\n"
			      "  .reg .b64 %rd<3>;\n  .reg .b32 %r<3>;\n"
			      "  ld.param.u64 %rd1, [counter];\n  cvta.to.global.u64 %rd2, %rd1;\n"
			      "  mov.u32 %r1, 1;\n  red.global.add.u32 [%rd2], %r1;\n  ret;\n}\n";

static struct {
	int eager, graphs, nodes, recapture;
	double seconds;
	uint64_t kernels; /* stop after this many; 0: after the seconds */
	bool every, copies, tell_steps;
} options = { .nodes = 900, .seconds = 2 };

static CUcontext context;
static CUfunction tick;
static _Atomic bool stop;
static void (*tell_step)(uint64_t tokens); /* moescope_step of the profiler, or NULL */
static _Atomic uint64_t launched, replayed, wrong;

struct worker {
	pthread_t thread;
	bool graphs;
	CUstream stream;
	CUdeviceptr counters, target;
	void *source;
	char *copy; /* of the counters */
	CUgraphExec graph;
	unsigned int next;
	uint32_t expected;
	uint64_t rounds;
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void launch(struct worker *w)
{
	CUdeviceptr counter = w->counters + w->next++ % COUNTERS * COUNTER_STRIDE;
	void *arguments[] = { &counter };

	CUDA(cuLaunchKernel(tick, 1, 1, 1, 1, 1, 1, 0, w->stream, arguments, NULL));
}

static void capture(struct worker *w)
{
	CUgraph graph;

	CUDA(cuStreamBeginCapture_v2(w->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < options.nodes; i++)
		launch(w);
	CUDA(cuStreamEndCapture(w->stream, &graph));
	CUDA(cuGraphInstantiateWithFlags(&w->graph, graph, 0));
	CUDA(cuGraphDestroy(graph));
}

static void check(struct worker *w)
{
	uint32_t got = 0, value;

	CUDA(cuStreamSynchronize(w->stream));
	CUDA(cuMemcpyDtoH_v2(w->copy, w->counters, COUNTERS * COUNTER_STRIDE));
	for (size_t i = 0; i < COUNTERS; i++) {
		memcpy(&value, w->copy + i * COUNTER_STRIDE, sizeof(value));
		got += value;
	}
	if (got == w->expected)
		return;
	fprintf(stderr, "moescope-load: %u kernels ran where %u were launched\n", got, w->expected);
	atomic_fetch_add(&wrong, 1);
	w->expected = got;
}

static void round_of_graphs(struct worker *w)
{
	CUDA(cuGraphLaunch(w->graph, w->stream));
	w->expected += (uint32_t)options.nodes;
	atomic_fetch_add(&replayed, 1);
	if (!options.recapture || w->rounds % (uint64_t)options.recapture)
		return;
	CUDA(cuStreamSynchronize(w->stream));
	CUDA(cuGraphExecDestroy(w->graph));
	capture(w);
}

static void round_of_launches(struct worker *w)
{
	for (int i = 0; i < LAUNCHES; i++)
		launch(w);
	w->expected += LAUNCHES;
	atomic_fetch_add(&launched, LAUNCHES);
	if (options.copies)
		CUDA(cuMemcpyHtoDAsync_v2(w->target, w->source, COPY_BYTES, w->stream));
}

static void *work(void *arg)
{
	struct worker *w = arg;

	CUDA(cuCtxSetCurrent(context));
	CUDA(cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
	CUDA(cuMemAlloc_v2(&w->counters, COUNTERS * COUNTER_STRIDE));
	CUDA(cuMemAllocHost_v2((void **)&w->copy, COUNTERS * COUNTER_STRIDE));
	CUDA(cuMemAlloc_v2(&w->target, COPY_BYTES));
	CUDA(cuMemAllocHost_v2(&w->source, COPY_BYTES));
	CUDA(cuMemsetD8_v2(w->counters, 0, COUNTERS * COUNTER_STRIDE));
	if (w->graphs)
		capture(w);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		w->rounds++;
		if (w->graphs)
			round_of_graphs(w);
		else
			round_of_launches(w);
		if (w->rounds % ROUNDS_PER_CHECK == 0)
			check(w);
		else if (w->rounds % ROUNDS_PER_WAIT == 0)
			CUDA(cuStreamSynchronize(w->stream));
		if (tell_step && w->rounds % ROUNDS_PER_STEP == 0)
			tell_step(0);
	}
	check(w);
	return NULL;
}

/* The profiler is in this process if the driver was told to load it. */
static int find_profiler(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_NOW) : NULL;

	if (library)
		*(void **)&tell_step = dlsym(library, "moescope_step");
	if (tell_step)
		return 0;
	fprintf(stderr, "moescope-load: --tell-steps wants 'moescope run' around it\n");
	return -1;
}

static uint64_t kernels_so_far(void)
{
	return atomic_load(&launched) + atomic_load(&replayed) * (uint64_t)options.nodes;
}

static size_t free_bytes(void)
{
	size_t available, all;

	CUDA(cuMemGetInfo_v2(&available, &all));
	return available;
}

static long resident_kb(void)
{
	long size = 0, pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return 0;
	if (fscanf(f, "%ld %ld", &size, &pages) != 2)
		pages = 0;
	fclose(f);
	return pages * 4;
}

static void asked_to_end(int signal_number)
{
	(void)signal_number;
	atomic_store(&stop, true);
}

/* Until the time is up or SIGTERM comes; with --every a line per second. */
static void wait_for_end(double start)
{
	uint64_t last_launched = 0, last_replayed = 0;
	double last = start;

	for (;;) {
		double until = options.every ? last + 1 : start + options.seconds, now;

		do {
			const struct timespec pause = { .tv_nsec = 2000000 };

			nanosleep(&pause, NULL);
			now = now_s();
		} while (!stop && now < until && now < start + options.seconds &&
			 (!options.kernels || kernels_so_far() < options.kernels));
		if (options.every) {
			uint64_t l = launched, r = replayed;

			printf("{\"second\":%.3f,\"launches_per_s\":%.0f,\"replays_per_s\":%.1f,"
			       "\"free_bytes\":%zu,\"resident_kb\":%ld}\n",
			       now - start, (double)(l - last_launched) / (now - last),
			       (double)(r - last_replayed) / (now - last), free_bytes(),
			       resident_kb());
			fflush(stdout);
			last_launched = l;
			last_replayed = r;
			last = now;
		}
		if (stop || now >= start + options.seconds ||
		    (options.kernels && kernels_so_far() >= options.kernels))
			return;
	}
}

static int parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "eager", 1, NULL, 'e' },	{ "graphs", 1, NULL, 'g' },
		{ "nodes", 1, NULL, 'n' },	{ "recapture", 1, NULL, 'r' },
		{ "seconds", 1, NULL, 's' },	{ "kernels", 1, NULL, 'k' },
		{ "every", 0, NULL, 'v' },	{ "copies", 0, NULL, 'c' },
		{ "tell-steps", 0, NULL, 't' }, { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		switch (c) {
		case 'e':
			options.eager = atoi(optarg);
			break;
		case 'g':
			options.graphs = atoi(optarg);
			break;
		case 'n':
			options.nodes = atoi(optarg);
			break;
		case 'r':
			options.recapture = atoi(optarg);
			break;
		case 's':
			options.seconds = atof(optarg);
			break;
		case 'k':
			options.kernels = strtoull(optarg, NULL, 10);
			break;
		case 'v':
			options.every = true;
			break;
		case 'c':
			options.copies = true;
			break;
		case 't':
			options.tell_steps = true;
			break;
		default:
			return -1;
		}
	}
	if (optind < argc || options.eager < 0 || options.graphs < 0 || options.nodes < 1 ||
	    options.eager + options.graphs < 1 || options.eager + options.graphs > MAX_THREADS ||
	    !(options.seconds > 0) || (options.tell_steps && options.eager + options.graphs > 1)) {
		fprintf(stderr,
			"usage: moescope-load [--eager THREADS] [--graphs THREADS] [--nodes N] "
			"[--recapture REPLAYS] [--seconds S] [--kernels N] [--copies] [--every] "
			"[--tell-steps (one thread)]\n");
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct worker workers[MAX_THREADS];
	int n, started = 0;
	CUdevice device;
	CUmodule module;
	double start;
	size_t before;

	if (parse(argc, argv) < 0 || cuda_open() < 0)
		return 1;
	CUDA(cuInit(0));
	if (options.tell_steps && find_profiler() < 0)
		return 1;
	CUDA(cuDeviceGet(&device, 0));
	CUDA(cuDevicePrimaryCtxRetain(&context, device));
	CUDA(cuCtxSetCurrent(context));
	CUDA(cuModuleLoadData(&module, kernels));
	CUDA(cuModuleGetFunction(&tick, module, "moescope_tick"));
	signal(SIGTERM, asked_to_end);
	before = free_bytes();
	start = now_s();
	n = options.eager + options.graphs;
	for (; started < n; started++) {
		workers[started].graphs = started < options.graphs;
		if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0) {
			fprintf(stderr, "moescope-load: no thread to be had\n");
			return 1;
		}
	}
	wait_for_end(start);
	atomic_store(&stop, true);
	for (int i = 0; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	printf("{\"seconds\":%.3f,\"launches\":%llu,\"replays\":%llu,\"nodes\":%d,\"wrong\":%llu,"
	       "\"free_bytes_before\":%zu,\"free_bytes_after\":%zu,\"resident_kb\":%ld}\n",
	       now_s() - start, (unsigned long long)launched, (unsigned long long)replayed,
	       options.nodes, (unsigned long long)wrong, before, free_bytes(), resident_kb());
	return wrong ? 1 : 0;
}
