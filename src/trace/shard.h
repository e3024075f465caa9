/* SPDX-License-Identifier: Apache-2.0
 *
 * A shard file: written by one owner, read by anyone, at any time.
 */
#ifndef TRACE_SHARD_H
#define TRACE_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/boot.h"
#include "base/err.h"
#include "base/files/held.h"
#include "trace/encoder.h"
#include "trace/format.h"

/* ---- writing */

struct shard_writer {
	struct held_file file;
	uint64_t offset;	    /* after the last whole flush */
	struct shard_header header; /* its counters may be set at any time */
	struct buf index;	    /* struct index_entry */
};

/* Creates the file (which must not exist). start_ticks is 0 if there are none. */
int shard_create(const char *path, uint32_t rank, uint64_t start_ticks,
		 struct shard_writer **ret_writer, struct err *err);
/* The same for records that another process made, at another time. */
struct shard_origin {
	uint32_t rank, pid;
	int64_t monotonic_ns, realtime_ns, shift_ns; /* as in struct shard_header */
	uint64_t start_ticks;
	struct boot boot;
};
int shard_create_from(const char *path, const struct shard_origin *origin,
		      struct shard_writer **ret_writer, struct err *err);
/* Continues after the last whole chunk of an existing shard that nobody writes. */
int shard_append(const char *path, uint64_t offset, struct shard_writer **ret_writer,
		 struct err *err);
/* Writes encoder->out and commits it, or leaves the file as it was and rolls back. */
int shard_write(struct shard_writer *writer, struct encoder *encoder);
/* Writes the counters of the header; shard_write and shard_close do so too. */
int shard_publish(struct shard_writer *writer);
/* Index, trailer, `closed`. Always frees the writer; -errno if the close is not clean on disk (the
 * file is still readable). */
int shard_close(struct shard_writer *writer, struct encoder *encoder);
/* Frees without closing the shard: it reads as crashed. */
void shard_abandon(struct shard_writer *writer);
/* In a forked child, where malloc may be locked forever: drops everything, frees nothing. */
void shard_forget(struct shard_writer *writer);

/* ---- reading: untrusted input, every length is checked */

struct chunk {
	struct chunk_header header;
	uint64_t offset; /* of the header in the file, or in the salvaged part */
	bool salvaged;	 /* is in shard_reader.salvage */
};

struct shard_reader {
	int fd; /* -1: parked */
	char *path;
	struct shard_header header; /* as of the last refresh */
	struct chunk *chunks;	    /* while its process lives, those covered by a checkpoint */
	size_t n_chunks, capacity;
	size_t forgotten; /* chunks that were here before these */
	uint64_t scanned; /* file offset after the last chunk examined */
	uint64_t file_bytes;
	bool alive;	/* its process is recording */
	bool has_rings; /* its process was killed and its buffers are still next to it */
	bool finished;	/* nothing more will come */
	uint64_t corrupt_chunks, cut_bytes;
	struct err trouble; /* not empty: why something could not be read */
	/* The last checkpoint: what it covers, and where the file continues after it. */
	size_t covered_chunks;
	uint64_t covered_bytes;
	uint64_t checkpoint_offset; /* 0: none */
	/* Taken from the buffers of a killed process. */
	struct buf salvage;
	uint64_t salvaged_records, salvaged_unfinished;
	uint64_t salvaged_dropped[DROP_SLOTS];
};

/* What decoding a chunk needs; initially all zero. One per decoding thread. */
struct shard_scratch {
	struct codec codec;
	struct buf payload, values, durations;
};
void shard_scratch_release(struct shard_scratch *scratch);

/* Opens and scans. -EPROTONOSUPPORT for a newer major version, -EBADMSG for a foreign file. */
int shard_open(const char *path, struct shard_reader **ret_reader, struct err *err);
void shard_reader_free(struct shard_reader *reader);
/* Closes the descriptor until the next shard_wake: a run may have more shards than a process may
 * have open files. */
void shard_park(struct shard_reader *reader);
/* Reopens a parked shard, for reading chunks. -ESTALE: it is now a different file. */
int shard_wake(struct shard_reader *reader, struct err *err);
/* Looks for added chunks; if the process has gone, salvages its buffers. The shard must be awake,
 * unless it is finished. */
int shard_refresh(struct shard_reader *reader, struct err *err);
/* Drops the list of the chunks found so far, so that it does not grow with the file; what is found later
 * is as if there were no other. */
void shard_forget_chunks(struct shard_reader *reader);
/* The boot that the shard was recorded in; all zero: unknown. */
struct boot shard_boot(const struct shard_header *header);
/* Path of the buffer file of a shard ("….mst" to "….ring"); NULL without memory. Caller frees. */
char *shard_ring_path(const char *shard_path);

/* Reads and checks the payload of a chunk and lays out its columns; `ret_views` has room for
 * CHUNK_MAX_COLUMNS, *ret_n are filled. Valid until the next call with that scratch. Several
 * threads may do so at once. -EBADMSG: damaged. */
int shard_chunk_columns(const struct shard_reader *reader, struct shard_scratch *scratch,
			const struct chunk *chunk, struct column_view *ret_views,
			unsigned int *ret_n);
/* Decodes a column of the last chunk laid out into 64-bit values (the caller may change them; valid
 * until the next call). `views`: all of the chunk's columns, because a start time needs its
 * durations. */
int shard_decode(struct shard_scratch *scratch, const struct column_view *views, unsigned int n,
		 unsigned int column, uint64_t **ret_values);

/* Moves what a dead process left in its buffers into the shard permanently and removes the buffers.
 * 1: sealed, 0: nothing to do, -errno: unchanged, still readable. */
int shard_seal(const char *path, struct err *err);

#endif
