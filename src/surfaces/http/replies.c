/* SPDX-License-Identifier: Apache-2.0
 *
 * Replies made once for all who ask; see replies.h. The lock is held for everything but making a reply.
 */
#include "surfaces/http/replies.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define THREADS 2
#define ENTRIES 256		      /* replies that are kept */
#define KEPT_BYTES ((size_t)64 << 20) /* in all */
#define YOUNG_NS INT64_C(1000000000)  /* what grows is not told anew before */
#define REST 10			      /* nor before so many times what that took */

struct held_reply {
	struct reply reply; /* first */
	_Atomic unsigned int holds;
};

struct entry {
	char *target;
	struct held_reply *held; /* NULL: not made yet */
	uint64_t signature;	 /* of what it was made from */
	int64_t made_ns, took_ns, asked_ns;
	bool to_make, making;
	bool blocked; /* until somebody says that what it needs may be there */
	struct reply_waiter *waiters;
};

struct replies {
	struct reply_maker maker;
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_t threads[THREADS];
	unsigned int n_threads;
	struct entry *entries[ENTRIES];
	size_t n;
	bool stopped;
	uint64_t retries;
};

void reply_release(const struct reply *reply)
{
	struct held_reply *held = (struct held_reply *)reply;

	if (!held || atomic_fetch_sub(&held->holds, 1) != 1)
		return;
	free(held->reply.body);
	free(held);
}

static const struct reply *hold(struct held_reply *held)
{
	atomic_fetch_add(&held->holds, 1);
	return &held->reply;
}

static void entry_free(struct entry *entry)
{
	if (entry->held)
		reply_release(&entry->held->reply);
	free(entry->target);
	free(entry);
}

static void forget(struct replies *replies, struct entry *entry)
{
	size_t i = 0;

	while (replies->entries[i] != entry)
		i++;
	replies->entries[i] = replies->entries[--replies->n];
	entry_free(entry);
}

static bool is_busy(const struct entry *entry)
{
	return entry->to_make || entry->making || entry->waiters;
}

static size_t kept_bytes(const struct replies *replies)
{
	size_t sum = 0;

	for (size_t i = 0; i < replies->n; i++)
		sum += replies->entries[i]->held ? replies->entries[i]->held->reply.size : 0;
	return sum;
}

/* Forgets what nobody has asked for the longest, until there is room for one more. */
static bool make_room(struct replies *replies)
{
	while (replies->n == ENTRIES || kept_bytes(replies) > KEPT_BYTES) {
		size_t oldest = ENTRIES;

		for (size_t i = 0; i < replies->n; i++)
			if (!is_busy(replies->entries[i]) &&
			    (oldest == ENTRIES ||
			     replies->entries[i]->asked_ns < replies->entries[oldest]->asked_ns))
				oldest = i;
		if (oldest == ENTRIES)
			return replies->n < ENTRIES;
		forget(replies, replies->entries[oldest]);
	}
	return true;
}

/* NULL: no room or no memory. */
static struct entry *entry_for(struct replies *replies, const char *target)
{
	struct entry *entry;

	for (size_t i = 0; i < replies->n; i++)
		if (!strcmp(replies->entries[i]->target, target))
			return replies->entries[i];
	if (!make_room(replies))
		return NULL;
	entry = calloc(1, sizeof(*entry));
	if (entry)
		entry->target = strdup(target);
	if (!entry || !entry->target) {
		free(entry);
		return NULL;
	}
	return replies->entries[replies->n++] = entry;
}

/* The last state of a run is told at once: no event will come after it. */
static bool is_fresh(struct replies *replies, const struct entry *entry, int64_t now_ns)
{
	int64_t age_ns = now_ns - entry->made_ns;
	bool growing = false;

	if (!entry->held)
		return false;
	if (replies->maker.signature(replies->maker.context, entry->target, &growing) ==
	    entry->signature)
		return entry->held->reply.status == 200 || age_ns < YOUNG_NS;
	return growing && (age_ns < YOUNG_NS || age_ns < REST * entry->took_ns);
}

const struct reply *replies_ask(struct replies *replies, const char *target,
				struct reply_waiter *waiter)
{
	int64_t now_ns = clock_monotonic_ns();
	const struct reply *reply = NULL;
	struct entry *entry;
	bool refused = false;

	pthread_mutex_lock(&replies->lock);
	entry = replies->stopped ? NULL : entry_for(replies, target);
	if (entry)
		entry->asked_ns = now_ns;
	if (entry && !entry->to_make && !entry->making && is_fresh(replies, entry, now_ns)) {
		reply = hold(entry->held);
	} else {
		waiter->wait(waiter);
		refused = !entry;
	}
	if (entry && !reply) {
		waiter->next = entry->waiters;
		entry->waiters = waiter;
		entry->to_make |= !entry->making;
		pthread_cond_signal(&replies->work);
	}
	pthread_mutex_unlock(&replies->lock);
	if (refused)
		waiter->ready(waiter, NULL);
	return reply;
}

static struct held_reply *hold_new(struct reply reply)
{
	struct held_reply *held = malloc(sizeof(*held));

	if (!held) {
		free(reply.body);
		return NULL;
	}
	*held = (struct held_reply){ .reply = reply, .holds = 1 };
	return held;
}

/* The one that was asked for first. */
static struct entry *next_to_make(const struct replies *replies)
{
	struct entry *next = NULL;

	for (size_t i = 0; i < replies->n; i++)
		if (replies->entries[i]->to_make && !replies->entries[i]->blocked &&
		    (!next || replies->entries[i]->asked_ns < next->asked_ns))
			next = replies->entries[i];
	return next;
}

static void end_waiting(struct entry *entry)
{
	struct reply_waiter *waiter = entry->waiters, *next;

	entry->waiters = NULL;
	for (; waiter; waiter = next) {
		next = waiter->next; /* it may be gone after this */
		waiter->ready(waiter, entry->held ? hold(entry->held) : NULL);
	}
}

/* The lock is held, but not while the reply is made: an entry that is being made stays where it is. */
static void make_one(struct replies *replies, struct entry *entry)
{
	const struct reply_maker *maker = &replies->maker;
	const uint64_t retries = replies->retries;
	struct held_reply *made;
	struct reply reply;
	uint64_t signature;
	int64_t start_ns;
	bool growing;

	entry->to_make = false;
	entry->making = true;
	pthread_mutex_unlock(&replies->lock);
	start_ns = clock_monotonic_ns();
	signature = maker->signature(maker->context, entry->target, &growing);
	reply = maker->make(maker->context, entry->target);
	made = reply.status ? hold_new(reply) : NULL;
	pthread_mutex_lock(&replies->lock);
	if (!reply.status) {
		entry->making = false;
		entry->to_make = true;
		/* Unless it has come while this one was told that it is not there. */
		entry->blocked = retries == replies->retries;
		return;
	}
	if (entry->held)
		reply_release(&entry->held->reply);
	entry->held = made;
	entry->signature = signature;
	entry->made_ns = clock_monotonic_ns();
	entry->took_ns = entry->made_ns - start_ns;
	entry->making = false;
	end_waiting(entry);
	if (reply.once)
		forget(replies, entry);
}

void replies_retry(struct replies *replies)
{
	pthread_mutex_lock(&replies->lock);
	replies->retries++;
	for (size_t i = 0; i < replies->n; i++)
		replies->entries[i]->blocked = false;
	pthread_cond_broadcast(&replies->work);
	pthread_mutex_unlock(&replies->lock);
}

static void *work(void *arg)
{
	struct replies *replies = arg;
	struct entry *entry;

	pthread_mutex_lock(&replies->lock);
	while (!replies->stopped) {
		entry = next_to_make(replies);
		if (entry)
			make_one(replies, entry);
		else
			pthread_cond_wait(&replies->work, &replies->lock);
	}
	pthread_mutex_unlock(&replies->lock);
	return NULL;
}

struct replies *replies_new(const struct reply_maker *maker)
{
	struct replies *replies = calloc(1, sizeof(*replies));

	if (!replies)
		return NULL;
	replies->maker = *maker;
	pthread_mutex_init(&replies->lock, NULL);
	pthread_cond_init(&replies->work, NULL);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&replies->threads[replies->n_threads], NULL, work, replies) == 0)
			replies->n_threads++;
	if (replies->n_threads)
		return replies;
	replies_free(replies);
	return NULL;
}

void replies_stop(struct replies *replies)
{
	pthread_mutex_lock(&replies->lock);
	replies->stopped = true;
	pthread_cond_broadcast(&replies->work);
	pthread_mutex_unlock(&replies->lock);
	for (unsigned int i = 0; i < replies->n_threads; i++)
		pthread_join(replies->threads[i], NULL);
	replies->n_threads = 0;
	pthread_mutex_lock(&replies->lock);
	for (size_t i = 0; i < replies->n; i++)
		end_waiting(replies->entries[i]);
	pthread_mutex_unlock(&replies->lock);
}

void replies_free(struct replies *replies)
{
	for (size_t i = 0; i < replies->n; i++)
		entry_free(replies->entries[i]);
	pthread_cond_destroy(&replies->work);
	pthread_mutex_destroy(&replies->lock);
	free(replies);
}
