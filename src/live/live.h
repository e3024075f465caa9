/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows a growing run: one screen repainted on a terminal, or a line now and then. Reads the same
 * files as every other command; nothing comes from the program directly. One thread.
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

/* `path`: a run directory; it may still be empty. Takes over the terminal if requested. */
int live_open(const char *path, const struct live_options *options, struct live **ret_live,
	      struct err *err);

/* Reads and shows what is new. A line is written only if a step has been added. */
int live_update(struct live *live, struct err *err);

void live_resize(struct live *live, int columns, int rows);

/* Restores the terminal, and takes it again; harmless if already done. */
void live_hide(struct live *live);
void live_show(struct live *live);

/* Hides and frees; NULL is fine. */
void live_free(struct live *live);

#endif
