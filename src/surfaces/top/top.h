/* SPDX-License-Identifier: Apache-2.0
 *
 * A live view: follows a growing run, makes its panels (documents/panels.h) anew when they are due, and
 * puts them on one screen of text. It reads the same files as every other command; nothing comes from
 * the program directly. Knows no terminal: screen.h draws a frame, `top --once` prints it. One thread.
 */
#ifndef SURFACES_TOP_H
#define SURFACES_TOP_H

#include "base/err.h"
#include "surfaces/top/frame.h"
#include "surfaces/views/views.h"

struct top_options {
	struct view_options view;
	int rows;	     /* of the screen */
	int64_t interval_ns; /* between two looks at the run */
	const char *hint; /* in the last line, before the keys; NULL: nothing. Outlives the view */
};

struct top;

/* path: a run directory; it may still be empty. 0 or -errno with err filled. */
int top_open(const char *path, const struct top_options *options, struct top **ret_top,
	     struct err *err);
void top_free(struct top *top);

/* Reads what is new, and makes the panels that are due. now_ns: of a clock that never goes back. */
int top_update(struct top *top, int64_t now_ns, struct err *err);
void top_resize(struct top *top, int columns, int rows);
/* Whether no process of the run lives any more. */
bool top_ended(const struct top *top);

/* Keys that are no characters. */
enum top_key {
	TOP_KEY_UP = 1000,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_TAB,
	TOP_KEY_BACK_TAB,
	TOP_KEY_ESCAPE,
};
/* What a key asks for takes effect with the next update. False: to quit. */
bool top_key(struct top *top, int key);

/* The screen: `rows` lines. 0 or -ENOMEM; release the frame in both cases. */
int top_frame(const struct top *top, struct lines *ret_frame);

/* A screen with one sentence, before there is a run. */
int top_waiting(const char *sentence, int columns, int rows, struct lines *ret_frame);

#endif
