/* SPDX-License-Identifier: Apache-2.0
 *
 * See lexicon.h.
 */
#include "ingest/shared/lexicon.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

int lexicon_init(struct lexicon *lexicon)
{
	*lexicon = (struct lexicon){ 0 };
	return -pthread_mutex_init(&lexicon->lock, NULL);
}

void lexicon_release(struct lexicon *lexicon)
{
	for (int k = 0; k <= RECORD_LAUNCH; k++)
		interned_release(&lexicon->kinds[k]);
	pthread_mutex_destroy(&lexicon->lock);
}

void lexicon_cache_release(struct lexicon_cache *cache)
{
	free(cache->entries);
	*cache = (struct lexicon_cache){ 0 };
}

static int cache_grow(struct lexicon_cache *cache)
{
	size_t n = cache->n_entries ? cache->n_entries * 2 : 1024;
	struct lexicon_entry *entries = calloc(n, sizeof(*entries));

	if (!entries)
		return -ENOMEM;
	for (size_t i = 0; i < cache->n_entries; i++) {
		size_t at = cache->entries[i].hash & (n - 1);

		if (!cache->entries[i].id)
			continue;
		while (entries[at].id)
			at = (at + 1) & (n - 1);
		entries[at] = cache->entries[i];
	}
	free(cache->entries);
	cache->entries = entries;
	cache->n_entries = n;
	return 0;
}

/* The entry of these bytes, or the empty one where it belongs; NULL: no memory. */
static struct lexicon_entry *cache_find(struct lexicon_cache *cache, uint32_t hash,
					const char *bytes, size_t length)
{
	size_t at;

	if (cache->n * 2 >= cache->n_entries && cache_grow(cache) < 0)
		return NULL;
	for (at = hash & (cache->n_entries - 1);; at = (at + 1) & (cache->n_entries - 1)) {
		struct lexicon_entry *entry = &cache->entries[at];

		if (!entry->id || (entry->hash == hash && entry->length == length &&
				   !memcmp(entry->key, bytes, length)))
			return entry;
	}
}

uint32_t lexicon_id(struct lexicon *lexicon, struct lexicon_cache *cache, enum record_kind kind,
		    const void *bytes, size_t length)
{
	uint32_t hash = hash_bytes(bytes, length);
	struct lexicon_entry *entry = cache_find(cache, hash, bytes, length);
	const char *key = NULL;
	uint32_t id;

	if (!entry)
		return 0;
	if (entry->id)
		return entry->id;
	pthread_mutex_lock(&lexicon->lock);
	id = interned_id(&lexicon->kinds[kind], bytes, length);
	key = interned_key(&lexicon->kinds[kind], id);
	pthread_mutex_unlock(&lexicon->lock);
	if (!id)
		return 0;
	*entry = (struct lexicon_entry){ key, hash, (uint32_t)length, id };
	cache->n++;
	return id;
}

static bool is_clean(const char *bytes, size_t length)
{
	for (size_t at = 0; at < length;) {
		unsigned char c = (unsigned char)bytes[at];
		uint32_t point;
		int valid = 1;

		if (c < 0x80 && c >= 0x20 && c != 0x7f)
			at++;
		else if (c < 0x80)
			return false;
		else
			at += utf8_decode(bytes + at, length - at, &point, &valid);
		if (!valid)
			return false;
	}
	return true;
}

static uint32_t clean_string(struct lexicon *lexicon, struct lexicon_cache *cache,
			     const char *bytes, size_t length)
{
	char *clean = malloc(length * 3 + 1);
	size_t n = 0;
	uint32_t id;

	if (!clean)
		return 0;
	for (size_t at = 0; at < length;) {
		unsigned char c = (unsigned char)bytes[at];
		uint32_t point;
		int valid;
		size_t took = utf8_decode(bytes + at, length - at, &point, &valid);

		if (c < 0x20 || c == 0x7f) {
			clean[n++] = ' ';
		} else if (!valid) {
			memcpy(clean + n, "\xef\xbf\xbd", 3);
			n += 3;
		} else {
			memcpy(clean + n, bytes + at, took);
			n += took;
		}
		at += took;
	}
	id = lexicon_id(lexicon, cache, RECORD_STRING, clean, n);
	free(clean);
	return id;
}

uint32_t lexicon_string(struct lexicon *lexicon, struct lexicon_cache *cache, const char *bytes,
			size_t length)
{
	const struct lexicon_entry *entry;

	/* What is in the cache is clean. */
	entry = cache_find(cache, hash_bytes(bytes, length), bytes, length);
	if (!entry)
		return 0;
	if (entry->id)
		return entry->id;
	return is_clean(bytes, length) ? lexicon_id(lexicon, cache, RECORD_STRING, bytes, length)
				       : clean_string(lexicon, cache, bytes, length);
}

const char *lexicon_text(struct lexicon *lexicon, uint32_t id)
{
	const char *text;

	pthread_mutex_lock(&lexicon->lock);
	text = interned_key(&lexicon->kinds[RECORD_STRING], id);
	pthread_mutex_unlock(&lexicon->lock);
	return text ? text : "";
}

/* Keys are what stands behind the id in a row. */
static int encode_rows(const struct interned *rows, enum record_kind kind, struct encoder *encoder)
{
	union {
		struct row_site site;
		struct row_launch launch;
	} row;

	for (uint32_t id = 1; id <= rows->n; id++) {
		int r;

		memset(&row, 0, sizeof(row));
		memcpy((char *)&row + sizeof(id), rows->keys[id - 1], rows->lengths[id - 1]);
		memcpy(&row, &id, sizeof(id));
		r = encoder_append(encoder, kind, &row);
		if (r < 0)
			return r;
	}
	return 0;
}

int lexicon_encode(const struct lexicon *lexicon, struct encoder *encoder)
{
	const struct interned *strings = &lexicon->kinds[RECORD_STRING];
	int r = 0;

	for (uint32_t id = 1; r == 0 && id <= strings->n; id++)
		r = encoder_append(
			encoder, RECORD_STRING,
			&(struct row_string){ .id = id,
					      .length = (uint32_t)strings->lengths[id - 1],
					      .text = strings->keys[id - 1] });
	if (r == 0)
		r = encode_rows(&lexicon->kinds[RECORD_SITE], RECORD_SITE, encoder);
	if (r == 0)
		r = encode_rows(&lexicon->kinds[RECORD_LAUNCH], RECORD_LAUNCH, encoder);
	return r;
}
