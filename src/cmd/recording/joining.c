/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining a running program; see joining.h.
 */
#include "cmd/recording/joining.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/small_file.h"
#include "cmd/recording/attached.h"
#include "cmd/recording/installed.h"
#include "cmd/terminal/output.h"
#include "trace/run_lock.h"

#define LATE_NS INT64_C(5000000000)   /* then it is said that the program does not come back */
#define LEAVE_NS INT64_C(30000000000) /* likewise, at the end */
#define LOOK_NS 10000000
#define STATE_MOST 4096

/* A literal of Python: a path may have any byte in it. */
static void put_bytes(struct buf *text, const char *path)
{
	buf_printf(text, "b'");
	for (; *path; path++) {
		if (isalnum((unsigned char)*path) || strchr("/._-+", *path))
			buf_printf(text, "%c", *path);
		else
			buf_printf(text, "\\x%02x", (unsigned char)*path);
	}
	buf_printf(text, "'");
}

/* What the main thread runs. Only a thread is started there, which does the rest: handlers of the program's signals
 * run on the main thread alone, and may raise. That is for the program, our own failure is not: no thread can be had,
 * or Python is ending and has emptied its modules. */
static void put_text(struct buf *text, const struct joining *joining, const char *script,
		     const char *library, uint64_t steps)
{
	buf_printf(text,
		   "try:\n __import__('_thread').start_new_thread(exec,('try:\\n with open(path,"
		   "\"rb\") as join:text=join.read()\\n exec(compile(text,path,\"exec\"))\\n"
		   "except BaseException:pass',{"
		   "'__name__':'_moescope_join','path':");
	put_bytes(text, script);
	buf_printf(text, ",'run':");
	put_bytes(text, joining->run);
	buf_printf(text, ",'library':");
	put_bytes(text, library);
	buf_printf(text,
		   ",'page':" HAND_OVER_PAGE ",'steps':%" PRIu64 "}))\n"
		   "except Exception as e:\n if e.__traceback__.tb_next:raise\n",
		   steps);
}

static int make_text(struct joining *joining, uint64_t steps, struct err *err)
{
	char *library = installed_library("libmoescope.so"), *join = installed_auto_file("join.py");
	struct buf text = { 0 };
	int r = 0;

	joining->script = installed_auto_file("asked.py");
	if (!library || !join || !joining->script) {
		r = err_set(err, -ENOENT, "%s is not installed next to this program",
			    library ? "the Python package" : "libmoescope.so");
	} else {
		char *real = realpath(library, NULL);

		put_text(&text, joining, join, real ? real : library, steps);
		free(real);
		r = text.failed ? err_sys(err, -ENOMEM, "cannot join") : 0;
	}
	free(library);
	free(join);
	joining->hand_over.text = text.data;
	return r;
}

/* Before the program can ask. */
static int listen_for_it(struct joining *joining, struct err *err)
{
	joining->asked_fd = attached_listen(ATTACHED_FOR_JOIN, joining->pid);
	if (joining->asked_fd >= 0)
		return 0;
	return err_sys(err, joining->asked_fd, "cannot wait for process %d", (int)joining->pid);
}

static int ask(struct joining *joining, uint64_t steps, struct err *err)
{
	struct hand_over *h = &joining->hand_over;
	int r = make_text(joining, steps, err);

	if (r == 0)
		r = listen_for_it(joining, err);
	if (r < 0)
		return r;
	h->pid = joining->pid;
	h->script = joining->script;
	return hand_over(h, err);
}

/* A program that has been given a script. */
static void answer(struct joining *joining)
{
	struct pollfd asks = { .fd = joining->asked_fd, .events = POLLIN };
	const char *text = joining->hand_over.text;
	int fd;

	if (joining->asked_fd < 0 || poll(&asks, 1, 0) <= 0)
		return;
	fd = attached_accept(joining->asked_fd, joining->pid);
	if (fd < 0)
		return;
	/* All of it fits into the socket. If it does not get there, the program has ended. */
	send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

static void release(struct joining *joining)
{
	join_lock_release(joining->run, joining->lock_fd);
	joining->lock_fd = -1;
	if (joining->asked_fd >= 0)
		close(joining->asked_fd);
	joining->asked_fd = -1;
	free(joining->hand_over.text);
	free(joining->script);
	joining->hand_over.text = joining->script = NULL;
	joining->hand_over.by_script = false;
}

void joining_begin(struct joining *joining, pid_t pid, const char *run, uint64_t steps)
{
	struct err err = { "" };
	int r = 0;

	*joining = (struct joining){ .pid = pid,
				     .run = run,
				     .lock_fd = -1,
				     .asked_fd = -1,
				     .asked_ns = clock_monotonic_ns() };
	if (!hand_over_is_useful(pid)) {
		say("process %d uses neither CUDA nor PyTorch, so there is nothing to record inside; "
		    "recording from outside.",
		    (int)pid);
		return;
	}
	r = join_lock_take(run, &joining->lock_fd);
	if (r < 0)
		err_sys(&err, r, "%s cannot be locked", run);
	else
		r = ask(joining, steps, &err);
	if (r == 0) {
		joining->state = JOIN_ASKED;
		return;
	}
	release(joining);
	say("%s; recording from outside.", err.message);
}

/* Whole lines only: one may be half there. False: there is none. */
static bool read_state(struct joining *joining)
{
	char path[4200], text[STATE_MOST], *at = text, *end;

	snprintf(path, sizeof(path), "%s/" JOIN_STATE_FILE, joining->run);
	if (small_file_text(path, text, sizeof(text)) <= 0)
		return false;
	for (; (end = strchr(at, '\n')); at = end + 1) {
		*end = '\0';
		if (strcmp(at, "starting") == 0) {
			joining->state = JOIN_STARTING;
		} else if (strcmp(at, "inside") == 0) {
			joining->state = JOIN_INSIDE;
		} else if (strcmp(at, "ended") == 0) {
			joining->state = JOIN_ENDED;
		} else if (strncmp(at, "refused ", 8) == 0) {
			joining->state = JOIN_REFUSED;
			if (joining->told_refused)
				continue;
			joining->told_refused = true;
			say("process %d was not joined: %s; recording from outside.",
			    (int)joining->pid, at + 8);
		}
	}
	return true;
}

enum join_state joining_look(struct joining *joining)
{
	if (joining->state == JOIN_ASKED) {
		hand_over_remind(&joining->hand_over);
		answer(joining);
	}
	if (joining->state >= JOIN_ASKED && joining->state <= JOIN_INSIDE)
		read_state(joining);
	if (joining->state == JOIN_ASKED && !joining->told_late &&
	    clock_monotonic_ns() - joining->asked_ns > LATE_NS) {
		joining->told_late = true;
		say("the main thread of process %d has not returned to Python for 5 s; recording from "
		    "outside until it does.",
		    (int)joining->pid);
	}
	return joining->state;
}

void joining_end(struct joining *joining)
{
	const struct timespec moment = { .tv_nsec = LOOK_NS };
	int64_t until_ns = clock_monotonic_ns() + LEAVE_NS;
	char path[4200];

	if (joining->state == JOIN_OFF)
		return;
	hand_over_take_back(&joining->hand_over);
	release(joining);
	/* After that: whoever has not said by now that it starts will find no lock. */
	joining_look(joining);
	while ((joining->state == JOIN_STARTING || joining->state == JOIN_INSIDE) &&
	       kill(joining->pid, 0) == 0 && clock_monotonic_ns() < until_ns) {
		nanosleep(&moment, NULL);
		/* It had begun to start when the lock went, has seen that, and taken back what it said. */
		if (!read_state(joining) && joining->state == JOIN_STARTING)
			joining->state = JOIN_OFF;
	}
	if ((joining->state == JOIN_STARTING || joining->state == JOIN_INSIDE) &&
	    kill(joining->pid, 0) == 0)
		say("process %d has not released moescope's library for 30 s; it will when it returns "
		    "to Python.",
		    (int)joining->pid);
	snprintf(path, sizeof(path), "%s/" JOIN_STATE_FILE, joining->run);
	unlink(path);
}
