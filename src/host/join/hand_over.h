/* SPDX-License-Identifier: Apache-2.0
 *
 * Hands a text to the Python of another process: its main thread runs it between two instructions of Python's, or a
 * script that asks for it. Says no, with the remedy, wherever that is not known to be safe. Main thread of moescope.
 */
#ifndef HOST_JOIN_HAND_OVER_H
#define HOST_JOIN_HAND_OVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/join/script_request.h"

/* Stands in the text for the address of the memory that it is in (landing.h), which whoever runs it gives back; 0: none. */
#define HAND_OVER_PAGE "0x0000000000000000"

struct hand_over {
	pid_t pid;
	char *text;
	/* A file of Python that stays, for a program that takes files rather than texts: to be answered with the text when
	 * it asks for that. */
	const char *script;
	bool by_script;	    /* out: that was the way */
	int64_t stopped_ns; /* out: how long the program stood still for it */
	struct script_request request;
};

/* Whether something that moescope records is in it: CUDA, PyTorch, NVTX or moescope's own library. Of one that has ended
 * nobody knows: true, and hand_over says so. */
bool hand_over_is_useful(pid_t pid);
/* 0: it will be run when its main thread comes back to Python, perhaps never. Otherwise -errno with a sentence, and
 * nothing has changed. */
int hand_over(struct hand_over *hand_over, struct err *err);
/* While that has not happened, now and then. */
void hand_over_remind(const struct hand_over *hand_over);
/* The script is not to be run any more. A text cannot be taken back: it has to see to that itself. */
void hand_over_take_back(const struct hand_over *hand_over);

#endif
