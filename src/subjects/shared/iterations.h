/* SPDX-License-Identifier: Apache-2.0
 *
 * Iterations of a program that marks no steps, found by repetition: kernels that come once in each of
 * them, at regular places of the sequence of a stream. An estimate, and none where that is not clear.
 *
 * Of each process the stream with the most kernels counts. A name is regular when nine in ten of the
 * distances between its kernels, counted in kernels, are within a tenth of their mean. Regular names
 * that come equally often, two at least, make a loop; the outermost loop that is run four times or more
 * counts. It begins at the one of them before which the stream has waited the longest, which is where
 * the host turned round. What follows the last one is not an iteration: its end is not known.
 *
 * None is found when less than half of the kernels lie in the loop, when its turns are not alike, when
 * it is inside of one launch (a CUDA graph), or when the processes do not agree. Layers repeat, too: a
 * turn is a step only if weights are changed in it, or if it is made of layers itself, several names
 * that come in it equally often.
 *
 * Times are those of the launches, by which kernels belong to steps, or of the device where there are no
 * records of launches. Linear in kernels. Pure, any thread.
 */
#ifndef SUBJECTS_ITERATIONS_H
#define SUBJECTS_ITERATIONS_H

#include "tables/tables.h"

#define ITERATIONS_LEAST 3

struct iterations {
	struct row_step *steps; /* by process; numbered from 0 in each */
	uint16_t *shards;
	size_t n;
	char *anchor;	/* demangled name of the kernel that begins them; NULL: none was found */
	double kernels; /* of a turn, on the stream */
	const char *reason; /* why none was found */
};

/* What it reads of a run. */
extern const struct run_want iterations_want;
int iterations_find(const struct run *run, struct iterations *ret_iterations);
void iterations_release(struct iterations *iterations);

#endif
