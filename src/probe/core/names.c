/* SPDX-License-Identifier: Apache-2.0
 *
 * Interned names of the process. Look-ups take no lock: slots are published with a release store
 * and never change, and a table that has become too small is replaced, never freed (a thread may be
 * reading it; sizes double, so all old tables together are smaller than the live one).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe/core/probe.h"

#include "probe/core/open_ranges.h"

#define MAX_NAMES (1u << 20)

struct name {
	uint32_t id, hash, length;
	char text[];
};

struct name_table {
	size_t n_slots; /* power of two */
	_Atomic(struct name *) slots[];
};

PROBE_LOCK(lock);
static _Atomic(struct name_table *) table;
static struct name **by_id; /* index id - 1 */
static size_t by_id_capacity;
static uint32_t n_names;
static struct rings *logged_to;
static _Atomic uint64_t dropped;

static uint32_t hash_text(const char *text, uint32_t *ret_length)
{
	uint32_t h = 2166136261u, n = 0;

	for (; text[n] && n < STRING_MAX; n++)
		h = (h ^ (unsigned char)text[n]) * 16777619u;
	*ret_length = n;
	return h ^ h >> 15;
}

static struct name *find_interned(const struct name_table *in, const char *text, uint32_t length,
				  uint32_t hash)
{
	size_t at = hash & (in->n_slots - 1);

	for (;; at = (at + 1) & (in->n_slots - 1)) {
		struct name *name = atomic_load_explicit(&in->slots[at], memory_order_acquire);

		if (!name)
			return NULL;
		if (name->hash == hash && name->length == length &&
		    !memcmp(name->text, text, length))
			return name;
	}
}

static void insert(struct name_table *into, struct name *name)
{
	size_t at = name->hash & (into->n_slots - 1);

	while (atomic_load_explicit(&into->slots[at], memory_order_relaxed))
		at = (at + 1) & (into->n_slots - 1);
	atomic_store_explicit(&into->slots[at], name, memory_order_release);
}

/* A table with room for one more name; the lock is held. */
static struct name_table *grown_table(void)
{
	struct name_table *old = atomic_load_explicit(&table, memory_order_relaxed), *grown;
	size_t n_slots = old ? old->n_slots : 512;

	if (old && (size_t)n_names * 2 < old->n_slots)
		return old;
	n_slots *= old ? 2 : 1;
	grown = calloc(1, sizeof(*grown) + n_slots * sizeof(grown->slots[0]));
	if (!grown)
		return NULL;
	grown->n_slots = n_slots;
	for (uint32_t i = 0; i < n_names; i++)
		insert(grown, by_id[i]);
	atomic_store_explicit(&table, grown, memory_order_release);
	return grown;
}

static uint32_t add_interned(const char *text, uint32_t length, uint32_t hash)
{
	struct name_table *in;
	struct name *name;

	/* Such a child cannot record anything, unless it has its own session. */
	in = n_names < MAX_NAMES && (life_may_allocate() || logged_to) ? grown_table() : NULL;
	if (!in || array_grow(&by_id, &by_id_capacity, n_names + 1, sizeof(by_id[0])) < 0 ||
	    !(name = malloc(sizeof(*name) + length + 1))) {
		atomic_fetch_add(&dropped, 1);
		return 0;
	}
	name->hash = hash;
	name->length = length;
	memcpy(name->text, text, length);
	name->text[length] = 0;
	by_id[n_names] = name;
	name->id = ++n_names;
	insert(in, name);
	if (logged_to && rings_log_string(logged_to, name->id, text, length) < 0)
		atomic_fetch_add(&dropped, 1);
	return name->id;
}

/* Most names are literals: cache what this thread last saw at an address, checked by its text.
 * Names live forever, so an entry is never stale. */
#define RECENT 64
static __thread struct {
	const char *at;
	const struct name *name;
} recent[RECENT];

static size_t recent_slot(const char *text)
{
	return ((uintptr_t)text ^ (uintptr_t)text >> 6) % RECENT;
}

static moescope_name intern(const char *text);

moescope_name moescope_intern(const char *text)
{
	size_t slot;

	if (!text || !*text)
		return 0;
	slot = recent_slot(text);
	if (recent[slot].at == text && !strcmp(recent[slot].name->text, text))
		return recent[slot].name->id;
	return intern(text);
}

static void remember(const char *text, const struct name *name)
{
	size_t slot = recent_slot(text);

	/* A signal handler may look in between: it must not see an address without a name. */
	recent[slot].name = name;
	atomic_signal_fence(memory_order_seq_cst);
	recent[slot].at = text;
}

static moescope_name intern(const char *text)
{
	struct name_table *in;
	struct name *name = NULL;
	uint32_t length, hash, id;
	int saved;

	hash = hash_text(text, &length);
	in = atomic_load_explicit(&table, memory_order_acquire);
	if (in)
		name = find_interned(in, text, length, hash);
	if (name) {
		if (length < STRING_MAX)
			remember(text, name);
		return name->id;
	}
	saved = errno;
	if (thread_busy || !probe_lock(&lock)) { /* in a signal handler */
		atomic_fetch_add(&dropped, 1);
		return 0;
	}
	in = atomic_load_explicit(&table, memory_order_relaxed);
	name = in ? find_interned(in, text, length, hash) : NULL;
	id = name ? name->id : add_interned(text, length, hash);
	probe_unlock(&lock);
	errno = saved;
	return id;
}

const char *moescope_name_text(moescope_name name)
{
	const char *text = "";

	if (thread_busy || !probe_lock(&lock)) /* in a signal handler */
		return text;
	if (name && name <= n_names)
		text = by_id[name - 1]->text;
	probe_unlock(&lock);
	return text;
}

int names_log_all(struct rings *rings)
{
	int r = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < n_names && r == 0; i++)
		r = rings_log_string(rings, by_id[i]->id, by_id[i]->text, by_id[i]->length);
	logged_to = rings;
	pthread_mutex_unlock(&lock);
	return r;
}

void names_set_log(struct rings *rings)
{
	pthread_mutex_lock(&lock);
	logged_to = rings;
	pthread_mutex_unlock(&lock);
}

uint64_t names_dropped(void)
{
	return atomic_load(&dropped);
}

void names_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

void names_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

void names_forget(void)
{
	logged_to = NULL;
}
