/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of a call inside the program: a range begin and end, recording on and off, with one
 * thread and with many. Bursts fit the ring, with a pause for the drain between them, so everything
 * timed was recorded; drops are printed. Times are of bursts of 512 pairs, read from the thread's
 * CPU clock for many threads on few cores: waiting for a core is not a cost of the call.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "moescope.h"

#define BURST 512	    /* the CPU clock of a thread is a system call: little of it per pair */
#define BURSTS_PER_PAUSE 12 /* 512 * 12 * 32 bytes: a fifth of a 1 MiB ring */
#define PAUSES 40

struct worker {
	pthread_t thread;
	clockid_t clock;
	int by_text;
	double *ns; /* per pair, one value a burst */
	size_t n;
};

static double now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void burst(moescope_name name, int by_text)
{
	for (int i = 0; i < BURST; i++) {
		if (by_text)
			moescope_range_push("forward pass");
		else
			moescope_range_begin(name, 3, -1, MOESCOPE_FORWARD);
		moescope_range_end();
	}
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	moescope_name name = moescope_intern("forward");
	struct timespec pause = { .tv_nsec = 60 * 1000000 };

	burst(name, worker->by_text);
	for (int p = 0; p < PAUSES; p++) {
		for (int b = 0; b < BURSTS_PER_PAUSE; b++) {
			double start = now_ns(worker->clock);

			burst(name, worker->by_text);
			worker->ns[worker->n++] = (now_ns(worker->clock) - start) / BURST;
		}
		if (moescope_recording())
			nanosleep(&pause, NULL);
	}
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const char *label, int threads, int by_text)
{
	struct worker workers[64] = { 0 };
	size_t each = (size_t)PAUSES * BURSTS_PER_PAUSE, n = 0;
	double *all = malloc(each * (size_t)threads * sizeof(*all));

	if (!all)
		exit(1);
	for (int t = 0; t < threads; t++) {
		workers[t].clock = threads > 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
		workers[t].by_text = by_text;
		workers[t].ns = all + each * (size_t)t;
		pthread_create(&workers[t].thread, NULL, work, &workers[t]);
	}
	for (int t = 0; t < threads; t++) {
		pthread_join(workers[t].thread, NULL);
		n += workers[t].n;
	}
	qsort(all, n, sizeof(*all), by_value);
	printf("%-44s %7.1f %7.1f %7.1f\n", label, all[n / 2], all[n / 10], all[n * 9 / 10]);
	free(all);
}

/* The floor: two readings of the clock, which every range needs. */
static void clock_floor(void)
{
	double start = now_ns(CLOCK_MONOTONIC), end;
	struct timespec t;

	for (int i = 0; i < 1000000; i++)
		clock_gettime(CLOCK_MONOTONIC, &t);
	end = now_ns(CLOCK_MONOTONIC);
	printf("%-44s %7.1f\n", "two clock_gettime calls (for comparison)",
	       2 * (end - start) / 1e6);
}

int main(int argc, char **argv)
{
	const char *dir = argc > 1 ? argv[1] : "hot-path.mscope";
	struct moescope_stats stats = { .struct_size = sizeof(stats) };
	int r;

	printf("%-44s %7s %7s %7s\n", "ns per range begin+end", "median", "p10", "p90");
	measure("off, 1 thread", 1, 0);
	r = moescope_start(dir);
	if (r < 0) {
		fprintf(stderr, "%s: cannot record: %s\n", dir, strerror(-r));
		return 1;
	}
	measure("on, 1 thread, interned name", 1, 0);
	measure("on, 1 thread, name as text", 1, 1);
	measure("on, 16 threads, interned name", 16, 0);
	moescope_pause();
	measure("paused, 1 thread", 1, 0);
	moescope_stop();
	moescope_get_stats(&stats);
	measure("after stop, 1 thread", 1, 0);
	clock_floor();
	printf("recorded %llu, dropped %llu, drain CPU %.1f ns a record, %.2f bytes a record\n",
	       (unsigned long long)stats.recorded, (unsigned long long)stats.dropped,
	       (double)stats.drain_cpu_ns / (double)stats.recorded,
	       (double)stats.written_bytes / (double)stats.recorded);
	return 0;
}
