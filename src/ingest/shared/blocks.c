/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of a file; see blocks.h.
 */
#include "ingest/shared/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/input_file.h"
#include "ingest/shared/gunzip.h"
#include "ingest/shared/json_scan.h"

struct blocks {
	int fd;
	struct gunzip *gunzip; /* or NULL */
	size_t block_bytes;
	size_t (*cut)(const char *, size_t);
	struct block
		tail; /* of what was read, not given yet; its offset is that of the next block */
	bool at_end;
	const char *fault;
};

void block_release(struct block *block)
{
	free(block->data);
	*block = (struct block){ 0 };
}

int block_reserve(struct block *block, size_t size)
{
	char *data;

	if (size <= block->capacity && block->data)
		return 0;
	if (size > SIZE_MAX - SCAN_PAD)
		return -ENOMEM;
	data = realloc(block->data, size + SCAN_PAD);
	if (!data)
		return -ENOMEM;
	block->data = data;
	block->capacity = size;
	return 0;
}

void block_end(struct block *block, size_t size)
{
	block->size = size;
	memset(block->data + size, 0, SCAN_PAD);
}

int blocks_open(const char *path, bool gzip, size_t block_bytes,
		size_t (*cut)(const char *data, size_t size), struct blocks **ret_blocks,
		struct err *err)
{
	struct blocks *blocks = calloc(1, sizeof(*blocks));
	int r = 0;

	if (!blocks)
		return err_set(err, -ENOMEM, "%s: no memory left to read it", path);
	blocks->block_bytes = block_bytes;
	blocks->cut = cut;
	blocks->fd = input_open(path, err);
	if (blocks->fd < 0)
		r = blocks->fd;
	else if (gzip)
		r = gunzip_new(blocks->fd, &blocks->gunzip);
	if (r == -ENOTSUP)
		err_set(err, r,
			"%s is compressed, and this moescope was built without zlib: "
			"decompress it first (gzip -d)",
			path);
	else if (r == -ENOMEM)
		err_set(err, r, "%s: no memory left to read it", path);
	if (r < 0) {
		blocks_close(blocks);
		return r;
	}
	posix_fadvise(blocks->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* a hint; may fail */
	*ret_blocks = blocks;
	return 0;
}

void blocks_close(struct blocks *blocks)
{
	if (!blocks)
		return;
	gunzip_free(blocks->gunzip);
	if (blocks->fd >= 0)
		close(blocks->fd);
	block_release(&blocks->tail);
	free(blocks);
}

static ssize_t read_some(struct blocks *blocks, char *to, size_t size)
{
	ssize_t n;

	if (blocks->gunzip)
		return gunzip_read(blocks->gunzip, to, size);
	do {
		n = read(blocks->fd, to, size);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int blocks_next(struct blocks *blocks, struct block *block)
{
	size_t size = blocks->tail.size, want = blocks->block_bytes + size, keep;

	if (block_reserve(block, want) < 0)
		return -ENOMEM;
	if (size)
		memcpy(block->data, blocks->tail.data, size);
	blocks->tail.size = 0;
	block->offset = blocks->tail.offset;
	while (size < want && !blocks->at_end) {
		ssize_t n = read_some(blocks, block->data + size, want - size);

		if (n == -ENOMEM)
			return -ENOMEM;
		if (n < 0)
			blocks->fault = n == -EBADMSG
						? "the compressed data is damaged or ends here"
						: "the file could not be read on from here";
		if (n <= 0)
			blocks->at_end = true;
		else
			size += (size_t)n;
	}
	if (!size)
		return 0;
	keep = blocks->at_end ? size : blocks->cut(block->data, size);
	if (keep < size) {
		if (block_reserve(&blocks->tail, size - keep) < 0)
			return -ENOMEM;
		memcpy(blocks->tail.data, block->data + keep, size - keep);
		blocks->tail.size = size - keep;
	}
	blocks->tail.offset = block->offset + keep;
	block_end(block, keep);
	return 1;
}

const char *blocks_fault(const struct blocks *blocks, uint64_t *ret_offset)
{
	*ret_offset = blocks->tail.offset + blocks->tail.size;
	return blocks->fault;
}
