/* SPDX-License-Identifier: Apache-2.0
 *
 * Hands a text to a running CPython: its main thread is stopped for a moment (ptrace) and calls
 * Py_AddPendingCall, which only puts a function (landing.h) into a list that Python looks at between two
 * instructions of Python's. Nothing else runs at an arbitrary place.
 *
 * The call is made as a signal handler's would be (signal_frame.h): on the thread's stack below what it uses, and
 * it returns by itself to where the thread was. So every single step leaves the program whole if moescope is
 * killed after it. What the program may notice is the stop, well below a millisecond.
 *
 * A signal that arrives meanwhile is delivered to the thread as it was, and the call is tried again after it.
 */
#ifndef HOST_JOIN_PENDING_CALL_H
#define HOST_JOIN_PENDING_CALL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/join/landing.h"

struct code_range {
	uint64_t start, end;
};

struct pending_call {
	pid_t pid;		   /* and its main thread */
	uint64_t add_pending_call; /* a function of Python */
	struct landing_uses uses;
	uint64_t system_call;		   /* code: a system call, then a return */
	uint64_t sigreturn, sigreturn_end; /* code: calls rt_sigreturn */
	const struct code_range *not_in;   /* where the thread may hold the lock of Python's list */
	size_t n_not_in;
	char *text;
	char *page_digits;  /* in the text: 16 digits for the address of the landing */
	int64_t stopped_ns; /* out: for how long the program was, in all */
};

/* 0: it is in the list. -EAGAIN with a sentence: not now; or -errno likewise. */
int pending_call_make(struct pending_call *call, struct err *err);

#endif
