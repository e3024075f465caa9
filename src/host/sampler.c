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
#include "host/joined_stack.h"
#include "host/native.h"
#include "host/pace.h"
#include "host/peer.h"
#include "host/places.h"
#include "host/python_stack.h"
#include "host/stack_shard.h"
#include "host/symbols.h"
#include "host/unwind.h"
#include "host/waits.h"
#include "trace/rundir.h"
#include "trace/shard.h"

#define DEPTH_MOST 512
#define CHAIN_MOST 128 /* the kernel takes 127, unless it is told otherwise */
#define MOVES 3	       /* after a thread that goes from processor to processor */
#define THREADS_MOST 4096
#define PROCESSES_MOST 256 /* at a time */
#define SHARDS_MOST 1024   /* in all: a build starts thousands of short processes */
#define PATH_MOST 256
#define SECOND INT64_C(1000000000)
#define MS (SECOND / 1000)
#define LOOK_AGAIN_NS (SECOND / 10) /* for new threads and processes, and for Python in them */
#define SEARCHES 8		    /* in a program: after so much of its time again, */
#define SEARCH_MOST_NS (5 * SECOND) /* for Python: at least so often */
#define SEARCH_THREAD_NS (10 * MS)  /* for children of a thread: not more often, on average */
#define WRITE_NS SECOND
#define JOIN_NS SECOND /* samples of a thread that does not run become one, up to this */
#define LITTLE 100     /* one of so many parts: not worth telling apart */
#define SKIPS_MOST 31  /* looks in a row at a thread that waits */
#define WHY_LOOKS 10   /* for so many a cause is near enough */

/* The last stack that the kernel took of a thread; its addresses are named when somebody asks. */
struct chain {
	int64_t time_ns;
	enum native_moment moment;
	uint32_t stack; /* 0: not named yet */
	size_t n;
	uint64_t ips[CHAIN_MOST];
	bool has_registers;
	uint64_t registers[UNWIND_REGISTERS];
};

/* A thread, and what it has done since the last row about it. */
struct thread {
	pid_t id;
	int times_fd, cpu_fd, call_fd; /* below 0: not to be had */
	bool seen;
	bool waits;	      /* it has not run since the row below began */
	bool newly_python;    /* its row is of the time before */
	unsigned int idle;    /* looks since it ran */
	unsigned int skipped; /* of them, since the last one that was made */
	int64_t skipped_ns;
	enum wait_cause why;  /* when it was last seen to wait; WAIT_ENDED: never yet */
	unsigned int why_age; /* looks since */
	uint64_t waits_at;    /* the instruction, then */
	struct peer_times times;
	int64_t looked_ns;
	struct python_thread python;
	struct chain *chain;	     /* NULL: none yet */
	uint64_t leaves;	     /* times it has left a processor, of those that were seen */
	uint64_t missed;	     /* turns - leaves while it was on none, */
	int64_t missed_ns;	     /* at that time; 0: never seen so */
	struct row_stack_sample row; /* stack 0: none */
};

struct process {
	pid_t pid;
	bool seen;
	struct places places;
	struct python *python;
	struct waits *waiting; /* NULL: no memory */
	bool told_why;
	char program[PATH_MOST]; /* what its threads run, as the kernel says */
	/* Since when, and when that and Python were last looked for. */
	int64_t program_ns, program_sought_ns, python_sought_ns;
	struct thread *threads; /* by id */
	bool has_new_threads;	/* since those of Python were listed */
	size_t n, capacity;
	struct stack_shard shard;
	uint64_t samples, unread, untold; /* untold: nobody knows what was waited for */
	uint64_t unseen;		  /* threads without their times */
	uint64_t joined, leaves,
		apart; /* stacks of Python: with native functions, one of these, none */
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
	int64_t now_ns, looked_ns, written_ns;
	int numbers_fd;
	int64_t last_number; /* of the machine, when threads and processes were looked for */
	bool lost_one;	     /* a thread has ended */
	int64_t leaves_ns;   /* since when stacks of all threads that leave a processor come */
	int64_t searched_ns; /* when that was, and for how many threads */
	size_t searched;
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

/* ---- rows */

static void end_row(struct process *p, struct thread *t)
{
	if (t->row.stack)
		stack_shard_append(&p->shard, RECORD_STACK_SAMPLE, &t->row);
	t->row = (struct row_stack_sample){ 0 };
}

/* So that addresses without a symbol can be named elsewhere. */
static void add_build_ids(struct process *p)
{
	const char *path, *build_id;
	char key[sizeof(FACT_BUILD_ID) + PATH_MOST];

	if (!p->places.symbols)
		return;
	for (size_t i = 0; symbols_file(p->places.symbols, i, &path, &build_id); i++) {
		if (!path || !build_id || strlen(path) >= PATH_MOST)
			continue;
		snprintf(key, sizeof(key), FACT_BUILD_ID "%s", path);
		stack_shard_fact(&p->shard, key, build_id);
	}
}

/* ---- stacks */

static struct thread *thread_of(struct process *p, pid_t id)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->threads[i].id == id)
			return &p->threads[i];
	return NULL;
}

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

static struct thread *add_thread(struct sampler *s, struct process *p, pid_t id)
{
	struct row_thread row = { .thread = (uint32_t)id };
	struct thread *t;
	char name[32];

	if (array_grow(&p->threads, &p->capacity, p->n + 1, sizeof(*p->threads)) < 0)
		return NULL;
	t = &p->threads[p->n++];
	p->has_new_threads = true;
	*t = (struct thread){ .id = id,
			      .times_fd = peer_thread_open(p->pid, id, PEER_TIMES),
			      .cpu_fd = peer_thread_open(p->pid, id, PEER_CPU),
			      .call_fd = peer_thread_open(p->pid, id, PEER_CALL),
			      .why = WAIT_ENDED,
			      .looked_ns = s->now_ns };
	if (t->times_fd >= 0)
		peer_thread_times(t->times_fd, &t->times);
	p->unseen += t->times_fd == -EMFILE || t->times_fd == -EACCES;
	peer_thread_name(p->pid, id, name, sizeof(name));
	row.name = stack_tree_name(&p->shard.tree, name);
	stack_shard_append(&p->shard, RECORD_THREAD, &row);
	return t;
}

static void native_came(void *arg, const struct native_sample *sample)
{
	struct sampler *s = arg;
	struct thread *t = NULL;
	struct chain *c;

	for (size_t i = 0; i < s->n && !t; i++)
		if ((uint32_t)s->processes[i]->pid == sample->pid)
			t = thread_of(s->processes[i], (pid_t)sample->thread);
	if (!t)
		return;
	t->leaves += sample->moment == NATIVE_LEFT;
	if (!t->chain)
		t->chain = calloc(1, sizeof(*t->chain));
	c = t->chain;
	if (!c || sample->time_ns < c->time_ns || !sample->n)
		return;
	c->time_ns = sample->time_ns;
	c->moment = sample->moment;
	c->stack = 0;
	c->n = sample->n < CHAIN_MOST ? sample->n : CHAIN_MOST;
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
	native_drain_cpu(s->native, cpu, native_came, s);
	return t->chain && t->chain->moment == NATIVE_LEFT && t->chain->time_ns <= begin_ns &&
	       t->chain->time_ns >= s->leaves_ns && !has_come_back(t);
}

/* Whether it was on no processor when its times were read: it has left one as often as it has got one. It mostly has,
 * for this thread; then nobody has to be asked where it is. */
static bool is_off(struct sampler *s, struct thread *t)
{
	if (!s->native || !t->missed_ns || t->missed_ns < s->leaves_ns)
		return false;
	native_drain_cpu(s->native, sched_getcpu(), native_came, s);
	return t->times.turns - t->leaves == t->missed;
}

/* It stands still: no time that it left is still to come once all have been drained. */
static void count_missed(struct sampler *s, struct thread *t)
{
	if (t->missed_ns && t->missed_ns >= s->leaves_ns && t->times.turns - t->leaves == t->missed)
		return;
	native_drain(s->native, native_came, s);
	t->missed = t->times.turns - t->leaves;
	t->missed_ns = has_come_back(t) ? 0 : s->now_ns;
}

/* The chain of a thread that stands still, by the tables of its files instead of frame pointers. */
static bool unwind_chain(struct process *p, struct thread *t)
{
	struct chain *c = t->chain;
	uint64_t ips[CHAIN_MOST];
	size_t n;

	if (!c->has_registers || !p->places.unwinder)
		return false;
	c->has_registers = false; /* once is enough */
	n = unwind(p->places.unwinder, c->registers, ips, CHAIN_MOST);
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
	native_drain(s->native, native_came, s);
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
	struct join_native native[CHAIN_MOST];

	for (size_t i = 0; i < c->n; i++)
		native[i] = chain_function(p, c, i);
	return join_stacks(functions, n, native, c->n, names, ret_n);
}

static uint32_t joined_node(struct process *p, struct thread *t,
			    const struct python_function *functions, size_t n)
{
	uint32_t names[DEPTH_MOST + CHAIN_MOST], node = 0;
	size_t n_names;
	bool whole = join_chain(p, t->chain, functions, n, names, &n_names);

	if (!whole && unwind_chain(p, t))
		whole = join_chain(p, t->chain, functions, n, names, &n_names);
	*(whole ? &p->joined : &p->leaves) += 1;
	while (n_names-- > 0)
		node = stack_tree_node(&p->shard.tree, node, names[n_names]);
	return node;
}

/* What is known of its threads is of the Python that has gone. */
static void forget_program(struct process *p)
{
	add_build_ids(p);
	python_close(p->python);
	p->python = NULL;
	for (size_t i = 0; i < p->n; i++)
		p->threads[i].python = (struct python_thread){ 0 };
	p->told_why = false;
	places_close(&p->places);
	places_open(&p->places, p->pid);
}

static void find_python_threads(struct process *p)
{
	struct python_thread found[THREADS_MOST];
	int n = p->python ? python_threads(p->python, found, THREADS_MOST) : 0;

	p->has_new_threads = false;
	for (size_t i = 0; i < p->n; i++) {
		/* Until its next look, however often this is asked before. */
		if (!p->threads[i].python.state)
			p->threads[i].newly_python = true;
		p->threads[i].python = (struct python_thread){ 0 };
	}
	/* It has become another program, perhaps of the same file. */
	if (n < 0)
		forget_program(p);
	for (int i = 0; i < n && i < THREADS_MOST; i++) {
		struct thread *t = thread_of(p, found[i].id);

		if (t)
			t->python = found[i];
		else /* it is about to run, or to write its number down */
			p->has_new_threads = true;
	}
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
		find_python_threads(p);
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

/* ---- processes and threads */

static void thread_close(struct thread *t)
{
	if (t->times_fd >= 0)
		close(t->times_fd);
	if (t->cpu_fd >= 0)
		close(t->cpu_fd);
	if (t->call_fd >= 0)
		close(t->call_fd);
	free(t->chain);
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
	if (p->leaves || (p->joined && p->apart)) {
		snprintf(
			words, sizeof(words),
			"native functions inside Python's: all in %llu looks, the innermost alone in %llu "
			"(what called it is unknown), none in %llu (not read at the same moment)",
			(unsigned long long)p->joined, (unsigned long long)p->leaves,
			(unsigned long long)p->apart);
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
	add_build_ids(p);
	r = stack_shard_close(&p->shard);
	if (r < 0)
		note_trouble(s, r, "stacks: cannot record");
	python_close(p->python);
	places_close(&p->places);
	waits_close(p->waiting);
	free(p->threads);
	free(p);
}

static int64_t clamp_ns(int64_t ns, int64_t least_ns, int64_t most_ns)
{
	return ns < least_ns ? least_ns : ns > most_ns ? most_ns : ns;
}

/* What there is besides Python's functions. */
static const char *native_words(const struct sampler *s)
{
	if (!s->native)
		return "";
	return native_has_leaves(s->native)
		       ? " and native ones"
		       : ", and native ones of threads without; inside Python's these take "
			 "kernel.perf_event_paranoid=1 or CAP_PERFMON";
}

/* The longer a program has run, the more rarely a search for what may have changed in it. */
static bool is_time(const struct sampler *s, const struct process *p, int64_t sought_ns,
		    int64_t most_ns)
{
	return s->now_ns - sought_ns >=
	       clamp_ns((s->now_ns - p->program_ns) / SEARCHES, LOOK_AGAIN_NS, most_ns);
}

static void find_python(struct sampler *s, struct process *p)
{
	char why[160], words[200];
	int r;

	/* In a program of another kind it is looked for more and more rarely: that means to read its map. */
	if (p->python || p->told_why || !is_time(s, p, p->python_sought_ns, SEARCH_MOST_NS))
		return;
	p->python_sought_ns = s->now_ns;
	r = python_open(&p->python, p->pid, why, sizeof(why));
	if (r == 0)
		snprintf(words, sizeof(words), "functions of Python 3.%d%s",
			 python_minor(p->python), native_words(s));
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

		if (!t) {
			t = add_thread(s, p, ids[i]);
			if (!t)
				return;
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

/* Whether it has become another one. One of Python that does is also noticed by its threads. */
static void find_program(struct sampler *s, struct process *p)
{
	char path[32], program[PATH_MOST];
	ssize_t n;

	if (!is_time(s, p, p->program_sought_ns, SECOND))
		return;
	p->program_sought_ns = s->now_ns;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)p->pid);
	n = readlink(path, program, sizeof(program) - 1);
	program[n > 0 ? n : 0] = '\0';
	/* Of one that has ended the names are still to be told. */
	if (p->program_ns && (n <= 0 || strcmp(program, p->program) == 0))
		return;
	memcpy(p->program, program, sizeof(program));
	p->program_ns = s->now_ns;
	p->python_sought_ns = 0;
	forget_program(p);
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
	if (p) {
		p->seen = true;
		s->searched += p->n;
	}
	for (int i = 0; i < n && i < PROCESSES_MOST; i++)
		find_processes(s, children[i], depth + 1);
}

/* Only if there may be new ones, or one has gone: it takes several files of each thread. */
static void find_all(struct sampler *s)
{
	int64_t number = peer_last_number(s->numbers_fd);

	if (number >= 0 && number == s->last_number && !s->lost_one)
		return;
	if (s->now_ns - s->searched_ns < (int64_t)s->searched * SEARCH_THREAD_NS)
		return;
	s->last_number = number;
	s->lost_one = false;
	s->searched_ns = s->now_ns;
	s->searched = 0;
	for (size_t i = 0; i < s->n; i++)
		s->processes[i]->seen = false;
	find_processes(s, s->pid, 0);
	for (size_t i = s->n; i-- > 0;) {
		struct process *p = s->processes[i];

		if (p->seen) {
			find_threads(s, p);
			continue;
		}
		process_close(s, p);
		s->processes[i] = s->processes[--s->n];
	}
}

static void look_around(struct sampler *s)
{
	find_all(s);
	for (size_t i = 0; i < s->n; i++) {
		struct process *p = s->processes[i];

		find_program(s, p);
		find_python(s, p);
		if (p->python && (p->has_new_threads || python_has_new_threads(p->python)))
			find_python_threads(p);
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

static uint32_t find_stack(struct sampler *s, struct process *p, struct thread *t, bool ran)
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
	stack = find_stack(s, p, t, ran);
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
	if (s->native) {
		native_drain(s->native, native_came, s);
		s->leaves_ns = native_leaves_since(s->native, s->now_ns);
	}
	for (size_t i = 0; i < s->n; i++) {
		struct process *p = s->processes[i];

		for (size_t t = 0; t < p->n; t++)
			look_at(s, p, &p->threads[t]);
	}
	if (s->now_ns - s->written_ns >= WRITE_NS) {
		s->written_ns = s->now_ns;
		for (size_t i = 0; i < s->n; i++)
			stack_shard_write(&s->processes[i]->shard);
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
		process_close(s, s->processes[i]);
	r = s->trouble;
	if (r < 0 && err)
		*err = s->err;
	sampler_free(s);
	return r;
}
