/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening files that somebody else made. Any thread.
 */
#ifndef BASE_INPUT_FILE_H
#define BASE_INPUT_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

/* For reading. Never waits: a pipe, socket or device in place of a file is refused with a sentence.
 * The descriptor, or -errno with `err` (which may be NULL) filled. */
int input_open(const char *path, struct err *err);
/* The same as a stream; NULL with errno set. */
FILE *input_stream(const char *path, struct err *err);
/* The whole file, not terminated; free() the text. -EFBIG: more than `max` bytes. */
int input_text(const char *path, size_t max, char **ret_text, size_t *ret_length, struct err *err);

#endif
