/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that handles descriptors, limits and files in ways that programs do and a profiler
 * inside them must survive: fault-hostile [--shared-table] WHAT
 *
 * It records all the while, writes files of its own into the working directory ("own-*"), prints
 * what it has seen, and exits with status 7. Files, output and status must not depend on whether a
 * profiler is there. --shared-table forbids the call by which the profiler gets a descriptor table
 * of its own, as old kernels and some containers do, and starts the rest anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "moescope.h"

#define OWN_FILES 12
#define THREADS 2
#define SYS_CLOSE_RANGE 436

static _Atomic bool over;

static void die(const char *what)
{
	perror(what);
	exit(3);
}

static void record(uint32_t rounds)
{
	moescope_name name = moescope_intern("round");

	for (uint32_t i = 0; i < rounds; i++) {
		moescope_range_begin(name, 0, -1, MOESCOPE_FORWARD);
		moescope_range_end();
		moescope_counter("i", i);
	}
}

static void *record_on(void *arg)
{
	(void)arg;
	while (!atomic_load(&over))
		record(1000);
	return NULL;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Records until the profiler has done something with it, or can no longer do anything. */
static void record_until_flushed(void)
{
	struct moescope_stats stats = { .struct_size = sizeof(stats) };
	double end = now() + 5;
	uint64_t before;

	for (int flushes = 0; flushes < 2 && moescope_run_dir() && now() < end; flushes++) {
		moescope_get_stats(&stats);
		before = stats.recorded + stats.dropped;
		while (stats.recorded + stats.dropped == before && now() < end) {
			record(2000);
			moescope_get_stats(&stats);
		}
	}
}

static int open_own(int number)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "own-%02d", number);
	fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (fd < 0)
		die(name);
	return fd;
}

static void write_own(int fd, int number, int round)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "file %d, round %d\n", number, round);

	if (write(fd, line, (size_t)n) != n)
		die("own file");
}

/* Own files are written before, while and after the profiler writes. */
static void use_files(const int *fds)
{
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < OWN_FILES; i++)
			write_own(fds[i], i, round);
		record_until_flushed();
	}
}

static void close_from(int first)
{
	for (int fd = first; fd < 5000; fd++)
		close(fd);
}

static void closes_all(void)
{
	int fds[OWN_FILES];

	close_from(3);
	for (int i = 0; i < OWN_FILES; i++)
		fds[i] = open_own(i);
	use_files(fds);
}

/* Its own files on numbers of its choice: low ones, and all that there are. */
static void dups(int first, int last)
{
	int fds[OWN_FILES], own[OWN_FILES];

	for (int i = 0; i < OWN_FILES; i++)
		own[i] = open_own(i);
	for (int i = 0; i < OWN_FILES; i++)
		fds[i] = fcntl(own[i], F_DUPFD, 100);
	for (int fd = first; fd <= last; fd++)
		if (fd < 100 || fd >= 100 + OWN_FILES)
			if (dup2(fds[fd % OWN_FILES], fd) < 0 && errno != EBADF)
				die("dup2");
	use_files(fds);
}

static void dups_low(void)
{
	dups(3, 40);
}

static void dups_all(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	dups(3, limit.rlim_cur < 5000 ? (int)limit.rlim_cur - 1 : 5000);
}

/* What is in its sockets and pipes is for the program alone. */
static void sockets(void)
{
	int pairs[OWN_FILES][2];
	char text[64], got[64];

	close_from(3);
	for (int i = 0; i < OWN_FILES; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]) < 0)
			die("socketpair");
	for (int i = 0; i < OWN_FILES; i++) {
		snprintf(text, sizeof(text), "message %02d in a socket", i);
		if (write(pairs[i][0], text, strlen(text)) < 0)
			die("socket");
	}
	record_until_flushed();
	for (int i = 0; i < OWN_FILES; i++) {
		ssize_t n = recv(pairs[i][1], got, sizeof(got) - 1, MSG_DONTWAIT);

		got[n < 0 ? 0 : n] = 0;
		printf("%s\n", got);
	}
}

/* A pipe ends when the program closes it, and with its child. */
static void pipes(void)
{
	int ends[2];
	char c;

	if (pipe(ends) < 0)
		die("pipe");
	record_until_flushed();
	close(ends[1]);
	printf("at the end of the pipe: %zd\n", read(ends[0], &c, 1));
}

static void children(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int fds[OWN_FILES];

		for (int i = 0; i < OWN_FILES; i++)
			fds[i] = open_own(i);
		for (int i = 0; i < OWN_FILES; i++)
			write_own(fds[i], i, 0);
		exit(5);
	}
	record_until_flushed();
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	printf("child: %d\n", status);
}

/* The limit comes while it records; its own writes stay below it. */
static void limited(void)
{
	const rlim_t sizes[] = { 1 << 20, 64 << 10, 5000, 100, 0 };
	struct rlimit limit;
	pthread_t thread;
	int fds[OWN_FILES];

	for (int i = 0; i < OWN_FILES; i++)
		fds[i] = open_own(i);
	for (int i = 0; i < OWN_FILES; i++)
		write_own(fds[i], i, 0);
	getrlimit(RLIMIT_FSIZE, &limit);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		limit.rlim_cur = sizes[i];
		if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
			die("setrlimit");
		/* New threads want new buffers. */
		if (pthread_create(&thread, NULL, record_on, NULL) != 0)
			die("pthread_create");
		record_until_flushed();
		atomic_store(&over, true);
		pthread_join(thread, NULL);
		atomic_store(&over, false);
	}
}

/* Records until a line comes on the standard input: meanwhile the test does something to the run. */
static void records_on(void)
{
	pthread_t threads[THREADS];
	char c;

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, record_on, NULL) != 0)
			die("pthread_create");
	record_until_flushed();
	printf("recording\n");
	fflush(stdout);
	if (read(0, &c, 1) != 1)
		die("standard input");
	record_until_flushed();
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	/* And whoever comes later. */
	atomic_store(&over, false);
	if (pthread_create(&threads[0], NULL, record_on, NULL) != 0)
		die("pthread_create");
	record_until_flushed();
	atomic_store(&over, true);
	pthread_join(threads[0], NULL);
}

static void on_bus(int number)
{
	static const char text[] = "a SIGBUS of its own\n";

	(void)number;
	if (write(1, text, sizeof(text) - 1) < 0)
		_exit(4);
	_exit(9);
}

static void cut_own_file(void)
{
	int fd = open_own(0);
	char *at = MAP_FAILED;

	if (ftruncate(fd, 4096) < 0 ||
	    (at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED ||
	    ftruncate(fd, 0) < 0)
		die("own mapping");
	fflush(stdout);
	*(volatile char *)at = 1;
}

/* A SIGBUS that is the program's own ends it as ever. */
static void bus_default(void)
{
	record_until_flushed();
	cut_own_file();
}

static void bus_sent(void)
{
	record_until_flushed();
	fflush(stdout);
	kill(getpid(), SIGBUS);
	pause();
}

static void bus_handled(void)
{
	signal(SIGBUS, on_bus);
	record_until_flushed();
	cut_own_file();
}

static void nothing(void)
{
	int fds[OWN_FILES];

	for (int i = 0; i < OWN_FILES; i++)
		fds[i] = open_own(i);
	use_files(fds);
}

static const struct {
	const char *name;
	void (*function)(void);
} all[] = {
	{ "nothing", nothing },		{ "closefrom", closes_all }, { "dup2-low", dups_low },
	{ "dup2-all", dups_all },	{ "sockets", sockets },	     { "pipes", pipes },
	{ "children", children },	{ "limited", limited },	     { "records-on", records_on },
	{ "bus-default", bus_default }, { "bus-sent", bus_sent },    { "bus-handled", bus_handled },
};

/* close_range(..., CLOSE_RANGE_UNSHARE) gives ENOSYS from here on. */
static void forbid_own_table(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_CLOSE_RANGE, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		die("seccomp");
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--shared-table")) {
		const char *run = getenv("HOSTILE_RUN");

		forbid_own_table();
		if (run)
			setenv("MOESCOPE_RUN", run, 1);
		execl("/proc/self/exe", argv[0], argv[2], (char *)NULL);
		die(argv[2]);
	}
	for (size_t i = 0; argc == 2 && i < sizeof(all) / sizeof(all[0]); i++) {
		if (strcmp(all[i].name, argv[1]) != 0)
			continue;
		record(100);
		all[i].function();
		printf("%s: done\n", argv[1]);
		fflush(stdout);
		return 7;
	}
	fprintf(stderr, "usage: fault-hostile [--shared-table] WHAT\n");
	return 2;
}
