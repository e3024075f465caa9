/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of sampled stacks that lies in chosen steps, or in ranges of a name. Steps are those of the sample's
 * process, or of its rank where it has none itself, as a loader's workers; ranges are those of its thread. Pure,
 * any thread.
 */
#ifndef SUBJECTS_STACK_CHOICE_H
#define SUBJECTS_STACK_CHOICE_H

#include "subjects/shared/selection.h"
#include "subjects/stacks/sampled_stacks.h"

struct chosen_span;

struct stack_choice {
	bool by_step, by_range;
	struct chosen_span *steps, *ranges; /* apart from each other, in order */
	size_t n_steps, n_ranges;
	uint64_t *step_owner, *process; /* of each shard */
};

/* range: the name of it, or NULL. 0 or -ENOMEM; release it in both cases. */
int stack_choice_init(struct stack_choice *choice, const struct run *run,
		      const struct selection *sel, const char *range);
void stack_choice_release(struct stack_choice *choice);

/* What of the run a choice reads: the plan of a subject (answers/subject.h). */
struct question;
struct plan;
int stack_choice_plan(const struct question *question, const struct run *run, struct plan *plan);

/* Whether a moment of a thread was chosen. */
bool stack_choice_has(const struct stack_choice *choice, uint16_t shard, uint32_t thread,
		      int64_t time_ns);
/* What of row i of run->stack_sample was chosen. false: nothing. */
bool stack_choice_times(const struct stack_choice *choice, const struct run *run, size_t i,
			struct stack_times *ret_times);

#endif
