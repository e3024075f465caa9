/* SPDX-License-Identifier: Apache-2.0
 *
 * Child process and signals of `run` and `demo`. One thread.
 *
 * Invariant: from launch_prepare on every signal is blocked and taken by launch_wait alone, so that no
 * handler runs at an awkward moment and the run directory is always finished.
 */
#include "cmd/recording/launch.h"

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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXEC_LOOK_MS = 50 };

static int executable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == EACCES ? -EACCES : -ENOENT;
	return S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? 0 : -EACCES;
}

int program_find(const char *name, char *ret_path)
{
	const char *path = getenv("PATH");
	int result = -ENOENT;

	if (ret_path)
		snprintf(ret_path, PATH_MAX, "%s", name);
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
		if (r == 0 && ret_path)
			memcpy(ret_path, candidate, (size_t)n + 1);
		if (r == 0)
			return 0;
		if (r == -EACCES)
			result = r;
		if (!path[length])
			return result;
		path += length + 1;
	}
}

/* The child. Until it may go on every signal is blocked, so that what is passed on meanwhile and
 * what the group had are one. */
static void become_program(const struct launch *launch, char **argv, int output_fd, int go_fd,
			   int report_fd)
{
	char go;
	ssize_t n;
	int code;

	if (read(go_fd, &go, 1) != 1)
		_exit(127); /* moescope is gone */
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

void launch_prepare(struct launch *launch)
{
	struct sigaction normal = { .sa_handler = SIG_DFL };

	/* All of them: each can be meant for the program, and none is a reason for us to die. */
	sigfillset(&launch->watched);
	sigprocmask(SIG_BLOCK, &launch->watched, &launch->given_mask);
	/* An inherited "ignore" would make the kernel throw away the program's exit status. */
	sigaction(SIGCHLD, &normal, &launch->given_sigchld);
}

/* Whether the program waits in the foreground of our terminal: whoever started us waits there too,
 * for the news that it has stopped. */
static bool in_foreground(const struct launch *launch)
{
	int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
	bool foreground = fd >= 0 && tcgetpgrp(fd) == getpgid(launch->pid);

	if (fd >= 0)
		close(fd);
	return foreground;
}

/* Whether we stop as the program did. A shell must see its job stopped when the terminal or the
 * program itself did that; when somebody stopped the program alone, we go on waiting. */
static bool follows(const struct launch *launch)
{
	return launch->stop_signal == SIGTSTP || launch->stop_signal == SIGTTIN ||
	       launch->stop_signal == SIGTTOU || in_foreground(launch);
}

/* Takes the news of a stop, if there is any. */
static bool has_stopped(struct launch *launch)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)launch->pid, &info, WSTOPPED | WNOHANG) < 0 || info.si_pid == 0)
		return false;
	launch->stop_signal = info.si_status;
	return true;
}

static bool look_at_child(struct launch *launch, enum launch_event *ret_event)
{
	siginfo_t info = { 0 };

	if (has_stopped(launch) && follows(launch)) {
		*ret_event = LAUNCH_STOPPED;
		return true;
	}
	if (waitid(P_PID, (id_t)launch->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	    info.si_pid == 0)
		return false;
	while (waitpid(launch->pid, &launch->status, 0) < 0 && errno == EINTR)
		;
	group_witness_end(&launch->witness);
	*ret_event = LAUNCH_ENDED;
	return true;
}

/* Whether the program has the signal already. The group's reach it, unless it has left our group.
 * Where we lead the group it could not have left without us, so that it gets them still. */
static bool has_it_already(struct launch *launch, const siginfo_t *info)
{
	return group_witness_saw(&launch->witness, info->si_signo, info->si_code == SI_KERNEL) &&
	       (getpgid(launch->pid) == getpgrp() || getpgrp() != getpid());
}

/* A signal that we have taken, for the program. */
static void pass_on(struct launch *launch, siginfo_t *info)
{
	int sig = info->si_signo;

	if (sig == SIGCHLD && info->si_code > 0)
		return;
	if (has_it_already(launch, info) || group_witness_overtaken(sig))
		return;
	/* Our own broken pipe, or the end of our own stop. */
	if (info->si_code == SI_USER &&
	    (info->si_pid == getpid() ||
	     (launch->witness.fd >= 0 && info->si_pid == launch->witness.pid)))
		return;
	/* With its value and its sender, where the kernel lets us. */
	if (info->si_code != SI_QUEUE || syscall(SYS_rt_sigqueueinfo, launch->pid, sig, info) < 0)
		kill(launch->pid, sig);
}

static void pass_on_pending(struct launch *launch, const sigset_t *set)
{
	static const struct timespec at_once = { 0, 0 };
	siginfo_t info;

	while (sigtimedwait(set, &info, &at_once) > 0)
		pass_on(launch, &info);
}

/* Waits until the child has become the program (false) or has told why not (true). A stop that
 * catches it in between would otherwise leave us waiting beside a stopped job. */
static bool exec_failed(struct launch *launch, int fd, int *ret_code)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	ssize_t n;

	while (poll(&poll_fd, 1, EXEC_LOOK_MS) <= 0)
		if (has_stopped(launch) && follows(launch))
			launch_suspend(launch);
	do
		n = read(fd, ret_code, sizeof(*ret_code));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*ret_code);
}

/* Lets the child go on once it and the witness see the same signals. */
static void let_go(struct launch *launch, int go_fd)
{
	group_witness_start(&launch->witness);
	pass_on_pending(launch, &launch->watched);
	(void)!write(go_fd, "", 1);
}

int launch_start(struct launch *launch, char **argv, int output_fd, bool *ret_exec)
{
	int go[2], report[2], code = 0;

	*ret_exec = false;
	launch->witness.fd = -1;
	if (pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(report, O_CLOEXEC) < 0) {
		code = errno;
		close(go[0]);
		close(go[1]);
		return -code;
	}
	launch->pid = fork();
	if (launch->pid == 0) {
		close(go[1]);
		become_program(launch, argv, output_fd, go[0], report[1]);
	}
	if (launch->pid < 0)
		code = errno;
	else
		let_go(launch, go[1]);
	close(go[0]);
	close(go[1]);
	close(report[1]);
	if (launch->pid > 0 && exec_failed(launch, report[0], &code)) {
		*ret_exec = true;
		while (waitpid(launch->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(report[0]);
	if (code)
		group_witness_end(&launch->witness);
	return -code;
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
		if (sig > 0)
			pass_on(launch, &info);
		if (sig == SIGWINCH)
			return LAUNCH_RESIZED;
	}
}

/* By the same signal, so that the shell is told the same. */
static void stop_likewise(int sig)
{
	struct sigaction normal = { .sa_handler = SIG_DFL }, given;
	sigset_t only;

	if (sig == SIGSTOP) {
		raise(sig);
		return;
	}
	sigemptyset(&only);
	sigaddset(&only, sig);
	sigaction(sig, &normal, &given);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &only, NULL);
	sigprocmask(SIG_BLOCK, &only, NULL);
	sigaction(sig, &given, NULL);
}

void launch_suspend(struct launch *launch)
{
	sigset_t only;

	/* The group's own, which our stop would take unseen by the witness. */
	sigemptyset(&only);
	sigaddset(&only, launch->stop_signal);
	pass_on_pending(launch, &only);
	group_witness_watch(&launch->witness, launch->pid);
	stop_likewise(launch->stop_signal);
	group_witness_unwatch(&launch->witness);
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
