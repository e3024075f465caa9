/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that appears whole or not at all: written beside its place under another name, then
 * renamed. Links stay, and what they lead to is replaced; a device or a pipe is written to as it is,
 * for a rename would put a file in its place. One thread.
 */
#ifndef BASE_WHOLE_FILE_H
#define BASE_WHOLE_FILE_H

#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

struct whole_file {
	FILE *file; /* write here */
	char *target;
	char *temporary; /* NULL: `file` is the target itself */
};

/* A new file beside `path`, so that a rename stays inside one file system. What has the name already, a
 * link or the file of a process with our PID in another container, is left alone. The descriptor or
 * -errno; free() the name. */
int open_beside(const char *path, mode_t mode, char **ret_temporary);

/* 0 or -errno. */
int whole_file_open(struct whole_file *whole, const char *target);
/* r: 0, or what has failed meanwhile; then, or when it cannot be put in place, nothing is left.
 * Returns 0 or -errno, with a sentence in err unless there is one already. */
int whole_file_close(struct whole_file *whole, int r, struct err *err);
/* All of it at once. */
int whole_file_text(const char *target, const void *bytes, size_t size, struct err *err);

#endif
