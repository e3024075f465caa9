/* SPDX-License-Identifier: Apache-2.0
 *
 * What went wrong, as one sentence for the user. Fallible functions return 0 or -errno and fill
 * this; only main.c prints it.
 */
#ifndef TINYMOE_FAILURE_H
#define TINYMOE_FAILURE_H

struct failure {
	char text[512];
};

/* Writes the sentence and returns -error, so that a caller can say `return failure_set(...)`. */
int failure_set(struct failure *failure, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
