/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers computed in the order of what they read; see answers.h.
 *
 * Each subject of each question is a task, and so are the two things that several of them stand on.
 * A thread takes the longest task whose predecessors are done. Tasks only read the run and what
 * their predecessors made, and each writes an answer of its own.
 */
#include "subjects/answers/answers.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/parallel.h"
#include "subjects/answers/subject.h"
#include "subjects/shared/attribution.h"
#include "subjects/shared/lanes.h"

/* Runs with fewer device records, calls and ranges are done before a thread has begun. */
#define PARALLEL_ROWS 100000
/* The attribution of records and the order of the lanes. */
#define SHARED_TASKS 2
#define AFTER_MAX (SUBJECT_READS_MAX + SHARED_TASKS)

struct task {
	const struct subject *subject;
	const struct asked *asked;
	unsigned int needs;
	void **of; /* the answers of its question */
	void *answer;
	struct task *after[AFTER_MAX];
	size_t n_after;
	enum { TASK_WAITS, TASK_RUNS, TASK_DONE } state;
};

/* The answers: n_questions times SUBJECT_COUNT of them. */
struct answer_set {
	struct task *tasks;
	size_t n;
	void **of;
};

struct work {
	const struct run *run;
	struct answer_set *set;
	struct attribution at;
	struct device_lanes lanes;
	unsigned int needs; /* of all tasks together */
	struct task shared[SHARED_TASKS];
	struct task **order; /* the shared ones, then the longest first */
	size_t n;

	pthread_mutex_t mutex; /* of what follows, and of the tasks' states */
	pthread_cond_t done;
	size_t waiting;
	int result;
};

static bool has_device_records(const struct run *run)
{
	return run->kernel.n || run->copy.n || run->set.n || run->api.n || run->counted.n;
}

/* The task of a subject, with those that it reads, which come before it. */
static int add_task(struct work *w, const struct asked *asked, void **of,
		    const struct subject *subject, struct task **ret_task)
{
	const struct subject *const *reads = subject->reads;
	struct answer_set *set = w->set;
	struct task *task;
	struct plan plan;
	int r;

	for (size_t i = 0; i < set->n; i++)
		if (set->tasks[i].of == of && set->tasks[i].subject == subject) {
			*ret_task = &set->tasks[i];
			return 0;
		}
	task = &set->tasks[set->n++];
	task->subject = subject;
	task->asked = asked;
	task->of = of;
	task->answer = calloc(1, subject->size);
	of[subject->id] = task->answer;
	if (!task->answer)
		return -ENOMEM;
	r = plan_subject(subject, &asked->question, w->run, &plan);
	task->needs = plan.needs;
	w->needs |= plan.needs;
	while (r >= 0 && reads && *reads)
		r = add_task(w, asked, of, *reads++, &task->after[task->n_after++]);
	*ret_task = task;
	return r;
}

static int compute_attribution(struct work *w)
{
	int r = w->needs & NEEDS_PLACES ? attribution_init(&w->at, w->run)
					: attribution_init_calls(&w->at, w->run);

	/* Every device record has its call by now. */
	if (r >= 0)
		attribution_close(&w->at);
	return r;
}

static int compute(struct work *w, struct task *task)
{
	static const struct device_lanes no_lanes;
	const struct attribution nothing = { .run = w->run };
	const struct subject *subject = task->subject;
	struct material material;

	if (task == &w->shared[0])
		return compute_attribution(w);
	if (task == &w->shared[1])
		return device_lanes_init(&w->lanes, w->run);
	/* What it does not need may be in the making. */
	material = (struct material){
		.run = w->run,
		.question = &task->asked->question,
		.at = task->needs & (NEEDS_CALLS | NEEDS_PLACES) ? &w->at : &nothing,
		.lanes = task->needs & NEEDS_LANES ? &w->lanes : &no_lanes,
		.answers = { .of = task->of, .reader = { subject->name, subject->reads } },
	};
	return subject->compute(&material, task->answer);
}

static bool is_ready(const struct task *task)
{
	for (size_t i = 0; i < task->n_after; i++)
		if (task->after[i]->state != TASK_DONE)
			return false;
	return task->state == TASK_WAITS;
}

static struct task *next_task(struct work *w)
{
	for (size_t i = 0; i < w->n; i++)
		if (is_ready(w->order[i]))
			return w->order[i];
	return NULL;
}

/* One thread. None that runs means one that is ready, so that nobody waits for ever. */
static int take_tasks(void *context, size_t i, unsigned int worker)
{
	struct work *w = context;

	(void)i;
	(void)worker;
	pthread_mutex_lock(&w->mutex);
	while (w->waiting && w->result >= 0) {
		struct task *task = next_task(w);
		int r;

		if (!task) {
			pthread_cond_wait(&w->done, &w->mutex);
			continue;
		}
		task->state = TASK_RUNS;
		w->waiting--;
		pthread_mutex_unlock(&w->mutex);
		r = compute(w, task);
		pthread_mutex_lock(&w->mutex);
		task->state = TASK_DONE;
		if (r < 0 && w->result >= 0)
			w->result = r;
		pthread_cond_broadcast(&w->done);
	}
	pthread_mutex_unlock(&w->mutex);
	return 0;
}

/* The shared things that are needed come before all who need them. */
static void order_shared(struct work *w)
{
	const unsigned int needs[SHARED_TASKS] = { NEEDS_CALLS | NEEDS_PLACES, NEEDS_LANES };

	if (!has_device_records(w->run))
		return;
	for (size_t s = 0; s < SHARED_TASKS; s++) {
		if (!(w->needs & needs[s]))
			continue;
		w->order[w->n++] = &w->shared[s];
		for (size_t i = 0; i < w->set->n; i++) {
			struct task *task = &w->set->tasks[i];

			if (task->needs & needs[s])
				task->after[task->n_after++] = &w->shared[s];
		}
	}
}

static void order_tasks(struct work *w)
{
	size_t first;

	order_shared(w);
	first = w->n;
	for (size_t i = 0; i < w->set->n; i++) {
		struct task *task = &w->set->tasks[i];
		size_t at = w->n++;

		for (; at > first && w->order[at - 1]->subject->length < task->subject->length;
		     at--)
			w->order[at] = w->order[at - 1];
		w->order[at] = task;
	}
}

static int compute_all(struct work *w)
{
	const struct run *run = w->run;
	size_t rows = run->kernel.n + run->api.n + run->range.n + run->op.n + run->routing.n +
		      run->memory.n;
	unsigned int workers;

	w->order = calloc(w->set->n + SHARED_TASKS, sizeof(struct task *));
	if (!w->order)
		return -ENOMEM;
	order_tasks(w);
	w->waiting = w->n;
	workers = rows >= PARALLEL_ROWS ? parallel_workers(w->n) : 1;
	parallel_run(workers, workers, take_tasks, w);
	free(w->order);
	return w->result;
}

static void set_free(struct answer_set *set)
{
	for (size_t i = 0; i < set->n; i++) {
		if (set->tasks[i].answer && set->tasks[i].subject->release)
			set->tasks[i].subject->release(set->tasks[i].answer);
		free(set->tasks[i].answer);
	}
	free(set->tasks);
	free(set->of);
	free(set);
}

static struct answer_set *set_new(size_t n_questions)
{
	struct answer_set *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->tasks = calloc(n_questions * SUBJECT_COUNT, sizeof(*set->tasks));
	set->of = calloc(n_questions * SUBJECT_COUNT, sizeof(void *));
	if (set->tasks && set->of)
		return set;
	set_free(set);
	return NULL;
}

int answers_compute(const struct run *run, const struct asked *asked, size_t n,
		    struct answers *ret_answers)
{
	struct work w = { .run = run,
			  .set = set_new(n),
			  .at = { .run = run },
			  .mutex = PTHREAD_MUTEX_INITIALIZER,
			  .done = PTHREAD_COND_INITIALIZER };
	struct task *task;
	int r = 0;

	if (!w.set)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		for (const struct subject *const *s = asked[i].reader.reads; r >= 0 && *s; s++)
			r = add_task(&w, &asked[i], w.set->of + i * SUBJECT_COUNT, *s, &task);
	if (r >= 0)
		r = compute_all(&w);
	attribution_release(&w.at);
	device_lanes_release(&w.lanes);
	if (r < 0) {
		set_free(w.set);
		return r;
	}
	for (size_t i = 0; i < n; i++)
		ret_answers[i] = (struct answers){ .of = w.set->of + i * SUBJECT_COUNT,
						   .reader = asked[i].reader,
						   .set = i ? NULL : w.set };
	return 0;
}

int answers_empty(struct reader reader, struct answers *ret_answers)
{
	struct answer_set *set = set_new(1);

	if (!set)
		return -ENOMEM;
	for (const struct subject *const *s = reader.reads; *s; s++) {
		struct task *task = &set->tasks[set->n++];

		task->subject = *s;
		task->answer = calloc(1, (*s)->size);
		set->of[(*s)->id] = task->answer;
		if (!task->answer) {
			set_free(set);
			return -ENOMEM;
		}
	}
	*ret_answers = (struct answers){ .of = set->of, .reader = reader, .set = set };
	return 0;
}

void answers_release(struct answers *answers)
{
	if (answers->set)
		set_free(answers->set);
	*answers = (struct answers){ 0 };
}

bool answers_has(const struct answers *answers, const struct subject *subject)
{
	for (const struct subject *const *s = answers->reader.reads; s && *s; s++)
		if (*s == subject)
			return true;
	return false;
}

void answers_check(const struct answers *answers, const struct subject *subject)
{
	if (answers_has(answers, subject))
		return;
	dprintf(STDERR_FILENO, "'%s' reads the answer of '%s' without having declared it\n",
		answers->reader.name, subject->name);
	abort();
}

struct answers answers_for(const struct answers *answers, struct reader part)
{
	for (const struct subject *const *s = part.reads; *s; s++)
		ANSWERS_CHECK(answers, *s);
	return (struct answers){ .of = answers->of, .reader = part };
}
