/* SPDX-License-Identifier: Apache-2.0
 *
 * The shard reader and the table loader on arbitrary bytes. The first byte of an input says how
 * the rest becomes a file, so that mutations reach behind the checksums:
 *   bit 0  checksums of header, chunks and trailer are made right
 *   bit 1  a valid header page is put in front (the input is then only chunks)
 *   bit 2  the header page says that the shard was closed in order, so that the index is used
 *   bit 3  kinds are counted only, no column is loaded
 *   bit 4  only the first column of each kind is loaded
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "fuzz.h"
#include "tables/load.h"
#include "tables/tables.h"
#include "trace/format.h"
#include "trace/shard.h"

#define FIX_CHECKSUMS 1u
#define WITH_HEADER 2u
#define CLOSED 4u
#define COUNT_ONLY 8u
#define ONE_COLUMN 16u

static void put_header(char *page)
{
	struct shard_header header;

	memset(&header, 0, sizeof(header));
	memcpy(header.magic, SHARD_MAGIC, sizeof(header.magic));
	header.major = SHARD_MAJOR;
	header.header_bytes = SHARD_HEADER_BYTES;
	header.pid = 1;
	memset(page, 0, SHARD_HEADER_BYTES);
	memcpy(page, &header, sizeof(header));
}

/* Walks the file as a reader would and makes every checksum right on the way. */
static void fix_checksums(char *file, size_t size)
{
	struct shard_header shard;
	struct shard_trailer trailer;
	size_t at;

	if (size < sizeof(shard))
		return;
	memcpy(&shard, file, sizeof(shard));
	shard.crc = crc32c(0, &shard, offsetof(struct shard_header, crc));
	memcpy(file, &shard, sizeof(shard));
	at = shard.header_bytes;
	while (at < size && size - at >= sizeof(struct chunk_header)) {
		struct chunk_header chunk;

		memcpy(&chunk, file + at, sizeof(chunk));
		if (chunk.magic != CHUNK_MAGIC) {
			at++;
			continue;
		}
		if (chunk.payload_bytes <= size - at - sizeof(chunk))
			chunk.payload_crc = crc32c(0, file + at + sizeof(chunk),
						   chunk.payload_bytes);
		chunk.header_crc = crc32c(0, &chunk, offsetof(struct chunk_header, header_crc));
		memcpy(file + at, &chunk, sizeof(chunk));
		at += sizeof(chunk);
		if (chunk.payload_bytes <= size - at)
			at += chunk.payload_bytes;
	}
	if (size < SHARD_HEADER_BYTES + sizeof(trailer))
		return;
	memcpy(&trailer, file + size - sizeof(trailer), sizeof(trailer));
	if (trailer.magic != TRAILER_MAGIC)
		return;
	trailer.crc = crc32c(0, &trailer, offsetof(struct shard_trailer, crc));
	memcpy(file + size - sizeof(trailer), &trailer, sizeof(trailer));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run_want want = { .kinds = WANT_ALL };
	unsigned int mode = size ? data[0] : 0;
	size_t front = mode & WITH_HEADER ? SHARD_HEADER_BYTES : 0, bytes;
	char path[64], *file;
	int fd;

	if (!size)
		return 0;
	bytes = front + size - 1;
	file = malloc(bytes + 1);
	fd = memfd_create("shard", MFD_CLOEXEC);
	if (!file || fd < 0)
		abort();
	if (front)
		put_header(file);
	memcpy(file + front, data + 1, size - 1);
	if (mode & CLOSED && bytes >= sizeof(struct shard_header)) {
		uint64_t closed = SHARD_CLEAN;

		memcpy(file + offsetof(struct shard_header, live.closed), &closed, sizeof(closed));
	}
	if (mode & FIX_CHECKSUMS)
		fix_checksums(file, bytes);
	if (write(fd, file, bytes) != (ssize_t)bytes)
		abort();
	if (mode & COUNT_ONLY)
		want.kinds = 0;
	for (int k = 0; mode & ONE_COLUMN && k < RECORD_KIND_LIMIT; k++)
		want.columns[k] = 1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fuzz_load(path, &want, NULL);
	close(fd);
	free(file);
	return 0;
}
