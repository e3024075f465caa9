/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a shard: finding its chunks, with or without an index, in a file that may grow, end
 * anywhere, or be damaged anywhere. Untrusted input; one thread per reader, but several may decode
 * chunks at once, each with its own scratch. pread, not mmap: a file that shrinks under the reader
 * must be an error, not a SIGBUS.
 */
#include "trace/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/files/input_file.h"
#include "base/read_at.h"
#include "trace/salvage.h"

/* All of `bytes`, or -EBADMSG at the end of the file, or -errno. */
static int read_whole(const struct shard_reader *reader, void *to, size_t bytes, uint64_t offset)
{
	ssize_t n = read_at(reader->fd, to, bytes, offset);

	return n < 0 ? (int)n : (size_t)n < bytes ? -EBADMSG : 0;
}

static bool header_valid(const struct chunk_header *header)
{
	return header->magic == CHUNK_MAGIC &&
	       header->header_crc == crc32c(0, header, offsetof(struct chunk_header, header_crc)) &&
	       header->payload_bytes <= CHUNK_MAX_PAYLOAD &&
	       (header->kind >= CHUNK_CHECKPOINT || header->n_records <= CHUNK_MAX_RECORDS);
}

static int add_chunk(struct shard_reader *reader, const struct chunk_header *header,
		     uint64_t offset, bool salvaged)
{
	int r = array_grow(&reader->chunks, &reader->capacity, reader->n_chunks + 1,
			   sizeof(reader->chunks[0]));

	if (r < 0)
		return r;
	reader->chunks[reader->n_chunks++] =
		(struct chunk){ .header = *header, .offset = offset, .salvaged = salvaged };
	return 0;
}

/* The next offset at or after `offset` with a valid chunk header; file_bytes: none. */
static uint64_t find_header(struct shard_reader *reader, uint64_t offset)
{
	static const uint32_t magic = CHUNK_MAGIC;
	char block[64 << 10];

	while (offset + sizeof(struct chunk_header) <= reader->file_bytes) {
		uint64_t left = reader->file_bytes - offset;
		size_t bytes = left < sizeof(block) ? (size_t)left : sizeof(block);
		const char *p = block;

		if (read_whole(reader, block, bytes, offset) < 0)
			break;
		while ((p = memmem(p, bytes - (size_t)(p - block), &magic, sizeof(magic)))) {
			uint64_t at = offset + (uint64_t)(p - block);
			struct chunk_header header;

			if (read_whole(reader, &header, sizeof(header), at) == 0 &&
			    header_valid(&header))
				return at;
			p++;
		}
		/* A magic may straddle two blocks. */
		offset += bytes > sizeof(magic) ? bytes - (sizeof(magic) - 1) : bytes;
	}
	return reader->file_bytes;
}

static bool is_trailer(struct shard_reader *reader, uint64_t offset, struct shard_trailer *trailer)
{
	return reader->file_bytes - offset == sizeof(*trailer) &&
	       read_whole(reader, trailer, sizeof(*trailer), offset) == 0 &&
	       trailer->magic == TRAILER_MAGIC &&
	       trailer->crc == crc32c(0, trailer, offsetof(struct shard_trailer, crc));
}

static int take_chunk(struct shard_reader *reader, const struct chunk_header *header)
{
	uint64_t offset = reader->scanned;
	int r = 0;

	reader->scanned += sizeof(*header) + header->payload_bytes;
	if (header->kind == CHUNK_CHECKPOINT) {
		reader->covered_chunks = reader->n_chunks;
		reader->covered_bytes = reader->scanned;
		reader->checkpoint_offset = offset;
	} else if (header->kind != CHUNK_INDEX) {
		r = add_chunk(reader, header, offset, false);
	}
	return r;
}

/* Goes back to the last checkpoint. What follows it may have been replaced since: by a flush after
 * a failed one, or by salvaged data. */
static void rewind_scan(struct shard_reader *reader)
{
	reader->n_chunks = reader->covered_chunks;
	reader->scanned = reader->covered_bytes ? reader->covered_bytes
						: reader->header.header_bytes;
}

/* Goes on from where the last scan ended. What may still be being written is left for the next. */
static int scan_shard(struct shard_reader *reader, bool growing)
{
	reader->cut_bytes = 0;
	while (reader->scanned < reader->file_bytes) {
		uint64_t left = reader->file_bytes - reader->scanned, next;
		struct shard_trailer trailer;
		struct chunk_header header;
		int r;

		if (is_trailer(reader, reader->scanned, &trailer)) {
			reader->scanned = reader->file_bytes;
			break;
		}
		r = left < sizeof(header)
			    ? -EBADMSG
			    : read_whole(reader, &header, sizeof(header), reader->scanned);
		if (r < 0 && r != -EBADMSG)
			return r;
		if (r == 0 && header_valid(&header)) {
			if (header.payload_bytes <= left - sizeof(header)) {
				r = take_chunk(reader, &header);
				if (r < 0)
					return r;
				continue;
			}
			/* Cut, or a damaged length that still has a correct checksum. */
		}
		if (growing)
			return 0;
		next = find_header(reader, reader->scanned + 1);
		if (next == reader->file_bytes) {
			reader->cut_bytes = left;
			return 0;
		}
		reader->corrupt_chunks++;
		reader->scanned = next;
	}
	return 0;
}

/* Takes the chunk list from the index of a cleanly closed file. False: scan instead. */
static bool take_index(struct shard_reader *reader)
{
	struct shard_trailer trailer;
	struct chunk_header header;
	struct buf payload = { 0 };
	bool good = false;

	if (reader->file_bytes < SHARD_HEADER_BYTES + sizeof(trailer) ||
	    !is_trailer(reader, reader->file_bytes - sizeof(trailer), &trailer) ||
	    trailer.index_offset > reader->file_bytes ||
	    read_whole(reader, &header, sizeof(header), trailer.index_offset) < 0 ||
	    !header_valid(&header) || header.kind != CHUNK_INDEX ||
	    header.payload_bytes != (uint64_t)header.n_records * sizeof(struct index_entry) ||
	    !buf_reserve(&payload, header.payload_bytes + 1) || /* there may be no chunks */
	    read_whole(reader, payload.data, header.payload_bytes,
		       trailer.index_offset + sizeof(header)) < 0 ||
	    crc32c(0, payload.data, header.payload_bytes) != header.payload_crc)
		goto out;
	for (uint32_t i = 0; i < header.n_records; i++) {
		struct chunk_header chunk = { 0 };
		struct index_entry entry;

		memcpy(&entry, payload.data + i * sizeof(entry), sizeof(entry));
		chunk.kind = entry.kind;
		chunk.n_records = entry.n_records;
		chunk.payload_bytes = entry.payload_bytes;
		chunk.time_min_ns = entry.time_min_ns;
		chunk.time_max_ns = entry.time_max_ns;
		if (entry.kind >= CHUNK_CHECKPOINT)
			continue;
		if (entry.n_records > CHUNK_MAX_RECORDS || entry.offset > reader->file_bytes ||
		    add_chunk(reader, &chunk, entry.offset, false) < 0) {
			reader->n_chunks = 0;
			goto out;
		}
	}
	reader->scanned = reader->file_bytes;
	good = true;
out:
	buf_release(&payload);
	return good;
}

/* The chunks in the salvaged part, made by our own encoder. */
static int add_salvaged(struct shard_reader *reader)
{
	size_t at = 0;

	/* Chunks after the last checkpoint are in the rings too. */
	reader->n_chunks = reader->covered_chunks;
	while (at < reader->salvage.size) {
		struct chunk_header header;
		int r;

		memcpy(&header, reader->salvage.data + at, sizeof(header));
		r = add_chunk(reader, &header, at, true);
		if (r < 0)
			return r;
		at += sizeof(header) + header.payload_bytes;
	}
	return 0;
}

static int read_shard_header(struct shard_reader *reader, struct err *err)
{
	struct shard_header *header = &reader->header;
	int r = read_whole(reader, header, sizeof(*header), 0);

	if (r < 0 && r != -EBADMSG)
		return err_sys(err, r, "%s: cannot read", reader->path);
	if (r == -EBADMSG && reader->file_bytes >= sizeof(*header))
		return err_set(err, r, "%s: the file shrank while it was read", reader->path);
	if (r == -EBADMSG || memcmp(header->magic, SHARD_MAGIC, sizeof(header->magic)) != 0)
		return err_set(err, -EBADMSG,
			       "%s: not a moescope shard (no shard header at byte 0); give a run "
			       "directory made by 'moescope run'",
			       reader->path);
	if (header->major > SHARD_MAJOR)
		return err_set(err, -EPROTONOSUPPORT,
			       "%s: shard format %u.%u is newer than this moescope reads (%u.%u); "
			       "use the moescope version that made it, or a newer one",
			       reader->path, header->major, header->minor, SHARD_MAJOR,
			       SHARD_MINOR);
	if (header->crc != crc32c(0, header, offsetof(struct shard_header, crc)) ||
	    header->header_bytes < SHARD_HEADER_BYTES)
		return err_set(
			err, -EBADMSG,
			"%s: the shard header is damaged (checksum at byte %zu); restore the "
			"file from a copy",
			reader->path, offsetof(struct shard_header, crc));
	if (!time_is_sane(header->monotonic_ns) || !time_is_sane(header->realtime_ns) ||
	    !time_is_sane(header->shift_ns))
		return err_set(err, -EBADMSG,
			       "%s: the shard header is damaged (impossible times at byte %zu); "
			       "restore the file from a copy",
			       reader->path, offsetof(struct shard_header, monotonic_ns));
	return 0;
}

struct boot shard_boot(const struct shard_header *header)
{
	struct boot boot = { .offset_ns = 0 };

	if (header->boot_crc !=
		    crc32c(0, (const char *)header + offsetof(struct shard_header, boot_id),
			   SHARD_BOOT_BYTES) ||
	    !time_is_sane(header->boot_offset_ns))
		return boot;
	memcpy(boot.id, header->boot_id, sizeof(boot.id));
	boot.offset_ns = header->boot_offset_ns;
	return boot;
}

int shard_refresh(struct shard_reader *reader, struct err *err)
{
	struct stat st;
	struct rings *rings = NULL;
	int r, state;

	if (reader->finished)
		return 0;
	reader->trouble = (struct err){ 0 };
	/* First check whether the process lives: what it wrote before it ended is then in the
	 * file. */
	state = salvage_state(reader->path, &rings, &reader->trouble);
	if (fstat(reader->fd, &st) < 0) {
		r = err_sys(err, -errno, "%s: cannot stat", reader->path);
		goto out;
	}
	reader->file_bytes = (uint64_t)st.st_size;
	r = read_shard_header(reader, err);
	if (r < 0)
		goto out;
	reader->alive = state == -EBUSY;
	reader->has_rings = state == 0;
	rewind_scan(reader);
	if (reader->n_chunks || reader->forgotten || reader->header.live.closed != SHARD_CLEAN ||
	    !take_index(reader))
		r = scan_shard(reader, reader->alive);
	if (r < 0) {
		err_sys(err, r, "%s: cannot read", reader->path);
		goto out;
	}
	if (rings) {
		r = salvage(reader, rings, &reader->trouble);
		if (r == 0) {
			reader->cut_bytes = 0; /* a flush cut by the kill is in the buffers */
			r = add_salvaged(reader);
		} else if (r == -EBADMSG) {
			/* The file is still good for everything in it. */
			reader->corrupt_chunks++;
			reader->has_rings = false;
			r = 0;
		}
		if (r < 0)
			err_sys(err, r, "%s: cannot salvage the buffers", reader->path);
	}
	/* Not before their checkpoint is there: if the process were killed now, these rows would
	 * come from its buffers, in other chunks. */
	if (reader->alive)
		reader->n_chunks = reader->covered_chunks;
	/* A cut between two chunks leaves no other trace. */
	if (!reader->alive && reader->header.live.file_bytes > reader->file_bytes)
		reader->cut_bytes += reader->header.live.file_bytes - reader->file_bytes;
	/* A starting session creates its shard first and its buffers a moment later: in between, it
	 * has neither a chunk nor buffers that anyone holds. */
	reader->finished = !reader->alive &&
			   (reader->n_chunks || reader->forgotten || reader->has_rings ||
			    reader->header.live.closed != SHARD_OPEN);
out:
	salvage_close(rings);
	return r;
}

void shard_forget_chunks(struct shard_reader *reader)
{
	/* Of a live process every chunk is covered; of any other nothing more is looked for. */
	reader->forgotten += reader->n_chunks;
	reader->n_chunks = reader->covered_chunks = 0;
}

void shard_park(struct shard_reader *reader)
{
	if (reader->fd >= 0)
		close(reader->fd);
	reader->fd = -1;
}

int shard_wake(struct shard_reader *reader, struct err *err)
{
	const size_t fixed = offsetof(struct shard_header, live);
	struct shard_header header;
	int r;

	if (reader->fd >= 0)
		return 0;
	reader->fd = input_open(reader->path, err);
	if (reader->fd < 0)
		return reader->fd;
	/* The part that is written once. Inodes prove less: some file systems change them. */
	if (!reader->header.header_bytes)
		return 0;
	r = read_whole(reader, &header, fixed, 0);
	if (r == 0 && !memcmp(&header, &reader->header, fixed))
		return 0;
	shard_park(reader);
	return r < 0 && r != -EBADMSG
		       ? err_sys(err, r, "%s: cannot read", reader->path)
		       : err_set(err, -ESTALE, "%s: replaced by another file while it was read",
				 reader->path);
}

int shard_open(const char *path, struct shard_reader **ret_reader, struct err *err)
{
	struct shard_reader *reader = calloc(1, sizeof(*reader));
	int r;

	if (!reader)
		return err_sys(err, -ENOMEM, "%s: cannot open", path);
	reader->fd = -1;
	reader->path = strdup(path);
	r = reader->path ? shard_wake(reader, err) : err_sys(err, -ENOMEM, "%s: cannot open", path);
	if (r == 0)
		r = shard_refresh(reader, err);
	if (r < 0) {
		shard_reader_free(reader);
		return r;
	}
	*ret_reader = reader;
	return 0;
}

void shard_reader_free(struct shard_reader *reader)
{
	if (!reader)
		return;
	shard_park(reader);
	free(reader->path);
	free(reader->chunks);
	buf_release(&reader->salvage);
	free(reader);
}

void shard_scratch_release(struct shard_scratch *scratch)
{
	buf_release(&scratch->payload);
	buf_release(&scratch->values);
	buf_release(&scratch->durations);
	codec_release(&scratch->codec);
}

/* Loads the payload of a chunk, whose header must match the list. */
static int load_payload(const struct shard_reader *reader, struct shard_scratch *scratch,
			const struct chunk *chunk, struct chunk_header *header,
			const char **ret_payload)
{
	int r;

	if (chunk->salvaged) {
		memcpy(header, reader->salvage.data + chunk->offset, sizeof(*header));
		*ret_payload = reader->salvage.data + chunk->offset + sizeof(*header);
		return 0;
	}
	r = read_whole(reader, header, sizeof(*header), chunk->offset);
	if (r < 0)
		return r;
	if (!header_valid(header) || header->kind != chunk->header.kind ||
	    header->n_records != chunk->header.n_records)
		return -EBADMSG;
	scratch->payload.size = 0;
	if (!buf_reserve(&scratch->payload, header->payload_bytes + 1)) {
		scratch->payload.failed = false;
		return -ENOMEM;
	}
	r = read_whole(reader, scratch->payload.data, header->payload_bytes,
		       chunk->offset + sizeof(*header));
	if (r < 0)
		return r;
	*ret_payload = scratch->payload.data;
	return crc32c(0, scratch->payload.data, header->payload_bytes) == header->payload_crc
		       ? 0
		       : -EBADMSG;
}

/* One column entry with its planes at *at; the caller places the planes' bytes. */
static int view_entry(const char *payload, size_t bytes, size_t *at,
		      const struct chunk_header *header, struct column_view *view)
{
	size_t planes_bytes;

	if (bytes - *at < sizeof(view->entry))
		return -EBADMSG;
	memcpy(&view->entry, payload + *at, sizeof(view->entry));
	*at += sizeof(view->entry);
	planes_bytes = view->entry.width * sizeof(uint32_t);
	if (view->entry.width > 8 || bytes - *at < planes_bytes)
		return -EBADMSG;
	if (view->entry.coding == CODING_LIST || view->entry.coding == CODING_BYTES
		    ? view->entry.n_values > CHUNK_MAX_VALUES
		    : view->entry.n_values != header->n_records)
		return -EBADMSG;
	view->planes = (const uint8_t *)payload + *at;
	*at += planes_bytes;
	view->stored_bytes = 0;
	for (unsigned int p = 0; p < view->entry.width; p++) {
		uint32_t stored;

		memcpy(&stored, view->planes + p * sizeof(stored), sizeof(stored));
		view->stored_bytes += PLANE_BYTES(stored);
		if (!PLANE_BYTES(stored) && view->entry.n_values)
			return -EBADMSG;
	}
	return 0;
}

int shard_chunk_columns(const struct shard_reader *reader, struct shard_scratch *scratch,
			const struct chunk *chunk, struct column_view *ret_views,
			unsigned int *ret_n)
{
	struct chunk_header header;
	const char *payload;
	size_t at = 0;
	int r = load_payload(reader, scratch, chunk, &header, &payload);

	if (r < 0)
		return r;
	if (header.n_columns > CHUNK_MAX_COLUMNS)
		return -EBADMSG;
	for (unsigned int c = 0; c < header.n_columns; c++) {
		r = view_entry(payload, header.payload_bytes, &at, &header, &ret_views[c]);
		if (r < 0)
			return r;
	}
	for (unsigned int c = 0; c < header.n_columns; c++) {
		if (ret_views[c].stored_bytes > header.payload_bytes - at)
			return -EBADMSG;
		ret_views[c].data = (const uint8_t *)payload + at;
		at += ret_views[c].stored_bytes;
	}
	*ret_n = header.n_columns;
	return 0;
}

static uint64_t *room_for(struct buf *buf, size_t n)
{
	buf->size = 0;
	buf->failed = false;
	return buf_reserve(buf, (n + 1) * sizeof(uint64_t));
}

int shard_decode(struct shard_scratch *scratch, const struct column_view *views, unsigned int n,
		 unsigned int column, uint64_t **ret_values)
{
	const struct column_view *view = &views[column];
	uint64_t *values = room_for(&scratch->values, view->entry.n_values), *durations = NULL;
	int r;

	if (!values)
		return -ENOMEM;
	if (view->entry.coding == CODING_START) {
		unsigned int d = 0;

		while (d < n && views[d].entry.coding != CODING_DUR)
			d++;
		if (d == n)
			return -EBADMSG;
		durations = room_for(&scratch->durations, views[d].entry.n_values);
		if (!durations)
			return -ENOMEM;
		r = codec_decode(&scratch->codec, &views[d], NULL, durations);
		if (r < 0)
			return r;
	}
	r = codec_decode(&scratch->codec, view, durations, values);
	if (r < 0)
		return r;
	*ret_values = values;
	return 0;
}
