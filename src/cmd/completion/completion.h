/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion scripts from the command tables, one writer a shell.
 */
#ifndef CMD_COMPLETION_H
#define CMD_COMPLETION_H

#include <stdio.h>

#include "cmd/options/command.h"

extern const struct completion_shell {
	const char *name;
	void (*write)(FILE *out);
} completion_shells[]; /* up to a NULL name */

void completion_bash(FILE *out);
void completion_zsh(FILE *out);
void completion_fish(FILE *out);

/* The words to offer, separated by blanks, for the kinds that are lists of words. */
void completion_words(FILE *out, enum completion completion);

#endif
