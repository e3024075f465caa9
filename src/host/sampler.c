/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the threads of a program are; see sampler.h.
 */
#include "host/sampler.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/wake.h"
#include "host/native.h"
#include "host/peer.h"
#include "host/python_stack.h"
#include "host/stack_shard.h"
#include "host/symbols.h"
#include "host/waits.h"
#include "trace/rundir.h"

#define DEPTH_MOST 512
#define MOVES 3 /* after a thread that goes from processor to processor */
#define THREADS_MOST 4096
#define PROCESSES_MOST 256 /* at a time */
#define SHARDS_MOST 1024   /* in all: a build starts thousands of short processes */
#define SECOND INT64_C(1000000000)
#define LOOK_AGAIN_NS (SECOND / 10) /* for new threads and processes, and for Python in them */
#define WRITE_NS SECOND
#define JOIN_NS SECOND	 /* samples of a thread that does not run become one, up to this */
#define BUDGET_SHARE 100 /* of a processor: one of so many parts */
#define LITTLE 100	 /* one of so many parts: not worth telling apart */
#define WHY_LOOKS 10	 /* for so many a cause is near enough */

/* A thread, and what it has done since the last row about it. */
struct thread {
	pid_t id;
	int times_fd, cpu_fd, call_fd; /* below 0: not to be had */
	bool seen;
	bool waits;	      /* it has not run since the row below began */
	enum wait_cause why;  /* when it was last seen to wait; WAIT_ENDED: never yet */
	unsigned int why_age; /* looks since */
	uint64_t waits_at;    /* the instruction, then */
	struct peer_times times;
	int64_t looked_ns;
	uint64_t python, gil;	     /* 0: it runs none */
	uint32_t native;	     /* the last stack that perf saw; 0: none yet */
	struct row_stack_sample row; /* stack 0: none */
};

struct process {
	pid_t pid;
	bool seen;
	struct symbols *symbols;
	struct python *python;
	struct waits *waiting; /* NULL: no memory */
	bool told_why;
	struct thread *threads; /* by id */
	size_t n, capacity;
	struct stack_shard shard;
	uint64_t samples, unread, untold; /* untold: nobody knows what was waited for */
	uint64_t unseen;		  /* threads without their times */
};

struct sampler {
	pthread_t thread;
	struct wake wake;
	_Atomic bool ends;
	char *run;
	pid_t pid;
	unsigned int hz;
	struct native *native;
	char no_native[200]; /* why */
	struct process **processes;
	size_t n, capacity, opened;
	int64_t now_ns, looked_ns, written_ns, priced_ns, cpu_ns;
	int trouble;
	struct err err;
};

static void note_trouble(struct sampler *s, int r, const char *what)
{
	if (s->trouble < 0)
		return;
	s->trouble = r;
	err_sys(&s->err, r, "%s", what);
}

/* ---- stacks */

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

static uint32_t python_node(struct process *p, const struct thread *t)
{
	uint32_t names[DEPTH_MOST], node = 0;
	size_t n = 0;
	int r = -EAGAIN;

	for (int i = 0; i < MOVES && r == -EAGAIN; i++) {
		int cpu = take_cpu(t);

		r = python_stack(p->python, t->python, names, DEPTH_MOST, &n);
		/* It was moved meanwhile: once more. */
		if (r == 0 && i + 1 < MOVES && cpu >= 0 && peer_thread_cpu(t->cpu_fd) != cpu)
			r = -EAGAIN;
	}
	if (r < 0 && r != -EAGAIN)
		return 0;
	for (size_t i = n; i-- > 0;)
		node = stack_shard_node(&p->shard, node, python_name(p->python, names[i]));
	if (r == -EAGAIN) {
		p->unread++;
		node = stack_shard_node(&p->shard, node, "(changing too fast to be read)");
	} else if (!n) {
		node = stack_shard_node(&p->shard, 0, "(no Python function)");
	}
	return node;
}

static void native_came(void *arg, const struct native_sample *sample)
{
	struct sampler *s = arg;
	struct process *p = NULL;
	uint32_t node = 0;

	for (size_t i = 0; i < s->n && !p; i++)
		if ((uint32_t)s->processes[i]->pid == sample->pid)
			p = s->processes[i];
	if (!p || !p->symbols)
		return;
	for (size_t t = 0; t < p->n; t++) {
		struct thread *thread = &p->threads[t];

		if ((uint32_t)thread->id != sample->thread || thread->python)
			continue;
		for (size_t i = sample->n < DEPTH_MOST ? sample->n : DEPTH_MOST; i-- > 0;)
			node = stack_shard_node(&p->shard, node,
						symbols_name(p->symbols, sample->ips[i] - (i > 0)));
		thread->native = node;
	}
}

/* ---- rows */

static void end_row(struct process *p, struct thread *t)
{
	if (t->row.stack)
		stack_shard_append(&p->shard, RECORD_STACK_SAMPLE, &t->row);
	t->row = (struct row_stack_sample){ 0 };
}

/* ---- processes and threads */

static void thread_close(struct thread *t)
{
	if (t->times_fd >= 0)
		close(t->times_fd);
	if (t->cpu_fd >= 0)
		close(t->cpu_fd);
	if (t->call_fd >= 0)
		close(t->call_fd);
}

static struct process *process_open(struct sampler *s, pid_t pid)
{
	struct process *p = calloc(1, sizeof(*p));
	uint32_t rank = rundir_rank_of(pid);
	char *path = NULL;
	int r = -ENOMEM;

	if (s->opened == SHARDS_MOST) {
		note_trouble(s, -EMLINK, "of the first 1024 processes only");
		free(p);
		return NULL;
	}
	if (p && asprintf(&path, "%s/%u-%d" RUNDIR_STACKS, s->run, rank, (int)pid) < 0)
		path = NULL;
	if (path)
		r = stack_shard_open(&p->shard, path, pid, rank, s->now_ns);
	free(path);
	if (r < 0) {
		free(p);
		if (r != -EEXIST) /* a number that another process had before */
			note_trouble(s, r, "stacks: cannot create a shard");
		return NULL;
	}
	p->pid = pid;
	s->opened++;
	p->symbols = symbols_open(pid);
	p->waiting = waits_open(pid);
	if (s->no_native[0])
		stack_shard_fact(&p->shard, "stacks", s->no_native);
	return p;
}

static void process_close(struct sampler *s, struct process *p)
{
	char words[200];
	int r;

	for (size_t i = 0; i < p->n; i++) {
		end_row(p, &p->threads[i]);
		thread_close(&p->threads[i]);
	}
	if (p->unread) {
		snprintf(
			words, sizeof(words),
			"%llu of %llu samples changed too fast for their innermost functions to be "
			"read",
			(unsigned long long)p->unread, (unsigned long long)p->samples);
		stack_shard_fact(&p->shard, "stacks", words);
	}
	/* Now and then one is ending, or has just gone on. */
	if (p->untold * LITTLE > p->samples) {
		snprintf(
			words, sizeof(words),
			"what threads waited for was unreadable in %llu of %llu looks: that takes the right to "
			"trace them (CAP_SYS_PTRACE) and an open file for each (ulimit -n)",
			(unsigned long long)p->untold, (unsigned long long)p->samples);
		stack_shard_fact(&p->shard, "stacks", words);
	}
	if (p->unseen) {
		snprintf(
			words, sizeof(words),
			"%llu threads could not be looked at: raise the limit of open files (ulimit -n)",
			(unsigned long long)p->unseen);
		stack_shard_fact(&p->shard, "stacks", words);
	}
	if (s->native && native_lost(s->native)) {
		snprintf(words, sizeof(words),
			 "the kernel dropped %llu native stacks of all processes",
			 (unsigned long long)native_lost(s->native));
		stack_shard_fact(&p->shard, "stacks", words);
	}
	r = stack_shard_close(&p->shard);
	if (r < 0)
		note_trouble(s, r, "stacks: cannot write");
	python_close(p->python);
	symbols_close(p->symbols);
	waits_close(p->waiting);
	free(p->threads);
	free(p);
}

static struct thread *thread_of(struct process *p, pid_t id)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->threads[i].id == id)
			return &p->threads[i];
	return NULL;
}

static void find_python(struct process *p)
{
	char why[160], words[200];
	int r;

	if (p->python || p->told_why)
		return;
	r = python_open(&p->python, p->pid, why, sizeof(why));
	if (r == 0)
		snprintf(words, sizeof(words),
			 "functions of Python 3.%d, and native ones of threads without",
			 python_minor(p->python));
	else if (r == -ENOTSUP)
		snprintf(words, sizeof(words), "%s", why);
	else
		return;
	p->told_why = true;
	stack_shard_fact(&p->shard, "stacks", words);
}

static void find_threads(struct sampler *s, struct process *p)
{
	pid_t ids[THREADS_MOST];
	int n = peer_threads(p->pid, ids, THREADS_MOST);

	if (n > THREADS_MOST)
		n = THREADS_MOST;
	for (size_t i = 0; i < p->n; i++)
		p->threads[i].seen = false;
	for (int i = 0; i < n; i++) {
		struct thread *t = thread_of(p, ids[i]);
		char name[32];

		if (!t) {
			struct row_thread row = { .thread = (uint32_t)ids[i] };

			if (array_grow(&p->threads, &p->capacity, p->n + 1, sizeof(*p->threads)) <
			    0)
				return;
			t = &p->threads[p->n++];
			*t = (struct thread){
				.id = ids[i],
				.times_fd = peer_thread_open(p->pid, ids[i], PEER_TIMES),
				.cpu_fd = peer_thread_open(p->pid, ids[i], PEER_CPU),
				.call_fd = peer_thread_open(p->pid, ids[i], PEER_CALL),
				.why = WAIT_ENDED,
				.looked_ns = s->now_ns
			};
			if (t->times_fd >= 0)
				peer_thread_times(t->times_fd, &t->times);
			p->unseen += t->times_fd == -EMFILE || t->times_fd == -EACCES;
			peer_thread_name(p->pid, ids[i], name, sizeof(name));
			row.name = stack_shard_name(&p->shard, name);
			stack_shard_append(&p->shard, RECORD_THREAD, &row);
		}
		t->seen = true;
	}
	for (size_t i = p->n; i-- > 0;) {
		if (p->threads[i].seen)
			continue;
		end_row(p, &p->threads[i]);
		thread_close(&p->threads[i]);
		p->threads[i] = p->threads[--p->n];
	}
}

static void find_python_threads(struct process *p)
{
	struct python_thread found[THREADS_MOST];
	int n = p->python ? python_threads(p->python, found, THREADS_MOST) : 0;

	/* It has become another program. */
	if (n < 0) {
		python_close(p->python);
		p->python = NULL;
		p->told_why = false;
		symbols_close(p->symbols);
		p->symbols = symbols_open(p->pid);
	}
	for (size_t i = 0; i < p->n; i++)
		p->threads[i].python = p->threads[i].gil = 0;
	for (int i = 0; i < n && i < THREADS_MOST; i++) {
		struct thread *t = thread_of(p, found[i].id);

		if (!t)
			continue;
		t->python = found[i].state;
		t->gil = found[i].gil;
	}
}

static struct process *find_process(struct sampler *s, pid_t pid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->processes[i]->pid == pid)
			return s->processes[i];
	if (s->n == PROCESSES_MOST ||
	    array_grow(&s->processes, &s->capacity, s->n + 1, sizeof(struct process *)) < 0)
		return NULL;
	s->processes[s->n] = process_open(s, pid);
	return s->processes[s->n] ? s->processes[s->n++] : NULL;
}

static void find_processes(struct sampler *s, pid_t pid, int depth)
{
	pid_t children[PROCESSES_MOST];
	struct process *p;
	int n = peer_children(pid, children, PROCESSES_MOST);

	if (n < 0 || depth > 16)
		return;
	p = find_process(s, pid);
	if (p)
		p->seen = true;
	for (int i = 0; i < n && i < PROCESSES_MOST; i++)
		find_processes(s, children[i], depth + 1);
}

static void look_around(struct sampler *s)
{
	for (size_t i = 0; i < s->n; i++)
		s->processes[i]->seen = false;
	find_processes(s, s->pid, 0);
	for (size_t i = s->n; i-- > 0;) {
		struct process *p = s->processes[i];

		if (!p->seen) {
			process_close(s, p);
			s->processes[i] = s->processes[--s->n];
			continue;
		}
		find_threads(s, p);
		find_python(p);
	}
}

/* ---- a look */

/* What it has waited for since the last look. A wait that was over by now is taken for what it was seen to wait
 * for a few looks ago: causes are seen as often as they last. */
static enum wait_cause why_waited(struct process *p, struct thread *t, int64_t wait_ns,
				  int64_t passed_ns, bool ran)
{
	if (!ran && t->why_age == 0 && t->why != WAIT_ENDED)
		return t->why; /* it is where it was */
	t->why_age++;
	if (p->waiting && wait_ns * LITTLE >= passed_ns) {
		enum wait_cause now = waits_look(p->waiting, t->id, t->call_fd, t->gil,
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

static bool read_spell(const struct sampler *s, struct thread *t, struct spell *ret)
{
	struct peer_times now;
	int64_t left_ns = s->now_ns - t->looked_ns;

	if (t->times_fd < 0 || left_ns <= 0 || peer_thread_times(t->times_fd, &now) < 0)
		return false;
	*ret = (struct spell){ .passed_ns = left_ns,
			       .run_ns = now.run_ns - t->times.run_ns,
			       .ready_ns = now.ready_ns - t->times.ready_ns,
			       .turns = now.turns - t->times.turns };
	/* The kernel's clock and ours are read one after the other. */
	if (ret->run_ns > left_ns)
		ret->run_ns = left_ns;
	left_ns -= ret->run_ns;
	if (ret->ready_ns > left_ns)
		ret->ready_ns = left_ns;
	t->times = now;
	t->looked_ns = s->now_ns;
	return true;
}

static bool is_waiting(const struct thread *t)
{
	return t->why != WAIT_ENDED && t->why_age == 0;
}

static uint32_t find_stack(struct process *p, struct thread *t, bool ran)
{
	/* A thread that has not run is where it was. */
	uint32_t stack = ran ? 0 : t->row.stack;

	if (!stack && t->python)
		stack = python_node(p, t);
	return stack ? stack : t->native;
}

/* Of a thread that perf has not seen yet: the function that it waits in, without its callers. */
static uint32_t place_stack(struct process *p, const struct thread *t)
{
	const char *name = "(no stack was seen)";

	if (is_waiting(t) && t->waits_at && p->symbols)
		name = symbols_name(p->symbols, t->waits_at);
	return stack_shard_node(&p->shard, 0, name);
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

	if (!read_spell(s, t, &spell))
		return;
	ran = spell.run_ns > 0 || spell.turns;
	stack = find_stack(p, t, ran);
	why = why_waited(p, t, spell.passed_ns - spell.run_ns - spell.ready_ns, spell.passed_ns,
			 ran);
	p->samples++;
	if (!stack)
		stack = place_stack(p, t);
	if (!stack)
		return;
	give_back(t, &spell, waited);
	if (ran || !t->waits || stack != t->row.stack || why != t->row.wait ||
	    t->row.duration_ns + spell.passed_ns > JOIN_NS) {
		end_row(p, t);
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
	if (s->now_ns - s->looked_ns >= LOOK_AGAIN_NS) {
		s->looked_ns = s->now_ns;
		look_around(s);
	}
	if (s->native)
		native_drain(s->native, native_came, s);
	for (size_t i = 0; i < s->n; i++) {
		struct process *p = s->processes[i];

		find_python_threads(p);
		for (size_t t = 0; t < p->n; t++)
			look_at(s, p, &p->threads[t]);
	}
	if (s->now_ns - s->written_ns >= WRITE_NS) {
		s->written_ns = s->now_ns;
		for (size_t i = 0; i < s->n; i++)
			stack_shard_write(&s->processes[i]->shard);
	}
}

/* Fewer looks while they cost more than their share. */
static unsigned int priced(struct sampler *s, unsigned int hz)
{
	int64_t cpu_ns = clock_thread_cpu_ns(), passed_ns = s->now_ns - s->priced_ns;
	double share;

	if (passed_ns < SECOND)
		return hz;
	share = (double)(cpu_ns - s->cpu_ns) / (double)passed_ns * BUDGET_SHARE;
	s->priced_ns = s->now_ns;
	s->cpu_ns = cpu_ns;
	if (share > 1)
		hz = (unsigned int)(hz / share);
	else if (share < 0.8)
		hz += hz / 4 + 1;
	return hz < 1 ? 1 : hz > s->hz ? s->hz : hz;
}

static void *sample(void *arg)
{
	struct sampler *s = arg;
	unsigned int hz = s->hz, seed = (unsigned int)s->pid;

	s->now_ns = s->priced_ns = s->written_ns = clock_monotonic_ns();
	while (!s->ends) {
		unsigned int ms = 1000 / hz;

		look(s);
		hz = priced(s, hz);
		/* Never in step with what the program repeats. */
		wake_wait(&s->wake, (int)(ms / 2 + (unsigned int)rand_r(&seed) % (ms + 1)));
	}
	look(s); /* what came since, also if names took long */
	return NULL;
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
	native_open(&s->native, pid, hz, s->no_native, sizeof(s->no_native));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&s->thread, NULL, sample, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0) {
		native_close(s->native);
		free(s->run);
		free(s);
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
		process_close(s, s->processes[i]);
	r = s->trouble;
	if (r < 0 && err)
		*err = s->err;
	native_close(s->native);
	free(s->processes);
	free(s->run);
	free(s);
	return r;
}
