/* SPDX-License-Identifier: Apache-2.0
 *
 * The writes of PEP 768, in the order in which a kill between any two of them does no harm: a path that no flag
 * belongs to is not looked at, a flag that the thread has not been told of is found at the next occasion.
 *
 * What tells a thread to look is a byte of bits that the program itself sets and clears, atomically, which cannot be
 * done from outside. So nothing that was read is written back: a bit that has been cleared meanwhile must not come
 * back (a thread that finds itself asked to let go of the global lock waits until another has taken it, perhaps
 * forever), and one that has been set meanwhile must not be lost. It is written while it is empty, and sets every bit
 * whose loss would matter; a thread that finds one of these without a cause goes on. Not set are two that are
 * requested again: letting go of the lock, at the end of the next interval, and collecting garbage, at the next
 * allocation.
 */
#include "host/join/script_request.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "host/peer/peer.h"

#define PATH_MOST 4096
#define LOOKS 50

/* Of a thread's eval_breaker. */
enum {
	BREAK_SIGNALS = 1 << 1,
	BREAK_CALLS = 1 << 2,
	BREAK_RAISE = 1 << 3,
	BREAK_STOP = 1 << 5,
	BREAK_MERGE = 1 << 6, /* only without a global lock: with one, nobody would clear it */
};

struct waiting {
	int32_t flag;
	bool ours;
};

static bool read_waiting(const struct script_request *request, struct waiting *ret_waiting)
{
	char path[PATH_MOST];
	size_t bytes = strlen(request->path) + 1;
	const struct peer_part parts[] = { { request->at.flag, &ret_waiting->flag, 4 },
					   { request->at.path, path, bytes } };

	if (!peer_read_parts(request->pid, parts, 2))
		return false;
	ret_waiting->ours = memcmp(path, request->path, bytes) == 0;
	return true;
}

/* Until another debugger's script has been begun, if there is one; but not for long. */
static int wait_for_others(const struct script_request *request, struct waiting *ret_waiting)
{
	const struct timespec moment = { .tv_nsec = 2000000 };

	for (int look = 0; look < LOOKS; look++) {
		if (look)
			nanosleep(&moment, NULL);
		if (!read_waiting(request, ret_waiting))
			return -ESRCH;
		if (!ret_waiting->flag || ret_waiting->ours)
			return 0;
	}
	return -EBUSY;
}

static int write_request(const struct script_request *request)
{
	const int32_t flag = 1;
	struct waiting waiting;
	int r = wait_for_others(request, &waiting);

	if (r < 0)
		return r;
	/* Of a moescope that has been killed: its script is the same file, and asks who is there now. */
	if (waiting.flag)
		return 0;
	if (!peer_write(request->pid, request->at.path, request->path, strlen(request->path) + 1) ||
	    !read_waiting(request, &waiting))
		return -ESRCH;
	if (waiting.flag || !waiting.ours)
		return -EBUSY; /* another debugger has come at the same time */
	return peer_write(request->pid, request->at.flag, &flag, sizeof(flag)) ? 0 : -ESRCH;
}

int script_request_make(struct script_request *request, struct err *err)
{
	int pid = (int)request->pid, r;

	if (request->at.off)
		return err_set(err, -EPERM,
			       "process %d cannot be joined: it has been started without remote "
			       "debugging (-X disable-remote-debug, PYTHON_DISABLE_REMOTE_DEBUG or "
			       "a Python built so), which that takes",
			       pid);
	if (strlen(request->path) >= request->at.path_bytes || strlen(request->path) >= PATH_MOST)
		return err_set(
			err, -ENAMETOOLONG,
			"process %d cannot be joined: Python takes scripts with a path of up "
			"to %zu bytes, and moescope is installed in %s",
			pid, request->at.path_bytes - 1, request->path);
	r = write_request(request);
	if (r == -EBUSY)
		return err_set(err, r,
			       "another debugger waits for process %d to run its script; try again "
			       "after it",
			       pid);
	if (r < 0)
		return err_sys(err, r, "process %d cannot be joined", pid);
	script_request_remind(request);
	return 0;
}

void script_request_remind(const struct script_request *request)
{
	uint8_t now, bits = BREAK_SIGNALS | BREAK_CALLS | BREAK_RAISE | BREAK_STOP;
	struct waiting waiting;

	if (!read_waiting(request, &waiting) || !waiting.flag || !waiting.ours)
		return;
	if (request->at.free_threaded)
		bits |= BREAK_MERGE;
	/* With any bit the thread looks at all there is. */
	if (peer_read(request->pid, request->at.breaker, &now, 1) && !now)
		peer_write(request->pid, request->at.breaker, &bits, 1);
}

void script_request_take_back(const struct script_request *request)
{
	const int32_t flag = 0;
	struct waiting waiting;

	if (read_waiting(request, &waiting) && waiting.flag && waiting.ours)
		peer_write(request->pid, request->at.flag, &flag, sizeof(flag));
}
