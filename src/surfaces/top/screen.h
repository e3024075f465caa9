/* SPDX-License-Identifier: Apache-2.0
 *
 * A terminal as a whole screen, by ncurses: shows frames and reads keys. At most one at a time, because
 * ncurses keeps it in globals. One thread.
 */
#ifndef SURFACES_SCREEN_H
#define SURFACES_SCREEN_H

#include "base/err.h"
#include "surfaces/top/frame.h"

/* Why this build has no screen, a whole sentence; NULL: it has. */
const char *screen_unavailable(void);

/* Takes over the terminal of stdout; keys come from the controlling terminal. From here on a crash of
 * ours restores it, too. 0 or -errno with err filled. */
int screen_open(struct err *err);
/* Gives the terminal back; harmless if there is none. */
void screen_close(void);

/* Gives it back for a while, and takes it again; harmless if already done. */
void screen_hide(void);
void screen_show(void);

/* Whether we may draw: a job in the background must not. */
bool screen_is_ours(void);
/* As it is now. */
void screen_size(int *ret_columns, int *ret_rows);
/* Nothing while it is hidden. */
void screen_draw(const struct lines *frame);
/* A character or enum top_key; -1: none is waiting. */
int screen_key(void);
/* Readable when a key is waiting. */
int screen_fd(void);

#endif
