/* SPDX-License-Identifier: Apache-2.0
 *
 * One column of a chunk, to bytes and back: a transform makes the numbers small, the numbers are
 * split into byte planes, and each plane is compressed separately (planes differ in kind: low bytes
 * of a duration are noise, high ones nearly constant). No shared state; one owner per struct codec.
 */
#ifndef TRACE_CODEC_H
#define TRACE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "trace/format.h"
#include "trace/records.h"

#define CODEC_COLUMNS 32

struct codec {
	struct ZSTD_CCtx_s *compress;
	struct ZSTD_DCtx_s *decompress;
	struct buf plane;
	/* Planes that recently did not shrink, by column id; kinds share it, at the cost of a
	 * wasted try. */
	uint8_t skip[CODEC_COLUMNS][8];
};

void codec_release(struct codec *codec);

/* Encodes n values (zero-extended, sign-extended or bits of a double). duration: for CODING_START,
 * the durations of the same rows. `values` is used as scratch and destroyed. The column entry and
 * its plane entries go to `entries`, the planes to `data`. 0 or -ENOMEM. */
int codec_encode(struct codec *codec, const struct column_desc *column, uint64_t *values,
		 const uint64_t *duration, size_t n, struct buf *entries, struct buf *data);

/* A column as stored in a chunk, lengths already checked against the payload. */
struct column_view {
	struct column_entry entry;
	const uint8_t *planes; /* the plane entries, unaligned */
	const uint8_t *data;   /* the first plane's bytes */
	size_t stored_bytes;   /* of all planes */
};

/* Decodes into values[entry.n_values]; duration as above. 0, -EBADMSG on damage, -ENOMEM. */
int codec_decode(struct codec *codec, const struct column_view *view, const uint64_t *duration,
		 uint64_t *values);

/* Narrow n 64-bit values to a table's or row's type, and widen them from strided rows. */
void column_narrow(enum column_type type, const uint64_t *values, size_t n, void *to);
void column_gather(enum column_type type, const char *rows, size_t stride, size_t n, uint64_t *to);

#endif
