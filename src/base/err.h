/* SPDX-License-Identifier: Apache-2.0
 *
 * One failure in words: what, in which file, where in it, and what to do. Functions that can
 * fail on user input return -errno and fill one of these; only commands print it.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdint.h>

struct err {
	char message[1024]; /* one sentence or two, no newline; empty: no failure noted */
};

/* Fills err (which may be NULL) and returns `code`, a -errno value, for `return err_set(…)`. */
int err_set(struct err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same with ": " and the words of errno `-code` after the message. */
int err_sys(struct err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
