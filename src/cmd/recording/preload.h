/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries of ours that the program is started with (LD_PRELOAD).
 */
#ifndef CMD_PRELOAD_H
#define CMD_PRELOAD_H

#include <stddef.h>

#include "base/err.h"

/* The words of `run --calls` that a list has, as in "osrt,nccl" or "all": a bit for each of call_words. 0, or -EINVAL
 * with a sentence. */
extern const char *const call_words[]; /* up to NULL */
int calls_parse(const char *list, unsigned int *ret_calls, struct err *err);

/* Sets LD_PRELOAD: what the user has there comes first, libraries of an outer run go. 0, or -errno with what is left
 * out and why; the variable is then as if calls were 0. */
int preload_calls(unsigned int calls, struct err *err);

#endif
