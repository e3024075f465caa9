/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that appears whole or not at all: written beside its place under another name, then
 * renamed. Links stay, and what they lead to is replaced; a device or a pipe is written to as it is,
 * for a rename would put a file in its place. One thread.
 */
#ifndef BASE_WHOLE_FILE_H
#define BASE_WHOLE_FILE_H

#include <stdio.h>

#include "base/err.h"

struct whole_file {
	FILE *file; /* write here */
	char *target;
	char *temporary; /* NULL: `file` is the target itself */
};

/* 0 or -errno. */
int whole_file_open(struct whole_file *whole, const char *target);
/* r: 0, or what has failed meanwhile; then, or when it cannot be put in place, nothing is left.
 * Returns 0 or -errno, with a sentence in err unless there is one already. */
int whole_file_close(struct whole_file *whole, int r, struct err *err);

#endif
