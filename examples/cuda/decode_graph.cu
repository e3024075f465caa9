/* SPDX-License-Identifier: Apache-2.0
 *
 * A decode loop as in inference engines: the kernels of one token are captured once into a CUDA
 * graph and replayed for every token. Many small kernels, so that a profiler's overhead shows.
 *
 * Each lane (thread x stream) has its own graph, whose kernels increment the lane's cells in turn:
 * at the end every cell must hold the number of kernels launched. A lost, repeated or reordered
 * launch, or a wrong result for any other reason, ends the program with status 1.
 *
 * Standard output: one JSON object per line, for each second and thread, and a last one with sums.
 */
#include <algorithm>
#include <atomic>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "common.cuh"

#define CELLS 32
#define MAX_SAMPLES 8192

static struct {
	int kernels, layers, threads, streams, work;
	long replays, recapture;
	double seconds;
	bool eager;
	const char *progress;
} options = { 900, 30, 1, 1, 0, 0, 0, 5, false, NULL };

/* Kernels done so far, for outside observers; survives the program's SIGKILL. */
static std::atomic<uint64_t> *progress;
static double started_s;

/* In the order of a layer's work. Each adds one; the loop represents work, and `none` is 0, which
 * the compiler does not know. */
#define CELL_KERNEL(name)                                                                          \
	__global__ void name(unsigned int *cells, int work, unsigned int none)                     \
	{                                                                                          \
		unsigned int cell = cells[threadIdx.x], mix = cell;                                \
		for (int i = 0; i < work; i++)                                                     \
			mix = mix * 1664525u + 1013904223u;                                        \
		cells[threadIdx.x] = cell + 1 + (mix & none);                                      \
	}
CELL_KERNEL(rms_norm)
CELL_KERNEL(attention)
CELL_KERNEL(route_top_k)
CELL_KERNEL(expert_gemm)
CELL_KERNEL(residual_add)

typedef void (*cell_kernel)(unsigned int *, int, unsigned int);
static const cell_kernel layer_kernels[] = { rms_norm, attention, route_top_k, expert_gemm,
					     residual_add };

struct lane {
	cudaStream_t stream;
	cudaGraphExec_t exec;
	unsigned int *cells;
	uint64_t launched; /* kernels */
};

struct worker {
	pthread_t thread;
	int index;
	std::vector<lane> lanes;
	uint64_t rounds, captures;
	double seconds;
	bool correct;
};

/* The kernels of a layer: an even share, with one more in the first layers if there is a
 * remainder. */
static int layer_share(int layer)
{
	return options.kernels / options.layers + (layer < options.kernels % options.layers);
}

static void launch_token(lane *l)
{
	scoped_range token("decode_token");

	for (int layer = 0, n = 0; layer < options.layers; layer++) {
		char name[32];

		snprintf(name, sizeof(name), "layer_%02d", layer);
		scoped_range range(name);
		for (int i = 0; i < layer_share(layer); i++, n++)
			layer_kernels[n % 5]<<<1, CELLS, 0, l->stream>>>(l->cells, options.work, 0);
	}
	CHECK(cudaGetLastError());
}

static void capture(lane *l)
{
	cudaGraph_t graph;
	scoped_range range("capture");

	if (l->exec)
		CHECK(cudaGraphExecDestroy(l->exec));
	CHECK(cudaStreamBeginCapture(l->stream, cudaStreamCaptureModeThreadLocal));
	launch_token(l);
	CHECK(cudaStreamEndCapture(l->stream, &graph));
	CHECK(cudaGraphInstantiate(&l->exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
}

static void replay(lane *l)
{
	if (options.eager) {
		launch_token(l);
	} else {
		scoped_range range("replay");
		CHECK(cudaGraphLaunch(l->exec, l->stream));
	}
	l->launched += (uint64_t)options.kernels;
}

/* One token on each lane, then the wait for all of them. */
static void round_of_tokens(worker *w)
{
	for (lane &l : w->lanes)
		replay(&l);
	for (lane &l : w->lanes)
		CHECK(cudaStreamSynchronize(l.stream));
	w->rounds++;
	if (progress)
		progress->fetch_add((uint64_t)options.kernels * w->lanes.size());
}

static long resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long all, resident = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld %ld", &all, &resident) != 2)
		resident = -1;
	fclose(file);
	return resident < 0 ? -1 : resident * sysconf(_SC_PAGESIZE);
}

static double cpu_ms(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 +
	       (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-3;
}

/* Unknown figures are null. GPU memory is that of the whole device. */
static void print_second(const worker *w, int second, std::vector<double> &samples_us, uint64_t n,
			 double sum_us)
{
	size_t unused, total;
	char gpu[32] = "null", rss[32] = "null";
	long resident = resident_bytes();

	if (cudaMemGetInfo(&unused, &total) == cudaSuccess)
		snprintf(gpu, sizeof(gpu), "%zu", total - unused);
	if (resident >= 0)
		snprintf(rss, sizeof(rss), "%ld", resident);
	std::sort(samples_us.begin(), samples_us.end());
	printf("{\"second\":%d,\"thread\":%d,\"replays\":%" PRIu64
	       ",\"us_per_replay\":%.3f,\"median_us\":%.3f,\"max_us\":%.3f,\"cpu_ms\":%.1f,"
	       "\"rss_bytes\":%s,\"gpu_used_bytes\":%s}\n",
	       second, w->index, n * w->lanes.size(), sum_us / (double)n,
	       samples_us[samples_us.size() / 2], samples_us.back(), cpu_ms(), rss, gpu);
	fflush(stdout);
}

static bool finished(const worker *w, double elapsed_s)
{
	return options.replays ? w->rounds >= (uint64_t)options.replays
			       : elapsed_s >= options.seconds;
}

static void decode(worker *w)
{
	std::vector<double> samples_us;
	double began = now_s(), sum_us = 0;
	uint64_t n = 0;
	int second = 0;

	while (!finished(w, now_s() - began)) {
		double start = now_s(), us;

		if (options.recapture && w->rounds &&
		    w->rounds % (uint64_t)options.recapture == 0) {
			for (lane &l : w->lanes)
				capture(&l);
			w->captures += w->lanes.size();
			start = now_s();
		}
		round_of_tokens(w);
		us = (now_s() - start) * 1e6 / (double)w->lanes.size();
		sum_us += us;
		n++;
		if (samples_us.size() < MAX_SAMPLES)
			samples_us.push_back(us);
		if (now_s() - began >= second + 1) {
			print_second(w, second, samples_us, n, sum_us);
			second = (int)(now_s() - began);
			samples_us.clear();
			sum_us = 0;
			n = 0;
		}
	}
	if (n)
		print_second(w, second, samples_us, n, sum_us);
	w->seconds = now_s() - began;
}

static bool verify(const worker *w)
{
	for (const lane &l : w->lanes) {
		unsigned int cells[CELLS], want = (unsigned int)l.launched;

		CHECK(cudaMemcpy(cells, l.cells, sizeof(cells), cudaMemcpyDeviceToHost));
		for (int i = 0; i < CELLS; i++) {
			if (cells[i] == want)
				continue;
			fprintf(stderr,
				"decode_graph: thread %d: cell %d is %u after %u kernels that add "
				"one each.\n",
				w->index, i, cells[i], want);
			return false;
		}
	}
	return true;
}

static void *work(void *arg)
{
	worker *w = (worker *)arg;

	for (int i = 0; i < options.streams; i++) {
		lane l = {};

		CHECK(cudaStreamCreateWithFlags(&l.stream, cudaStreamNonBlocking));
		CHECK(cudaMalloc(&l.cells, CELLS * sizeof(*l.cells)));
		CHECK(cudaMemsetAsync(l.cells, 0, CELLS * sizeof(*l.cells), l.stream));
		if (!options.eager) {
			capture(&l);
			w->captures++;
		}
		CHECK(cudaStreamSynchronize(l.stream));
		w->lanes.push_back(l);
	}
	decode(w);
	w->correct = verify(w);
	for (lane &l : w->lanes) {
		if (l.exec)
			CHECK(cudaGraphExecDestroy(l.exec));
		CHECK(cudaFree(l.cells));
		CHECK(cudaStreamDestroy(l.stream));
	}
	return NULL;
}

static void print_sums(const std::vector<worker> &workers)
{
	uint64_t launched = 0, replays = 0, captures = 0;
	double seconds = 0;
	bool correct = true;

	for (const worker &w : workers) {
		for (const lane &l : w.lanes)
			launched += l.launched;
		replays += w.rounds * w.lanes.size();
		captures += w.captures;
		seconds = std::max(seconds, w.seconds);
		correct = correct && w.correct;
	}
	printf("{\"launched_kernels\":%" PRIu64 ",\"replays\":%" PRIu64 ",\"captures\":%" PRIu64
	       ",\"kernels_per_replay\":%d,\"eager\":%s,\"seconds\":%.3f,\"start_s\":%.3f,"
	       "\"us_per_replay\":%.3f,\"correct\":%s,\"ranges\":{",
	       launched, replays, captures, options.kernels, options.eager ? "true" : "false",
	       seconds, started_s,
	       seconds * 1e6 * (double)options.threads / (double)std::max<uint64_t>(replays, 1),
	       correct ? "true" : "false");
	for (int i = 0; i < options.layers; i++)
		printf("%s\"layer_%02d\":%" PRIu64, i ? "," : "", i,
		       replays * (uint64_t)layer_share(i));
	printf("}}\n");
}

static void open_progress(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	void *memory = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(*progress)) == 0)
		memory = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		fprintf(stderr, "decode_graph: cannot write %s: %s.\n", path, strerror(errno));
		exit(1);
	}
	close(fd);
	progress = (std::atomic<uint64_t> *)memory;
}

static const char usage[] =
	"usage: decode_graph [OPTION]...\n"
	"  --kernels N    kernels of a token, 1 to 1000000 (900)\n"
	"  --layers N     NVTX ranges that they are in, layer_00 and so on (30)\n"
	"  --seconds S    how long (5)\n"
	"  --replays N    how many tokens of each thread instead\n"
	"  --recapture N  capture the graph again after every N tokens (0: never)\n"
	"  --threads N    threads that decode (1)\n"
	"  --streams N    streams of each thread, a graph on each (1)\n"
	"  --work N       more work in each kernel (0)\n"
	"  --eager        launch the kernels one by one, without a graph\n"
	"  --progress F   keep the number of finished kernels in file F, as 64 bits\n";

static void parse(int argc, char **argv)
{
	static const struct option table[] = {
		{ "kernels", 1, NULL, 'k' },   { "layers", 1, NULL, 'l' },
		{ "seconds", 1, NULL, 's' },   { "replays", 1, NULL, 'r' },
		{ "recapture", 1, NULL, 'c' }, { "threads", 1, NULL, 't' },
		{ "streams", 1, NULL, 'm' },   { "work", 1, NULL, 'w' },
		{ "eager", 0, NULL, 'e' },     { "progress", 1, NULL, 'p' },
		{ "help", 0, NULL, 'h' },      { NULL, 0, NULL, 0 },
	};
	int c;

#define NUMBER(option, low, high) number_option("decode_graph", option, optarg, low, high)
	while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
		switch (c) {
		case 'k':
			options.kernels = (int)NUMBER("--kernels", 1, 1000000);
			break;
		case 'l':
			options.layers = (int)NUMBER("--layers", 1, 1000);
			break;
		case 's':
			options.seconds = (double)NUMBER("--seconds", 1, 86400);
			break;
		case 'r':
			options.replays = NUMBER("--replays", 1, LONG_MAX);
			break;
		case 'c':
			options.recapture = NUMBER("--recapture", 0, LONG_MAX);
			break;
		case 't':
			options.threads = (int)NUMBER("--threads", 1, 64);
			break;
		case 'm':
			options.streams = (int)NUMBER("--streams", 1, 64);
			break;
		case 'w':
			options.work = (int)NUMBER("--work", 0, 100000000);
			break;
		case 'e':
			options.eager = true;
			break;
		case 'p':
			options.progress = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "decode_graph: '%s' is not an option.\n%s", argv[optind], usage);
		exit(2);
	}
	if (options.layers > options.kernels)
		options.layers = options.kernels;
}

int main(int argc, char **argv)
{
	double begin = now_s();
	bool correct = true;

	parse(argc, argv);
	if (options.progress)
		open_progress(options.progress);
	CHECK(cudaFree(0)); /* the context, once, before the threads */
	started_s = now_s() - begin;

	std::vector<worker> workers((size_t)options.threads);
	for (int i = 0; i < options.threads; i++) {
		workers[i].index = i;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
			fprintf(stderr, "decode_graph: cannot start thread %d of %d.\n", i + 1,
				options.threads);
			return 1;
		}
	}
	for (worker &w : workers) {
		pthread_join(w.thread, NULL);
		correct = correct && w.correct;
	}
	print_sums(workers);
	return correct ? 0 : 1;
}
