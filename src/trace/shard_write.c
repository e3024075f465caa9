/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a shard. The drain thread's (or an importer's) alone; nothing here runs on a thread of
 * the program under the profiler. A write either adds whole chunks or changes nothing that a
 * reader sees.
 */
#include "trace/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"

static int write_at(int fd, const void *data, size_t bytes, uint64_t offset)
{
	const char *p = data;

	while (bytes) {
		ssize_t n = pwrite(fd, p, bytes, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		p += n;
		bytes -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/* The counters are kept current in the file itself; where it cannot be mapped, in a copy that is
 * written at close. */
static void map_header(struct shard_writer *writer)
{
	void *at = mmap(NULL, SHARD_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, writer->fd,
			0);

	if (at != MAP_FAILED) {
		writer->header = at;
		writer->header_is_mapped = true;
		return;
	}
	writer->header = calloc(1, SHARD_HEADER_BYTES);
	if (writer->header && pread(writer->fd, writer->header, SHARD_HEADER_BYTES, 0) < 0)
		memset(writer->header, 0, SHARD_HEADER_BYTES);
}

static void writer_free(struct shard_writer *writer)
{
	if (writer->header_is_mapped)
		munmap(writer->header, SHARD_HEADER_BYTES);
	else
		free(writer->header);
	if (writer->fd >= 0)
		close(writer->fd);
	buf_release(&writer->index);
	free(writer);
}

static int write_header(int fd, const struct shard_origin *origin)
{
	union {
		struct shard_header header;
		char page[SHARD_HEADER_BYTES];
	} first;

	memset(&first, 0, sizeof(first));
	memcpy(first.header.magic, SHARD_MAGIC, sizeof(first.header.magic));
	first.header.major = SHARD_MAJOR;
	first.header.minor = SHARD_MINOR;
	first.header.header_bytes = SHARD_HEADER_BYTES;
	first.header.pid = origin->pid;
	first.header.rank = origin->rank;
	first.header.monotonic_ns = origin->monotonic_ns;
	first.header.realtime_ns = origin->realtime_ns;
	first.header.start_ticks = origin->start_ticks;
	first.header.shift_ns = origin->shift_ns;
	first.header.crc = crc32c(0, &first.header, offsetof(struct shard_header, crc));
	memcpy(first.header.boot_id, origin->boot.id, sizeof(first.header.boot_id));
	first.header.boot_offset_ns = origin->boot.offset_ns;
	first.header.boot_crc = crc32c(0, first.page + offsetof(struct shard_header, boot_id),
				       SHARD_BOOT_BYTES);
	first.header.live.alive_ns = first.header.monotonic_ns;
	first.header.live.file_bytes = SHARD_HEADER_BYTES;
	return write_at(fd, &first, sizeof(first), 0);
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
	writer->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (writer->fd < 0) {
		r = err_sys(err, -errno, "%s: cannot create", path);
		writer_free(writer);
		return r;
	}
	r = write_header(writer->fd, origin);
	if (r == 0)
		map_header(writer);
	if (r < 0 || !writer->header) {
		r = err_sys(err, r < 0 ? r : -ENOMEM, "%s: cannot write", path);
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
	int r;

	if (!writer)
		return err_sys(err, -ENOMEM, "%s: cannot append", path);
	writer->fd = open(path, O_RDWR | O_CLOEXEC);
	if (writer->fd < 0) {
		r = err_sys(err, -errno, "%s: cannot open", path);
		free(writer);
		return r;
	}
	map_header(writer);
	if (!writer->header) {
		writer_free(writer);
		return err_sys(err, -ENOMEM, "%s: cannot append", path);
	}
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

int shard_write(struct shard_writer *writer, struct encoder *encoder)
{
	int r = write_at(writer->fd, encoder->out.data, encoder->out.size, writer->offset);

	if (r < 0) {
		atomic_fetch_add(&writer->header->live.write_errors, 1);
		/* A half-written chunk is not there for a reader; without this it would count as
		 * a cut file. When even this fails, the checksum still says so. */
		if (ftruncate(writer->fd, (off_t)writer->offset) < 0)
			r = r < 0 ? r : -errno;
		encoder_rollback(encoder);
		return r;
	}
	index_chunks(writer, &encoder->out);
	writer->offset += encoder->out.size;
	atomic_store(&writer->header->live.file_bytes, writer->offset);
	encoder_commit(encoder);
	return 0;
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
	r = write_at(writer->fd, encoder->out.data, encoder->out.size, writer->offset);
	if (r == 0)
		atomic_store(&writer->header->live.file_bytes, writer->offset + encoder->out.size);
	return r;
}

int shard_close(struct shard_writer *writer, struct encoder *encoder)
{
	int r = write_index(writer, encoder);

	if (r < 0 && ftruncate(writer->fd, (off_t)writer->offset) < 0)
		r = -errno;
	atomic_store(&writer->header->live.closed, SHARD_CLEAN);
	if (!writer->header_is_mapped && r == 0)
		r = write_at(writer->fd, writer->header, sizeof(*writer->header), 0);
	writer_free(writer);
	return r;
}

void shard_forget(struct shard_writer *writer)
{
	if (writer->header_is_mapped)
		munmap(writer->header, SHARD_HEADER_BYTES);
	if (writer->fd >= 0)
		close(writer->fd);
	writer->fd = -1;
}

void shard_abandon(struct shard_writer *writer)
{
	if (writer)
		writer_free(writer);
}
