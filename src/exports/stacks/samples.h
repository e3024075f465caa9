/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled stacks for exports: the functions of a sample, and its time in parts, on a processor and waiting for
 * one thing or another. One thread.
 */
#ifndef EXPORTS_SAMPLES_H
#define EXPORTS_SAMPLES_H

#include "tables/tables.h"

#define SAMPLE_DEPTH 1024 /* what lies further out is left out */
#define SAMPLE_PARTS 3

struct samples {
	const struct run *run;
	uint32_t *rows, *parents;
	const char *path[SAMPLE_DEPTH]; /* of the last that was asked for, innermost first */
	size_t depth;
};

struct sample_part {
	int64_t ns;
	const char *waiting; /* "(waiting: lock)"; NULL: it ran */
};

/* 0 or -ENOMEM; release it in both cases. */
int samples_init(struct samples *samples, const struct run *run);
void samples_release(struct samples *samples);

/* The same for samples of host memory. */
int samples_init_heap(struct samples *samples, const struct run *run);

/* Of row i of run->stack_sample, or run->heap_sample: its functions into path and depth. */
void samples_walk(struct samples *samples, size_t i);
/* Those parts that are not empty, first to last; returns how many. */
size_t sample_parts(const struct run *run, size_t i, struct sample_part parts[SAMPLE_PARTS]);

#endif
