/* SPDX-License-Identifier: Apache-2.0
 *
 * See group_witness.h. The witness sleeps with every signal blocked, so that each stays pending until it is
 * asked. It holds none of our files and ends when our half of the socket is closed.
 */
#include "cmd/recording/group_witness.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/small_file.h"

enum {
	ANSWER_MS = 5000, /* it is stopped, or worse */
	WATCH_MS = 100,
};

/* Each has an answer of one byte. */
struct question {
	int sig;       /* has it been seen? 0: only this: */
	pid_t watched; /* 0: nobody any more */
};

/* What cannot be read counts as stopped: then nobody is woken. */
static bool is_stopped(pid_t pid)
{
	char path[64], text[512], *name_end;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	small_file_text(path, text, sizeof(text));
	name_end = strrchr(text, ')');
	return !name_end || name_end[1] != ' ' || name_end[2] == 'T' || name_end[2] == 't';
}

/* Ours would keep pipes, locks and directories in use for as long as it lives. */
static int let_go_of_files(int socket)
{
	if (dup2(socket, STDIN_FILENO) < 0 || chdir("/") < 0)
		return -1;
#ifdef SYS_close_range
	if (syscall(SYS_close_range, 1u, ~0u, 0u) == 0)
		return 0;
#endif
	for (int fd = 1; fd < (int)sysconf(_SC_OPEN_MAX); fd++)
		close(fd);
	return 0;
}

static bool has_seen(int sig)
{
	static const struct timespec at_once = { 0, 0 };
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, sig);
	return sigtimedwait(&one, NULL, &at_once) > 0;
}

static void testify(int socket, pid_t parent)
{
	struct pollfd poll_fd = { .fd = STDIN_FILENO, .events = POLLIN };
	struct question question = { 0 };
	pid_t watched = 0;

	if (let_go_of_files(socket) < 0)
		_exit(1);
	for (;;) {
		int ready = poll(&poll_fd, 1, watched ? WATCH_MS : -1);
		char saw = 0;

		if (ready == 0 && !is_stopped(watched) && getppid() == parent)
			kill(parent, SIGCONT);
		if (ready <= 0)
			continue;
		if (recv(STDIN_FILENO, &question, sizeof(question), 0) != sizeof(question))
			_exit(0);
		if (question.sig)
			saw = (char)has_seen(question.sig);
		else
			watched = question.watched;
		if (send(STDIN_FILENO, &saw, 1, MSG_NOSIGNAL) != 1)
			_exit(0);
	}
}

void group_witness_start(struct group_witness *witness)
{
	pid_t parent = getpid();
	int sockets[2];

	*witness = (struct group_witness){ .fd = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return;
	witness->pid = fork();
	if (witness->pid == 0)
		testify(sockets[1], parent);
	close(sockets[1]);
	if (witness->pid > 0)
		witness->fd = sockets[0];
	else
		close(sockets[0]);
}

void group_witness_end(struct group_witness *witness)
{
	if (witness->fd < 0)
		return;
	close(witness->fd);
	witness->fd = -1;
	kill(witness->pid, SIGKILL);
	while (waitpid(witness->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* 1 or 0 as it answers; -1: it does not, and another has taken its place. */
static int ask_group_witness(struct group_witness *witness, struct question question)
{
	struct pollfd poll_fd = { .fd = witness->fd, .events = POLLIN };
	char answer;

	if (witness->fd < 0)
		return -1;
	if (send(witness->fd, &question, sizeof(question), MSG_NOSIGNAL) == sizeof(question) &&
	    poll(&poll_fd, 1, ANSWER_MS) > 0 && recv(witness->fd, &answer, 1, 0) == 1)
		return answer;
	group_witness_end(witness);
	group_witness_start(witness);
	return -1;
}

/* Returns when every kill() of a group that has begun has reached all of the group: the kernel holds
 * the list of processes for reading meanwhile, and this call, which can only fail, for writing. */
static void let_kills_finish(void)
{
	(void)!setpgid(INT_MAX, INT_MAX);
}

static bool is_pending(int sig)
{
	sigset_t pending;

	return sigpending(&pending) == 0 && sigismember(&pending, sig) == 1;
}

bool group_witness_saw(struct group_witness *witness, int sig, bool otherwise)
{
	uint64_t bit = UINT64_C(1) << (sig - 1);
	bool saw;
	int answer;

	let_kills_finish();
	answer = ask_group_witness(witness, (struct question){ .sig = sig });
	let_kills_finish();
	if (answer < 0)
		return otherwise;
	saw = answer || witness->covered & bit;
	witness->covered &= ~bit;
	/* A second one to the group, between ours and the question, was merged into its first. */
	if (saw && sig < SIGRTMIN && is_pending(sig))
		witness->covered |= bit;
	return saw;
}

bool group_witness_overtaken(int sig)
{
	if (sig == SIGCONT)
		return is_pending(SIGTSTP) || is_pending(SIGTTIN) || is_pending(SIGTTOU);
	return (sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU) && is_pending(SIGCONT);
}

void group_witness_watch(struct group_witness *witness, pid_t program)
{
	ask_group_witness(witness, (struct question){ .watched = program });
}

void group_witness_unwatch(struct group_witness *witness)
{
	ask_group_witness(witness, (struct question){ 0 });
}
