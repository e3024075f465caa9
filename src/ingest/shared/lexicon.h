/* SPDX-License-Identifier: Apache-2.0
 *
 * The dictionaries of one process that is being imported: strings, sites and launches. Shared by the
 * threads that read its file, each of which has a cache in front, so that the lock is taken for new
 * things alone.
 */
#ifndef INGEST_LEXICON_H
#define INGEST_LEXICON_H

#include <pthread.h>
#include <stdint.h>

#include "base/interned.h"
#include "trace/encoder.h"

struct lexicon {
	pthread_mutex_t lock;
	struct interned kinds[RECORD_LAUNCH + 1]; /* by dictionary kind; keys of rows without id */
};

struct lexicon_entry {
	const char *key; /* the lexicon's */
	uint32_t hash, length, id;
};
/* Not a hash_map: it is asked for every name of every event, and finds it with its key and id in one
 * place. */
struct lexicon_cache {
	struct lexicon_entry *entries; /* open addressing; id 0: empty */
	size_t n, n_entries;
};

int lexicon_init(struct lexicon *lexicon);
void lexicon_release(struct lexicon *lexicon);
void lexicon_cache_release(struct lexicon_cache *cache);

/* The id of these bytes among those of a kind; 0: no memory. A cache is for one kind. */
uint32_t lexicon_id(struct lexicon *lexicon, struct lexicon_cache *cache, enum record_kind kind,
		    const void *bytes, size_t length);
/* The same for text from outside: what is no UTF-8, and control characters, are replaced. */
uint32_t lexicon_string(struct lexicon *lexicon, struct lexicon_cache *cache, const char *bytes,
			size_t length);
/* "" for 0; stays valid. */
const char *lexicon_text(struct lexicon *lexicon, uint32_t id);

/* All of it as rows. */
int lexicon_encode(const struct lexicon *lexicon, struct encoder *encoder);

#endif
