/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes and threads of a program, as they come and go; see followed.h.
 */
#include "host/stacks/followed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "host/stacks/symbols.h"
#include "trace/rundir.h"

#define THREADS_MOST 4096
#define PROCESSES_MOST 256 /* at a time */
#define SHARDS_MOST 1024   /* in all: a build starts thousands of short processes */
#define SECOND INT64_C(1000000000)
#define LOOK_AGAIN_NS (SECOND / 10) /* for another program, and for Python in it */
#define NAMED_TIMES 2
#define SEARCHES 8			/* after so much of a program's time again, */
#define SEARCH_MOST_NS (5 * SECOND)	/* for Python: at least so often */
#define SEARCH_THREAD_NS (SECOND / 100) /* for children of a thread: not more often, on average */

static void note_trouble(struct sampler *s, int r, const char *what)
{
	if (s->trouble < 0)
		return;
	s->trouble = r;
	err_sys(&s->err, r, "%s", what);
}

/* ---- rows */

void followed_end_row(struct process *p, struct thread *t)
{
	if (t->row.stack)
		stack_shard_append(&p->shard, RECORD_STACK_SAMPLE, &t->row);
	t->row = (struct row_stack_sample){ 0 };
}

/* So that addresses without a symbol can be named elsewhere. */
static void add_build_ids(struct process *p)
{
	const char *path, *build_id;
	char key[sizeof(FACT_BUILD_ID) + FOLLOWED_PATH_MOST];

	if (!p->places.symbols)
		return;
	for (size_t i = 0; symbols_file(p->places.symbols, i, &path, &build_id); i++) {
		if (!path || !build_id || strlen(path) >= FOLLOWED_PATH_MOST)
			continue;
		snprintf(key, sizeof(key), FACT_BUILD_ID "%s", path);
		stack_shard_fact(&p->shard, key, build_id);
	}
}

struct thread *followed_thread(struct process *p, pid_t id)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->threads[i].id == id)
			return &p->threads[i];
	return NULL;
}

/* ---- threads */

static void name_thread(struct process *p, struct thread *t)
{
	struct row_thread row = { .thread = (uint32_t)t->id };
	char name[FOLLOWED_NAME];

	t->named++;
	peer_thread_name(p->pid, t->id, name, sizeof(name));
	if (!*name || strcmp(name, t->name) == 0)
		return;
	memcpy(t->name, name, sizeof(name));
	row.name = stack_tree_name(&p->shard.tree, name);
	stack_shard_append(&p->shard, RECORD_THREAD, &row);
}

void followed_name_threads(struct process *p, bool all)
{
	for (size_t i = 0; i < p->n; i++)
		if (all || p->threads[i].named < NAMED_TIMES)
			name_thread(p, &p->threads[i]);
}

static struct thread *add_thread(struct sampler *s, struct process *p, pid_t id)
{
	struct thread *t;

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
	name_thread(p, t);
	return t;
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

void followed_find_python_threads(struct process *p)
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
		struct thread *t = followed_thread(p, found[i].id);

		/* It is about to run, or to write its number down; up to 3.11 that of its parent is there until then. */
		if (!t || t->python.state)
			p->has_new_threads = true;
		if (t)
			t->python = found[i]; /* the parent's comes later */
	}
}

/* ---- processes */

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

/* A fact about the stacks of a process. */
__attribute__((format(printf, 2, 3))) static void tell(struct process *p, const char *format, ...)
{
	char words[256];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	stack_shard_fact(&p->shard, "stacks", words);
}

void followed_close(struct sampler *s, struct process *p)
{
	int r;

	for (size_t i = 0; i < p->n; i++) {
		followed_end_row(p, &p->threads[i]);
		thread_close(&p->threads[i]);
	}
	if (p->unread)
		tell(p,
		     "%" PRIu64 " of %" PRIu64
		     " samples changed too fast for their innermost functions to be read",
		     p->unread, p->samples);
	if (p->leaves || (p->joined && p->apart))
		tell(p,
		     "native functions inside Python's: all in %" PRIu64
		     " samples, the innermost alone in %" PRIu64
		     " (what called it is unknown), none in %" PRIu64
		     " (not read at the same moment)",
		     p->joined, p->leaves, p->apart);
	/* Now and then one is ending, or has just gone on. */
	if (p->untold * FOLLOWED_LITTLE > p->samples)
		tell(p,
		     "what threads waited for was unreadable in %" PRIu64 " of %" PRIu64
		     " samples: that takes the right to trace them (CAP_SYS_PTRACE) and an open file for each (ulimit -n)",
		     p->untold, p->samples);
	if (p->unseen)
		tell(p,
		     "%" PRIu64
		     " threads could not be looked at: raise the limit of open files (ulimit -n)",
		     p->unseen);
	if (s->native && native_lost(s->native))
		tell(p, "the kernel dropped %" PRIu64 " native stacks of all processes",
		     native_lost(s->native));
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
	char why[160];
	int r;

	/* In a program of another kind it is looked for more and more rarely: that means to read its map. */
	if (p->python || p->told_why || !is_time(s, p, p->python_sought_ns, SEARCH_MOST_NS))
		return;
	p->python_sought_ns = s->now_ns;
	r = python_open(&p->python, p->pid, why, sizeof(why));
	if (r == 0)
		tell(p, "functions of Python 3.%d%s", python_minor(p->python), native_words(s));
	else if (r == -ENOTSUP)
		tell(p, "%s", why);
	p->told_why = r == 0 || r == -ENOTSUP;
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
		struct thread *t = followed_thread(p, ids[i]);

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
		followed_end_row(p, &p->threads[i]);
		thread_close(&p->threads[i]);
		p->threads[i] = p->threads[--p->n];
	}
}

/* Whether it has become another one. One of Python that does is also noticed by its threads. */
static void find_program(struct sampler *s, struct process *p)
{
	char path[32], program[FOLLOWED_PATH_MOST];
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
	followed_name_threads(p, true);
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
		followed_close(s, p);
		s->processes[i] = s->processes[--s->n];
	}
}

void followed_search(struct sampler *s)
{
	find_all(s);
	for (size_t i = 0; i < s->n; i++) {
		struct process *p = s->processes[i];

		find_program(s, p);
		find_python(s, p);
		if (p->python && (p->has_new_threads || python_has_new_threads(p->python)))
			followed_find_python_threads(p);
	}
}
