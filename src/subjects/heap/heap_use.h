/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory by the stack that allocated it, or by function: what lives at the end, what lived at the peak, what was
 * allocated in all, and what grows all the time. Figures are estimates from samples. Pure, any thread.
 */
#ifndef SUBJECTS_HEAP_USE_H
#define SUBJECTS_HEAP_USE_H

#include <stdbool.h>

#include "subjects/numbers/value.h"
#include "tables/tables.h"

/* Bytes of allocations. */
struct heap_bytes {
	uint64_t live, peak, allocated; /* peak: live when the program had most */
};

struct heap_row {
	char *text;			/* the stack, innermost function first; or the function */
	struct heap_bytes self, total;	/* total: also of what it called */
	uint64_t samples, allocations;	/* allocations: an estimate */
	double live_pct, allocated_pct; /* of all */
	double error_pct; /* of what was allocated, by chance: one standard deviation */
	/* Bytes per second by which its live memory grows, and by how much it has, if it does so steadily. */
	struct value growth, grown;
};

struct heap_use {
	struct heap_row *rows; /* most live at the end, then at the peak, first */
	size_t n, processes;
	uint64_t samples;
	struct heap_bytes all;
	int64_t peak_ns; /* when that was */
	size_t leak;	 /* the row that grows most; n: none does */
};

/* Of row i of run->heap_sample, whatever the file says: small enough to be added up; and how long it was held, not
 * below 0. */
int64_t heap_sample_bytes(const struct run *run, size_t i);
int64_t heap_sample_held_ns(const struct run *run, size_t i);

struct stack_choice;
/* choice: what was allocated in chosen steps and ranges (stacks/stack_choice.h). 0 or -ENOMEM. */
int heap_use_analyze(const struct run *run, bool by_function, const struct stack_choice *choice,
		     struct heap_use *ret_use);
void heap_use_release(struct heap_use *use);

/* Rows of run->heap_sample in the order of time up to when live memory was most: what of these is not freed among them
 * lived then. Caller frees. 0 or -ENOMEM. */
int heap_until_peak(const struct run *run, uint32_t **ret_rows, size_t *ret_n);

/* Its fields; see heap_fields.c. */
struct field_set;
extern const struct field_set heap_fields, heap_total;

#endif
