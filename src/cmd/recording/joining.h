/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining a running program: our library and, beside PyTorch, what finds its steps (python/moescope/auto/join.py) are
 * loaded into it and record into the run, until the lock in the run directory is released or moescope ends,
 * however it does. Main thread.
 */
#ifndef CMD_JOINING_H
#define CMD_JOINING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/join/hand_over.h"

/* In the run directory: what has become of it, one line for each event, written from inside. */
#define JOIN_STATE_FILE "join.state"

enum join_state {
	JOIN_OFF,      /* nobody has joined */
	JOIN_ASKED,    /* the program has not come back to Python yet */
	JOIN_STARTING, /* it has */
	JOIN_INSIDE,   /* it records */
	JOIN_ENDED,    /* everything of ours has been taken out */
	JOIN_REFUSED,  /* likewise, from the beginning */
};

struct joining {
	pid_t pid;
	const char *run;
	int lock_fd;
	int asked_fd; /* on which the program asks for its text; -1: it has it */
	enum join_state state;
	int64_t asked_ns;
	bool told_late, told_refused;
	struct hand_over hand_over;
	char *script; /* what it has */
};

/* Says so where it cannot be done: the rest goes on from outside. steps: then it leaves; 0: no limit. */
void joining_begin(struct joining *joining, pid_t pid, const char *run, uint64_t steps);
/* What has happened since; says what needs to be said. */
enum join_state joining_look(struct joining *joining);
/* Makes it leave and waits for that, but not forever. */
void joining_end(struct joining *joining);

#endif
