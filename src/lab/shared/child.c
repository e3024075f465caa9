/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts, watches and ends the programs of an experiment. Main thread.
 *
 * Invariant: SIGCHLD and the signals that stop an experiment are blocked, except in child_wait,
 * which takes them, and in the load client, where their handler interrupts waits. So none is lost
 * between checking and waiting.
 */
#include "lab/shared/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/small_file.h"

static const int stop_signals[] = { SIGINT, SIGTERM, SIGHUP };
enum { GUARD_GRACE_S = 5 };
enum { N_STOP = sizeof(stop_signals) / sizeof(*stop_signals) };

static volatile bool *stop_flag;
static struct sigaction given[N_STOP];

static void on_stop(int sig)
{
	(void)sig;
	if (stop_flag)
		*stop_flag = true;
}

void child_signals(volatile bool *stop)
{
	/* Without SA_RESTART: whatever waits must check the flag. */
	struct sigaction action = { .sa_handler = on_stop };

	for (int i = 0; i < N_STOP; i++) {
		if (stop && !stop_flag)
			sigaction(stop_signals[i], NULL, &given[i]);
		/* What our parent ignores stays ignored, as under nohup. */
		if (given[i].sa_handler == SIG_IGN)
			continue;
		sigaction(stop_signals[i], stop ? &action : &given[i], NULL);
	}
	stop_flag = stop;
}

static volatile bool alarmed;

static void on_alarm(int sig)
{
	alarmed = true;
	on_stop(sig);
}

void child_alarm(int64_t deadline_ns)
{
	int64_t left = deadline_ns - clock_monotonic_ns();
	/* Repeatedly: one that comes between checking and waiting is not seen. */
	struct itimerval timer = { .it_interval = { 0, 100000 } };
	struct sigaction action = { .sa_handler = on_alarm };

	if (left < 1000)
		left = 1000;
	timer.it_value = (struct timeval){ left / 1000000000, left / 1000 % 1000000 };
	if (deadline_ns) {
		alarmed = false;
		sigaction(SIGALRM, &action, NULL);
		setitimer(ITIMER_REAL, &timer, NULL);
	} else {
		timer = (struct itimerval){ { 0, 0 }, { 0, 0 } };
		setitimer(ITIMER_REAL, &timer, NULL);
		signal(SIGALRM, SIG_DFL);
	}
}

bool child_alarmed(void)
{
	return alarmed;
}

static void watched(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (int i = 0; i < N_STOP; i++)
		if (stop_flag && given[i].sa_handler != SIG_IGN)
			sigaddset(set, stop_signals[i]);
}

/* -1: the file does not have it. */
static int64_t count_in(const char *path, const char *key)
{
	char value[64];

	return small_file_value(path, key, value, sizeof(value)) ? strtoll(value, NULL, 10) : -1;
}

/* The file where the memory cgroup of this process, and so of its children, counts. */
static bool group_file(char *out, size_t size)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[4096], *controllers, *path;
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		controllers = strchr(line, ':');
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		if (strcmp(controllers, ":memory") == 0)
			snprintf(out, size, "/sys/fs/cgroup/memory%s/memory.oom_control", path);
		else if (strcmp(controllers, ":") == 0)
			snprintf(out, size, "/sys/fs/cgroup%s/memory.events", path);
		else
			continue;
		found = access(out, R_OK) == 0;
	}
	if (file)
		fclose(file);
	return found;
}

static struct oom_kills count_oom_kills(void)
{
	char path[4200];

	return (struct oom_kills){
		.group = group_file(path, sizeof(path)) ? count_in(path, "oom_kill") : -1,
		.machine = count_in("/proc/vmstat", "oom_kill"),
	};
}

/* The child: becomes the program or tells why not. */
static void exec_or_report(char *const *argv, const struct texts *environment, int log_fd,
			   int go_fd, int report_fd)
{
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct sigaction normal = { .sa_handler = SIG_DFL };
	sigset_t none;
	ssize_t n;
	char go;
	int code;

	setpgid(0, 0);
	do
		n = read(go_fd, &go, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(127); /* moescope is gone */
	for (int i = 0; i < N_STOP; i++)
		sigaction(stop_signals[i], stop_flag ? &given[i] : &normal, NULL);
	sigaction(SIGPIPE, &normal, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i + 1 < environment->n; i += 2)
		if (setenv(environment->v[i], environment->v[i + 1], 1) < 0)
			goto failed;
	if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
	    dup2(log_fd, STDERR_FILENO) < 0)
		goto failed;
	execvp(argv[0], argv);
failed:
	code = errno;
	(void)!write(report_fd, &code, sizeof(code));
	_exit(127);
}

/* The guard: waits for a byte, the regular end, or for the end of the pipe, which means our end. */
static void keep_guard(pid_t group, int fd)
{
	char byte;
	ssize_t n;

	setpgid(0, 0);
	for (int i = 0; i < N_STOP; i++)
		signal(stop_signals[i], SIG_IGN);
	/* It must not keep any pipe or file open. */
	for (int other = 0; other < 1024; other++)
		if (other != fd)
			close(other);
	do
		n = read(fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 0) {
		kill(-group, SIGTERM);
		sleep(GUARD_GRACE_S);
		kill(-group, SIGKILL);
	}
	_exit(0);
}

static void post_guard(struct child *child)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	child->guard = fork();
	if (child->guard == 0) {
		close(fds[1]);
		keep_guard(child->pid, fds[0]);
	}
	close(fds[0]);
	if (child->guard < 0) {
		child->guard = 0;
		close(fds[1]);
		return;
	}
	child->guard_fd = fds[1];
}

static void relieve_guard(struct child *child)
{
	if (child->guard <= 0)
		return;
	(void)!write(child->guard_fd, "", 1);
	close(child->guard_fd);
	while (waitpid(child->guard, NULL, 0) < 0 && errno == EINTR)
		;
	child->guard = 0;
}

/* Waits until the child has become the program; returns its errno if it could not. */
static int exec_error(int report_fd)
{
	int code = 0;
	ssize_t n;

	do
		n = read(report_fd, &code, sizeof(code));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(code) ? code : 0;
}

/* The guard exists before the program starts, so the program cannot escape it. */
static int let_go(struct child *child, int go_fd, int report_fd)
{
	int code;

	/* Both here and there: whoever comes first, the group exists when we continue. */
	setpgid(child->pid, child->pid);
	post_guard(child);
	(void)!write(go_fd, "", 1);
	close(go_fd);
	code = exec_error(report_fd);
	if (!code)
		return 0;
	while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		;
	relieve_guard(child);
	child->pid = 0;
	return -code;
}

int child_start(struct child *child, char *const *argv, const struct texts *environment, int log_fd,
		struct err *err)
{
	int go[2], report[2], r;

	*child = (struct child){ .before = count_oom_kills() };
	/* An inherited "ignore" would make the kernel discard the program's exit status. */
	signal(SIGCHLD, SIG_DFL);
	if (pipe2(go, O_CLOEXEC) < 0)
		return err_sys(err, -errno, "cannot start '%s'", argv[0]);
	if (pipe2(report, O_CLOEXEC) < 0) {
		r = -errno;
		close(go[0]);
		close(go[1]);
		return err_sys(err, r, "cannot start '%s'", argv[0]);
	}
	child->pid = fork();
	if (child->pid == 0) {
		close(go[1]);
		exec_or_report(argv, environment, log_fd, go[0], report[1]);
	}
	close(go[0]);
	close(report[1]);
	if (child->pid < 0) {
		r = -errno;
		child->pid = 0;
		close(go[1]);
	} else {
		r = let_go(child, go[1], report[0]);
	}
	close(report[0]);
	return r < 0 ? err_sys(err, r, "cannot start '%s'", argv[0]) : 0;
}

bool child_alive(struct child *child)
{
	struct rusage usage;
	pid_t pid;

	if (!child->pid || child->ended)
		return false;
	do
		pid = wait4(child->pid, &child->status, WNOHANG, &usage);
	while (pid < 0 && errno == EINTR);
	if (pid == 0)
		return true;
	child->ended = true;
	if (pid > 0)
		child->peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
	child->after = count_oom_kills();
	return false;
}

enum child_event child_wait(struct child *child, int64_t deadline_ns, const volatile bool *stop)
{
	enum child_event event = CHILD_ENDED;
	sigset_t set, before;

	watched(&set);
	sigprocmask(SIG_BLOCK, &set, &before);
	while (child_alive(child)) {
		int64_t left = deadline_ns - clock_monotonic_ns();
		struct timespec wait = { left / 1000000000, left % 1000000000 };
		int sig;

		if (stop && *stop) {
			event = CHILD_STOPPED;
			break;
		}
		if (deadline_ns && left <= 0) {
			event = CHILD_TIMEOUT;
			break;
		}
		sig = deadline_ns ? sigtimedwait(&set, NULL, &wait) : sigwaitinfo(&set, NULL);
		if (sig > 0 && sig != SIGCHLD)
			on_stop(sig);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return event;
}

void child_end(struct child *child, const int *signals, double grace_s)
{
	if (!child->pid)
		return;
	for (; *signals && child_alive(child); signals++) {
		kill(-child->pid, *signals);
		/* A stopped program could not respond. */
		kill(-child->pid, SIGCONT);
		child_wait(child, clock_monotonic_ns() + (int64_t)(grace_s * 1e9), NULL);
	}
	/* The rest of the group too: it would disturb the next experiment. */
	kill(-child->pid, SIGKILL);
	child_wait(child, 0, NULL);
	relieve_guard(child);
}

/* A memory guard is a program that kills others before the kernel must; it leaves no count. */
static void killed(const struct child *child, char *out, size_t size)
{
	bool told = child->before.machine >= 0 && child->after.machine >= 0;

	if (child->after.group > child->before.group)
		snprintf(out, size,
			 "was killed by the kernel: the machine or its container has no memory "
			 "left");
	else if (child->after.machine > child->before.machine)
		snprintf(out, size,
			 "was killed by signal 9 (Killed) while the kernel killed for lack of "
			 "memory on this machine");
	else if (told)
		snprintf(
			out, size,
			"was killed by signal 9 (Killed) by hand or by a guard, not by the kernel for "
			"lack of memory");
	else
		snprintf(
			out, size,
			"was killed by signal 9 (Killed), as the kernel does when memory is short");
}

void child_verdict(const struct child *child, char *out, size_t size)
{
	/* A shell reports its last command this way. */
	int status = WIFEXITED(child->status) ? WEXITSTATUS(child->status) : 0;
	int sig = WIFSIGNALED(child->status)		? WTERMSIG(child->status)
		  : status > 128 && status < 128 + NSIG ? status - 128
							: 0;
	bool in_group = child->after.group > child->before.group;
	bool on_machine = child->after.machine > child->before.machine;
	int n = 0;

	out[0] = '\0';
	if (sig == SIGKILL)
		killed(child, out, size);
	else if (sig)
		n = snprintf(out, size, "was ended by signal %d (%s)", sig, strsignal(sig));
	else if (status)
		n = snprintf(out, size, "failed with status %d", status);
	/* Possibly one of its own processes that ended by itself. */
	if (n > 0 && (size_t)n < size && (in_group || on_machine))
		snprintf(out + n, size - (size_t)n,
			 " while the kernel killed for lack of memory %s",
			 in_group ? "here" : "on this machine");
}
