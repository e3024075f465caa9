/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the threads of the program were, by looks at them from outside: functions, threads or whole
 * stacks, with the time on a processor apart from the time spent waiting.
 */
#ifndef SUBJECTS_SAMPLED_STACKS_H
#define SUBJECTS_SAMPLED_STACKS_H

#include <stdbool.h>

#include "tables/tables.h"

/* What samples stand for. */
struct stack_times {
	uint64_t samples;
	int64_t cpu_ns;			       /* on a processor */
	int64_t ready_ns;		       /* waiting for a processor */
	int64_t wait_ns;		       /* waiting for anything else */
	int64_t wait_for_ns[WAIT_CAUSE_LIMIT]; /* the same, by what; enum wait_cause */
};

struct stack_row {
	char *text;				 /* the function, thread, stack or cause */
	struct stack_times self, total;		 /* total: also of what it called */
	double cpu_pct, total_cpu_pct, wait_pct; /* of all */
};

struct sampled_stacks {
	struct stack_row *rows; /* by time on a processor, largest first */
	size_t n, threads;
	struct stack_times all;
};

enum stacks_by { STACKS_BY_FUNCTION, STACKS_BY_THREAD, STACKS_BY_STACK, STACKS_BY_WAIT };

/* "lock"; "?" for one that is not known here. */
const char *wait_cause_name(unsigned int cause);
/* What most of the time was waited for; WAIT_CAUSE_LIMIT: nothing. */
unsigned int stack_times_cause(const struct stack_times *times);

/* choice: which samples (stack_choice.h). 0 or -ENOMEM. */
struct stack_choice;
int sampled_stacks_analyze(const struct run *run, enum stacks_by by,
			   const struct stack_choice *choice, struct sampled_stacks *ret_stacks);
void sampled_stacks_release(struct sampled_stacks *stacks);

/* Of each row of run->stack_sample, its row of run->stack, or UINT32_MAX: that is not there. Caller frees;
 * NULL: no memory. Likewise parents. */
uint32_t *stack_rows_of_samples(const struct run *run);
uint32_t *stack_rows_of_heap(const struct run *run); /* of run->heap_sample */
uint32_t *stack_parents(const struct run *run);

/* Of row i of run->stack_sample. */
struct stack_times stack_sample_times(const struct run *run, size_t i);

/* A process may have several shards: what it has recorded itself, and what was seen of it from outside. */
size_t run_processes(const struct run *run);

/* Its fields; see stacks_fields.c. Forms of its table: places in the program, and causes of waiting. */
enum { STACKS_PLACES = 1, STACKS_CAUSES = 2 };
struct field_set;
extern const struct field_set stacks_fields, stacks_total;

#endif
