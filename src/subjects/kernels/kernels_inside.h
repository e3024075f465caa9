/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of the kernel analysis: kernels_rows.c says which row a kernel counts to,
 * kernels.c makes the figures of the rows. One thread.
 */
#ifndef SUBJECTS_KERNELS_INSIDE_H
#define SUBJECTS_KERNELS_INSIDE_H

#include "base/hash_map.h"
#include "subjects/kernels/kernels.h"
#include "subjects/shared/attribution.h"

#define NO_ROW UINT32_MAX

/* What rows are kept apart by. major, minor: as `by` needs them. */
struct kernel_key {
	uint64_t major, minor;
	const char *class;    /* told apart by its address */
	const char *no_place; /* likewise */
};

/* The row of kernels of one launch and path, by class. */
struct kernel_near {
	uint32_t launch, path, row; /* row + 1; 0: nothing is here */
};
#define KERNELS_NEAR 4096

struct kernels_builder {
	const struct run *run;
	const struct selection *sel;
	enum kernels_by by;
	const struct kernel_classes *classes;
	const struct attribution *at; /* NULL: places are not looked up */
	struct attribution_cursor cursor;
	bool placed; /* places are asked for, if there are kernels */
	struct kernel_row *rows;
	struct kernel_key *keys;
	size_t n, rows_capacity, keys_capacity;
	struct hash_map map; /* of keys */
	bool by_launch;	     /* what a kernel counts to follows from its launch alone */
	uint32_t *row_of;    /* of each launch id, or of each kernel */
	size_t row_of_capacity;
	const char **class_of; /* by string id, NULL: not asked for yet */
	size_t class_capacity;
	/* By class, where ranges may say another one than the name. */
	bool class_by_range;
	int8_t *range_rule; /* of the innermost range of each path, + 2; 0: not asked for yet */
	struct kernel_near *near; /* KERNELS_NEAR of them: a loop launches the same again */
	bool long_ones;		  /* a duration that does not fit into 32 bits, or a negative one */
	uint64_t without_call, outside;
};

/* The row of each kernel in row_of; rows with their names, counts and times. */
int kernels_assign_rows(struct kernels_builder *b);
/* When by step: the row of the step of that number, or NULL. */
struct kernel_row *kernels_row_of_step(const struct kernels_builder *b, int64_t step);

/* NO_ROW: the selection leaves the kernel out. */
static inline uint32_t kernels_row_at(const struct kernels_builder *b, size_t i)
{
	return b->row_of[b->by_launch ? b->run->kernel.launch[i] : i];
}

#endif
