/* SPDX-License-Identifier: Apache-2.0
 *
 * Text as one word of a POSIX shell.
 */
#ifndef BASE_SHELL_WORD_H
#define BASE_SHELL_WORD_H

#include "base/buf.h"

/* In single quotes. For scripts. */
void shell_quote(struct buf *out, const char *text);
/* Quoted only where a shell would need it. For lines that people read. */
void shell_word(struct buf *out, const char *text);

#endif
