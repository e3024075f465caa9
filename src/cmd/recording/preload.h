/* SPDX-License-Identifier: Apache-2.0
 *
 * The library that samples a program's allocations, loaded in front of all others (LD_PRELOAD).
 */
#ifndef CMD_PRELOAD_H
#define CMD_PRELOAD_H

#include <stdbool.h>

#include "base/err.h"

/* Whether it can be loaded into a program, which program_find has found. 0, or -ENOTSUP or -ENOENT with a sentence. */
int preload_check(const char *program, struct err *err);

/* Sets LD_PRELOAD for the program, before what others have there, or takes out what an outer run has put there. 0 or -1
 * with errno. */
int preload_set(bool wanted);

#endif
