/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries of ours that a program is started with, in front of all others (LD_PRELOAD): that for allocations
 * (src/heap) and those for calls into libraries (src/calls).
 */
#ifndef CMD_PRELOAD_H
#define CMD_PRELOAD_H

#include "base/err.h"

#define PRELOAD_HEAP 1u
#define PRELOAD_CALLS 0x1eu /* a bit for each of osrt, cublas, cudnn and nccl */

/* The bits of a list of `run --calls`, as in "osrt,nccl" or "all". 0, or -EINVAL with a sentence. */
int preload_parse_calls(const char *list, unsigned int *ret_calls, struct err *err);

/* Whether anything can be loaded into a program, which program_find has found. 0, or -ENOTSUP with a sentence. */
int preload_check(const char *program, struct err *err);

/* Sets LD_PRELOAD: the wanted ones before what others have there; those of an outer run go. 0, or -errno with what is
 * wrong; the variable is then as if nothing were wanted. */
int preload_set(unsigned int wanted, struct err *err);

#endif
