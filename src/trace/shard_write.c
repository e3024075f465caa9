/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a shard. Only on the drain thread (or an importer's); nothing here runs on a thread of
 * the profiled program. A write either adds whole chunks or changes nothing that a reader sees.
 */
#include "trace/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"

static void writer_free(struct shard_writer *writer)
{
	held_close(&writer->file);
	buf_release(&writer->index);
	free(writer);
}

static int write_header(struct shard_writer *writer, const struct shard_origin *origin)
{
	struct shard_header *header = &writer->header;
	char page[SHARD_HEADER_BYTES] = { 0 };

	memcpy(header->magic, SHARD_MAGIC, sizeof(header->magic));
	header->major = SHARD_MAJOR;
	header->minor = SHARD_MINOR;
	header->header_bytes = SHARD_HEADER_BYTES;
	header->pid = origin->pid;
	header->rank = origin->rank;
	header->monotonic_ns = origin->monotonic_ns;
	header->realtime_ns = origin->realtime_ns;
	header->start_ticks = origin->start_ticks;
	header->shift_ns = origin->shift_ns;
	header->crc = crc32c(0, header, offsetof(struct shard_header, crc));
	memcpy(header->boot_id, origin->boot.id, sizeof(header->boot_id));
	header->boot_offset_ns = origin->boot.offset_ns;
	header->boot_crc = crc32c(0, (const char *)header + offsetof(struct shard_header, boot_id),
				  SHARD_BOOT_BYTES);
	header->live.alive_ns = header->monotonic_ns;
	header->live.file_bytes = SHARD_HEADER_BYTES;
	memcpy(page, header, sizeof(*header));
	return held_write(&writer->file, page, sizeof(page), 0);
}

int shard_create(const char *path, uint32_t rank, uint64_t start_ticks,
		 struct shard_writer **ret_writer, struct err *err)
{
	struct shard_origin origin = { .rank = rank,
				       .pid = (uint32_t)getpid(),
				       .monotonic_ns = clock_monotonic_ns(),
				       .realtime_ns = clock_realtime_ns(),
				       .start_ticks = start_ticks };

	boot_read(&origin.boot);
	return shard_create_from(path, &origin, ret_writer, err);
}

int shard_create_from(const char *path, const struct shard_origin *origin,
		      struct shard_writer **ret_writer, struct err *err)
{
	struct shard_writer *writer = calloc(1, sizeof(*writer));
	int r;

	if (!writer)
		return err_sys(err, -ENOMEM, "%s: cannot create", path);
	r = held_open(&writer->file, path, O_RDWR | O_CREAT | O_EXCL, 0644);
	if (r < 0) {
		free(writer);
		return err_sys(err, r, "%s: cannot create", path);
	}
	r = write_header(writer, origin);
	if (r < 0) {
		r = err_sys(err, r, "%s: cannot write", path);
		unlink(path);
		writer_free(writer);
		return r;
	}
	writer->offset = SHARD_HEADER_BYTES;
	*ret_writer = writer;
	return 0;
}

int shard_append(const char *path, uint64_t offset, struct shard_writer **ret_writer,
		 struct err *err)
{
	struct shard_writer *writer = calloc(1, sizeof(*writer));
	ssize_t n;
	int r;

	if (!writer)
		return err_sys(err, -ENOMEM, "%s: cannot append", path);
	r = held_open(&writer->file, path, O_RDWR, 0);
	if (r < 0) {
		free(writer);
		return err_sys(err, r, "%s: cannot open", path);
	}
	n = pread(writer->file.fd, &writer->header, sizeof(writer->header), 0);
	if (n != (ssize_t)sizeof(writer->header)) {
		r = err_sys(err, n < 0 ? -errno : -EBADMSG, "%s: cannot append", path);
		writer_free(writer);
		return r;
	}
	writer->file.bytes = offset;
	writer->offset = offset;
	*ret_writer = writer;
	return 0;
}

/* Index entries of the chunks in `out`, which are ours and therefore whole. */
static void index_chunks(struct shard_writer *writer, const struct buf *out)
{
	size_t at = 0;

	while (at + sizeof(struct chunk_header) <= out->size) {
		struct chunk_header header;
		struct index_entry entry = { .offset = writer->offset + at };

		memcpy(&header, out->data + at, sizeof(header));
		entry.kind = header.kind;
		entry.n_records = header.n_records;
		entry.payload_bytes = header.payload_bytes;
		entry.time_min_ns = header.time_min_ns;
		entry.time_max_ns = header.time_max_ns;
		buf_append(&writer->index, &entry, sizeof(entry));
		at += sizeof(header) + header.payload_bytes;
	}
}

int shard_publish(struct shard_writer *writer)
{
	return held_write(&writer->file, &writer->header.live, sizeof(writer->header.live),
			  offsetof(struct shard_header, live));
}

int shard_write(struct shard_writer *writer, struct encoder *encoder)
{
	int r = held_write(&writer->file, encoder->out.data, encoder->out.size, writer->offset);

	if (r < 0) {
		atomic_fetch_add(&writer->header.live.write_errors, 1);
		/* A half-written chunk does not exist for a reader; without this it would count as
		 * a cut file. If even this fails, the checksum still shows it. */
		held_truncate(&writer->file, writer->offset);
		encoder_rollback(encoder);
	} else {
		index_chunks(writer, &encoder->out);
		writer->offset += encoder->out.size;
		atomic_store(&writer->header.live.file_bytes, writer->offset);
		encoder_commit(encoder);
	}
	/* Counters that cannot be written now are written with the next flush. */
	shard_publish(writer);
	return r;
}

static int write_index(struct shard_writer *writer, struct encoder *encoder)
{
	struct shard_trailer trailer = { .index_offset = writer->offset, .magic = TRAILER_MAGIC };
	int r;

	/* An index that could not be kept in memory is left out: readers scan. */
	if (writer->index.failed)
		return 0;
	encoder->out.size = 0;
	r = encoder_raw_chunk(encoder, CHUNK_INDEX, writer->index.data, writer->index.size,
			      (uint32_t)(writer->index.size / sizeof(struct index_entry)));
	if (r < 0)
		return r;
	trailer.crc = crc32c(0, &trailer, offsetof(struct shard_trailer, crc));
	buf_append(&encoder->out, &trailer, sizeof(trailer));
	if (encoder->out.failed)
		return -ENOMEM;
	r = held_write(&writer->file, encoder->out.data, encoder->out.size, writer->offset);
	if (r == 0)
		atomic_store(&writer->header.live.file_bytes, writer->offset + encoder->out.size);
	return r;
}

int shard_close(struct shard_writer *writer, struct encoder *encoder)
{
	int r = write_index(writer, encoder), published;

	if (r < 0)
		held_truncate(&writer->file, writer->offset);
	atomic_store(&writer->header.live.closed, SHARD_CLEAN);
	published = shard_publish(writer);
	writer_free(writer);
	return r < 0 ? r : published;
}

void shard_abandon(struct shard_writer *writer)
{
	if (writer)
		writer_free(writer);
}

void shard_forget(struct shard_writer *writer)
{
	held_close(&writer->file);
}
