/* SPDX-License-Identifier: Apache-2.0
 *
 * Peaks of the processor with one thread per core: multiply-adds that stay in registers, and a[i] =
 * b[i] + s*c[i] over arrays much larger than the caches (24 bytes per element, as STREAM counts;
 * excludes what caches read before they write).
 *
 * The main thread and the workers meet at a barrier before and after each repeat.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load/calibrate.h"

#define MAX_THREADS 1024
#define ELEMENTS_MIN (UINT64_C(8) << 20)   /* of each array, of all threads: 64 MiB */
#define ELEMENTS_MAX (UINT64_C(128) << 20) /* 1 GiB */

/* Ten chains, so that a unit with several cycles of latency is never idle. */
#define DEFINE_FMA(name, attribute, type, bytes)                                                   \
	attribute static double name(uint64_t rounds)                                              \
	{                                                                                          \
		typedef type vector __attribute__((vector_size(bytes)));                           \
		vector a0 = { 0 }, a1 = a0 + 1, a2 = a0 + 2, a3 = a0 + 3, a4 = a0 + 4;             \
		vector a5 = a0 + 5, a6 = a0 + 6, a7 = a0 + 7, a8 = a0 + 8, a9 = a0 + 9;            \
		vector x = a0 + (type)0.999, y = a0 + (type)0.001;                                 \
                                                                                                   \
		for (uint64_t i = 0; i < rounds; i++) {                                            \
			a0 = a0 * x + y, a1 = a1 * x + y, a2 = a2 * x + y, a3 = a3 * x + y;        \
			a4 = a4 * x + y, a5 = a5 * x + y, a6 = a6 * x + y, a7 = a7 * x + y;        \
			a8 = a8 * x + y, a9 = a9 * x + y;                                          \
		}                                                                                  \
		a0 += a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9;                                  \
		return (double)a0[0];                                                              \
	}
#define CHAINS 10

DEFINE_FMA(fma_float_16, , float, 16)
DEFINE_FMA(fma_double_16, , double, 16)
#if defined(__x86_64__)
DEFINE_FMA(fma_float_32, __attribute__((target("avx2,fma"))), float, 32)
DEFINE_FMA(fma_double_32, __attribute__((target("avx2,fma"))), double, 32)
DEFINE_FMA(fma_float_64, __attribute__((target("avx512f"))), float, 64)
DEFINE_FMA(fma_double_64, __attribute__((target("avx512f"))), double, 64)
#endif

struct fma {
	double (*run)(uint64_t rounds);
	int bytes; /* of its vectors */
};

static struct fma widest(bool in_double)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f"))
		return (struct fma){ in_double ? fma_double_64 : fma_float_64, 64 };
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return (struct fma){ in_double ? fma_double_32 : fma_float_32, 32 };
#endif
	return (struct fma){ in_double ? fma_double_16 : fma_float_16, 16 };
}

static struct {
	pthread_barrier_t barrier;
	struct fma fma;	 /* run NULL: the arrays */
	uint64_t rounds; /* of the repeat to come */
	bool stop;
	double *a, *b, *c;
	uint64_t elements;
	int threads;
	double results[MAX_THREADS]; /* results that nobody reads need not be computed */
} team;

static void triad(int index)
{
	uint64_t part = team.elements / (uint64_t)team.threads, from = part * (uint64_t)index;
	uint64_t to = index == team.threads - 1 ? team.elements : from + part;
	double *a = team.a, *b = team.b, *c = team.c;

	/* A different factor every round, or one round could do for all. */
	for (uint64_t r = 0; r < team.rounds; r++)
		for (uint64_t i = from; i < to; i++)
			a[i] = b[i] + (double)(r + 1) * c[i];
	team.results[index] = a[from];
}

/* Memory is allocated where it is first touched. */
static void touch(int index)
{
	uint64_t part = team.elements / (uint64_t)team.threads, from = part * (uint64_t)index;
	uint64_t to = index == team.threads - 1 ? team.elements : from + part;

	for (uint64_t i = from; team.a && i < to; i++)
		team.a[i] = 0, team.b[i] = 1, team.c[i] = 2;
}

static void *work(void *argument)
{
	int index = *(const int *)argument;

	touch(index);
	pthread_barrier_wait(&team.barrier);
	for (;;) {
		pthread_barrier_wait(&team.barrier);
		if (team.stop)
			return NULL;
		if (team.fma.run)
			team.results[index] = team.fma.run(team.rounds);
		else
			triad(index);
		pthread_barrier_wait(&team.barrier);
	}
}

static double one_repeat(void)
{
	double begin;

	pthread_barrier_wait(&team.barrier);
	begin = now_s();
	pthread_barrier_wait(&team.barrier);
	return now_s() - begin;
}

static void measure(const struct device *device, const char *key, double amount_a_round)
{
	double rates[REPEATS];

	for (team.rounds = 1; one_repeat() < SAMPLE_S && team.rounds < UINT64_MAX / 2;)
		team.rounds *= 2;
	for (int i = 0; i < REPEATS; i++)
		rates[i] = amount_a_round * (double)team.rounds / one_repeat();
	tell(device, key, rates, REPEATS);
}

static void measure_all(const struct device *device)
{
	for (int in_double = 0; in_double < 2; in_double++) {
		double lanes;

		team.fma = widest(in_double);
		lanes = team.fma.bytes / (in_double ? 8.0 : 4.0);
		measure(device, in_double ? "fp64_flops_per_s" : "fp32_flops_per_s",
			2 * CHAINS * lanes * team.threads);
	}
	team.fma.run = NULL;
	if (team.a)
		measure(device, "memory_bytes_per_s", 24.0 * (double)team.elements);
	else
		tell_absent(device, "memory_bytes_per_s", "no memory for its arrays");
}

/* Four times the last-level cache, as STREAM requires, but at most an eighth of the memory in
 * total. */
static void make_arrays(void)
{
	long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 8 /
			  24;

	team.elements = cache > 0 ? (uint64_t)cache * 4 / 8 : 0;
	team.elements = team.elements < ELEMENTS_MIN ? ELEMENTS_MIN : team.elements;
	team.elements = team.elements > ELEMENTS_MAX ? ELEMENTS_MAX : team.elements;
	team.elements = team.elements > memory ? memory : team.elements;
	team.a = malloc(team.elements * 8);
	team.b = malloc(team.elements * 8);
	team.c = malloc(team.elements * 8);
	if (team.a && team.b && team.c)
		return;
	free(team.a);
	free(team.b);
	free(team.c);
	team.a = team.b = team.c = NULL;
}

/* As in run.json: runs are matched by it. */
static void find_name(struct device *device)
{
	char line[512];
	FILE *f = fopen("/proc/cpuinfo", "re");

	snprintf(device->name, sizeof(device->name), "%s",
#if defined(__aarch64__)
		 "AArch64 processor"
#else
		 "unknown processor"
#endif
	);
	while (f && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (!colon || strncmp(line, "model name", 10) != 0)
			continue;
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(device->name, sizeof(device->name), "%s",
			 colon + 1 + strspn(colon + 1, " "));
		break;
	}
	if (f)
		fclose(f);
}

void calibrate_cpu(void)
{
	struct device device = { .label = "cpu" };
	static pthread_t threads[MAX_THREADS];
	static int indices[MAX_THREADS];
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	find_name(&device);
	team.threads = cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (int)cores;
	device.cores = (double)cores;
	make_arrays();
	if (pthread_barrier_init(&team.barrier, NULL, (unsigned int)team.threads + 1) != 0) {
		tell_absent(&device, "fp32_flops_per_s", "no barrier to be had");
		return;
	}
	for (int i = 0; i < team.threads; i++) {
		indices[i] = i;
		if (pthread_create(&threads[i], NULL, work, &indices[i]) == 0)
			continue;
		/* Those waiting at the barrier end with the process. */
		tell_absent(&device, "fp32_flops_per_s", "not enough threads to be had");
		exit(0);
	}
	pthread_barrier_wait(&team.barrier);
	measure_all(&device);
	team.stop = true;
	pthread_barrier_wait(&team.barrier);
	for (int i = 0; i < team.threads; i++)
		pthread_join(threads[i], NULL);
	free(team.a);
	free(team.b);
	free(team.c);
}
