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
#include <unistd.h>

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
static void make_room(struct timelines *timelines)
{
	struct entry **oldest = NULL, *gone;

	for (struct entry **at = &timelines->entries; *at; at = &(*at)->next)
		if (!(*at)->making && !(*at)->to_make &&
		    (!oldest || (*at)->asked_ns < (*oldest)->asked_ns))
			oldest = at;
	if (timelines->n < OPEN_MOST || !oldest)
		return;
	gone = *oldest;
	*oldest = gone->next;
	timelines->n--;
	entry_free(gone);
}

static struct entry *find_entry(const struct timelines *timelines, const char *path)
{
	struct entry *entry = timelines->entries;

	while (entry && strcmp(entry->path, path) != 0)
		entry = entry->next;
	return entry;
}

static struct entry *entry_for(struct timelines *timelines, const char *path)
{
	struct entry *entry = find_entry(timelines, path);

	if (entry)
		return entry;
	make_room(timelines);
	entry = calloc(1, sizeof(*entry));
	if (entry)
		entry->path = strdup(path);
	if (!entry || !entry->path) {
		free(entry);
		return NULL;
	}
	entry->next = timelines->entries;
	timelines->entries = entry;
	timelines->n++;
	return entry;
}

/* Takes over what was opened or made; NULL: it could not be. */
static void keep(struct timelines *timelines, struct entry *entry, struct lod *lod)
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
	entry->version = ++timelines->version;
}

static void make_one(struct timelines *timelines, struct entry *entry)
{
	struct err err = { "" };
	struct lod *lod = NULL;
	int64_t start_ns;
	int r;

	entry->to_make = false;
	entry->making = true;
	pthread_mutex_unlock(&timelines->lock);
	start_ns = clock_monotonic_ns();
	r = lod_open(entry->path, &lod, &err);
	if (r < 0)
		r = lod_make(entry->path, &timelines->stopped, &lod, &err);
	pthread_mutex_lock(&timelines->lock);
	entry->made_ns = clock_monotonic_ns();
	entry->took_ns = entry->made_ns - start_ns;
	entry->making = false;
	entry->result = r;
	entry->err = err;
	entry->stale = r < 0;
	keep(timelines, entry, lod);
}

static struct entry *next_to_make(const struct timelines *timelines)
{
	struct entry *next = NULL;

	for (struct entry *e = timelines->entries; e; e = e->next)
		if (e->to_make && (!next || e->asked_ns < next->asked_ns))
			next = e;
	return next;
}

static void *work(void *arg)
{
	struct timelines *timelines = arg;

	pthread_mutex_lock(&timelines->lock);
	while (!timelines->stopped) {
		struct entry *entry = next_to_make(timelines);

		if (!entry) {
			pthread_cond_wait(&timelines->work, &timelines->lock);
			continue;
		}
		make_one(timelines, entry);
		pthread_mutex_unlock(&timelines->lock);
		timelines->ready(timelines->context);
		pthread_mutex_lock(&timelines->lock);
	}
	pthread_mutex_unlock(&timelines->lock);
	return NULL;
}

struct timelines *timelines_new(void (*ready)(void *context), void *context)
{
	struct timelines *timelines = calloc(1, sizeof(*timelines));

	if (!timelines)
		return NULL;
	timelines->ready = ready;
	timelines->context = context;
	pthread_mutex_init(&timelines->lock, NULL);
	pthread_cond_init(&timelines->work, NULL);
	timelines->has_thread = pthread_create(&timelines->thread, NULL, work, timelines) == 0;
	if (timelines->has_thread)
		return timelines;
	timelines_free(timelines);
	return NULL;
}

void timelines_stop(struct timelines *timelines)
{
	pthread_mutex_lock(&timelines->lock);
	timelines->stopped = true;
	pthread_cond_broadcast(&timelines->work);
	pthread_mutex_unlock(&timelines->lock);
	if (timelines->has_thread)
		pthread_join(timelines->thread, NULL);
	timelines->has_thread = false;
}

void timelines_free(struct timelines *timelines)
{
	if (!timelines)
		return;
	while (timelines->entries) {
		struct entry *entry = timelines->entries;

		timelines->entries = entry->next;
		entry_free(entry);
	}
	pthread_cond_destroy(&timelines->work);
	pthread_mutex_destroy(&timelines->lock);
	free(timelines);
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

int timelines_hold(struct timelines *timelines, const char *path, uint64_t signature,
		   struct held_timeline **ret_held, struct err *err)
{
	int64_t now_ns = clock_monotonic_ns();
	struct entry *entry;
	int r = 0;

	pthread_mutex_lock(&timelines->lock);
	entry = entry_for(timelines, path);
	if (entry) {
		entry->asked_ns = now_ns;
		if (is_due(entry, signature, now_ns)) {
			entry->to_make = true;
			pthread_cond_signal(&timelines->work);
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
	pthread_mutex_unlock(&timelines->lock);
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
	       of_files > RESIDENT_MOST / (unsigned long)sysconf(_SC_PAGESIZE);
}

void timelines_release(struct timelines *timelines, struct held_timeline *held)
{
	if (has_read_much())
		lod_rest(held->lod);
	pthread_mutex_lock(&timelines->lock);
	drop_hold(held);
	pthread_mutex_unlock(&timelines->lock);
}

uint64_t timelines_version(struct timelines *timelines, const char *path)
{
	const struct entry *entry;
	uint64_t version;

	pthread_mutex_lock(&timelines->lock);
	entry = find_entry(timelines, path);
	version = entry ? entry->version : 0;
	/* What is told of a stale one holds until it may be made anew. */
	if (entry && entry->stale)
		version += (uint64_t)(clock_monotonic_ns() / MAKE_NS) << 32;
	pthread_mutex_unlock(&timelines->lock);
	return version;
}
