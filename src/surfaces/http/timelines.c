/* SPDX-License-Identifier: Apache-2.0
 *
 * Timelines that are open; see timelines.h. The lock is held for everything but opening and making one.
 */
#include "surfaces/http/timelines.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/small_file.h"

#define OPEN_MOST 16			 /* timelines, unless more are held */
#define MAKE_NS INT64_C(3000000000)	 /* a timeline is made anew no sooner */
#define REST 10				 /* nor before so many times what that took */
#define RESIDENT_MOST ((size_t)96 << 20) /* bytes of files in memory, of any timeline */

struct held_timeline {
	struct lod *lod;
	unsigned int holds;
};

struct entry {
	char *path;
	struct held_timeline *held; /* NULL: none yet */
	uint64_t version;
	bool to_make, making;
	int result; /* of the last making */
	struct err err;
	uint64_t signature; /* of the run when it was looked at */
	bool stale;
	int64_t made_ns, took_ns, asked_ns;
	struct entry *next;
};

struct timelines {
	void (*ready)(void *context);
	void *context;
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_t thread;
	bool has_thread;
	_Atomic bool stopped;
	struct entry *entries;
	size_t n;
	uint64_t version; /* the last that was given */
};

const struct lod *held_lod(const struct held_timeline *held)
{
	return held->lod;
}

static void drop_hold(struct held_timeline *held)
{
	if (!held || --held->holds)
		return;
	lod_close(held->lod);
	free(held);
}

static void entry_free(struct entry *entry)
{
	drop_hold(entry->held);
	free(entry->path);
	free(entry);
}

/* Forgets the one that nobody has asked for the longest. */
static void make_room(struct timelines *t)
{
	struct entry **oldest = NULL, *gone;

	for (struct entry **at = &t->entries; *at; at = &(*at)->next)
		if (!(*at)->making && !(*at)->to_make &&
		    (!oldest || (*at)->asked_ns < (*oldest)->asked_ns))
			oldest = at;
	if (t->n < OPEN_MOST || !oldest)
		return;
	gone = *oldest;
	*oldest = gone->next;
	t->n--;
	entry_free(gone);
}

static struct entry *find_entry(const struct timelines *t, const char *path)
{
	struct entry *entry = t->entries;

	while (entry && strcmp(entry->path, path) != 0)
		entry = entry->next;
	return entry;
}

static struct entry *entry_for(struct timelines *t, const char *path)
{
	struct entry *entry = find_entry(t, path);

	if (entry)
		return entry;
	make_room(t);
	entry = calloc(1, sizeof(*entry));
	if (entry)
		entry->path = strdup(path);
	if (!entry || !entry->path) {
		free(entry);
		return NULL;
	}
	entry->next = t->entries;
	t->entries = entry;
	t->n++;
	return entry;
}

/* Takes over what was opened or made; NULL: it could not be. */
static void keep(struct timelines *t, struct entry *entry, struct lod *lod)
{
	struct held_timeline *held = lod ? malloc(sizeof(*held)) : NULL;

	if (lod && !held) {
		lod_close(lod);
		entry->result = err_set(&entry->err, -ENOMEM, "no memory for the timeline.");
	}
	if (!held)
		return;
	*held = (struct held_timeline){ .lod = lod, .holds = 1 };
	drop_hold(entry->held);
	entry->held = held;
	entry->version = ++t->version;
}

static void make_one(struct timelines *t, struct entry *entry)
{
	struct err err = { "" };
	struct lod *lod = NULL;
	int64_t start_ns;
	int r;

	entry->to_make = false;
	entry->making = true;
	pthread_mutex_unlock(&t->lock);
	start_ns = clock_monotonic_ns();
	r = lod_open(entry->path, &lod, &err);
	if (r < 0)
		r = lod_make(entry->path, &t->stopped, &lod, &err);
	pthread_mutex_lock(&t->lock);
	entry->made_ns = clock_monotonic_ns();
	entry->took_ns = entry->made_ns - start_ns;
	entry->making = false;
	entry->result = r;
	entry->err = err;
	entry->stale = r < 0;
	keep(t, entry, lod);
}

static struct entry *next_to_make(const struct timelines *t)
{
	struct entry *next = NULL;

	for (struct entry *e = t->entries; e; e = e->next)
		if (e->to_make && (!next || e->asked_ns < next->asked_ns))
			next = e;
	return next;
}

static void *work(void *arg)
{
	struct timelines *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->stopped) {
		struct entry *entry = next_to_make(t);

		if (!entry) {
			pthread_cond_wait(&t->work, &t->lock);
			continue;
		}
		make_one(t, entry);
		pthread_mutex_unlock(&t->lock);
		t->ready(t->context);
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

struct timelines *timelines_new(void (*ready)(void *context), void *context)
{
	struct timelines *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->ready = ready;
	t->context = context;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->work, NULL);
	t->has_thread = pthread_create(&t->thread, NULL, work, t) == 0;
	if (t->has_thread)
		return t;
	timelines_free(t);
	return NULL;
}

void timelines_stop(struct timelines *t)
{
	pthread_mutex_lock(&t->lock);
	t->stopped = true;
	pthread_cond_broadcast(&t->work);
	pthread_mutex_unlock(&t->lock);
	if (t->has_thread)
		pthread_join(t->thread, NULL);
	t->has_thread = false;
}

void timelines_free(struct timelines *t)
{
	if (!t)
		return;
	while (t->entries) {
		struct entry *entry = t->entries;

		t->entries = entry->next;
		entry_free(entry);
	}
	pthread_cond_destroy(&t->work);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* Whether it is to be made, for the first time or anew. The lock is held. */
static bool is_due(struct entry *entry, uint64_t signature, int64_t now_ns)
{
	int64_t since_ns = now_ns - entry->made_ns;

	if (entry->held && entry->signature != signature)
		entry->stale = !lod_is_fresh(entry->held->lod, entry->path);
	entry->signature = signature;
	if (entry->making || entry->to_make)
		return false;
	if (!entry->made_ns)
		return true;
	return entry->stale && since_ns >= MAKE_NS && since_ns >= REST * entry->took_ns;
}

int timelines_hold(struct timelines *t, const char *path, uint64_t signature,
		   struct held_timeline **ret_held, struct err *err)
{
	int64_t now_ns = clock_monotonic_ns();
	struct entry *entry;
	int r = 0;

	pthread_mutex_lock(&t->lock);
	entry = entry_for(t, path);
	if (entry) {
		entry->asked_ns = now_ns;
		if (is_due(entry, signature, now_ns)) {
			entry->to_make = true;
			pthread_cond_signal(&t->work);
		}
	}
	if (!entry) {
		r = err_set(err, -ENOMEM, "no memory for the timeline.");
	} else if (entry->held) {
		entry->held->holds++;
		*ret_held = entry->held;
	} else if (entry->to_make || entry->making) {
		r = -EAGAIN;
	} else {
		*err = entry->err;
		r = entry->result;
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

/* What was read of a file counts as memory of this process until it is given back, although the system
 * would take it when it is short. */
static bool has_read_much(void)
{
	char text[128];
	unsigned long pages, resident, of_files;
	ssize_t n = small_file_text("/proc/self/statm", text, sizeof(text));

	return n > 0 && sscanf(text, "%lu %lu %lu", &pages, &resident, &of_files) == 3 &&
	       of_files > RESIDENT_MOST / 4096;
}

void timelines_release(struct timelines *t, struct held_timeline *held)
{
	if (has_read_much())
		lod_rest(held->lod);
	pthread_mutex_lock(&t->lock);
	drop_hold(held);
	pthread_mutex_unlock(&t->lock);
}

uint64_t timelines_version(struct timelines *t, const char *path)
{
	const struct entry *entry;
	uint64_t version;

	pthread_mutex_lock(&t->lock);
	entry = find_entry(t, path);
	version = entry ? entry->version : 0;
	/* What is told of a stale one holds until it may be made anew. */
	if (entry && entry->stale)
		version += (uint64_t)(clock_monotonic_ns() / MAKE_NS) << 32;
	pthread_mutex_unlock(&t->lock);
	return version;
}
