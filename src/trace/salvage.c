/* SPDX-License-Identifier: Apache-2.0
 *
 * Salvages the buffers of killed processes, for a reader (in memory) or permanently (seal).
 */
#include "trace/salvage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "trace/drain.h"

char *shard_ring_path(const char *shard_path)
{
	size_t length = strlen(shard_path);
	char *path = malloc(length + sizeof(".ring"));

	if (!path)
		return NULL;
	if (length > 4 && !strcmp(shard_path + length - 4, ".mst"))
		length -= 4;
	memcpy(path, shard_path, length);
	memcpy(path + length, ".ring", sizeof(".ring"));
	return path;
}

int salvage_state(const char *shard_path, struct rings **ret_rings, struct err *trouble)
{
	char *path = shard_ring_path(shard_path);
	int r;

	if (!path)
		return -ENOENT;
	if (access(path, F_OK) < 0)
		r = -ENOENT;
	else
		r = rings_open(path, ret_rings, trouble);
	free(path);
	return r == 0 || r == -EBUSY ? r : -ENOENT;
}

void salvage_close(struct rings *rings)
{
	rings_free(rings, false);
}

/* The positions in the last checkpoint; none: the start of everything. */
static int checkpoint_positions(struct shard_reader *reader, struct drain_positions *ret)
{
	struct checkpoint_entry entries[RING_REGIONS];
	struct chunk_header header;
	off_t at = (off_t)reader->checkpoint_offset;

	memset(ret, 0, sizeof(*ret));
	if (!at)
		return 0;
	if (pread(reader->fd, &header, sizeof(header), at) != sizeof(header) ||
	    header.payload_bytes > sizeof(entries) ||
	    pread(reader->fd, entries, header.payload_bytes, at + (off_t)sizeof(header)) !=
		    (ssize_t)header.payload_bytes ||
	    crc32c(0, entries, header.payload_bytes) != header.payload_crc)
		return -EBADMSG;
	for (size_t i = 0; i < header.payload_bytes / sizeof(entries[0]); i++)
		if (entries[i].ring < RING_REGIONS)
			ret->at[entries[i].ring] = entries[i].position;
	return 0;
}

/* Ids of a dictionary are dense: the next free one follows from the row counts. */
static uint32_t next_id(const struct shard_reader *reader, enum record_kind kind)
{
	uint32_t n = 1;

	for (size_t i = 0; i < reader->covered_chunks; i++)
		if (reader->chunks[i].header.kind == kind)
			n += reader->chunks[i].header.n_records;
	/* A skipped chunk may have had ids, which must not be reused. */
	return reader->corrupt_chunks ? n + (1u << 19) : n;
}

/* In a truncated file the last checkpoint is an old one, and what followed it in the rings has
 * since been returned to the producers. */
static void skip_reused(const struct rings *rings, struct drain_positions *from)
{
	for (uint32_t i = 0; i < rings->n_regions; i++) {
		struct ring_control *control = rings_control(rings, i);

		if (control && rings->regions[i].type == REGION_RING && control->tail > from->at[i])
			from->at[i] = control->tail;
	}
}

static void sum_drops(struct shard_reader *reader, const struct rings *rings)
{
	for (uint32_t i = 0; i < rings->n_regions; i++) {
		struct ring_control *control = rings_control(rings, i);

		if (!control || rings->regions[i].type != REGION_RING)
			continue;
		for (int d = 0; d < DROP_SLOTS; d++)
			reader->salvaged_dropped[d] += control->dropped[d];
	}
}

/* The last sign of life: the newest record, the drain's last look, the newest open range. */
static uint64_t last_ticks(const struct rings *rings, uint64_t newest_record)
{
	uint64_t last = rings->header->alive_ticks;

	last = newest_record > last ? newest_record : last;
	if (rings->header->step.open && rings->header->step.start_ticks > last)
		last = rings->header->step.start_ticks;
	for (uint32_t i = 0; i < rings->n_regions; i++) {
		struct ring_control *control = rings_control(rings, i);
		uint32_t depth;

		if (!control || rings->regions[i].type != REGION_RING)
			continue;
		depth = control->depth;
		if (depth && depth <= RING_MAX_DEPTH &&
		    control->frames[depth - 1].start_ticks > last)
			last = control->frames[depth - 1].start_ticks;
	}
	return last;
}

int salvage(struct shard_reader *reader, struct rings *rings, struct err *trouble)
{
	const struct tick_map *map = &rings->header->maps[rings->header->map_current & 1];
	struct drain_positions from;
	struct drain_result result;
	struct encoder encoder;
	int r = checkpoint_positions(reader, &from);

	if (r < 0)
		return err_set(
			trouble, r,
			"%s: the checkpoint at byte %llu is damaged, so nothing can be taken "
			"from the buffers of the killed process",
			reader->path, (unsigned long long)reader->checkpoint_offset);
	skip_reused(rings, &from);
	encoder_init(&encoder, next_id(reader, RECORD_SITE), next_id(reader, RECORD_LAUNCH),
		     reader->covered_chunks);
	r = drain_collect(rings, map, &from, &encoder, &result);
	if (r == 0) {
		uint64_t before = encoder.rows;

		r = drain_unfinished(rings, map, last_ticks(rings, result.last_ticks), &encoder);
		reader->salvaged_unfinished = encoder.rows - before;
		reader->salvaged_records = before;
	}
	if (r == 0)
		r = encoder_finish(&encoder);
	if (r == 0) {
		reader->salvage = encoder.out;
		encoder.out = (struct buf){ 0 };
		sum_drops(reader, rings);
		if (result.damaged) {
			reader->corrupt_chunks += result.damaged;
			err_set(trouble, -EBADMSG,
				"%s: %llu of the killed process's buffers are damaged; what could be "
				"read of them is in the tables",
				rings->path, (unsigned long long)result.damaged);
		}
	}
	encoder_release(&encoder);
	return r;
}

/* Moves what the reader salvaged into the file. */
static int seal_file(struct shard_reader *reader, struct err *err)
{
	uint64_t offset = reader->covered_bytes ? reader->covered_bytes
						: reader->header.header_bytes;
	struct shard_writer *writer;
	struct encoder encoder;
	char *rings = shard_ring_path(reader->path);
	int r = rings ? shard_append(reader->path, offset, &writer, err) : -ENOMEM;

	if (r < 0)
		goto out;
	encoder_init(&encoder, 1, 1, 0);
	encoder.out = reader->salvage;
	reader->salvage = (struct buf){ 0 };
	r = shard_write(writer, &encoder);
	if (r == 0)
		r = held_truncate(&writer->file, writer->offset);
	if (r == 0) {
		/* The header also counts those that no ring counts. */
		for (int d = 0; d < DROP_SLOTS; d++)
			if (reader->salvaged_dropped[d] > writer->header.live.dropped[d])
				writer->header.live.dropped[d] = reader->salvaged_dropped[d];
		writer->header.live.unfinished += reader->salvaged_unfinished;
		writer->header.live.salvaged = reader->salvaged_records;
		writer->header.live.closed = SHARD_SEALED;
		r = shard_publish(writer);
	}
	if (r == 0) {
		unlink(rings);
	} else {
		err_sys(err, r, "%s: cannot write what was salvaged", reader->path);
	}
	encoder_release(&encoder);
	shard_abandon(writer);
out:
	free(rings);
	return r < 0 ? r : 1;
}

int shard_seal(const char *path, struct err *err)
{
	struct shard_reader *reader;
	int r = shard_open(path, &reader, err);

	if (r < 0)
		return r;
	r = reader->has_rings ? seal_file(reader, err) : 0;
	shard_reader_free(reader);
	return r;
}
