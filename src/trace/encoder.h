/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows in, chunks out, in memory: the half of writing that needs no file. One owner (the drain
 * thread, an importer, a salvaging reader).
 *
 * Use: append rows; encoder_finish turns everything pending into chunks in `out`; the caller writes
 * `out` and then calls encoder_commit, or encoder_rollback if the write failed, after which the
 * same rows may be appended again. Dictionary rows are kept until they are committed.
 */
#ifndef TRACE_ENCODER_H
#define TRACE_ENCODER_H

#include <stdint.h>

#include "base/buf.h"
#include "base/hash_map.h"
#include "trace/codec.h"
#include "trace/format.h"
#include "trace/records.h"

/* Rows and columns of a chunk together fit in a second-level cache. */
#define ENCODER_CHUNK_ROWS 8192

/* Rows gather in a block that stays in the first-level cache and is then turned into columns. */
#define ENCODER_BLOCK_ROWS 128

struct pending {
	const struct kind_desc *desc;
	char *block;	   /* ENCODER_BLOCK_ROWS rows; NULL until the first */
	uint64_t *columns; /* column c at columns + c * capacity; lists are separate */
	size_t capacity;
	uint32_t n, in_block; /* rows in the columns; rows in the block */
	uint32_t block_rows;  /* 0 until there is a block */
	struct buf lists[2];  /* 64-bit values; no kind has more list columns than this */
};

struct dictionary {
	struct buf rows;       /* every row made so far, id i + 1 at index i - first + 1 */
	struct hash_map map;   /* index + 1 into rows, by all but the id */
	uint32_t n, committed; /* rows made; of them safely written */
	uint32_t first;	       /* id of row 0 */
};

struct encoder {
	struct codec codec;
	struct pending pending[RECORD_KIND_LIMIT];
	struct dictionary sites, launches;
	struct buf out; /* finished chunks */
	struct buf entries, data;
	uint64_t next_sequence, committed_sequence;
	int64_t time_min_ns, time_max_ns; /* of all rows appended since the last commit */
	uint64_t rows;			  /* appended since the last commit */
};

/* first_site, first_launch: the first free ids (1 in a new shard). */
void encoder_init(struct encoder *encoder, uint32_t first_site, uint32_t first_launch,
		  uint64_t next_sequence);
void encoder_release(struct encoder *encoder);

/* `row` is a struct row_KIND; its lists are copied. 0 or -ENOMEM; all or nothing. */
int encoder_append(struct encoder *encoder, enum record_kind kind, const void *row);

/* The id of a site or launch configuration (its id field is ignored); 0 if out of memory. */
uint32_t encoder_site(struct encoder *encoder, const struct row_site *site);
uint32_t encoder_launch(struct encoder *encoder, const struct row_launch *launch);

int encoder_finish(struct encoder *encoder);
/* Appends a chunk without columns (checkpoint, index). */
int encoder_raw_chunk(struct encoder *encoder, uint16_t kind, const void *payload, size_t bytes,
		      uint32_t n_records);
/* Renumbers the chunks in `chunks`, made by any encoder, with the next numbers of this one. */
void encoder_adopt(struct encoder *encoder, struct buf *chunks);
void encoder_commit(struct encoder *encoder);
void encoder_rollback(struct encoder *encoder);

#endif
