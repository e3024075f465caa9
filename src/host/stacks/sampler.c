/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the threads of a program are; see sampler.h.
 */
#include "host/stacks/sampler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/stacks/followed.h"
#include "host/stacks/pace.h"
#include "host/stacks/thread_stack.h"

#define SECOND INT64_C(1000000000)
#define MS (SECOND / 1000)
#define SEARCH_NS (SECOND / 10) /* for new threads and processes */
#define WRITE_NS SECOND
#define JOIN_NS SECOND /* samples of a thread that does not run become one, up to this */
#define SKIPS_MOST 31  /* looks in a row at a thread that waits */
#define WHY_LOOKS 10   /* for so many a cause is near enough */
#define QUEUE_NS                                                                                   \
	(20 * MS) /* a turn on a processor may be this far off before it counts as waiting */

/* ---- a look */

/* What it has waited for since the last look. A wait that was over by now is taken for what it was seen to wait
 * for a few looks ago: causes are seen as often as they last. */
static enum wait_cause why_waited(struct process *p, struct thread *t, int64_t wait_ns,
				  int64_t passed_ns, bool ran)
{
	if (!ran && t->why_age == 0 && t->why != WAIT_ENDED)
		return t->why; /* it is where it was */
	t->why_age++;
	if (p->waiting && wait_ns * FOLLOWED_LITTLE >= passed_ns) {
		enum wait_cause now = waits_look(p->waiting, t->id, t->call_fd, t->python.gil,
						 &t->waits_at);

		p->untold += now == WAIT_UNKNOWN;
		if (now != WAIT_ENDED) {
			t->why = now;
			t->why_age = 0;
		}
	}
	return t->why_age <= WHY_LOOKS ? t->why : WAIT_ENDED;
}

/* What a thread did since the last look. */
struct spell {
	int64_t passed_ns, run_ns, ready_ns;
	uint64_t turns; /* times it got a processor */
};

static bool read_spell(struct sampler *s, struct thread *t, struct spell *ret)
{
	struct peer_times now;
	int64_t left_ns = s->now_ns - t->looked_ns, late_ns;

	if (t->times_fd < 0 || left_ns <= 0)
		return false;
	if (peer_thread_times(t->times_fd, &now) < 0) {
		s->lost_one = true;
		return false;
	}
	*ret = (struct spell){ .run_ns = now.run_ns - t->times.run_ns,
			       .ready_ns = now.ready_ns - t->times.ready_ns,
			       .turns = now.turns - t->times.turns };
	/* It was awake already at a look that was skipped. */
	late_ns = ret->run_ns + ret->ready_ns - left_ns;
	if (late_ns > t->skipped_ns)
		late_ns = t->skipped_ns;
	if (late_ns > 0) {
		t->row.duration_ns -= late_ns;
		left_ns += late_ns;
	}
	ret->passed_ns = left_ns;
	/* The kernel's clock and ours are read one after the other. */
	if (ret->run_ns > left_ns)
		ret->run_ns = left_ns;
	t->times = now;
	t->looked_ns = s->now_ns;
	return true;
}

static bool is_waiting(const struct thread *t)
{
	return t->why != WAIT_ENDED && t->why_age == 0;
}

/* Splits the time without a processor into waiting and being ready. The kernel adds time in its queue only when the thread
 * gets a processor, so a thread that is ready at a look seems to have waited, and at the next look to have been ready for
 * too long. Where nobody has seen it wait, such time stays open until it is more than a turn may take. */
static void settle(struct thread *t, struct spell *spell, bool waited, bool ran)
{
	int64_t idle_ns = spell->passed_ns - spell->run_ns, wait_ns = 0;

	t->open_ns += idle_ns - spell->ready_ns;
	if (waited || is_waiting(t))
		wait_ns = t->open_ns;
	else if (ran)
		wait_ns = t->open_ns - QUEUE_NS;
	if (wait_ns < 0)
		wait_ns = 0;
	if (wait_ns > idle_ns)
		wait_ns = idle_ns;
	t->open_ns -= wait_ns;
	spell->ready_ns = idle_ns - wait_ns;
}

/* One that waits is looked at more and more rarely: the kernel tells when it has left a processor again, or has
 * run for long. */
static bool may_skip(const struct sampler *s, const struct thread *t)
{
	const struct chain *c = t->chain; /* NULL: it has waited since it is known */

	return !s->ends && !t->newly_python && t->looked_ns >= s->leaves_ns && t->waits &&
	       is_waiting(t) && (!c || c->time_ns <= t->looked_ns) && t->skipped < t->idle / 2 &&
	       t->skipped < SKIPS_MOST;
}

/* It waits as before. */
static void skip(const struct sampler *s, struct thread *t)
{
	int64_t passed_ns = s->now_ns - t->looked_ns;

	t->row.duration_ns += passed_ns;
	t->row.samples++;
	t->looked_ns = s->now_ns;
	t->skipped_ns += passed_ns;
	t->skipped++;
}

/* Of a thread that perf has not seen yet: the function that it waits in, without its callers. */
static uint32_t place_stack(struct process *p, const struct thread *t)
{
	if (is_waiting(t) && t->waits_at)
		return stack_tree_node(
			&p->shard.tree, 0,
			places_find(&p->places, &p->shard.tree, t->waits_at, true).name);
	return stack_shard_node(&p->shard, 0, "(no stack was seen)");
}

/* One that ran and now waits, or waited and now runs, with nothing in between, first went on as the last look has
 * seen it: that part is that stack's. */
static void give_back(struct thread *t, struct spell *spell, bool waited)
{
	int64_t part_ns = waited ? spell->passed_ns - spell->run_ns - spell->ready_ns
				 : spell->run_ns;

	/* One turn: it woke up, or had stood aside for the look itself. */
	if (!t->row.stack || waited == is_waiting(t) || spell->turns > 1)
		return;
	t->row.duration_ns += part_ns;
	spell->passed_ns -= part_ns;
	if (waited)
		return;
	t->row.cpu_ns += part_ns;
	spell->run_ns = 0;
}

static void look_at(struct sampler *s, struct process *p, struct thread *t)
{
	bool waited = is_waiting(t), ran;
	enum wait_cause why;
	struct spell spell;
	uint32_t stack;

	if (may_skip(s, t)) {
		skip(s, t);
		return;
	}
	if (!read_spell(s, t, &spell))
		return;
	ran = spell.run_ns > 0 || spell.turns;
	t->idle = ran ? 0 : t->idle + 1 + t->skipped;
	t->skipped = 0;
	t->skipped_ns = 0;
	stack = thread_stack(s, p, t, ran);
	why = why_waited(p, t, spell.passed_ns - spell.run_ns - spell.ready_ns, spell.passed_ns,
			 ran);
	p->samples++;
	if (!stack)
		stack = place_stack(p, t);
	if (!stack)
		return;
	settle(t, &spell, waited, ran);
	give_back(t, &spell, waited);
	if (ran || !t->waits || stack != t->row.stack || why != t->row.wait ||
	    t->row.duration_ns + spell.passed_ns > JOIN_NS) {
		followed_end_row(p, t);
		t->row = (struct row_stack_sample){ .start_ns = s->now_ns - spell.passed_ns,
						    .thread = (uint32_t)t->id,
						    .stack = stack,
						    .wait = (uint8_t)why };
		t->waits = !spell.run_ns;
	}
	t->row.duration_ns += spell.passed_ns;
	t->row.cpu_ns += spell.run_ns;
	t->row.ready_ns += spell.ready_ns;
	t->row.samples++;
}

static void look(struct sampler *s)
{
	s->now_ns = clock_monotonic_ns();
	if (s->now_ns - s->looked_ns >= SEARCH_NS) {
		s->looked_ns = s->now_ns;
		followed_search(s);
	}
	if (s->native) {
		native_drain(s->native, thread_stack_came, s);
		s->leaves_ns = native_leaves_since(s->native, s->now_ns);
	}
	for (size_t i = 0; i < s->n; i++) {
		struct process *p = s->processes[i];

		for (size_t t = 0; t < p->n; t++)
			look_at(s, p, &p->threads[t]);
	}
	if (s->now_ns - s->written_ns >= WRITE_NS) {
		s->written_ns = s->now_ns;
		for (size_t i = 0; i < s->n; i++) {
			followed_name_threads(s->processes[i], false);
			stack_shard_write(&s->processes[i]->shard);
		}
	}
}

static void *sample(void *arg)
{
	struct sampler *s = arg;
	unsigned int seed = (unsigned int)s->pid;
	int64_t next_ns = clock_monotonic_ns(), cpu_ns = clock_thread_cpu_ns(), before_ns;
	struct pace pace;

	pace_init(&pace, s->hz);
	s->now_ns = s->written_ns = next_ns;
	s->leaves_ns = INT64_MAX;
	while (!s->ends) {
		int64_t pause_ns, left_ns;

		before_ns = s->now_ns;
		look(s);
		pause_ns = pace_next(&pace, clock_thread_cpu_ns() - cpu_ns, s->now_ns - before_ns);
		cpu_ns = clock_thread_cpu_ns();
		/* Never in step with what the program repeats: from a half to one and a half of it. */
		next_ns += pause_ns / 2 + (int64_t)((double)pause_ns * rand_r(&seed) / RAND_MAX);
		left_ns = next_ns - clock_monotonic_ns();
		if (left_ns < 0)
			next_ns -= left_ns; /* what could not be is not made up for */
		wake_wait(&s->wake, left_ns > 0 ? (int)((left_ns + MS / 2) / MS) : 0);
	}
	look(s); /* what came since, also if names took long */
	return NULL;
}

static void sampler_free(struct sampler *s)
{
	native_close(s->native);
	if (s->numbers_fd >= 0)
		close(s->numbers_fd);
	free(s->processes);
	free(s->run);
	free(s);
}

int sampler_start(struct sampler **ret_sampler, const char *run, pid_t pid, unsigned int hz,
		  struct err *err)
{
	struct sampler *s = calloc(1, sizeof(*s));
	sigset_t all, before;
	int r;

	if (!s || !(s->run = strdup(run))) {
		free(s);
		return err_sys(err, -ENOMEM, "stacks: cannot start");
	}
	s->pid = pid;
	s->hz = hz;
	s->numbers_fd = peer_numbers_open();
	native_open(&s->native, pid, hz, s->no_native, sizeof(s->no_native));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&s->thread, NULL, sample, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0) {
		sampler_free(s);
		return err_sys(err, r, "stacks: cannot start a thread");
	}
	*ret_sampler = s;
	return 0;
}

int sampler_stop(struct sampler *s, struct err *err)
{
	int r;

	if (!s)
		return 0;
	s->ends = true;
	wake_up(&s->wake);
	pthread_join(s->thread, NULL);
	for (size_t i = 0; i < s->n; i++)
		followed_close(s, s->processes[i]);
	r = s->trouble;
	if (r < 0 && err)
		*err = s->err;
	sampler_free(s);
	return r;
}
