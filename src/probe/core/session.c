/* SPDX-License-Identifier: Apache-2.0
 *
 * Start, stop, threads that come and go, fork, and the library's own start and end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/version.h"
#include "probe/core/calls.h"
#include "probe/core/device_rows.h"
#include "probe/core/floors.h"
#include "probe/core/labels.h"
#include "probe/core/probe.h"
#include "probe/core/spans.h"
#include "trace/bus_guard.h"
#include "trace/rundir.h"

__thread struct ring *thread_ring;
__thread uint32_t thread_session;
__thread bool thread_clockless;

PROBE_LOCK(session_lock);		 /* start, stop, attach, fork */
static struct recorder *recorder;	 /* NULL: no session */
static struct moescope_stats last_stats; /* of the last session */
static char *run_dir;
static _Atomic(const char *) told_run_dir; /* the same, in memory that is never freed */
static _Atomic(const char *) told_shard;
static _Atomic(struct ring_header *) shared; /* likewise: stays as an address */
static bool own_run_dir;		     /* created here, so run.json is ours to finish */
static int64_t started_ns;
static uint32_t sessions;
static bool lost_by_fork; /* the session: this is a child */
static pthread_key_t thread_key;
static __thread uint32_t refused_session; /* in which this thread could not get a ring */
struct wake probe_drain_wake;

static void thread_ends(void *arg)
{
	struct ring *ring = arg;

	thread_apart = true; /* what other destructors call would only make another ring */
	life_check();
	if (!thread_ring)
		return; /* the ring belongs to the parent process */
	life_program_thread_ends();
	labels_forget_thread((uint32_t)syscall(SYS_gettid));
	/* The ring of a finished session is just our memory. */
	if (!probe_lock(&session_lock))
		return;
	if (thread_session == atomic_load(&probe_session))
		ring_detach(ring);
	else
		free(ring);
	thread_ring = NULL;
	probe_unlock(&session_lock);
}

void probe_announce_thread(uint32_t thread)
{
	struct row_thread row = { .thread = thread };
	char name[32] = "";

	row.name = labels_thread(thread);
	if (!row.name && pthread_getname_np(pthread_self(), name, sizeof(name)) != 0)
		return;
	if (!row.name)
		row.name = moescope_intern(name);
	probe_push(RECORD_THREAD, &row, sizeof(row), NULL, 0);
}

#define LARGE_RING_BYTES (16u << 20)

static void count_refused(void)
{
	atomic_fetch_add(thread_clockless ? &probe_dropped_no_clock : &probe_dropped_no_ring, 1);
}

/* The session's lock is held. */
static struct ring *new_ring(uint32_t thread, uint32_t bytes)
{
	struct ring *ring = NULL;

	thread_clockless = clock_has_counter && !clock_counter_is_on();
	if (!thread_clockless)
		ring = bytes ? rings_attach_sized(recorder->rings, thread, bytes)
			     : rings_attach(recorder->rings, thread);
	if (!ring) {
		refused_session = atomic_load(&probe_session);
		count_refused();
		return NULL;
	}
	free(thread_ring);
	thread_ring = ring;
	thread_session = atomic_load(&probe_session);
	pthread_setspecific(thread_key, ring);
	return ring;
}

static struct ring *attach_ring(uint32_t bytes)
{
	uint32_t thread = (uint32_t)syscall(SYS_gettid);
	struct ring *ring = NULL;
	int saved = errno;

	life_check();
	if (life_count_call())
		return NULL;
	if (refused_session && refused_session == atomic_load(&probe_session)) {
		count_refused();
		return NULL;
	}
	if (!probe_lock(&session_lock))
		return NULL;
	if (thread_ring && thread_session == atomic_load(&probe_session)) {
		/* A signal handler was faster. */
		ring = thread_ring;
		probe_unlock(&session_lock);
		return ring;
	}
	if (recorder)
		ring = new_ring(thread, bytes);
	probe_unlock(&session_lock);
	if (ring) {
		if (bytes) /* not a thread of the program */
			probe_wait_for_place(ring);
		probe_announce_thread(thread);
		ring = thread_ring; /* a different one if a new session has started meanwhile */
	}
	errno = saved;
	return ring;
}

struct ring *probe_attach(void)
{
	return attach_ring(0);
}

struct ring *probe_take_slow(void)
{
	struct ring *ring = probe_ring();

	if (!ring)
		return NULL;
	if (thread_busy) {
		atomic_fetch_add(&probe_dropped_in_signal, 1);
		return NULL;
	}
	thread_busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	return ring;
}

void probe_attach_large(void)
{
	if (!thread_ring || thread_session != atomic_load(&probe_session))
		attach_ring(LARGE_RING_BYTES);
}

static bool is_run(const char *path)
{
	char *info;
	bool found;

	if (asprintf(&info, "%s/run.json", path) < 0)
		return false;
	found = access(info, F_OK) == 0;
	free(info);
	return found;
}

/* Creates the run directory of a program that was not started by `moescope run`. */
static int make_run_dir(const char *path, enum moescope_level level)
{
	static const char *const levels[] = { "off", "counts", "steps", "trace", "full" };
	char name[256] = "program", *argv[] = { name };
	struct rundir_meta meta = { .argc = 1, .argv = argv, .level = levels[level] };
	char fallback[64];
	FILE *f = fopen("/proc/self/comm", "re");
	int r;

	if (f) {
		if (fgets(name, sizeof(name), f))
			name[strcspn(name, "\n")] = 0;
		fclose(f);
	}
	if (!path) {
		snprintf(fallback, sizeof(fallback), "moescope-%d" RUNDIR_SUFFIX, (int)getpid());
		path = fallback;
	}
	r = rundir_create(path, &meta, &run_dir, NULL);
	own_run_dir = r == 0;
	if (r == -EEXIST && is_run(path)) { /* shared with other processes */
		run_dir = realpath(path, NULL);
		r = run_dir ? 0 : -errno;
	}
	return r;
}

/* Whether `run --ranks` includes this process; without that option all are included. */
static bool rank_is_wanted(void)
{
	const char *wanted = getenv("MOESCOPE_RANKS");

	return !wanted || !*wanted || rank_in_list(rundir_rank(), wanted) != 0;
}

/* A run that could not be started is not left behind. */
static void remove_run_dir(void)
{
	char *info;

	if (asprintf(&info, "%s/run.json", run_dir) < 0)
		return;
	unlink(info);
	rmdir(run_dir);
	free(info);
}

/* Paths returned to the program stay valid forever: one copy of each. */
static const char *told(const char *path)
{
	static struct told {
		struct told *next;
		char path[];
	} * all;
	size_t bytes = strlen(path) + 1;
	struct told *at = all;

	while (at && strcmp(at->path, path) != 0)
		at = at->next;
	if (!at && (at = malloc(sizeof(*at) + bytes))) {
		memcpy(at->path, path, bytes);
		at->next = all;
		all = at;
	}
	return at ? at->path : NULL;
}

static int open_files(struct recorder *made)
{
	uint32_t ring_bytes = made->options.ring_bytes ? made->options.ring_bytes : 1u << 20;
	char *shard = NULL, *ring_path = NULL;
	int r = rundir_new_shard(run_dir, made->map.first_ticks, &shard, &made->writer), why;

	if (r < 0)
		return r;
	ring_path = shard_ring_path(shard);
	r = ring_path ? rings_create(ring_path, ring_bytes, &probe_drain_wake, &made->rings, &why)
		      : -ENOMEM;
	if (r == 0) {
		/* Without a buffer file a kill loses what is not in the shard: write more often. */
		made->flush_ms = made->options.flush_ms ? made->options.flush_ms : why ? 100 : 250;
		made->patience = made->options.flush_ms || why ? 1 : 4;
		made->rings->header->maps[0] = made->map;
		if (!why)
			bus_guard_install();
	} else {
		shard_abandon(made->writer);
		unlink(shard);
	}
	free(ring_path);
	if (r == 0)
		made->shard = shard;
	else
		free(shard);
	return r;
}

int session_open(struct recorder *made)
{
	int r = run_dir ? 0 : make_run_dir(made->path, made->options.level);

	if (r < 0)
		return r;
	tick_map_init(&made->map);
	calls_open(&made->map);
	encoder_init(&made->encoder, 1, 1, 0);
	r = open_files(made);
	if (r == 0) {
		names_log_all(made->rings);
		return 0;
	}
	encoder_release(&made->encoder);
	if (own_run_dir)
		remove_run_dir();
	return r;
}

void session_look(void)
{
	joined_look(run_dir);
}

static void fill_stats(const struct recorder *from, struct moescope_stats *stats)
{
	const struct shard_header *header = &from->writer->header;

	stats->recorded = atomic_load(&from->recorded);
	stats->written_bytes = atomic_load(&from->written_bytes);
	stats->dropped = 0;
	for (int d = 0; d < DROP_SLOTS; d++)
		stats->dropped += atomic_load(&header->live.dropped[d]);
	stats->write_errors = atomic_load(&header->live.write_errors);
	stats->drain_cpu_ns = atomic_load(&header->live.drain_cpu_ns);
}

void session_close(struct recorder *old)
{
	bool finished = old->all_written || old->files == FILES_BUFFERS_CUT;

	fill_stats(old, &last_stats);
	if (finished) {
		/* A missing index is no loss: readers scan without it. */
		shard_close(old->writer, &old->encoder);
	} else {
		if (old->files == FILES_WHOLE) {
			atomic_fetch_add(&old->writer->header.live.dropped[DROP_UNWRITTEN],
					 drain_unsalvageable(old->rings, &old->done));
			shard_publish(old->writer);
		}
		shard_abandon(old->writer);
	}
	bus_guard_restore();
	/* What could not be written stays in the buffer file, where readers find it. */
	rings_retire(old->rings, finished);
	encoder_release(&old->encoder);
	if (own_run_dir) {
		struct rundir_end end = { .exited = true,
					  .duration_ns = clock_monotonic_ns() - started_ns };

		rundir_finish(run_dir, &end, NULL);
	}
}

static int start_locked(const char *path, const struct moescope_options *options, bool by_program)
{
	const char *inherited = getenv("MOESCOPE_RUN");
	struct recorder *made;
	int r;

	clock_init();
	if (!path && inherited && *inherited) {
		if (!rank_is_wanted())
			return 0; /* every call stays a no-op */
		run_dir = strdup(inherited);
		if (!run_dir)
			return -ENOMEM;
	}
	/* The losses of the previous session are in its own shard. */
	atomic_store(&probe_dropped_no_ring, 0);
	atomic_store(&probe_dropped_no_clock, 0);
	atomic_store(&probe_dropped_in_signal, 0);
	atomic_store(&probe_device_dropped, 0);
	atomic_store(&probe_device_unknown, 0);
	made = calloc(1, sizeof(*made));
	if (made) {
		made->path = path;
		made->options = *options;
		made->wake = &probe_drain_wake;
		life_share();
	}
	r = made ? life_guard_start() : -ENOMEM;
	if (r == 0)
		r = recorder_start(made);
	if (r < 0) {
		life_guard_stop();
		life_unshare();
		own_run_dir = false;
		free(run_dir);
		run_dir = NULL;
		free(made);
		return r;
	}
	recorder = made;
	started_ns = clock_monotonic_ns();
	atomic_store(&told_run_dir, told(run_dir));
	atomic_store(&told_shard, told(recorder->shard));
	atomic_store(&shared, recorder->rings->header);
	atomic_store(&probe_session, ++sessions);
	steps_start(options->level, recorder->rings, by_program);
	return 0;
}

/* Sizes between the limits are rounded up, as moescope.h says. */
static void tell_ring_bytes(uint32_t asked, uint32_t used)
{
	char words[96];

	if (asked >= RING_MIN_BYTES && asked <= RING_MAX_BYTES)
		return;
	snprintf(words, sizeof(words), "%u KiB per thread: %u KiB requested, %u to %u allowed",
		 used >> 10, asked >> 10, RING_MIN_BYTES >> 10, RING_MAX_BYTES >> 10);
	moescope_info("buffers", words);
}

/* by_program: not because the library was loaded under `moescope run`. */
static int start(const char *path, const struct moescope_options *options, bool by_program)
{
	struct moescope_options wanted = { 0 };
	uint32_t ring_bytes = 0;
	int saved = errno, r = 0;
	bool started = false;

	probe_given(&wanted, sizeof(wanted), options);
	if (!wanted.level || wanted.level > MOESCOPE_FULL)
		wanted.level = MOESCOPE_TRACE;
	if (!probe_lock(&session_lock))
		return -EBUSY;
	if (life_in_doubt()) {
		r = -EBUSY;
	} else if (!recorder) {
		r = start_locked(path, &wanted, by_program);
		started = recorder != NULL;
		ring_bytes = started ? recorder->rings->ring_bytes : 0;
	}
	probe_unlock(&session_lock);
	if (started)
		labels_announce();
	else if (r == 0 && by_program)
		steps_begin_first();
	if (started && wanted.ring_bytes)
		tell_ring_bytes(wanted.ring_bytes, ring_bytes);
	errno = saved;
	return r;
}

int moescope_start_with(const char *path, const struct moescope_options *options)
{
	int r;

	if (!probe_control_begin())
		return -EBUSY;
	r = start(path, options, true);
	if (r == 0)
		floors_join();
	probe_control_end();
	return r;
}

int moescope_start(const char *path)
{
	return moescope_start_with(path, NULL);
}

void moescope_stop(void)
{
	int saved = errno;
	uint32_t open_spans;
	bool counter;

	if (!probe_control_begin())
		return;
	counter = clock_counter_switch(true);
	/* Without the lock: what CUPTI delivers now, and what is open, may need a ring. */
	floors_stop();
	open_spans = spans_finish();
	steps_write_kept();
	probe_lock(&session_lock);
	if (recorder) {
		recorder->open_spans = open_spans;
		steps_stop();
		names_set_log(NULL);
		atomic_store(&shared, NULL);
		recorder_stop(recorder);
		life_guard_stop();
		atomic_store(&told_run_dir, NULL);
		atomic_store(&told_shard, NULL);
		atomic_store(&probe_session, 0);
		life_unshare();
		free(recorder->shard);
		free(recorder);
		recorder = NULL;
		free(run_dir);
		run_dir = NULL;
		own_run_dir = false;
	}
	probe_unlock(&session_lock);
	clock_counter_switch(counter);
	probe_control_end();
	errno = saved;
}

void moescope_get_stats(struct moescope_stats *stats)
{
	struct moescope_stats now;
	size_t size;

	if (!probe_given(&now, sizeof(now), stats) || !probe_lock(&session_lock))
		return;
	size = now.struct_size;
	now = last_stats;
	if (recorder)
		fill_stats(recorder, &now);
	probe_unlock(&session_lock);
	now.struct_size = size;
	memcpy(stats, &now, size < sizeof(now) ? size : sizeof(now));
}

const char *moescope_version(void)
{
	return VERSION_TEXT;
}

const char *moescope_run_dir(void)
{
	life_check();
	return atomic_load(&told_run_dir);
}

const char *moescope_shard(void)
{
	life_check();
	return atomic_load(&told_shard);
}

int moescope_flush(void)
{
	int saved = errno, r;

	if (!probe_control_begin())
		return -EBUSY;
	r = probe_flush();
	probe_control_end();
	errno = saved;
	return r;
}

/* The data they guard is consistent in the child. A signal handler that has interrupted one of our
 * calls forks without them. */
static __thread bool fork_holds_locks;

static void before_fork(void)
{
	life_check();
	fork_holds_locks = !thread_busy;
	if (!fork_holds_locks)
		return;
	/* A signal handler would wait for what this thread holds. */
	thread_busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	pthread_mutex_lock(&session_lock);
	steps_before_fork();
	names_before_fork();
}

static void parent_forked(void)
{
	if (!fork_holds_locks)
		return;
	names_after_fork();
	steps_after_fork();
	pthread_mutex_unlock(&session_lock);
	atomic_signal_fence(memory_order_seq_cst);
	thread_busy = false;
}

static void child_forked(void)
{
	parent_forked();
	life_forked();
}

/* The child records nothing until it starts its own session. The mappings are the parent's too: the
 * child drops them without writing, and with them the lock that shows readers that the parent
 * lives. */
void session_forget(void)
{
	floors_after_fork();
	spans_after_fork();
	labels_after_fork();
	names_forget();
	steps_forget();
	life_guard_forget();
	joined_forget();
	if (recorder) {
		lost_by_fork = true;
		rings_forget(recorder->rings);
		shard_forget(recorder->writer);
		bus_guard_restore();
		recorder = NULL;
	}
	probe_drain_wake = (struct wake){ 0 };
	pthread_setspecific(thread_key, NULL);
	thread_ring = NULL;
	run_dir = NULL;
	atomic_store(&shared, NULL);
	atomic_store(&told_run_dir, NULL);
	atomic_store(&told_shard, NULL);
	own_run_dir = false;
}

struct ring_header *probe_shared(void)
{
	return atomic_load(&shared);
}

static uint32_t environment_number(const char *name)
{
	const char *value = getenv(name);

	return value ? (uint32_t)strtoul(value, NULL, 10) : 0;
}

static uint32_t environment_ring_bytes(void)
{
	uint32_t kb = environment_number("MOESCOPE_RING_KB");

	return kb > UINT32_MAX >> 10 ? UINT32_MAX : kb << 10;
}

static enum moescope_level environment_level(void)
{
	static const char *const names[] = { "", "counts", "steps", "trace", "full" };
	const char *value = getenv("MOESCOPE_LEVEL");

	for (int i = 1; value && i <= MOESCOPE_FULL; i++)
		if (!strcmp(value, names[i]))
			return (enum moescope_level)i;
	return MOESCOPE_TRACE;
}

/* What the library does when it is loaded under `moescope run`. */
static void start_by_environment(void)
{
	const char *run = getenv("MOESCOPE_RUN"), *schedule = getenv("MOESCOPE_SCHEDULE");
	struct moescope_options options = { .struct_size = sizeof(options) };
	struct moescope_schedule parsed;

	if (!run || !*run)
		return;
	if (schedule && schedule_parse(schedule, &parsed) == 0)
		moescope_set_schedule(&parsed);
	steps_set_overhead_check(environment_number("MOESCOPE_OVERHEAD_CHECK"));
	options.level = environment_level();
	options.ring_bytes = environment_ring_bytes();
	/* Not moescope_start_with: the driver may be loading us right now, and will call again. */
	start(NULL, &options, false);
}

void session_begin_in_child(void)
{
	if (lost_by_fork && !atomic_load(&probe_session))
		start_by_environment();
	lost_by_fork = false;
}

__attribute__((constructor)) static void library_begins(void)
{
	clock_init();
	life_begin();
	pthread_key_create(&thread_key, thread_ends);
	pthread_atfork(before_fork, parent_forked, child_forked);
	start_by_environment();
}

__attribute__((destructor)) static void library_ends(void)
{
	moescope_stop();
}
