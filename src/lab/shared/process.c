/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for signals, and the output of commands.
 */
#include "lab/shared/process.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "lab/shared/child.h"

void process_signals_block(struct process_signals *signals)
{
	static const int stops[] = { SIGINT, SIGTERM, SIGHUP };

	sigemptyset(&signals->waited);
	sigaddset(&signals->waited, SIGCHLD);
	/* nohup ignores SIGHUP, a shell's background job SIGINT: if blocked, they would still
	 * arrive. */
	for (size_t i = 0; i < sizeof(stops) / sizeof(*stops); i++) {
		struct sigaction action;

		if (sigaction(stops[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&signals->waited, stops[i]);
	}
	sigprocmask(SIG_BLOCK, &signals->waited, &signals->before);
}

int process_signals_wait(const struct process_signals *signals, int64_t timeout_ns)
{
	struct timespec timeout = { timeout_ns / 1000000000, timeout_ns % 1000000000 };
	int r;

	do
		r = timeout_ns < 0 ? sigwaitinfo(&signals->waited, NULL)
				   : sigtimedwait(&signals->waited, NULL, &timeout);
	while (r < 0 && errno == EINTR);
	return r < 0 ? 0 : r;
}

void process_signals_restore(const struct process_signals *signals)
{
	while (process_signals_wait(signals, 0))
		;
	sigprocmask(SIG_SETMASK, &signals->before, NULL);
}

int process_capture(char *const *argv, struct buf *ret_output, int *ret_status, struct err *err)
{
	struct buf output = { 0 };
	struct child child;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(err, -errno, "cannot start '%s'", argv[0]);
	r = child_start(&child, argv, &(struct texts){ NULL, 0 }, fds[1], err);
	close(fds[1]);
	while (r == 0) {
		char *to = buf_reserve(&output, 4096);
		ssize_t n = to ? read(fds[0], to, 4096) : 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		output.size += (size_t)n;
	}
	close(fds[0]);
	if (r < 0)
		return r;
	child_wait(&child, 0, NULL);
	child_end(&child, (const int[]){ 0 }, 0);
	*ret_status = child.status;
	buf_append(&output, "", 1);
	if (output.failed) {
		buf_release(&output);
		return err_set(err, -ENOMEM, "no memory.");
	}
	*ret_output = output;
	return 0;
}
