/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack of one thread; see thread_stack.h.
 */
#include "host/stacks/thread_stack.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "host/stacks/joined_stack.h"

#define DEPTH_MOST 512
#define MOVES 3 /* after a thread that goes from processor to processor */

/* Onto the processor of a thread: while this one runs there, that one does not, and nothing has to stop it. Only
 * so does each function come as often as it takes time: read on the run, those that last long would be
 * read more often. */
static int take_cpu(const struct thread *t)
{
	int cpu = t->cpu_fd >= 0 ? peer_thread_cpu(t->cpu_fd) : -1;
	cpu_set_t *one;
	size_t size;

	if (cpu < 0 || cpu == sched_getcpu())
		return cpu;
	one = CPU_ALLOC((size_t)cpu + 1);
	size = CPU_ALLOC_SIZE((size_t)cpu + 1);
	if (!one)
		return -1;
	CPU_ZERO_S(size, one);
	CPU_SET_S((size_t)cpu, size, one);
	if (sched_setaffinity(0, size, one) < 0)
		cpu = -1;
	CPU_FREE(one);
	return cpu;
}

void thread_stack_came(void *arg, const struct native_sample *sample)
{
	struct sampler *s = arg;
	struct thread *t = NULL;
	struct chain *c;

	for (size_t i = 0; i < s->n && !t; i++)
		if ((uint32_t)s->processes[i]->pid == sample->pid)
			t = followed_thread(s->processes[i], (pid_t)sample->thread);
	if (!t)
		return;
	t->left += sample->moment == NATIVE_LEFT;
	if (!t->chain)
		t->chain = calloc(1, sizeof(*t->chain));
	c = t->chain;
	if (!c || sample->time_ns < c->time_ns || !sample->n)
		return;
	c->time_ns = sample->time_ns;
	c->moment = sample->moment;
	c->stack = 0;
	c->n = sample->n < FOLLOWED_CHAIN_MOST ? sample->n : FOLLOWED_CHAIN_MOST;
	memcpy(c->ips, sample->ips, c->n * sizeof(*c->ips));
	c->has_registers = sample->registers;
	if (sample->registers)
		unwind_take(sample->registers, c->registers);
}

/* All but the first are return addresses: the call is before. */
static struct join_native chain_function(struct process *p, const struct chain *c, size_t i)
{
	return places_find(&p->places, &p->shard.tree, c->ips[i] - (i > 0), i == 0);
}

static bool has_come_back(const struct thread *t)
{
	struct peer_times now;

	return peer_thread_times(t->times_fd, &now) < 0 || now.turns != t->times.turns;
}

/* Whether the thread had left its processor with that stack before `begin_ns`, and has not come back: this
 * thread has been on that processor since. */
static bool has_stood_still(struct sampler *s, struct thread *t, int cpu, int64_t begin_ns)
{
	if (!s->native || cpu < 0)
		return false;
	native_drain_cpu(s->native, cpu, thread_stack_came, s);
	return t->chain && t->chain->moment == NATIVE_LEFT && t->chain->time_ns <= begin_ns &&
	       t->chain->time_ns >= s->leaves_ns && !has_come_back(t);
}

/* Whether it was on no processor when its times were read: it has left one as often as it has got one. It mostly has,
 * for this thread; then nobody has to be asked where it is. */
static bool is_off(struct sampler *s, struct thread *t)
{
	if (!s->native || !t->missed_ns || t->missed_ns < s->leaves_ns)
		return false;
	native_drain_cpu(s->native, sched_getcpu(), thread_stack_came, s);
	return t->times.turns - t->left == t->missed;
}

/* It stands still: no time that it left is still to come once all have been drained. */
static void count_missed(struct sampler *s, struct thread *t)
{
	if (t->missed_ns && t->missed_ns >= s->leaves_ns && t->times.turns - t->left == t->missed)
		return;
	native_drain(s->native, thread_stack_came, s);
	t->missed = t->times.turns - t->left;
	t->missed_ns = has_come_back(t) ? 0 : s->now_ns;
}

/* The chain of a thread that stands still, by the tables of its files instead of frame pointers. */
static bool unwind_chain(struct process *p, struct thread *t)
{
	struct chain *c = t->chain;
	uint64_t ips[FOLLOWED_CHAIN_MOST];
	size_t n;

	if (!c->has_registers || !p->places.unwinder)
		return false;
	c->has_registers = false; /* once is enough */
	n = unwind(p->places.unwinder, c->registers, ips, FOLLOWED_CHAIN_MOST);
	if (n < 2 || has_come_back(t))
		return false;
	memcpy(c->ips, ips, n * sizeof(*ips));
	c->n = n;
	c->stack = 0;
	return true;
}

/* Of a thread that waits, too: what it left its processor with is its stack as long as it sleeps. */
static void complete_chain(struct sampler *s, struct process *p, struct thread *t)
{
	if (!t->chain || !t->chain->has_registers || t->chain->time_ns < s->leaves_ns ||
	    t->cpu_fd < 0 || !peer_thread_sleeps(t->cpu_fd))
		return;
	native_drain(s->native, thread_stack_came, s);
	unwind_chain(p, t);
}

static uint32_t native_node(struct sampler *s, struct process *p, struct thread *t)
{
	struct chain *c;

	complete_chain(s, p, t);
	c = t->chain;
	if (!c || c->stack)
		return c ? c->stack : 0;
	for (size_t i = c->n; i-- > 0;)
		c->stack = stack_tree_node(&p->shard.tree, c->stack, chain_function(p, c, i).name);
	return c->stack;
}

static bool join_chain(struct process *p, const struct chain *c,
		       const struct python_function *functions, size_t n, uint32_t *names,
		       size_t *ret_n)
{
	struct join_native native[FOLLOWED_CHAIN_MOST];

	for (size_t i = 0; i < c->n; i++)
		native[i] = chain_function(p, c, i);
	return join_stacks(functions, n, native, c->n, names, ret_n);
}

static uint32_t joined_node(struct process *p, struct thread *t,
			    const struct python_function *functions, size_t n)
{
	uint32_t names[DEPTH_MOST + FOLLOWED_CHAIN_MOST], node = 0;
	size_t n_names;
	bool whole = join_chain(p, t->chain, functions, n, names, &n_names);

	if (!whole && unwind_chain(p, t))
		whole = join_chain(p, t->chain, functions, n, names, &n_names);
	*(whole ? &p->joined : &p->leaves) += 1;
	while (n_names-- > 0)
		node = stack_tree_node(&p->shard.tree, node, names[n_names]);
	return node;
}

static uint32_t python_node(struct sampler *s, struct process *p, struct thread *t)
{
	struct python_function functions[DEPTH_MOST];
	uint32_t node = 0;
	int64_t begin_ns = 0;
	bool still = false;
	size_t n = 0;
	int cpu, r = -EAGAIN;

	for (int i = 0; i < MOVES && r == -EAGAIN; i++) {
		cpu = i == 0 && is_off(s, t) ? sched_getcpu() : take_cpu(t);
		begin_ns = clock_monotonic_ns();
		r = python_stack(p->python, &t->python, functions, DEPTH_MOST, &n);
		still = r == 0 && has_stood_still(s, t, cpu, begin_ns);
		if (still)
			count_missed(s, t);
		/* It was moved meanwhile: once more. */
		if (r == 0 && !still && i + 1 < MOVES && cpu >= 0 &&
		    peer_thread_cpu(t->cpu_fd) != cpu)
			r = -EAGAIN;
	}
	if (r == -ESTALE || r == -ESRCH)
		followed_find_python_threads(p);
	if (r < 0 && r != -EAGAIN)
		return 0;
	for (size_t i = 0; i < n; i++)
		functions[i].name = stack_tree_name(&p->shard.tree,
						    python_name(p->python, functions[i].name));
	if (still && n)
		return joined_node(p, t, functions, n);
	p->apart++;
	for (size_t i = n; i-- > 0;)
		node = stack_tree_node(&p->shard.tree, node, functions[i].name);
	if (r == -EAGAIN) {
		p->unread++;
		node = stack_shard_node(&p->shard, node, "(changing too fast to be read)");
	} else if (!n) {
		node = stack_shard_node(&p->shard, 0, "(no Python function)");
	}
	return node;
}

uint32_t thread_stack(struct sampler *s, struct process *p, struct thread *t, bool ran)
{
	/* A thread that has not run is where it was. */
	uint32_t stack = ran || (t->newly_python && t->python.state) ? 0 : t->row.stack;

	t->newly_python = false;
	if (!stack && t->python.state) {
		stack = python_node(s, p, t);
		t->newly_python = !stack; /* it could not be read: once more, also if it waits */
	}
	return stack ? stack : native_node(s, p, t);
}
