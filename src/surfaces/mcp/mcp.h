/* SPDX-License-Identifier: Apache-2.0
 *
 * A server of the Model Context Protocol: the answers of moescope for agents, in few words. A message in, at
 * most one out; nothing is kept between messages. Which runs there are, and how they are read, is the host's
 * to say. Messages are untrusted. One thread.
 */
#ifndef SURFACES_MCP_H
#define SURFACES_MCP_H

#include "base/buf.h"
#include "surfaces/views/views.h"

struct sql;

/* A parameter with its value. */
struct mcp_word {
	const char *name, *value;
};

struct mcp_run {
	char *name;	    /* as it is to be given */
	const char *format; /* of a file of another profiler; NULL: recorded */
};

struct mcp_runs {
	const struct mcp_run *runs; /* the newest first */
	size_t n;
	bool more; /* there are too many files to look at all */
};

/* All return 0 or -errno with err filled. */
struct mcp_host {
	const char *version;
	void *context;
	/* They live until the next call. */
	int (*list)(void *context, struct mcp_runs *ret_runs, struct err *err);
	/* The name of a run that was given, NULL: of the newest. The caller frees it. */
	int (*find)(void *context, const char *given, char **ret_name, struct err *err);
	/* always_steps: those found by repetition do not depend on what else is wanted. */
	int (*load)(void *context, const char *name, const struct run_want *want, bool always_steps,
		    struct run **ret_run, struct err *err);
	void (*release)(struct run *run);
	/* What the options are when the command of a section has these parameters. */
	int (*options)(void *context, const char *command, const struct mcp_word *words, size_t n,
		       struct view_options *ret_options, struct err *err);
	/* A metric, a key or a verdict. */
	int (*explain)(void *context, const char *word, FILE *out, struct err *err);
	/* Of runs that `find` has named. */
	int (*compare)(void *context, const char *base, const char *other,
		       const struct mcp_word *words, size_t n, FILE *out, struct err *err);
	/* A query has begun, and must not run for ever; NULL: it has ended. */
	void (*watch)(void *context, struct sql *sql);
};

#define MCP_MESSAGE_MAX ((size_t)1 << 20)

/* The next line, without its end. 1, 0 at the end of the input, or -errno. Of a line that is longer than
 * MCP_MESSAGE_MAX only its beginning is kept, and one byte more than that. */
int mcp_read(FILE *in, struct buf *line);
/* The answer to a message, as one line, or nothing. 0 or -ENOMEM. */
int mcp_answer(const struct mcp_host *host, const char *message, size_t length, FILE *out);

#endif
