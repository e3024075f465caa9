/* SPDX-License-Identifier: Apache-2.0
 *
 * Child process and signals of `run` and `demo`. One thread.
 *
 * Invariant: from launch_start on every watched signal is blocked and taken by launch_wait alone,
 * so that no handler runs at an awkward moment and the run directory is always finished.
 */
#include "cmd/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXEC_LOOK_MS = 50 };

static const int forwarded[] = { SIGTERM, SIGHUP, SIGQUIT, SIGINT, SIGUSR1, SIGUSR2, SIGTSTP };

static int executable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == EACCES ? -EACCES : -ENOENT;
	return S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? 0 : -EACCES;
}

int program_find(const char *name)
{
	const char *path = getenv("PATH");
	int result = -ENOENT;

	if (strchr(name, '/'))
		return executable(name);
	if (!path)
		path = "/bin:/usr/bin";
	for (;;) {
		size_t length = strcspn(path, ":");
		char candidate[PATH_MAX];
		int n, r;

		n = snprintf(candidate, sizeof(candidate), "%.*s%s%s", (int)length, path,
			     length ? "/" : "", name);
		r = n > 0 && (size_t)n < sizeof(candidate) ? executable(candidate) : -ENOENT;
		if (r == 0)
			return 0;
		if (r == -EACCES)
			result = r;
		if (!path[length])
			return result;
		path += length + 1;
	}
}

static void become(const struct launch *launch, char **argv, int output_fd, int report_fd)
{
	ssize_t n;
	int code;

	sigaction(SIGCHLD, &launch->given_sigchld, NULL);
	if (output_fd >= 0 &&
	    (dup2(output_fd, STDOUT_FILENO) < 0 || dup2(output_fd, STDERR_FILENO) < 0))
		goto failed;
	sigprocmask(SIG_SETMASK, &launch->given_mask, NULL);
	execvp(argv[0], argv);
failed:
	code = errno;
	n = write(report_fd, &code, sizeof(code));
	/* Should even that fail, the parent sees an ordinary exit with this status. */
	_exit(n < 0 ? 127 : 126);
}

static void watch_signals(struct launch *launch)
{
	struct sigaction normal = { .sa_handler = SIG_DFL };
	sigset_t blocked;

	sigemptyset(&launch->watched);
	sigaddset(&launch->watched, SIGCHLD);
	sigaddset(&launch->watched, SIGWINCH);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(*forwarded); i++)
		sigaddset(&launch->watched, forwarded[i]);
	/* Blocked but not awaited: a reader of our stderr that went away is no reason to die. */
	blocked = launch->watched;
	sigaddset(&blocked, SIGPIPE);
	sigprocmask(SIG_BLOCK, &blocked, &launch->given_mask);
	/* An inherited "ignore" would make the kernel throw away the program's exit status. */
	sigaction(SIGCHLD, &normal, &launch->given_sigchld);
}

static void unwatch_signals(struct launch *launch)
{
	sigaction(SIGCHLD, &launch->given_sigchld, NULL);
	sigprocmask(SIG_SETMASK, &launch->given_mask, NULL);
}

static bool look_at_child(struct launch *launch, enum launch_event *ret_event)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)launch->pid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) < 0 ||
	    info.si_pid == 0)
		return false;
	if (info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED) {
		if (waitid(P_PID, (id_t)launch->pid, &info, WSTOPPED | WNOHANG) < 0 ||
		    info.si_pid == 0)
			return false;
		*ret_event = LAUNCH_STOPPED;
		return true;
	}
	while (waitpid(launch->pid, &launch->status, 0) < 0 && errno == EINTR)
		;
	*ret_event = LAUNCH_ENDED;
	return true;
}

/* Waits until the child has become the program (false) or has told why not (true). A stop that
 * catches it in between would otherwise leave us waiting beside a stopped job. */
static bool exec_failed(struct launch *launch, int fd, int *ret_code)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	siginfo_t info;
	ssize_t n;

	while (poll(&poll_fd, 1, EXEC_LOOK_MS) <= 0) {
		info.si_pid = 0;
		if (waitid(P_PID, (id_t)launch->pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid)
			launch_suspend(launch);
	}
	do
		n = read(fd, ret_code, sizeof(*ret_code));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*ret_code);
}

int launch_start(struct launch *launch, char **argv, int output_fd, bool *ret_exec)
{
	int report[2], code = 0;

	*ret_exec = false;
	if (pipe2(report, O_CLOEXEC) < 0)
		return -errno;
	watch_signals(launch);
	launch->pid = fork();
	if (launch->pid == 0)
		become(launch, argv, output_fd, report[1]);
	if (launch->pid < 0)
		code = errno;
	close(report[1]);
	if (launch->pid > 0 && exec_failed(launch, report[0], &code)) {
		*ret_exec = true;
		while (waitpid(launch->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(report[0]);
	if (code)
		unwatch_signals(launch);
	return -code;
}

/* Whether the program has a signal that reached us already: the terminal's driver sends to the
 * whole foreground group, and the program is in ours unless it has left. */
static bool has_it_already(const struct launch *launch, const siginfo_t *info)
{
	return info->si_code == SI_KERNEL && getpgid(launch->pid) == getpgrp();
}

static bool time_left(const struct timespec *deadline, struct timespec *ret_left)
{
	struct timespec now;
	int64_t ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (deadline->tv_sec - now.tv_sec) * INT64_C(1000000000) + deadline->tv_nsec -
	     now.tv_nsec;
	if (ns < 0)
		ns = 0;
	ret_left->tv_sec = ns / 1000000000;
	ret_left->tv_nsec = ns % 1000000000;
	return ns > 0;
}

enum launch_event launch_wait(struct launch *launch, int timeout_ms)
{
	struct timespec deadline, left;
	enum launch_event event;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += timeout_ms / 1000;
	deadline.tv_nsec += timeout_ms % 1000 * 1000000L;
	for (;;) {
		siginfo_t info;
		int sig;

		if (look_at_child(launch, &event))
			return event;
		if (timeout_ms >= 0 && !time_left(&deadline, &left))
			return LAUNCH_TIMEOUT;
		sig = timeout_ms < 0 ? sigwaitinfo(&launch->watched, &info)
				     : sigtimedwait(&launch->watched, &info, &left);
		if (sig == SIGWINCH)
			return LAUNCH_RESIZED;
		if (sig > 0 && sig != SIGCHLD && !has_it_already(launch, &info))
			kill(launch->pid, sig);
	}
}

void launch_kill(struct launch *launch, int signal_number)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)launch->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	    info.si_pid == 0)
		kill(launch->pid, signal_number);
}

void launch_suspend(struct launch *launch)
{
	raise(SIGSTOP);
	/* A shell continues the whole group; whoever continued only us meant the program too. */
	kill(launch->pid, SIGCONT);
}

int launch_exit_status(const struct launch *launch)
{
	return WIFSIGNALED(launch->status) ? 128 + WTERMSIG(launch->status)
					   : WEXITSTATUS(launch->status);
}

void launch_die_likewise(const struct launch *launch)
{
	struct rlimit none = { 0, 0 };
	struct sigaction normal = { .sa_handler = SIG_DFL };
	sigset_t only;
	int sig = WTERMSIG(launch->status);

	if (!WIFSIGNALED(launch->status))
		return;
	/* The limit alone does not stop a core that is piped to a program. */
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);
	sigaction(sig, &normal, NULL);
	sigemptyset(&only);
	sigaddset(&only, sig);
	kill(getpid(), sig);
	sigprocmask(SIG_UNBLOCK, &only, NULL);
}
