/* SPDX-License-Identifier: Apache-2.0
 *
 * One screen as lines of text, put together from the texts of panels. Styles are those of base/text, so
 * that a frame can be printed as it is, or drawn by whoever reads its pieces. Pure, any thread.
 */
#ifndef SURFACES_FRAME_H
#define SURFACES_FRAME_H

#include "base/buf.h"
#include "base/text/text_table.h"

/* A text and where its lines begin. */
struct lines {
	char *text;
	size_t *starts; /* n + 1; a line ends before the newline that precedes the next one */
	int n;
};

/* Takes over the text, also when it fails. 0 or -ENOMEM. */
int lines_take(struct lines *lines, char *text);
void lines_release(struct lines *lines);
/* The length of a line, and its first byte. */
size_t lines_at(const struct lines *lines, int line, const char **ret_text);

/* A styled text, character by character. */
struct styled {
	const char *at, *end;
	enum text_style style;
};

/* The next character: its bytes and columns; false: there is none. */
bool styled_next(struct styled *styled, const char **ret_bytes, size_t *ret_size, int *ret_columns);

/* Adds a text of so many columns: cut or padded. */
void frame_put(struct buf *frame, const char *text, size_t size, int columns);

#endif
