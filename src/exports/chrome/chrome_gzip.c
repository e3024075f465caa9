/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip by several threads; see chrome_gzip.h.
 *
 * Every block is a piece of raw deflate that ends at a byte (Z_SYNC_FLUSH) and refers to nothing
 * before it, so the pieces one after the other are one stream. The caller's thread fills slots and
 * writes finished ones in their order; workers take what is filled. `lock` guards the states.
 */
#include "exports/chrome/chrome_gzip.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/parallel.h"

#define LEVEL 2 /* of zlib: higher ones cost more time than the smaller file is worth */
#define SLOTS (PARALLEL_MOST * 2)

enum slot_state { SLOT_FREE, SLOT_FILLED, SLOT_TAKEN, SLOT_DONE };

struct slot {
	enum slot_state state;
	char *plain, *packed;
	size_t n_plain, n_packed;
	uLong crc;
	int failed;
};

struct gzip_out {
	FILE *file;
	pthread_mutex_t lock;
	pthread_cond_t filled, done;
	pthread_t threads[PARALLEL_MOST];
	unsigned int n_threads, n_slots;
	struct slot slots[SLOTS];
	uint64_t next_in, next_taken, next_out; /* numbers of blocks; slot: modulo n_slots */
	uLong crc;
	uint64_t bytes;
	size_t most_packed;
	bool stop;
	int failed;
};

bool gzip_built(void)
{
	return true;
}

/* Caller holds nothing; the slot is the worker's. */
static int pack(struct slot *slot, z_stream *stream, size_t most)
{
	if (deflateReset(stream) != Z_OK)
		return -EIO;
	stream->next_in = (Bytef *)slot->plain;
	stream->avail_in = (uInt)slot->n_plain;
	stream->next_out = (Bytef *)slot->packed;
	stream->avail_out = (uInt)most;
	if (deflate(stream, Z_SYNC_FLUSH) != Z_OK || stream->avail_in || !stream->avail_out)
		return -EIO;
	slot->n_packed = most - stream->avail_out;
	slot->crc = crc32(0, (const Bytef *)slot->plain, (uInt)slot->n_plain);
	return 0;
}

static void *pack_slots(void *context)
{
	struct gzip_out *gzip = context;
	z_stream stream = { 0 };
	int ready = deflateInit2(&stream, LEVEL, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY);

	pthread_mutex_lock(&gzip->lock);
	for (;;) {
		struct slot *slot;
		int r;

		while (!gzip->stop && gzip->next_taken == gzip->next_in)
			pthread_cond_wait(&gzip->filled, &gzip->lock);
		if (gzip->next_taken == gzip->next_in)
			break;
		slot = &gzip->slots[gzip->next_taken++ % gzip->n_slots];
		slot->state = SLOT_TAKEN;
		pthread_mutex_unlock(&gzip->lock);
		r = ready == Z_OK ? pack(slot, &stream, gzip->most_packed) : -ENOMEM;
		pthread_mutex_lock(&gzip->lock);
		slot->failed = r;
		slot->state = SLOT_DONE;
		pthread_cond_signal(&gzip->done);
	}
	pthread_mutex_unlock(&gzip->lock);
	if (ready == Z_OK)
		deflateEnd(&stream);
	return NULL;
}

/* errno is not set by every short write. */
static int write_bytes(FILE *file, const void *bytes, size_t size)
{
	errno = 0;
	if (fwrite(bytes, 1, size, file) == size)
		return 0;
	return errno ? -errno : -EIO;
}

/* Writes the oldest block; the lock is held, and given away meanwhile. */
static void write_oldest(struct gzip_out *gzip)
{
	struct slot *slot = &gzip->slots[gzip->next_out % gzip->n_slots];
	int r;

	while (slot->state != SLOT_DONE)
		pthread_cond_wait(&gzip->done, &gzip->lock);
	pthread_mutex_unlock(&gzip->lock);
	r = slot->failed;
	if (r == 0 && gzip->failed == 0)
		r = write_bytes(gzip->file, slot->packed, slot->n_packed);
	gzip->failed = gzip->failed ? gzip->failed : r;
	gzip->crc = crc32_combine(gzip->crc, slot->crc, (z_off_t)slot->n_plain);
	gzip->bytes += slot->n_plain;
	pthread_mutex_lock(&gzip->lock);
	slot->state = SLOT_FREE;
	gzip->next_out++;
}

int gzip_out_write(struct gzip_out *gzip, const void *bytes, size_t size)
{
	struct slot *slot;

	if (!size || gzip->failed)
		return gzip->failed;
	pthread_mutex_lock(&gzip->lock);
	slot = &gzip->slots[gzip->next_in % gzip->n_slots];
	while (slot->state != SLOT_FREE)
		write_oldest(gzip);
	memcpy(slot->plain, bytes, size);
	slot->n_plain = size;
	slot->state = SLOT_FILLED;
	gzip->next_in++;
	pthread_cond_signal(&gzip->filled);
	/* What is ready goes out at once, so that the writing is spread over the time. */
	while (gzip->next_out < gzip->next_in &&
	       gzip->slots[gzip->next_out % gzip->n_slots].state == SLOT_DONE)
		write_oldest(gzip);
	pthread_mutex_unlock(&gzip->lock);
	return gzip->failed;
}

int gzip_out_finish(struct gzip_out *gzip)
{
	/* An empty last block, the checksum and the length, both little-endian. */
	unsigned char end[10] = { 3, 0 };

	pthread_mutex_lock(&gzip->lock);
	while (gzip->next_out < gzip->next_in)
		write_oldest(gzip);
	pthread_mutex_unlock(&gzip->lock);
	for (int i = 0; i < 4; i++) {
		end[2 + i] = (unsigned char)(gzip->crc >> 8 * i);
		end[6 + i] = (unsigned char)(gzip->bytes >> 8 * i);
	}
	if (gzip->failed == 0)
		gzip->failed = write_bytes(gzip->file, end, sizeof(end));
	return gzip->failed;
}

static int make_slots(struct gzip_out *gzip, unsigned int workers)
{
	gzip->n_slots = workers * 2;
	gzip->most_packed = compressBound(GZIP_BLOCK) + 64;
	for (unsigned int i = 0; i < gzip->n_slots; i++) {
		gzip->slots[i].plain = malloc(GZIP_BLOCK);
		gzip->slots[i].packed = malloc(gzip->most_packed);
		if (!gzip->slots[i].plain || !gzip->slots[i].packed)
			return -ENOMEM;
	}
	return 0;
}

int gzip_out_new(FILE *file, struct gzip_out **ret_gzip)
{
	/* Deflate, no time, no name, fastest, Unix. */
	static const unsigned char head[10] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 3 };
	struct gzip_out *gzip = calloc(1, sizeof(*gzip));
	unsigned int workers = parallel_workers(PARALLEL_MOST);
	int r;

	if (!gzip)
		return -ENOMEM;
	gzip->file = file;
	gzip->crc = crc32(0, NULL, 0);
	pthread_mutex_init(&gzip->lock, NULL);
	pthread_cond_init(&gzip->filled, NULL);
	pthread_cond_init(&gzip->done, NULL);
	r = make_slots(gzip, workers);
	for (unsigned int i = 0; r == 0 && i < workers; i++) {
		r = -pthread_create(&gzip->threads[i], NULL, pack_slots, gzip);
		if (r == 0)
			gzip->n_threads++;
		else if (gzip->n_threads)
			break; /* fewer do it, too */
	}
	if (gzip->n_threads)
		r = write_bytes(file, head, sizeof(head));
	if (r < 0) {
		gzip_out_free(gzip);
		return r;
	}
	*ret_gzip = gzip;
	return 0;
}

void gzip_out_free(struct gzip_out *gzip)
{
	if (!gzip)
		return;
	pthread_mutex_lock(&gzip->lock);
	gzip->stop = true;
	pthread_cond_broadcast(&gzip->filled);
	pthread_mutex_unlock(&gzip->lock);
	for (unsigned int i = 0; i < gzip->n_threads; i++)
		pthread_join(gzip->threads[i], NULL);
	for (unsigned int i = 0; i < SLOTS; i++) {
		free(gzip->slots[i].plain);
		free(gzip->slots[i].packed);
	}
	pthread_cond_destroy(&gzip->filled);
	pthread_cond_destroy(&gzip->done);
	pthread_mutex_destroy(&gzip->lock);
	free(gzip);
}
