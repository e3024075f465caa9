/* SPDX-License-Identifier: Apache-2.0
 *
 * Replies that take time: each is made once by one of a few threads, however many ask for it, and kept
 * until what it tells has changed. What grows is told anew now and then, so that a tenth of a processor is
 * enough for it; then the old reply is told until the new one is there. Any thread.
 */
#ifndef SURFACES_HTTP_REPLIES_H
#define SURFACES_HTTP_REPLIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reply {
	int status; /* of HTTP */
	const char *type;
	char *body; /* of malloc */
	size_t size;
	bool once; /* quick to make and seldom asked for again: not kept */
};

struct reply_maker {
	/* The reply to a target such as "/api/runs/a/kernels?limit=20". Status 0: not yet; it is asked
	 * for again after replies_retry. */
	struct reply (*make)(void *context, const char *target);
	/* The same as long as the reply would be. growing: it will change again soon. */
	uint64_t (*signature)(void *context, const char *target, bool *ret_growing);
	void *context;
};

/* Somebody who asks. */
struct reply_waiter {
	void (*wait)(struct reply_waiter *waiter); /* before `ready` can come */
	/* Once, from another thread, with a hold on the reply; NULL: there will be none. */
	void (*ready)(struct reply_waiter *waiter, const struct reply *reply);
	struct reply_waiter *next;
};

struct replies;

/* NULL: no memory or no threads. */
struct replies *replies_new(const struct reply_maker *maker);
/* Takes a hold on the reply, if it is fresh. NULL: `ready` is called when it is made. */
const struct reply *replies_ask(struct replies *replies, const char *target,
				struct reply_waiter *waiter);
/* What some replies wait for may be there now. */
void replies_retry(struct replies *replies);
void reply_release(const struct reply *reply);
/* Ends all waiting. Whoever asks from now on gets `ready` with NULL at once. */
void replies_stop(struct replies *replies);
/* After replies_stop, when nobody asks any more. */
void replies_free(struct replies *replies);

#endif
