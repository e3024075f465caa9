/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that end, fork and are interrupted in unusual ways: fault-life SCENARIO
 *
 * Every scenario prints, records and ends in one certain way, with and without the profiler.
 * life.py compares. Waiting is for a state of the kernel or of another thread, never for a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "moescope.h"

#define FAIL(words)                                                                                \
	do {                                                                                       \
		fprintf(stderr, "fault-life: %s: %s\n", words, strerror(errno));                   \
		_exit(99);                                                                         \
	} while (0)

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		FAIL("write");
}

static void record(const char *mark)
{
	moescope_range_push("a range");
	moescope_mark(mark);
	moescope_range_pop();
}

/* ---- the main thread ends before the process */

static void at_exit(void)
{
	say("exit handler\n");
}

static void wait_for_the_end_of_main(void)
{
	char path[64], text[512];
	const char *state = NULL;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	do {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

		if (n <= 0)
			FAIL(path);
		text[n] = 0;
		close(fd);
		state = strrchr(text, ')');
		sched_yield();
	} while (state && strncmp(state, ") Z", 3) != 0);
}

static void *outlive(void *arg)
{
	wait_for_the_end_of_main();
	record("after main");
	say("a thread has outlived main\n");
	return arg;
}

static void *be_terminated(void *arg)
{
	outlive(arg);
	kill(getpid(), SIGTERM);
	for (;;)
		pause();
	return NULL;
}

static void begin_thread(void *(*function)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, function, NULL) != 0)
		FAIL("pthread_create");
	pthread_detach(thread);
}

static void end_by_pthread_exit(void)
{
	atexit(at_exit);
	printf("buffered\n");
	record("main");
	pthread_exit(NULL);
}

static void end_by_syscall(void)
{
	record("main");
	say("main\n");
	syscall(SYS_exit, 5);
}

static void pthread_exit_and_thread(void)
{
	begin_thread(outlive);
	end_by_pthread_exit();
}

static void syscall_and_thread(void)
{
	begin_thread(outlive);
	end_by_syscall();
}

static void pthread_exit_and_sigterm(void)
{
	begin_thread(be_terminated);
	end_by_pthread_exit();
}

static void terminated(int number)
{
	(void)number;
	say("handler\n");
	_exit(9);
}

static void syscall_and_handler(void)
{
	signal(SIGTERM, terminated);
	begin_thread(be_terminated);
	end_by_syscall();
}

/* What the program itself has blocked stays blocked. */
static void blocked_sigterm(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	kill(getpid(), SIGTERM);
	end_by_pthread_exit();
}

/* ---- children that no handler tells of the fork */

static pid_t fork_bare(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void wait_for(pid_t pid)
{
	char line[64];
	int status;

	if (waitpid(pid, &status, 0) != pid)
		FAIL("waitpid");
	snprintf(line, sizeof(line), "child: %x\n", (unsigned int)status);
	say(line);
}

static void in_child(void)
{
	struct moescope_stats stats = { .struct_size = sizeof(stats) };

	record("child");
	moescope_step(1);
	moescope_step(1);
	moescope_pause();
	moescope_resume();
	moescope_set_level(MOESCOPE_FULL);
	moescope_get_stats(&stats);
	say(moescope_recording() || moescope_run_dir() ? "child records\n" : "child\n");
}

static void with_child(pid_t (*make)(void), void (*end)(int))
{
	pid_t pid;

	record("main");
	moescope_range_push("around the fork");
	pid = make();
	if (pid < 0)
		FAIL("fork");
	if (pid == 0) {
		in_child();
		end(4);
	}
	wait_for(pid);
	moescope_range_pop();
	record("main");
	exit(3);
}

static void bare_clone(void)
{
	with_child(fork_bare, exit);
}

static void clone_and_no_call(void)
{
	pid_t pid;

	record("main");
	pid = fork_bare();
	if (pid == 0)
		exit(4);
	wait_for(pid);
	exit(3);
}

static void plain_fork(void)
{
	with_child(fork, exit);
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
static void glibc_fork(void)
{
	with_child(_Fork, exit);
}
#endif

/* A thread that ends in the child: its destructors run there. */
static void clone_and_pthread_exit(void)
{
	pid_t pid;

	record("main");
	pid = fork_bare();
	if (pid == 0) {
		record("child");
		pthread_exit(NULL);
	}
	wait_for(pid);
	exit(3);
}

static atomic_bool enough;

/* Holds the probe's locks as often as it can. */
static void *be_busy(void *arg)
{
	struct moescope_past_op op = { 0 }; /* one: it is the lock that matters, not the rows */
	uint64_t n = 0;

	while (!atomic_load(&enough)) {
		struct moescope_stats stats = { .struct_size = sizeof(stats) };
		char name[64];

		snprintf(name, sizeof(name), "%p %llu", arg, (unsigned long long)(n++ % 20000));
		moescope_intern(name);
		moescope_step_begin((int64_t)n);
		moescope_pause();
		moescope_resume();
		moescope_get_stats(&stats);
		moescope_past_ops(&op, 1);
	}
	return NULL;
}

static void among_threads(pid_t (*make)(void), void (*child)(void))
{
	pthread_t threads[3];
	int failed = 0, status;

	for (uintptr_t i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, be_busy, (void *)i) != 0)
			FAIL("pthread_create");
	for (int i = 0; i < 200; i++) {
		pid_t pid = make();

		if (pid == 0) {
			alarm(300);
			child();
			_exit(4);
		}
		if (waitpid(pid, &status, 0) != pid || status != 4 << 8)
			failed++;
	}
	atomic_store(&enough, true);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	say(failed ? "children hang\n" : "no child hangs\n");
	exit(3);
}

/* Nothing that allocates: a child like that may not. */
static void child_calls(void)
{
	struct moescope_stats stats = { .struct_size = sizeof(stats) };
	struct moescope_past_op op = { 0 };

	record("child");
	moescope_intern("a name that is new");
	moescope_step(1);
	moescope_past_ops(&op, 1);
	moescope_pause();
	moescope_resume();
	moescope_get_stats(&stats);
	moescope_stop();
}

static void clone_among_threads(void)
{
	among_threads(fork_bare, child_calls);
}

/* A session of the child's own, and waiting for room in it. */
static void child_session(void)
{
	struct moescope_options options = { .struct_size = sizeof(options), .ring_bytes = 1 };
	static struct moescope_past_op ops[4096];
	char path[64];

	snprintf(path, sizeof(path), "child-%d.mscope", (int)getpid());
	if (moescope_start_with(path, &options) != 0)
		_exit(98);
	moescope_past_ops(ops, 4096);
	moescope_past_ops(ops, 4096);
	moescope_stop();
}

static void fork_among_threads(void)
{
	among_threads(fork, child_session);
}

/* ---- the time-stamp counter is off */

static void switch_counter_off(void)
{
#if defined(PR_SET_TSC)
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
#endif
}

static void *without_counter(void *arg)
{
	switch_counter_off();
	record("without the counter");
	moescope_step(1);
	moescope_counter("a series", 1);
	return arg;
}

static void counter_off(void)
{
	switch_counter_off();
	exit(3);
}

static void counter_off_and_calls(void)
{
	without_counter(NULL);
	exit(3);
}

static void counter_off_in_thread(void)
{
	pthread_t thread;

	record("main");
	if (pthread_create(&thread, NULL, without_counter, NULL) != 0)
		FAIL("pthread_create");
	pthread_join(thread, NULL);
	record("main");
	exit(3);
}

/* What strict seccomp allows: read, write and the end of the thread. */
static void strict_seccomp(void)
{
	record("main");
	prctl(PR_SET_SECCOMP, 1 /* SECCOMP_MODE_STRICT */, 0, 0, 0);
	say("strict\n");
	syscall(SYS_exit, 6);
}

/* ---- the API in a handler */

static atomic_uint handled;
static moescope_name inner;

static void record_in_handler(int number)
{
	int saved = errno;

	(void)number;
	moescope_range_begin(inner, -1, -1, MOESCOPE_PHASE_NONE);
	moescope_mark("handler");
	moescope_range_end();
	moescope_step(1);
	moescope_pause();
	moescope_resume();
	atomic_fetch_add(&handled, 1);
	errno = saved;
}

static void calls_to_interrupt(int round)
{
	struct moescope_stats stats = { .struct_size = sizeof(stats) };
	char name[32];

	snprintf(name, sizeof(name), "name %d", round);
	moescope_range_begin(inner, 1, -1, MOESCOPE_FORWARD);
	moescope_op_begin(inner, -1, 2, 0);
	moescope_op_end(1, 2);
	moescope_range_end();
	moescope_mark(name);
	moescope_step(1);
	moescope_info("key", name);
	moescope_get_stats(&stats);
	moescope_alloc(name, 1, -1, MOESCOPE_MEMORY_CACHE, inner);
}

static void signals(void)
{
	struct sigaction action = { .sa_handler = record_in_handler, .sa_flags = SA_RESTART };

	inner = moescope_intern("inner");
	moescope_intern("handler");
	moescope_mark("handler"); /* a ring, which a handler could not have made */
	sigaction(SIGPROF, &action, NULL);
	/* From another process, as fast as it can: no clock decides. */
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		while (getppid() == parent && kill(parent, SIGPROF) == 0)
			;
		_exit(0);
	}
	for (int i = 0; i < 20000 || atomic_load(&handled) < 2000; i++)
		calls_to_interrupt(i % 5000);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0)
		;
	say("done\n");
	exit(3);
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{ "pthread_exit", end_by_pthread_exit },
	{ "SYS_exit", end_by_syscall },
	{ "pthread_exit-thread", pthread_exit_and_thread },
	{ "SYS_exit-thread", syscall_and_thread },
	{ "pthread_exit-sigterm", pthread_exit_and_sigterm },
	{ "SYS_exit-handler", syscall_and_handler },
	{ "blocked-sigterm", blocked_sigterm },
	{ "fork", plain_fork },
	{ "clone", bare_clone },
	{ "clone-no-call", clone_and_no_call },
	{ "clone-pthread_exit", clone_and_pthread_exit },
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
	{ "_Fork", glibc_fork },
#endif
	{ "clone-threads", clone_among_threads },
	{ "fork-threads", fork_among_threads },
	{ "tsc", counter_off },
	{ "tsc-calls", counter_off_and_calls },
	{ "tsc-thread", counter_off_in_thread },
	{ "seccomp", strict_seccomp },
	{ "signals", signals },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (argc < 2)
			puts(scenarios[i].name);
		else if (!strcmp(argv[1], scenarios[i].name))
			scenarios[i].run();
	}
	return argc < 2 ? 0 : 97;
}
