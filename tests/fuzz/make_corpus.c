/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the seeds of fuzz_shard: make-corpus DIRECTORY. Small shards with rows of every kind,
 * as inputs of that target (a mode byte in front; most without the header page). To be run again
 * when the format grows:
 *   cc -D_GNU_SOURCE -Isrc -Iinclude tests/fuzz/make_corpus.c \
 *      $(find src/base -name "*.c") src/trace/[a-z]*.c \
 *      -lzstd -lm -lpthread -o make-corpus && ./make-corpus tests/fuzz/corpus/shard
 */
#include <stdio.h>
#include <unistd.h>

#include "../unit/trace_rows.h"
#include "trace/drain.h"
#include "trace/shard.h"

static void write_seed(const char *directory, const char *name, int mode, const char *data,
		       size_t size)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	f = fopen(path, "wb");
	if (!f) {
		perror(path);
		exit(1);
	}
	putc(mode, f);
	fwrite(data, 1, size, f);
	fclose(f);
}

/* One shard: dictionaries, then `rows` of each kind in kinds. Returns its bytes. */
static size_t make_shard(const char *directory, uint64_t kinds, int rows, int close, char *to,
			 size_t room)
{
	struct drain_positions positions = { .n = 2 };
	struct rng rng = { kinds * 31 + (uint64_t)rows };
	struct shard_writer *writer;
	struct encoder encoder;
	struct random_row row;
	char path[512];
	size_t size;
	FILE *f;

	snprintf(path, sizeof(path), "%s/shard.tmp", directory);
	unlink(path);
	encoder_init(&encoder, 1, 1, 0);
	if (shard_create(path, 0, 0, &writer, NULL) < 0 || append_dictionaries(&encoder, 3) < 0)
		exit(1);
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
		for (int i = 0; kinds >> k & 1 && i < rows; i++) {
			random_row(&rng, k, 3, &row);
			encoder_append(&encoder, (enum record_kind)k, &row.row);
		}
	}
	if (encoder_finish(&encoder) < 0 || drain_checkpoint(&encoder, &positions) < 0 ||
	    shard_write(writer, &encoder) < 0)
		exit(1);
	if (close)
		shard_close(writer, &encoder);
	else
		shard_abandon(writer);
	encoder_release(&encoder);
	f = fopen(path, "rb");
	size = f ? fread(to, 1, room, f) : 0;
	if (f)
		fclose(f);
	unlink(path);
	return size;
}

int main(int argc, char **argv)
{
	static char bytes[1 << 20];
	char name[64];
	size_t size;

	if (argc != 2) {
		fprintf(stderr, "usage: make-corpus DIRECTORY\n");
		return 2;
	}
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
		size = make_shard(argv[1], UINT64_C(1) << k, 3, 0, bytes, sizeof(bytes));
		snprintf(name, sizeof(name), "%s", kind_desc(k)->name);
		write_seed(argv[1], name, 3, bytes + SHARD_HEADER_BYTES, size - SHARD_HEADER_BYTES);
	}
	size = make_shard(argv[1], UINT64_C(1) << RECORD_RANGE, 60, 1, bytes, sizeof(bytes));
	write_seed(argv[1], "closed", 0, bytes, size);
	size = make_shard(argv[1], UINT64_C(1) << RECORD_ROUTING, 50, 1, bytes, sizeof(bytes));
	write_seed(argv[1], "closed-chunks", 7, bytes + SHARD_HEADER_BYTES,
		   size - SHARD_HEADER_BYTES);
	return 0;
}
