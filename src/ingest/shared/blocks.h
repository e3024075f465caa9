/* SPDX-License-Identifier: Apache-2.0
 *
 * A file, plain or gzip, as blocks of bytes, in order. Read, not mapped: a file that shrinks while it
 * is read is then short and no signal, and what was read once is not held. One thread at a time.
 */
#ifndef INGEST_BLOCKS_H
#define INGEST_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct blocks;

/* Storage is the caller's, and is used again by the next read into it. */
struct block {
	char *data; /* SCAN_PAD zero bytes follow it */
	size_t size, capacity;
	uint64_t offset; /* of its first byte in the (decompressed) file */
};

void block_release(struct block *block);
/* Room for `size` bytes and the zeros after them, which are written at block_end(). 0 or -ENOMEM. */
int block_reserve(struct block *block, size_t size);
void block_end(struct block *block, size_t size);

/* cut: how many of the first bytes should be the block; the rest begins the next one. */
int blocks_open(const char *path, bool gzip, size_t block_bytes,
		size_t (*cut)(const char *data, size_t size), struct blocks **ret_blocks,
		struct err *err);
void blocks_close(struct blocks *blocks);

/* 1: a block; 0: there are no more; -ENOMEM. */
int blocks_next(struct blocks *blocks, struct block *block);

/* Why reading ended before the end of the file, and where in it; NULL when it did not. */
const char *blocks_fault(const struct blocks *blocks, uint64_t *ret_offset);

#endif
