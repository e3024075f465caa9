/* SPDX-License-Identifier: Apache-2.0
 *
 * Our life inside the process, see life.h: the list of locks, children that were not notified of
 * their fork, calls from signal handlers, and our own threads, which never keep a process alive.
 * Any thread.
 */
#include "probe/core/life.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/wake.h"
#include "probe/core/floors.h"
#include "probe/core/locks.h"
#include "probe/core/probe.h"

struct probe_page probe_page;
__thread bool thread_busy;
__thread bool thread_apart;
_Atomic uint64_t probe_dropped_in_signal;
/* Avoids the loader's lock, which whoever starts our threads may hold. */
#define EARLY __attribute__((tls_model("initial-exec")))
static __thread bool thread_controls EARLY, thread_is_ours EARLY;

static bool begun, bare, doubt;
static pid_t owner_pid;
static _Atomic uint32_t own_threads;

/* ---- forks */

/* The linker defines these from the section. */
extern const struct probe_lock_entry __start_probe_locks[] __attribute__((visibility("hidden")));
extern const struct probe_lock_entry __stop_probe_locks[] __attribute__((visibility("hidden")));

static bool any_lock_held(void)
{
	bool held = false;

	for (const struct probe_lock_entry *e = __start_probe_locks; e < __stop_probe_locks; e++) {
		if (!e->mutex)
			continue;
		if (pthread_mutex_trylock(e->mutex) == 0)
			pthread_mutex_unlock(e->mutex);
		else
			held = true;
	}
	return held;
}

static void renew_locks(void)
{
	for (const struct probe_lock_entry *e = __start_probe_locks; e < __stop_probe_locks; e++) {
		if (e->mutex)
			pthread_mutex_init(e->mutex, NULL);
		if (e->condition)
			condition_begins(e->condition);
	}
}

static void own_process(void)
{
	bool wiped = sysconf(_SC_PAGESIZE) <= PROBE_PAGE_BYTES &&
		     madvise(&probe_page, sizeof(probe_page), MADV_WIPEONFORK) == 0;

	owner_pid = getpid();
	atomic_store(&probe_page.owner, wiped ? OWNER_THIS : OWNER_BY_PID);
}

void life_begin(void)
{
	own_process();
	begun = true;
}

static void count_for_parent(void);

static void become_child(void)
{
	renew_locks();
	atomic_store(&probe_session, 0);
	count_for_parent();
	session_forget();
	atomic_store(&own_threads, 0);
	own_process();
}

void life_forked(void)
{
	become_child();
}

void life_look(void)
{
	int saved = errno;

	if (begun && (atomic_load(&probe_page.owner) == OWNER_OTHER || getpid() != owner_pid)) {
		bare = true;
		doubt |= any_lock_held();
		become_child();
	}
	errno = saved;
}

bool life_may_allocate(void)
{
	return !bare;
}

bool life_in_doubt(void)
{
	return doubt;
}

/* ---- calls of children: a line for each value that their pids hash to */

#define CHILD_LINES 64
struct child_line {
	_Atomic uint64_t calls;
	char pad[56];
};
static struct child_line *child_lines; /* of this process's session */
static _Atomic(struct child_line *) own_line;

int life_share(void)
{
	void *at = mmap(NULL, CHILD_LINES * sizeof(*child_lines), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	child_lines = at;
	atomic_store(&own_line, NULL); /* the page stays: a thread may be about to count in it */
	return 0;
}

void life_unshare(void)
{
	if (child_lines)
		munmap(child_lines, CHILD_LINES * sizeof(*child_lines));
	child_lines = NULL;
}

uint64_t life_child_calls(void)
{
	uint64_t calls = 0;

	for (int i = 0; child_lines && i < CHILD_LINES; i++)
		calls += atomic_load_explicit(&child_lines[i].calls, memory_order_relaxed);
	return calls;
}

static void count_for_parent(void)
{
	if (child_lines)
		atomic_store(&own_line, &child_lines[(uint32_t)getpid() % CHILD_LINES]);
	child_lines = NULL;
}

bool life_count_call(void)
{
	struct child_line *line = atomic_load_explicit(&own_line, memory_order_relaxed);

	if (!line)
		return false;
	atomic_fetch_add_explicit(&line->calls, 1, memory_order_relaxed);
	return true;
}

/* ---- signals */

static bool refused(bool inside)
{
	if (inside)
		atomic_fetch_add_explicit(&probe_dropped_in_signal, 1, memory_order_relaxed);
	return inside;
}

bool probe_lock(pthread_mutex_t *lock)
{
	life_check();
	if (refused(thread_busy))
		return false;
	thread_busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	pthread_mutex_lock(lock);
	return true;
}

void probe_unlock(pthread_mutex_t *lock)
{
	pthread_mutex_unlock(lock);
	atomic_signal_fence(memory_order_seq_cst);
	thread_busy = false;
}

bool probe_control_begin(void)
{
	life_check();
	if (refused(thread_busy || thread_controls))
		return false;
	thread_controls = true;
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

void probe_control_end(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	thread_controls = false;
}

bool probe_in_control(void)
{
	return thread_controls;
}

/* ---- our own threads */

#define LOOK_NS INT64_C(200000000)

static _Atomic int64_t looked_ns;
static _Atomic bool ending;
static _Atomic bool outlived; /* main, by another thread of the program */

/* What the kernel knows about the main thread after its end. */
static struct {
	int status; /* as waitpid gives it */
	sigset_t blocked;
} main_end;

int life_thread_create(pthread_t *ret_thread, void *(*function)(void *), void *arg)
{
	sigset_t all, before;
	bool apart = thread_apart;
	int r;

	thread_apart = true;
	/* The program's signals are for the program's threads; a ring's SIGBUS is for the guard. */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(ret_thread, NULL, function, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	thread_apart = apart;
	return r;
}

void life_thread_begins(const char *name)
{
	thread_is_ours = thread_apart = true;
	pthread_setname_np(pthread_self(), name);
	clock_counter_switch(true); /* a thread inherits this from its creator */
	atomic_fetch_add(&own_threads, 1);
}

void life_thread_ends(void)
{
	atomic_fetch_sub(&own_threads, 1);
}

/* The kernel removes the list when the thread ends, however it does. */
static bool main_thread_runs(void)
{
	void *head = NULL;
	size_t size;

	return syscall(SYS_get_robust_list, getpid(), &head, &size) == 0 && head;
}

static FILE *open_of_main(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int)getpid(), name);
	return fopen(path, "re");
}

/* Whether it is a zombie, with its status; a musl thread may run without a list. */
static bool read_main_end(void)
{
	char line[1024] = "";
	const char *state, *status;
	FILE *f = open_of_main("stat");

	if (!f)
		return false;
	state = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	if (!state || (strncmp(state, ") Z", 3) != 0 && strncmp(state, ") X", 3) != 0))
		return false;
	status = strrchr(state, ' '); /* the last field */
	main_end.status = status ? (int)strtol(status, NULL, 10) : 0;
	return true;
}

/* All signals if it cannot be read. */
static void read_main_mask(void)
{
	unsigned long long bits = ~0ull;
	char line[256];
	FILE *f = open_of_main("status");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "SigBlk: %llx", &bits) == 1)
			break;
	if (f)
		fclose(f);
	sigemptyset(&main_end.blocked);
	for (int s = 1; s <= 64; s++)
		if (bits >> (s - 1) & 1)
			sigaddset(&main_end.blocked, s);
}

/* Our threads are counted from their first line to their last, so the count is at most one too
 * high. */
static bool program_has_threads(void)
{
	uint32_t own = atomic_load(&own_threads), others = 0;
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;

	if (!tasks)
		return true;
	while ((task = readdir(tasks)))
		if (task->d_name[0] != '.' && strtol(task->d_name, NULL, 10) != getpid())
			others++;
	closedir(tasks);
	if (!read_main_end())
		return true;
	if (others > own)
		atomic_store(&outlived, true);
	return others > own;
}

/* The C library calls exit(0) when its last thread ends, as it would have done for the program's;
 * not if main ended by the bare system call. Then the last thread's status is the process's. The
 * calling thread must use the program's descriptor table: exit() flushes its streams. */
static void end_program(void)
{
	read_main_mask();
	pthread_sigmask(SIG_SETMASK, &main_end.blocked, NULL);
	moescope_stop();
	floors_end();
	life_thread_ends();
	if (main_end.status && !atomic_load(&outlived))
		syscall(SYS_exit, main_end.status >> 8 & 0xff);
}

void life_program_thread_ends(void)
{
	if (!thread_is_ours && !main_thread_runs())
		atomic_store(&outlived, true);
}

/* Only one thread gets true. */
static bool program_has_ended(void)
{
	int64_t now = clock_monotonic_ns(), before = atomic_load(&looked_ns);

	if (now - before < LOOK_NS || !atomic_compare_exchange_strong(&looked_ns, &before, now) ||
	    atomic_load(&ending) || main_thread_runs() || program_has_threads())
		return false;
	return !atomic_exchange(&ending, true);
}

static void *end_thread(void *arg)
{
	life_thread_begins("moescope-end");
	end_program();
	return arg;
}

void life_watch(void)
{
	pthread_t thread;

	if (!program_has_ended())
		return;
	if (life_thread_create(&thread, end_thread, NULL) == 0)
		pthread_detach(thread);
	else
		atomic_store(&ending, false);
}

static pthread_t guard;
static struct wake guard_stops;
static bool guarding; /* under the session's lock */

static void *guard_thread(void *arg)
{
	life_thread_begins("moescope-life");
	while (!wake_wait(&guard_stops, LOOK_NS / 1000000))
		if (program_has_ended()) {
			pthread_detach(pthread_self());
			end_program();
			return arg;
		}
	life_thread_ends();
	return arg;
}

int life_guard_start(void)
{
	int r;

	guard_stops = (struct wake){ 0 };
	r = life_thread_create(&guard, guard_thread, NULL);
	guarding = r == 0;
	return r;
}

void life_guard_stop(void)
{
	if (!guarding || pthread_equal(guard, pthread_self()))
		return;
	guarding = false;
	wake_up(&guard_stops);
	pthread_join(guard, NULL);
}

void life_guard_forget(void)
{
	guarding = false;
}
