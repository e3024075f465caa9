/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing run, followed: one screen repainted on a terminal, or a line now and then. Reads the
 * same files as every other command; nothing comes from the program directly. One thread.
 */
#ifndef LIVE_LIVE_H
#define LIVE_LIVE_H

#include <stdbool.h>

#include "base/err.h"
#include "present/frame/present.h"

struct live_options {
	int fd;		    /* where to draw or write */
	bool screen;	    /* the dashboard on the alternate screen; else lines */
	int rows;	    /* of the terminal */
	const char *footer; /* last line of the screen; NULL: none */
	struct present_options present;
};

struct live;

/* `path`: a run directory; it may still be empty. Takes the terminal over when asked to. */
int live_open(const char *path, const struct live_options *options, struct live **ret_live,
	      struct err *err);

/* Reads what is new and shows it. A line is written only when a step has been added. */
int live_update(struct live *live, struct err *err);

void live_resize(struct live *live, int columns, int rows);

/* Gives the terminal back, and takes it again; harmless when it is already so. */
void live_hide(struct live *live);
void live_show(struct live *live);

/* Hides and frees; NULL is fine. */
void live_free(struct live *live);

#endif
