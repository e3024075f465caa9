/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files of the kernel, in /proc and /sys: as much as the caller's buffer holds. Any thread, and
 * inside the profiled process, too.
 */
#ifndef BASE_SMALL_FILE_H
#define BASE_SMALL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Its first size - 1 bytes, terminated; without stdio or memory. Their number, or -errno with the text empty. */
ssize_t small_file_text(const char *path, char *text, size_t size);
/* The first line, without its end; false: there is none, and it is empty. */
bool small_file_line(const char *path, char *line, size_t size);
/* Of a file of lines "KEY: VALUE" or "KEY VALUE" the first value of a key; false likewise. */
bool small_file_value(const char *path, const char *key, char *value, size_t size);

#endif
