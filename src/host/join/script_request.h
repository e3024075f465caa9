/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks a CPython from 3.14 on to run a script (PEP 768): a path and a flag are written into the state of its main
 * thread, which runs the file between two instructions of Python's. Nothing is stopped.
 *
 * Python would print what is raised while the script runs, by a handler of the program's signals for one: where a
 * program has such handlers this is not the way (hand_over.c). It would also print that the file cannot be opened:
 * the file must be one that stays, since a request outlives whoever is killed after it.
 */
#ifndef HOST_JOIN_SCRIPT_REQUEST_H
#define HOST_JOIN_SCRIPT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/stacks/python_stack.h"

struct script_request {
	pid_t pid;
	struct python_script_place at;
	const char *path;
};

/* 0: it will be run when the main thread comes back to Python. -errno with a sentence: nothing has changed. */
int script_request_make(struct script_request *request, struct err *err);
/* While it is waited for, now and then: has the thread look again, if something has made it forget. */
void script_request_remind(const struct script_request *request);
/* Nobody needs it any more. Of a thread that has begun to run it, nothing is changed. */
void script_request_take_back(const struct script_request *request);

#endif
