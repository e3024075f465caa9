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
#define REST_OF_CPU 10		      /* nor before so many times what it cost the CPUs */
#define REST_OF_WAIT 2		      /* nor before so many times what it took */
#define QUICK_NS INT64_C(100000000)   /* made so fast that it can be waited for */

struct held_reply {
	struct reply reply; /* first */
	_Atomic unsigned int holds;
};

struct entry {
	char *target;
	struct held_reply *held; /* NULL: not made yet */
	uint64_t signature;	 /* of what it was made from */
	int64_t made_ns, took_ns, asked_ns;
	int64_t rest_ns; /* that it is good for, if that grows */
	bool to_make, making;
	bool again;   /* it is to be made a second time for those who wait */
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

enum worth {
	WORTH_NOTHING,
	WORTH_TELLING, /* but there should be a new one soon */
	WORTH_KEEPING,
};

/* The last state of a run is told at once: no event will come after it. While it grows, nobody waits for a
 * reply that takes long if there is one that is not much older than it has to be. */
static enum worth worth_of(struct replies *replies, const struct entry *entry, int64_t now_ns)
{
	int64_t age_ns = now_ns - entry->made_ns;
	bool growing = false, same;

	if (!entry->held)
		return WORTH_NOTHING;
	same = replies->maker.signature(replies->maker.context, entry->target, &growing) ==
	       entry->signature;
	if (same && (entry->held->reply.status == 200 || age_ns < YOUNG_NS))
		return WORTH_KEEPING;
	if (same || !growing)
		return WORTH_NOTHING;
	if (age_ns < entry->rest_ns)
		return WORTH_KEEPING;
	return entry->took_ns > QUICK_NS && age_ns < 2 * entry->rest_ns ? WORTH_TELLING
									: WORTH_NOTHING;
}

const struct reply *replies_ask(struct replies *replies, const char *target,
				struct reply_waiter *waiter)
{
	int64_t now_ns = clock_monotonic_ns();
	const struct reply *reply = NULL;
	enum worth worth = WORTH_NOTHING;
	struct entry *entry;
	bool refused = false;

	pthread_mutex_lock(&replies->lock);
	entry = replies->stopped ? NULL : entry_for(replies, target);
	if (entry) {
		entry->asked_ns = now_ns;
		worth = worth_of(replies, entry, now_ns);
	}
	if (worth != WORTH_NOTHING) {
		reply = hold(entry->held);
	} else {
		waiter->wait(waiter);
		refused = !entry;
	}
	if (entry && !reply) {
		waiter->next = entry->waiters;
		entry->waiters = waiter;
	}
	if (entry && worth != WORTH_KEEPING) {
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

/* Whether what a reply tells has changed since, for the last time: whoever waits for it may have asked after
 * that. */
static bool has_ended_since(const struct reply_maker *maker, const struct entry *entry)
{
	bool growing = false;

	return maker->signature(maker->context, entry->target, &growing) != entry->signature &&
	       !growing;
}

static int64_t longest(int64_t a, int64_t b, int64_t c)
{
	return a > b ? (a > c ? a : c) : (b > c ? b : c);
}

/* The lock is held, but not while the reply is made: an entry that is being made stays where it is. */
static void make_one(struct replies *replies, struct entry *entry)
{
	const struct reply_maker *maker = &replies->maker;
	int64_t start_ns, start_cpu_ns;
	const uint64_t retries = replies->retries;
	struct held_reply *made;
	struct reply reply;
	uint64_t signature;
	bool growing = false;

	entry->to_make = false;
	entry->making = true;
	pthread_mutex_unlock(&replies->lock);
	start_ns = clock_monotonic_ns();
	start_cpu_ns = clock_process_cpu_ns();
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
	entry->rest_ns = longest(YOUNG_NS, REST_OF_WAIT * entry->took_ns,
				 REST_OF_CPU * (clock_process_cpu_ns() - start_cpu_ns));
	entry->making = false;
	entry->again = !entry->again && entry->waiters && has_ended_since(maker, entry);
	if (entry->again) {
		entry->to_make = true;
		return;
	}
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
