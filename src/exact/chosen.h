/* SPDX-License-Identifier: Apache-2.0
 *
 * Which launches are to be counted: kernels by their names, and the places of the program that launch them. The caller's
 * lock is held around every call.
 */
#ifndef EXACT_CHOSEN_H
#define EXACT_CHOSEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "moescope.h"

/* A kernel by its name: whether it is counted, and what is to be counted next of it. */
struct kernel {
	moescope_name name;
	bool wanted, talks, unknown;
	uint8_t next_group; /* after the last it was counted with */
	double alone_ns;    /* the longest of those that ended in a single pass; 0: none has */
};

/* As the environment has it; and how many launches are to be counted. */
int chosen_begin(uint64_t *ret_count, struct err *err);
/* Whether some launches are left out by their kernels, and by these or their places. */
bool chosen_by_kernel(void);
bool chosen_filters(void);

/* NULL: there is no room for its name. */
struct kernel *chosen_kernel(const char *symbol);
/* Whether the calling thread is in a range that was chosen. */
bool chosen_place(void);
/* Whether this launch is one of the first, which are left out. */
bool chosen_skipped(void);

#endif
