/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of allocations; see heap.h. Files are read and written by pread and pwrite: they belong to the program,
 * which may cut them at any time. They lose their names as soon as they are open here, so that nobody else can: a
 * program whose file is cut would end by SIGBUS. A program that calls exec may take the same name again.
 */
#include "host/heap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/read_at.h"
#include "base/wake.h"
#include "host/stacks/stack_shard.h"
#include "host/stacks/symbols.h"
#include "trace/heap_file.h"
#include "trace/rundir.h"

#define SECOND INT64_C(1000000000)
#define LOOK_MS 50
#define WRITE_NS SECOND
#define AT_ONCE 1024	   /* events */
#define DEPTH_MOST 1024	   /* functions of a stack */
#define ON_PATH UINT32_MAX /* in place of a stack: it is just being made */
#define FILES_MOST 1024	   /* at a time */
#define SHARDS_MOST 1024   /* in all */
#define SHARDS_OF_NAME 100
#define STUCK_NS (2 * SECOND)	      /* an event that is not complete by then will never be */
#define SAMPLES_A_SECOND 2000	      /* of a process: with more, the distance becomes larger */
#define SIZE_MOST (UINT64_C(1) << 47) /* no address space has more */
#define RATED_NS (SECOND / 10)

/* An allocation that has not been freed. */
struct live {
	uint64_t sample;
	uint64_t size, bytes;
	int64_t time_ns;
	uint32_t stack, thread;
};

struct process {
	char *name; /* that its file had, without HEAP_SUFFIX */
	int fd;
	dev_t device;
	ino_t inode;
	pid_t pid;
	bool has_shard;
	struct stack_shard shard;
	struct symbols *symbols;
	uint32_t *stacks;  /* of each node of the file, that of the shard; 0: not yet */
	struct live *live; /* a hash table, open addressing; sample 0: none */
	size_t n_live, live_slots;
	uint64_t tail, samples, dropped, unknown_frees, distance, first_distance;
	int64_t stuck_ns; /* since when its next event is not complete; 0: it is */
	int64_t rated_ns;
	uint64_t rated_samples;
};

struct heap {
	pthread_t thread;
	struct wake wake;
	_Atomic bool ends;
	char *run;
	struct process **processes;
	size_t n, capacity, shards;
	int64_t now_ns, written_ns;
	struct heap_end end;
	int trouble;
	struct err err;
};

static void note_trouble(struct heap *h, int r, const char *what)
{
	if (h->trouble < 0)
		return;
	h->trouble = r;
	err_sys(&h->err, r, "%s", what);
}

static bool read_all(const struct process *p, void *to, size_t size, uint64_t offset)
{
	return read_at(p->fd, to, size, offset) == (ssize_t)size;
}

/* ---- live samples */

static struct live *live_slot(const struct process *p, uint64_t sample)
{
	size_t at = hash_word(sample) & (p->live_slots - 1);

	while (p->live[at].sample && p->live[at].sample != sample)
		at = (at + 1) & (p->live_slots - 1);
	return &p->live[at];
}

static int live_grow(struct process *p)
{
	size_t had = p->live_slots, slots = had ? had * 2 : 1024;
	struct live *before = p->live, *more;

	if (p->n_live * 2 < had)
		return 0;
	more = calloc(slots, sizeof(*more));
	if (!more)
		return -ENOMEM;
	p->live = more;
	p->live_slots = slots;
	for (size_t i = 0; i < had; i++)
		if (before[i].sample)
			*live_slot(p, before[i].sample) = before[i];
	free(before);
	return 0;
}

/* Takes it out, and moves up those that were behind it because of it. */
static void live_remove(struct process *p, struct live *slot)
{
	size_t mask = p->live_slots - 1, hole = (size_t)(slot - p->live), at = hole;

	for (;;) {
		at = (at + 1) & mask;
		if (!p->live[at].sample)
			break;
		if (((at - hash_word(p->live[at].sample)) & mask) >= ((at - hole) & mask)) {
			p->live[hole] = p->live[at];
			hole = at;
		}
	}
	p->live[hole].sample = 0;
	p->n_live--;
}

/* ---- stacks */

static const char *function_name(struct process *p, uint64_t function, char *text, size_t size)
{
	uint64_t at = function & ~HEAP_TEXT_BIT;
	uint16_t length;

	if (!(function & HEAP_TEXT_BIT)) /* the call is before where it returns to */
		return p->symbols ? symbols_name(p->symbols, function - 1) : "[unknown]";
	if (at + sizeof(length) > HEAP_TEXT_BYTES ||
	    !read_all(p, &length, sizeof(length), HEAP_TEXTS_AT + at) ||
	    at + sizeof(length) + length > HEAP_TEXT_BYTES || length >= size ||
	    !read_all(p, text, length, HEAP_TEXTS_AT + at + sizeof(length)))
		return "[unknown]";
	text[length] = '\0';
	return text;
}

static uint32_t stack_of(struct process *p, uint32_t node)
{
	struct {
		uint32_t node;
		uint64_t function;
	} path[DEPTH_MOST];
	char text[HEAP_TEXT_MOST + 1];
	uint32_t stack = 0;
	size_t n = 0;

	for (; node && node <= HEAP_NODES && !p->stacks[node - 1] && n < DEPTH_MOST; n++) {
		struct heap_node found;

		if (!read_all(p, &found, sizeof(found),
			      HEAP_NODES_AT + (uint64_t)(node - 1) * sizeof(found)))
			break;
		path[n].node = node;
		path[n].function = found.function;
		p->stacks[node - 1] = ON_PATH;
		node = found.parent;
	}
	/* The program may have made a circle of them. */
	if (node && node <= HEAP_NODES && p->stacks[node - 1] != ON_PATH)
		stack = p->stacks[node - 1];
	while (n--) {
		const char *name = function_name(p, path[n].function, text, sizeof(text));

		stack = stack_shard_node(&p->shard, stack, name);
		p->stacks[path[n].node - 1] = stack;
	}
	return stack ? stack : stack_shard_node(&p->shard, 0, "(no stack)");
}

/* ---- events */

/* What a sample stands for: its size by the chance that it had. */
static uint64_t estimate(uint64_t size, uint64_t distance)
{
	double chance = -expm1(-(double)size / (double)(distance ? distance : 1));
	double bytes = chance > 0 ? (double)size / chance : (double)distance;

	return bytes < 0x1p60 ? (uint64_t)(bytes + 0.5) : UINT64_C(1) << 60;
}

static int take(struct process *p, const struct heap_event *e)
{
	struct live live = { .sample = e->sample,
			     .size = e->size,
			     .bytes = estimate(e->size, e->distance),
			     .time_ns = e->time_ns,
			     .thread = e->thread };
	struct row_heap_sample row = { .time_ns = e->time_ns,
				       .event = HEAP_SAMPLE_TAKEN,
				       .thread = e->thread,
				       .size = live.size,
				       .bytes = live.bytes };
	struct live *slot;

	if (p->n_live == HEAP_LIVE_MOST) { /* frees were dropped, or it makes samples up */
		p->dropped++;
		return 0;
	}
	if (live_grow(p) < 0)
		return -ENOMEM;
	row.stack = live.stack = stack_of(p, e->node);
	slot = live_slot(p, e->sample);
	p->n_live += !slot->sample;
	*slot = live;
	p->samples++;
	stack_shard_append(&p->shard, RECORD_HEAP_SAMPLE, &row);
	return 0;
}

static void give_back(struct process *p, const struct heap_event *e)
{
	struct live *slot = p->live_slots && e->sample ? live_slot(p, e->sample) : NULL;
	struct row_heap_sample row;

	if (!slot || !slot->sample) {
		p->unknown_frees++;
		return;
	}
	row = (struct row_heap_sample){ .time_ns = e->time_ns,
					.event = HEAP_SAMPLE_FREED,
					.thread = slot->thread,
					.stack = slot->stack,
					.size = slot->size,
					.bytes = slot->bytes,
					.held_ns = e->time_ns - slot->time_ns };
	live_remove(p, slot);
	stack_shard_append(&p->shard, RECORD_HEAP_SAMPLE, &row);
}

static bool open_shard(struct heap *h, struct process *p)
{
	uint32_t rank = rundir_rank_of(p->pid);
	char *path;
	int r = -EEXIST;

	if (p->has_shard)
		return true;
	if (h->shards == SHARDS_MOST) {
		note_trouble(h, -EMLINK, "heap: of the first 1024 processes only");
		return false;
	}
	for (int i = 1; i <= SHARDS_OF_NAME && r == -EEXIST; i++) {
		char number[16] = "";

		if (i > 1)
			snprintf(number, sizeof(number), "-%d", i);
		if (asprintf(&path, "%s/%u-%s%s" RUNDIR_HEAP, h->run, rank, p->name, number) < 0)
			return false;
		r = stack_shard_open(&p->shard, path, p->pid, rank, h->now_ns);
		free(path);
	}
	if (r < 0)
		note_trouble(h, r, "heap: cannot create a shard");
	p->has_shard = r == 0;
	h->shards += p->has_shard;
	return p->has_shard;
}

/* The events from the tail on that are complete, up to AT_ONCE; is_over: those that are not will never be. Returns how
 * many places to go on by. */
static uint64_t read_events(struct heap *h, struct process *p, bool is_over)
{
	struct heap_event events[AT_ONCE];
	uint64_t head, n, at = p->tail % HEAP_EVENTS, complete = 0;

	if (!read_all(p, &head, sizeof(head), offsetof(struct heap_header, head)) ||
	    head <= p->tail || head - p->tail > HEAP_EVENTS)
		return 0;
	n = head - p->tail;
	n = n < AT_ONCE ? n : AT_ONCE;
	n = n < HEAP_EVENTS - at ? n : HEAP_EVENTS - at;
	/* Twice: what was complete the first time is so the second time, whatever the order of its bytes. */
	for (int i = 0; i < 2; i++) {
		if (!read_all(p, events, n * sizeof(*events),
			      HEAP_EVENTS_AT + at * sizeof(*events)))
			return 0;
		while (i == 0 && complete < n && events[complete].turn == p->tail + complete + 1)
			complete++;
		n = complete;
	}
	if (!complete) {
		p->stuck_ns = p->stuck_ns ? p->stuck_ns : h->now_ns;
		if (!is_over && h->now_ns - p->stuck_ns < STUCK_NS)
			return 0;
		p->stuck_ns = 0;
		return 1;
	}
	p->stuck_ns = 0;
	if (!open_shard(h, p))
		return complete;
	for (uint64_t i = 0; i < complete; i++) {
		const struct heap_event *e = &events[i];

		if (!time_is_sane(e->time_ns) || !e->sample || e->size > SIZE_MOST)
			continue;
		if (e->kind == HEAP_TAKEN && take(p, e) < 0)
			note_trouble(h, -ENOMEM, "heap: cannot record");
		else if (e->kind == HEAP_FREED)
			give_back(p, e);
	}
	return complete;
}

static void write_word(const struct process *p, uint64_t word, size_t offset)
{
	/* Without it the ring fills up, which is counted. */
	if (pwrite(p->fd, &word, sizeof(word), (off_t)offset) < 0)
		return;
}

/* What is in the ring now, and no more: a program may write as fast as this reads. */
static void drain(struct heap *h, struct process *p, bool is_over)
{
	uint64_t n, end = p->tail + HEAP_EVENTS;

	while (p->tail < end && (n = read_events(h, p, is_over))) {
		p->tail += n;
		write_word(p, p->tail, offsetof(struct heap_header, tail));
	}
}

/* A program with very many samples gets fewer: each tells the distance that it was drawn with. */
static void set_distance(struct heap *h, struct process *p)
{
	uint64_t samples = p->samples - p->rated_samples, distance = p->distance;
	int64_t passed_ns = h->now_ns - p->rated_ns;

	if (passed_ns < RATED_NS)
		return;
	p->rated_ns = h->now_ns;
	p->rated_samples = p->samples;
	samples = samples * (uint64_t)SECOND / (uint64_t)passed_ns;
	for (uint64_t left = samples; left > SAMPLES_A_SECOND && distance < HEAP_DISTANCE_MOST;
	     left /= 2)
		distance *= 2;
	if (samples < SAMPLES_A_SECOND / 4 && distance > p->first_distance)
		distance /= 2;
	if (distance == p->distance)
		return;
	p->distance = distance;
	write_word(p, distance, offsetof(struct heap_header, distance));
}

/* ---- processes */

static void process_free(struct process *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	symbols_close(p->symbols);
	free(p->stacks);
	free(p->live);
	free(p->name);
	free(p);
}

static void learn_maps(struct process *p)
{
	char *lines = calloc(1, HEAP_MAPS_BYTES + 1);

	if (lines && p->symbols && read_all(p, lines, HEAP_MAPS_BYTES, HEAP_MAPS_AT))
		symbols_learn(p->symbols, lines);
	free(lines);
}

/* Whether it is open already: only where its name could not be taken away. */
static bool is_known(const struct heap *h, const struct stat *st)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->processes[i]->inode == st->st_ino && h->processes[i]->device == st->st_dev)
			return true;
	return false;
}

/* NULL: it is not complete yet, or none. */
static struct process *process_open(struct heap *h, int folder, const char *file)
{
	struct process *p = calloc(1, sizeof(*p));
	struct heap_header header;
	struct stat st;

	if (!p)
		return NULL;
	p->name = strndup(file, strlen(file) - strlen(HEAP_SUFFIX));
	p->fd = openat(folder, file, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (!p->name || p->fd < 0 || fstat(p->fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    is_known(h, &st) || !read_all(p, &header, sizeof(header), 0) ||
	    memcmp(header.magic, HEAP_MAGIC, sizeof(header.magic)) != 0 ||
	    !(p->stacks = calloc(HEAP_NODES, sizeof(*p->stacks)))) {
		process_free(p);
		return NULL;
	}
	unlinkat(folder, file, 0);
	p->device = st.st_dev;
	p->inode = st.st_ino;
	p->pid = (pid_t)header.pid;
	p->distance = p->first_distance = header.distance;
	p->rated_ns = h->now_ns;
	p->symbols = symbols_open(p->pid);
	learn_maps(p);
	h->end.processes++;
	return p;
}

static void tell(struct process *p, uint64_t n, const char *words)
{
	char text[200];

	if (!n)
		return;
	snprintf(text, sizeof(text), "%" PRIu64 " %s", n, words);
	stack_shard_fact(&p->shard, "heap", text);
}

static void tell_losses(struct process *p)
{
	struct heap_header header;
	char text[120];

	if (!read_all(p, &header, sizeof(header), 0))
		return;
	tell(p, header.dropped + p->dropped, "samples were dropped: there was no room for them");
	tell(p, header.dropped_frees,
	     "frees of samples were dropped: these allocations seem to live to the end");
	tell(p, header.shortened, "stacks lack functions: there was no room or no time for them");
	tell(p, header.no_python, "samples lack functions of Python: it was changing them");
	tell(p, header.children, "forked children allocated memory: only their parent is sampled");
	if (p->distance != p->first_distance) {
		snprintf(text, sizeof(text),
			 "at the end one sample every %" PRIu64 " KiB: there were too many",
			 p->distance >> 10);
		stack_shard_fact(&p->shard, "heap", text);
	}
}

/* The rest of it. */
static void process_close(struct heap *h, struct process *p, bool is_over)
{
	learn_maps(p);
	drain(h, p, is_over);
	if (p->has_shard) {
		int r;

		tell_losses(p);
		r = stack_shard_close(&p->shard);
		if (r < 0)
			note_trouble(h, r, "heap: cannot write");
	}
	write_word(p, 1, offsetof(struct heap_header, closed));
	h->end.samples += p->samples;
	process_free(p);
}

static bool is_file_of_samples(const char *name)
{
	size_t length = strlen(name), end = strlen(HEAP_SUFFIX);

	return length > end && strcmp(name + length - end, HEAP_SUFFIX) == 0;
}

static void find_processes(struct heap *h)
{
	DIR *dir = opendir(h->run);
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)) && h->n < FILES_MOST) {
		struct process *p;

		if (!is_file_of_samples(entry->d_name) ||
		    array_grow(&h->processes, &h->capacity, h->n + 1, sizeof(p)) < 0)
			continue;
		p = process_open(h, dirfd(dir), entry->d_name);
		if (p)
			h->processes[h->n++] = p;
	}
	closedir(dir);
}

/* Files that were never complete, as their processes ended while they made them, or that kept their names. */
static void remove_others(const struct heap *h)
{
	DIR *dir = opendir(h->run);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (is_file_of_samples(entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}

static void look(struct heap *h)
{
	bool writes;

	h->now_ns = clock_monotonic_ns();
	writes = h->now_ns - h->written_ns >= WRITE_NS;
	if (writes)
		h->written_ns = h->now_ns;
	find_processes(h);
	for (size_t i = h->n; i-- > 0;) {
		struct process *p = h->processes[i];

		/* Asked first: what it wrote before its end is in the file then. */
		if (kill(p->pid, 0) < 0 && errno == ESRCH) {
			process_close(h, p, true);
			h->processes[i] = h->processes[--h->n];
			continue;
		}
		drain(h, p, false);
		set_distance(h, p);
		if (writes && p->has_shard)
			stack_shard_write(&p->shard);
	}
}

static void *read_samples(void *arg)
{
	struct heap *h = arg;

	while (!h->ends) {
		look(h);
		wake_wait(&h->wake, LOOK_MS);
	}
	look(h);
	while (h->n)
		process_close(h, h->processes[--h->n], true);
	remove_others(h);
	return NULL;
}

int heap_start(struct heap **ret_heap, const char *run, struct err *err)
{
	struct heap *h = calloc(1, sizeof(*h));
	sigset_t all, before;
	int r;

	if (!h || !(h->run = strdup(run))) {
		free(h);
		return err_sys(err, -ENOMEM, "heap: cannot start");
	}
	h->written_ns = clock_monotonic_ns();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&h->thread, NULL, read_samples, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0) {
		free(h->run);
		free(h);
		return err_sys(err, r, "heap: cannot start a thread");
	}
	*ret_heap = h;
	return 0;
}

int heap_stop(struct heap *h, struct heap_end *ret_end, struct err *err)
{
	int r;

	if (!h)
		return 0;
	h->ends = true;
	wake_up(&h->wake);
	pthread_join(h->thread, NULL);
	r = h->trouble;
	if (r < 0 && err)
		*err = h->err;
	if (ret_end)
		*ret_end = h->end;
	free(h->processes);
	free(h->run);
	free(h);
	return r;
}
