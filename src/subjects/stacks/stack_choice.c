/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples in chosen steps and ranges; see stack_choice.h.
 */
#include "subjects/stacks/stack_choice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"
#include "subjects/answers/subject.h"

#define ANY_THREAD 0
#define OF_RANK (UINT64_C(1) << 32) /* beside the numbers of processes */

struct chosen_span {
	uint64_t owner; /* a process by its first shard, or OF_RANK | rank */
	uint32_t thread;
	int64_t start_ns, end_ns;
};

static int by_owner_and_start(const void *a, const void *b)
{
	const struct chosen_span *x = a, *y = b;

	return CMP(x->owner, y->owner)   ?:
	       CMP(x->thread, y->thread) ?:
					   CMP(x->start_ns, y->start_ns);
}

/* In order, and those that overlap, as of a function that calls itself, as one. */
static size_t put_apart(struct chosen_span *spans, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(spans, n, sizeof(*spans), by_owner_and_start);
	for (size_t i = 0; i < n; i++) {
		struct chosen_span *last = kept ? &spans[kept - 1] : NULL;

		if (!last || last->owner != spans[i].owner || last->thread != spans[i].thread ||
		    last->end_ns < spans[i].start_ns)
			spans[kept++] = spans[i];
		else if (spans[i].end_ns > last->end_ns)
			last->end_ns = spans[i].end_ns;
	}
	return kept;
}

/* The first shard of the same process. */
static uint64_t process_of(const struct run *run, size_t shard)
{
	size_t i = 0;

	while (i < shard && (run->shards[i].pid != run->shards[shard].pid ||
			     run->shards[i].rank != run->shards[shard].rank))
		i++;
	return i;
}

static int find_owners(struct stack_choice *c, const struct run *run)
{
	bool *has_steps = calloc(run->n_shards + 1, sizeof(*has_steps));

	c->process = calloc(run->n_shards + 1, sizeof(*c->process));
	c->step_owner = calloc(run->n_shards + 1, sizeof(*c->step_owner));
	if (!has_steps || !c->process || !c->step_owner) {
		free(has_steps);
		return -ENOMEM;
	}
	for (size_t i = 0; i < run->n_shards; i++)
		c->process[i] = process_of(run, i);
	for (size_t i = 0; i < run->step.n; i++)
		has_steps[c->process[run->step.shard[i]]] = true;
	for (size_t i = 0; i < run->n_shards; i++)
		c->step_owner[i] = has_steps[c->process[i]] ? c->process[i]
							    : OF_RANK | run->shards[i].rank;
	free(has_steps);
	return 0;
}

static int choose_steps(struct stack_choice *c, const struct run *run, const struct selection *sel)
{
	const struct table_step *t = &run->step;

	c->by_step = true;
	c->steps = calloc(2 * t->n + 1, sizeof(*c->steps));
	if (!c->steps)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		struct chosen_span span = { c->process[t->shard[i]], ANY_THREAD, t->start_ns[i],
					    t->start_ns[i] + t->duration_ns[i] };

		if (!selection_has_step(sel, t->step[i]))
			continue;
		c->steps[c->n_steps++] = span;
		span.owner = OF_RANK | run->shards[t->shard[i]].rank;
		c->steps[c->n_steps++] = span;
	}
	c->n_steps = put_apart(c->steps, c->n_steps);
	return 0;
}

static int choose_ranges(struct stack_choice *c, const struct run *run, const char *name)
{
	const struct table_range *t = &run->range;

	c->by_range = true;
	c->ranges = calloc(t->n + 1, sizeof(*c->ranges));
	if (!c->ranges)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(run_string(run, run_site(run, t->site[i]).name), name) == 0)
			c->ranges[c->n_ranges++] =
				(struct chosen_span){ c->process[t->shard[i]], t->thread[i],
						      t->start_ns[i],
						      t->start_ns[i] + t->duration_ns[i] };
	c->n_ranges = put_apart(c->ranges, c->n_ranges);
	return 0;
}

int stack_choice_init(struct stack_choice *c, const struct run *run, const struct selection *sel,
		      const char *range)
{
	int r;

	*c = (struct stack_choice){ 0 };
	if (!selection_is_window(sel) && !range)
		return 0;
	r = find_owners(c, run);
	if (r == 0 && selection_is_window(sel))
		r = choose_steps(c, run, sel);
	if (r == 0 && range)
		r = choose_ranges(c, run, range);
	return r;
}

int stack_choice_plan(const struct question *question, const struct run *run, struct plan *plan)
{
	(void)run;
	if (selection_is_window(&question->sel))
		plan_kinds(plan, WANT(STEP));
	if (question->range)
		plan_kinds(plan, WANT(RANGE));
	return 0;
}

void stack_choice_release(struct stack_choice *c)
{
	free(c->steps);
	free(c->ranges);
	free(c->step_owner);
	free(c->process);
	*c = (struct stack_choice){ 0 };
}

/* The first that ends after a time of an owner and thread, or comes after all of theirs. */
static size_t first_after(const struct chosen_span *spans, size_t n, uint64_t owner,
			  uint32_t thread, int64_t time_ns)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct chosen_span *s = &spans[middle];
		int order = CMP(s->owner, owner) ?: CMP(s->thread, thread);

		if (order < 0 || (order == 0 && s->end_ns <= time_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How much of [start, end) lies in spans of that owner and thread. */
static int64_t overlap(const struct chosen_span *spans, size_t n, uint64_t owner, uint32_t thread,
		       int64_t start_ns, int64_t end_ns)
{
	int64_t sum = 0;

	for (size_t i = first_after(spans, n, owner, thread, start_ns);
	     i < n && spans[i].owner == owner && spans[i].thread == thread &&
	     spans[i].start_ns < end_ns;
	     i++)
		sum += (spans[i].end_ns < end_ns ? spans[i].end_ns : end_ns) -
		       (spans[i].start_ns > start_ns ? spans[i].start_ns : start_ns);
	return sum;
}

/* The chosen part of [start, end) of a thread. */
static int64_t chosen_ns(const struct stack_choice *c, uint16_t shard, uint32_t thread,
			 int64_t start_ns, int64_t end_ns)
{
	int64_t sum = 0;
	uint64_t owner = c->process[shard];

	if (!c->by_range)
		return overlap(c->steps, c->n_steps, c->step_owner[shard], ANY_THREAD, start_ns,
			       end_ns);
	if (!c->by_step)
		return overlap(c->ranges, c->n_ranges, owner, thread, start_ns, end_ns);
	for (size_t i = first_after(c->ranges, c->n_ranges, owner, thread, start_ns);
	     i < c->n_ranges && c->ranges[i].owner == owner && c->ranges[i].thread == thread &&
	     c->ranges[i].start_ns < end_ns;
	     i++) {
		const struct chosen_span *s = &c->ranges[i];

		sum += overlap(c->steps, c->n_steps, c->step_owner[shard], ANY_THREAD,
			       s->start_ns > start_ns ? s->start_ns : start_ns,
			       s->end_ns < end_ns ? s->end_ns : end_ns);
	}
	return sum;
}

bool stack_choice_has(const struct stack_choice *c, uint16_t shard, uint32_t thread,
		      int64_t time_ns)
{
	return (!c->by_step && !c->by_range) || chosen_ns(c, shard, thread, time_ns, time_ns + 1);
}

/* A part of the times of a thread that has not run. */
static struct stack_times part_of_wait(const struct stack_times *all, int64_t part_ns)
{
	double part = (double)part_ns / (double)(all->ready_ns + all->wait_ns);
	struct stack_times times = { .samples = (uint64_t)((double)all->samples * part + 0.5),
				     .ready_ns = (int64_t)((double)all->ready_ns * part) };

	times.wait_ns = part_ns - times.ready_ns;
	for (int i = 0; i < WAIT_CAUSE_LIMIT; i++)
		if (all->wait_for_ns[i])
			times.wait_for_ns[i] = times.wait_ns; /* a sample has one cause */
	return times;
}

bool stack_choice_times(const struct stack_choice *c, const struct run *run, size_t i,
			struct stack_times *ret_times)
{
	const struct table_stack_sample *t = &run->stack_sample;
	struct stack_times times = stack_sample_times(run, i);
	int64_t end_ns = t->start_ns[i] + times.cpu_ns + times.ready_ns + times.wait_ns, part_ns;

	if (c->by_step || c->by_range) {
		/* The stack is that of the look, at the end. One that has not run was there all the time. */
		part_ns = chosen_ns(c, t->shard[i], t->thread[i],
				    times.cpu_ns ? end_ns - 1 : t->start_ns[i], end_ns);
		if (!part_ns)
			return false;
		if (!times.cpu_ns)
			times = part_of_wait(&times, part_ns);
	}
	*ret_times = times;
	return true;
}
