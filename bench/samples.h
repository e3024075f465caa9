/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of a recorded training step (bench/data), to draw records from. One thread.
 */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include "trace/records.h"

#define SAMPLES_KERNELS 8192
#define SAMPLES_LAUNCHES 1024

struct sample {
	uint32_t launch; /* index into samples.launches */
	int64_t gap_ns, duration_ns, correlation_step;
};

struct samples {
	struct sample kernels[SAMPLES_KERNELS]; /* in the order of the step */
	size_t n;
	struct row_launch launches[SAMPLES_LAUNCHES]; /* name: index + 1 */
	char *names[SAMPLES_LAUNCHES];
	size_t n_launches;
};
extern struct samples samples;

/* 0, -errno, or -ENODATA if the files contain no kernel. */
int samples_read(const char *dir);
/* A random kernel with the same launch configuration, so that no two steps are alike. */
const struct sample *samples_alike(const struct sample *sample);
/* The same numbers in every run of a program. */
uint64_t samples_random(void);

#endif
