/* SPDX-License-Identifier: Apache-2.0
 *
 * The program that the fault tests do things to: fault-victim [SECONDS]
 *
 * Four threads work (a checksum of their own) and record through the C API. At the end it prints
 * the checksum and how many rounds there were, and exits with status 7, whatever the profiler
 * could or could not do. Without SECONDS the amount of work is fixed, so that two outputs can be
 * compared. With SECONDS it records until then, or until the descriptor named by VICTIM_END_FD has
 * nothing more to read, and a thread that has recorded number n writes
 * "THREAD n TIME" lines into the descriptor named by VICTIM_FD, after the call has returned: what
 * is in that pipe has been recorded. The first line is "pid PID".
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "moescope.h"

#define THREADS 4
#define ROUNDS 20000
#define TOKENS 16
#define EXPERTS 8
#define K 2

static double seconds;
static int told_fd = -1;
static atomic_bool ended;
static uint64_t checksums[THREADS], rounds[THREADS];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t work(uint64_t x)
{
	for (int i = 0; i < 50; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

static void record_routing(uint64_t x)
{
	int32_t indices[TOKENS * K];
	struct moescope_routing routing = { .struct_size = sizeof(routing),
					    .layer = 1,
					    .experts = EXPERTS,
					    .k = K,
					    .tokens = TOKENS,
					    .indices = indices };

	for (int i = 0; i < TOKENS * K; i++)
		indices[i] = (int32_t)((x >> i) % EXPERTS);
	moescope_route(&routing);
}

/* The counter's value is the number: the reader finds gaps and repetitions by it. */
static void tell(int thread, uint64_t number)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%d %llu %.9f\n", thread, (unsigned long long)number,
			 now());

	if (told_fd >= 0 && write(told_fd, line, (size_t)n) < 0)
		told_fd = -1;
}

static void *run_thread(void *arg)
{
	static const char *const names[THREADS] = { "t0", "t1", "t2", "t3" };
	int thread = (int)(intptr_t)arg;
	moescope_name range = moescope_intern("round"), op = moescope_intern("work");
	uint64_t x = (uint64_t)thread + 88172645463325252u, n = 0;
	double end = now() + seconds;

	while (seconds > 0 ? now() < end && !atomic_load(&ended) : n < ROUNDS) {
		char mark[32];

		moescope_range_begin(range, thread, -1, MOESCOPE_FORWARD);
		moescope_op_begin(op, -1, (int32_t)(n % EXPERTS), 0);
		x = work(x);
		/* Timed runs go at a pace that the drain can follow on one core. */
		for (int i = 0; seconds > 0 && i < 200; i++)
			x = work(x);
		moescope_op_end(100, 8);
		moescope_range_end();
		moescope_counter(names[thread], (double)n);
		if (n % 64 == 0)
			record_routing(x);
		if (n % 1000 == 0) {
			snprintf(mark, sizeof(mark), "mark %d %llu", thread, (unsigned long long)n);
			moescope_mark(mark);
		}
		if (thread == 0 && n % 100 == 0)
			moescope_step(100);
		if (n % 16 == 0)
			tell(thread, n);
		n++;
	}
	checksums[thread] = x;
	rounds[thread] = n;
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	uint64_t checksum = 0;

	seconds = argc > 1 ? atof(argv[1]) : 0;
	if (getenv("VICTIM_FD"))
		told_fd = atoi(getenv("VICTIM_FD"));
	if (told_fd >= 0)
		dprintf(told_fd, "pid %d\n", (int)getpid());
	moescope_info("model", "fault-victim");
	for (intptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run_thread, (void *)i) != 0)
			return 3;
	if (getenv("VICTIM_END_FD")) {
		char byte;

		while (read(atoi(getenv("VICTIM_END_FD")), &byte, 1) > 0)
			;
		atomic_store(&ended, true);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		checksum = work(checksum ^ checksums[i]);
	}
	if (seconds > 0)
		printf("%llu rounds\n",
		       (unsigned long long)(rounds[0] + rounds[1] + rounds[2] + rounds[3]));
	else
		printf("checksum %016llx\n", (unsigned long long)checksum);
	fflush(stdout);
	return 7;
}
