/* SPDX-License-Identifier: Apache-2.0
 *
 * Hands a text to the Python of another process: its main thread runs it between two instructions of Python's. Says
 * no, with the remedy, wherever that is not known to be safe. Main thread of moescope.
 */
#ifndef HOST_JOIN_HAND_OVER_H
#define HOST_JOIN_HAND_OVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Stands in the text for the address of the memory that it is in (landing.h), which whoever runs it gives back. */
#define HAND_OVER_PAGE "0x0000000000000000"

/* Whether something that moescope records is in it: CUDA, PyTorch, NVTX or moescope's own library. Of one that has ended
 * nobody knows: true, and hand_over says so. */
bool hand_over_is_useful(pid_t pid);
/* 0: it will be run when its main thread comes back to Python, perhaps never. *ret_stopped_ns: how long
 * the program stood still for it. Otherwise -errno with a sentence, and nothing has changed. */
int hand_over(pid_t pid, char *text, int64_t *ret_stopped_ns, struct err *err);

#endif
