/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that makes known calls into the operating system, for test_calls.py:
 *
 *   calls-program known   prints of each function: its name, how often it was called, how long by the program's own
 *                         clock, and the bytes
 *   calls-program WORD    does something that wrappers could spoil, and prints how it went
 *   calls-program cost N  nanoseconds a call, of calls that do next to nothing
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000L

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static struct timespec after_ms(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += ms * MS;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "calls-program: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- known calls */

struct account {
	uint64_t count;
	int64_t ns, bytes;
};

#define TIMED(account, call, moved)                                                                \
	do {                                                                                       \
		int64_t timed_from = now_ns();                                                     \
		int64_t timed_result = (int64_t)(call);                                            \
		(account).ns += now_ns() - timed_from;                                             \
		(account).count++;                                                                 \
		(account).bytes += (moved) ? timed_result : 0;                                     \
	} while (0)

static void tell(const char *name, struct account account)
{
	printf("%s %" PRIu64 " %" PRId64 " %" PRId64 "\n", name, account.count, account.ns,
	       account.bytes);
}

static int pipe_fds[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t held;

static void *write_slowly(void *arg)
{
	struct account *writes = arg;
	char bytes[100] = "";

	for (int i = 0; i < 4; i++) {
		struct timespec wait = { .tv_nsec = 20 * MS };

		while (nanosleep(&wait, &wait) < 0)
			continue;
		TIMED(*writes, write(pipe_fds[1], bytes, sizeof(bytes)), true);
	}
	return NULL;
}

static void *hold_lock(void *arg)
{
	struct timespec wait = { .tv_nsec = 40 * MS };

	pthread_mutex_lock(&lock);
	pthread_barrier_wait(&held);
	while (nanosleep(&wait, &wait) < 0)
		continue;
	pthread_mutex_unlock(&lock);
	return arg;
}

static void know_waits(void)
{
	struct account sleeps = { 0 }, polls = { 0 }, selects = { 0 }, epolls = { 0 },
		       conds = { 0 }, sems = { 0 };
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	int set = epoll_create1(0);
	sem_t sem;

	sem_init(&sem, 0, 0);
	for (int i = 0; i < 5; i++) {
		struct timespec until = after_ms(CLOCK_REALTIME, 20), time = { .tv_nsec = 20 * MS };
		struct timeval moment = { .tv_usec = 20000 };
		struct epoll_event event;

		TIMED(sleeps, clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL), false);
		TIMED(polls, poll(NULL, 0, 20), false);
		TIMED(selects, select(0, NULL, NULL, NULL, &moment), false);
		TIMED(epolls, epoll_wait(set, &event, 1, 20), false);
		until = after_ms(CLOCK_REALTIME, 20);
		TIMED(sems, sem_timedwait(&sem, &until), false);
		pthread_mutex_lock(&lock);
		until = after_ms(CLOCK_REALTIME, 20);
		TIMED(conds, pthread_cond_timedwait(&cond, &lock, &until), false);
		pthread_mutex_unlock(&lock);
	}
	close(set);
	tell("clock_nanosleep", sleeps);
	tell("poll", polls);
	tell("select", selects);
	tell("epoll_wait", epolls);
	tell("sem_timedwait", sems);
	tell("pthread_cond_timedwait", conds);
}

static void know_threads(void)
{
	struct account reads = { 0 }, writes = { 0 }, joins = { 0 }, locks = { 0 }, waits = { 0 };
	pthread_t thread;
	char bytes[100];
	pid_t child;

	require(pipe(pipe_fds) == 0, "pipe");
	require(pthread_create(&thread, NULL, write_slowly, &writes) == 0, "pthread_create");
	for (int i = 0; i < 4; i++)
		TIMED(reads, read(pipe_fds[0], bytes, sizeof(bytes)), true);
	TIMED(joins, pthread_join(thread, NULL), false);
	pthread_barrier_init(&held, NULL, 2);
	require(pthread_create(&thread, NULL, hold_lock, NULL) == 0, "pthread_create");
	pthread_barrier_wait(&held);
	TIMED(locks, pthread_mutex_lock(&lock), false);
	pthread_mutex_unlock(&lock);
	TIMED(joins, pthread_join(thread, NULL), false);
	child = fork();
	if (child == 0) {
		usleep(30000); /* a child's calls are not recorded */
		_exit(0);
	}
	TIMED(waits, waitpid(child, NULL, 0), false);
	tell("read", reads);
	tell("pthread_join", joins);
	tell("waitpid", waits);
	/* Five of know_waits, and those that held it. */
	locks.count += 6;
	tell("pthread_mutex_lock", locks);
	for (int i = 0; i < 5000; i++)
		TIMED(writes, write(pipe_fds[1], "", 0), true);
	tell("write", writes);
}

static void know_files(void)
{
	struct account preads = { 0 }, pwrites = { 0 }, opens = { 0 };
	char *block = calloc(1, 1 << 20);
	int fd;

	TIMED(opens, fd = open("known.bin", O_RDWR | O_CREAT | O_TRUNC, 0600), false);
	require(fd >= 0 && block, "known.bin");
	for (int i = 0; i < 8; i++)
		TIMED(pwrites, pwrite(fd, block, 1 << 20, (off_t)i << 20), true);
	for (int i = 0; i < 8; i++)
		TIMED(preads, pread(fd, block, 1 << 20, (off_t)i << 20), true);
	close(fd);
	free(block);
	tell("open", opens);
	tell("pwrite", pwrites);
	tell("pread", preads);
}

static void know(void)
{
	know_waits();
	know_threads();
	know_files();
}

/* ---- errno and results */

static void keep_errno(void)
{
	struct timespec moment = { .tv_nsec = 1 * MS };
	char byte;
	int fds[2];

	require(pipe(fds) == 0, "pipe");
	errno = 77;
	printf("%zd %d\n", write(fds[1], "x", 1), errno);
	errno = 78;
	printf("%d %d\n", nanosleep(&moment, NULL), errno);
	errno = 0;
	printf("%zd %s\n", read(-1, &byte, 1), strerror(errno));
	errno = 0;
	printf("%d %s\n", open("/nowhere/at/all", O_RDONLY), strerror(errno));
	errno = 79;
	printf("%zd %d\n", read(fds[0], &byte, 1), errno);
}

/* ---- cancellation */

static _Atomic int inside;

static void cleaned(void *arg)
{
	printf("cleaned %s\n", (const char *)arg);
}

static void unlocked(void *arg)
{
	(void)arg;
	printf("unlock %d\n", pthread_mutex_unlock(&lock));
}

static void *cancelled_read(void *arg)
{
	char byte;

	pthread_cleanup_push(cleaned, "read");
	atomic_store(&inside, 1);
	printf("read %zd\n", read(pipe_fds[0], &byte, 1));
	pthread_cleanup_pop(0);
	return arg;
}

static void *cancelled_wait(void *arg)
{
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&lock);
	pthread_cleanup_push(unlocked, NULL);
	atomic_store(&inside, 1);
	pthread_cond_wait(&cond, &lock);
	pthread_cleanup_pop(0);
	return arg;
}

static void *cancelled_sleep(void *arg)
{
	pthread_cleanup_push(cleaned, "sleep");
	atomic_store(&inside, 1);
	sleep(1000);
	pthread_cleanup_pop(0);
	return arg;
}

static void cancel(void)
{
	void *(*const functions[])(void *) = { cancelled_read, cancelled_wait, cancelled_sleep };

	require(pipe(pipe_fds) == 0, "pipe");
	for (size_t i = 0; i < 3 * 30; i++) {
		pthread_t thread;
		void *result = NULL;

		atomic_store(&inside, 0);
		require(pthread_create(&thread, NULL, functions[i % 3], NULL) == 0,
			"pthread_create");
		while (!atomic_load(&inside))
			sched_yield();
		pthread_cancel(thread);
		pthread_join(thread, &result);
		printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "ended");
	}
}

/* ---- signals */

static _Atomic int alarms;

static void on_alarm(int sig)
{
	(void)sig;
	atomic_fetch_add(&alarms, 1);
}

static void interrupt_calls(void)
{
	struct sigaction action = { .sa_handler = on_alarm };
	const struct itimerval once = { .it_value = { .tv_usec = 20000 } };
	struct timespec long_time = { .tv_sec = 1000 }, rest = { 0 };
	sem_t sem;
	char byte;
	int r;

	require(pipe(pipe_fds) == 0, "pipe");
	sem_init(&sem, 0, 0);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &once, NULL);
	r = (int)read(pipe_fds[0], &byte, 1);
	printf("read %d %s\n", r, strerror(errno));
	setitimer(ITIMER_REAL, &once, NULL);
	r = poll(NULL, 0, 100000);
	printf("poll %d %s\n", r, strerror(errno));
	setitimer(ITIMER_REAL, &once, NULL);
	r = nanosleep(&long_time, &rest);
	printf("nanosleep %d %s %d\n", r, strerror(errno), rest.tv_sec >= 900);
	setitimer(ITIMER_REAL, &once, NULL);
	r = sem_wait(&sem);
	printf("sem_wait %d %s\n", r, strerror(errno));
	setitimer(ITIMER_REAL, &once, NULL);
	r = clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL);
	printf("clock_nanosleep %s\n", strerror(r));
	setitimer(ITIMER_REAL, &once, NULL);
	printf("sleep %d\n", sleep(1000) >= 900);
	printf("alarms %d\n", atomic_load(&alarms));
}

static sigjmp_buf out_of_it;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(out_of_it, 1);
}

static void jump_out(void)
{
	struct sigaction action = { .sa_handler = jump };
	const struct itimerval once = { .it_value = { .tv_usec = 1000 } };
	volatile int jumps = 0;
	char byte;

	require(pipe(pipe_fds) == 0, "pipe");
	sigaction(SIGALRM, &action, NULL);
	for (volatile int i = 0; i < 200; i++) {
		if (sigsetjmp(out_of_it, 1)) {
			jumps++;
			continue;
		}
		setitimer(ITIMER_REAL, &once, NULL);
		require(read(pipe_fds[0], &byte, 1) < 0, "read");
	}
	printf("jumps %d\n", jumps);
}

static int quiet_fd;

static void write_in_handler(int sig)
{
	int saved = errno;

	(void)sig;
	atomic_fetch_add(&alarms, write(quiet_fd, "x", 1) == 1);
	errno = saved;
}

/* Handlers that interrupt the allocator, on a thread whose first call of all may be the handler's. */
static void *allocate(void *arg)
{
	for (int i = 0; atomic_load(&alarms) < 300; i++)
		free(malloc(1 + (size_t)i % 5000));
	return arg;
}

static void handle(void)
{
	struct sigaction action = { .sa_handler = write_in_handler, .sa_flags = SA_RESTART };
	const struct itimerval often = { .it_interval = { .tv_usec = 500 },
					 .it_value = { .tv_usec = 500 } };
	const struct itimerval never = { 0 };
	pthread_t thread;

	quiet_fd = open("/dev/null", O_WRONLY);
	sigaction(SIGALRM, &action, NULL);
	require(pthread_create(&thread, NULL, allocate, NULL) == 0, "pthread_create");
	setitimer(ITIMER_REAL, &often, NULL);
	allocate(NULL);
	pthread_join(thread, NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	printf("handled %d\n", atomic_load(&alarms) >= 300);
}

/* ---- children */

static void fork_and_execute(char *own)
{
	char *again[] = { own, "errno", NULL };
	int status = 0;
	pid_t child;

	fflush(stdout);
	for (int i = 0; i < 5; i++) {
		child = fork();
		if (child == 0) {
			char byte;

			require(pipe(pipe_fds) == 0 && write(pipe_fds[1], "x", 1) == 1, "write");
			require(read(pipe_fds[0], &byte, 1) == 1, "read");
			usleep(1000);
			_exit(3 + i);
		}
		waitpid(child, &status, 0);
		printf("child %d\n", WEXITSTATUS(status));
		fflush(stdout);
	}
	child = fork();
	if (child == 0) {
		execv(own, again);
		_exit(99);
	}
	waitpid(child, &status, 0);
	printf("executed %d\n", WEXITSTATUS(status));
	fflush(stdout);
	child = vfork();
	if (child == 0) {
		close(pipe_fds[0]);
		execv(own, again);
		_exit(99);
	}
	waitpid(child, &status, 0);
	printf("executed %d\n", WEXITSTATUS(status));
	fflush(stdout);
	execv(own, again);
}

/* ---- locks */

static pthread_mutex_t robust;

static void *die_with_lock(void *arg)
{
	pthread_mutex_lock(&robust);
	return arg;
}

static void use_locks(void)
{
	const int kinds[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ERRORCHECK,
			      PTHREAD_MUTEX_RECURSIVE };
	pthread_mutexattr_t attributes;
	pthread_t thread;

	for (size_t i = 1; i < 3; i++) {
		pthread_mutex_t mutex;

		pthread_mutexattr_init(&attributes);
		pthread_mutexattr_settype(&attributes, kinds[i]);
		pthread_mutex_init(&mutex, &attributes);
		printf("lock %s", strerror(pthread_mutex_lock(&mutex)));
		printf(", %s", strerror(pthread_mutex_lock(&mutex)));
		printf(", unlock %s", strerror(pthread_mutex_unlock(&mutex)));
		printf(", %s\n", strerror(pthread_mutex_unlock(&mutex)));
	}
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &attributes);
	pthread_create(&thread, NULL, die_with_lock, NULL);
	pthread_join(thread, NULL);
	printf("robust %s\n", strerror(pthread_mutex_lock(&robust)));
	printf("consistent %s\n", strerror(pthread_mutex_consistent(&robust)));
	printf("unlock %s\n", strerror(pthread_mutex_unlock(&robust)));
}

/* ---- threads: small stacks, destructors that call, many at once */

static pthread_key_t key;
static char places[41]; /* addresses that count */
static _Atomic int destroyed;

static void destroy(void *arg)
{
	char *place = arg;
	struct timespec moment = { .tv_nsec = 50000 };

	nanosleep(&moment, NULL);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&destroyed, 1);
	if (place < places + 4)
		pthread_setspecific(key, place + 1);
}

static void *end_late(void *arg)
{
	struct timespec moment = { .tv_nsec = 50000 };

	pthread_setspecific(key, places + 1);
	nanosleep(&moment, NULL);
	return arg;
}

static void start_threads(void)
{
	pthread_attr_t attributes;
	ptrdiff_t sum = 0;
	pthread_t threads[40];

	pthread_key_create(&key, destroy);
	pthread_attr_init(&attributes);
	require(pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN + 8192) == 0,
		"a small stack");
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 40; i++)
			require(pthread_create(&threads[i], &attributes, end_late, places + i) == 0,
				"pthread_create");
		for (int i = 0; i < 40; i++) {
			void *result = NULL;

			pthread_join(threads[i], &result);
			sum += (char *)result - places;
		}
	}
	printf("threads %d %d\n", (int)sum, atomic_load(&destroyed));
}

/* ---- descriptors and the clock taken away */

static void close_all(void)
{
	char byte = 0;

	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	require(pipe(pipe_fds) == 0, "pipe");
	printf("pipe %d %d\n", pipe_fds[0], pipe_fds[1]);
	printf("write %zd\n", write(pipe_fds[1], "x", 1));
	printf("read %zd %c\n", read(pipe_fds[0], &byte, 1), byte);
}

static void lose_clock(void)
{
	char byte;

	require(pipe(pipe_fds) == 0, "pipe");
#if defined(__x86_64__)
	require(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0, "prctl");
#endif
	printf("write %zd\n", write(pipe_fds[1], "x", 1));
	printf("read %zd\n", read(pipe_fds[0], &byte, 1));
	usleep(1000);
#if defined(__x86_64__)
	prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
#endif
}

/* ---- libraries of a device, opened as Python opens its modules */

static void use_device(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void (*work)(void) = NULL;

	if (library)
		work = (void (*)(void))dlsym(library, "work_on_device");
	if (!work) {
		fprintf(stderr, "calls-program: %s\n", dlerror());
		exit(1);
	}
	work();
}

/* ---- what a call costs */

static void cost(long n)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	int fd = open("/dev/null", O_WRONLY);
	int64_t from = now_ns();

	for (long i = 0; i < n; i++)
		require(write(fd, "x", 1) == 1, "write");
	printf("write %.1f\n", (double)(now_ns() - from) / (double)n);
	from = now_ns();
	for (long i = 0; i < n; i++) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
	}
	printf("lock %.1f\n", (double)(now_ns() - from) / (double)n);
}

int main(int argc, char **argv)
{
	const struct {
		const char *word;
		void (*function)(void);
	} words[] = { { "known", know },      { "errno", keep_errno },
		      { "cancel", cancel },   { "interrupt", interrupt_calls },
		      { "jump", jump_out },   { "handle", handle },
		      { "locks", use_locks }, { "threads", start_threads },
		      { "close", close_all }, { "clock", lose_clock } };

	if (argc == 2 && !strcmp(argv[1], "fork"))
		fork_and_execute(argv[0]);
	if (argc == 3 && !strcmp(argv[1], "device"))
		use_device(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "cost"))
		cost(strtol(argv[2], NULL, 10));
	for (size_t i = 0; argc == 2 && i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(argv[1], words[i].word))
			words[i].function();
	return argc > 1 ? 0 : 2;
}
