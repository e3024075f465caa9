/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of /proc and /sys taken apart: lines, words and numbers. What is not there is said by the result, never a
 * zero. Any thread.
 */
#ifndef HOST_MACHINE_PROC_TEXT_H
#define HOST_MACHINE_PROC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The next line of *at, without its end, and *at behind it; NULL: there is none. Changes the text. */
char *proc_line(char **at);
/* Numbers after blanks, up to `most`; how many there were. */
size_t proc_numbers(const char *text, int64_t *ret_numbers, size_t most);
/* What stands after "KEY" or "KEY:" and blanks on the line that begins with it; NULL: there is no such line. */
const char *proc_after(const char *text, const char *key);
/* The number there; false: there is none. */
bool proc_number(const char *text, const char *key, int64_t *ret_number);
/* All of a small file as one number; false: it has none ("max"), or cannot be read. */
bool proc_file_number(const char *path, int64_t *ret_number);
/* A list such as "0-3,8": how many; each is handed over, too, if fn is given. */
size_t proc_list(const char *text, void (*fn)(void *arg, unsigned int number), void *arg);

#endif
