/* SPDX-License-Identifier: Apache-2.0
 *
 * The column codec; see codec.h. Pure computation on the caller's buffers.
 */
#include "trace/codec.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
/* For ZSTD_c_literalCompressionMode, which is not in the stable part of the interface. */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

/* Below this a zstd frame's own bytes eat the gain. */
#define PLANE_MIN_ZSTD 48

static uint64_t zigzag(uint64_t v)
{
	return v << 1 ^ (0 - (v >> 63));
}

static uint64_t unzigzag(uint64_t v)
{
	return v >> 1 ^ (0 - (v & 1));
}

void codec_release(struct codec *codec)
{
	ZSTD_freeCCtx(codec->compress);
	ZSTD_freeDCtx(codec->decompress);
	buf_release(&codec->plane);
	*codec = (struct codec){ 0 };
}

/* Replaces values by small unsigned numbers; returns the base that undoes it and, in *ret_all, the
 * bits that occur in any of them. */
static uint64_t transform_column(enum column_coding coding, uint64_t *values,
				 const uint64_t *duration, size_t n, uint64_t *ret_all)
{
	uint64_t base = values[0], previous = base, all = 0;

	switch (coding) {
	case CODING_DELTA:
		for (size_t i = 0; i < n; i++) {
			uint64_t v = values[i];

			all |= values[i] = zigzag(v - previous);
			previous = v;
		}
		break;
	case CODING_START:
		for (size_t i = 0; i < n; i++) {
			uint64_t v = values[i];

			all |= values[i] = zigzag(v - previous);
			previous = v + duration[i];
		}
		break;
	case CODING_FLOAT:
	case CODING_BYTES:
		base = 0;
		for (size_t i = 0; i < n; i++)
			all |= values[i];
		break;
	default:
		for (size_t i = 1; i < n; i++)
			base = (int64_t)values[i] < (int64_t)base ? values[i] : base;
		for (size_t i = 0; i < n; i++)
			all |= values[i] -= base;
	}
	*ret_all = all;
	return base;
}

static int restore_column(enum column_coding coding, uint64_t base, uint64_t *values,
			  const uint64_t *duration, size_t n)
{
	uint64_t previous = base;

	switch (coding) {
	case CODING_DELTA:
		for (size_t i = 0; i < n; i++)
			values[i] = previous += unzigzag(values[i]);
		return 0;
	case CODING_START:
		if (!duration)
			return -EBADMSG;
		for (size_t i = 0; i < n; i++) {
			values[i] = previous + unzigzag(values[i]);
			previous = values[i] + duration[i];
		}
		return 0;
	case CODING_PLAIN:
	case CODING_DUR:
	case CODING_FLOAT:
	case CODING_LIST:
	case CODING_BYTES:
		if (base)
			for (size_t i = 0; i < n; i++)
				values[i] += base;
		return 0;
	}
	return -EBADMSG;
}

#define CUT_BLOCK 512

/* Plane p of n values goes to planes + p * n. In blocks, so that the values are read once, and
 * through 32-bit halves, which vectorise where 64-bit shifts do not. */
static void planes_cut(const uint64_t *values, size_t n, unsigned int width, uint8_t *planes)
{
	uint32_t half[CUT_BLOCK];

	for (size_t from = 0; from < n; from += CUT_BLOCK) {
		size_t count = n - from < CUT_BLOCK ? n - from : CUT_BLOCK;

		for (unsigned int p = 0; p < width; p++) {
			uint8_t *plane = planes + p * n + from;

			if (p % 4 == 0)
				for (size_t i = 0; i < count; i++)
					half[i] = (uint32_t)(values[from + i] >> 8 * p);
			for (size_t i = 0; i < count; i++)
				plane[i] = (uint8_t)(half[i] >> 8 * (p % 4));
		}
	}
}

#define BYTE(p) ((uint64_t)planes[p][i] << 8 * (p))
#define JOIN(expression)                                                                           \
	do {                                                                                       \
		for (size_t i = 0; i < n; i++)                                                     \
			values[i] = expression;                                                    \
	} while (0)

static void planes_join(const uint8_t *const *planes, size_t n, unsigned int width,
			uint64_t *values)
{
	switch (width) {
	case 0:
		memset(values, 0, n * sizeof(values[0]));
		break;
	case 1:
		JOIN(BYTE(0));
		break;
	case 2:
		JOIN(BYTE(0) | BYTE(1));
		break;
	case 3:
		JOIN(BYTE(0) | BYTE(1) | BYTE(2));
		break;
	case 4:
		JOIN(BYTE(0) | BYTE(1) | BYTE(2) | BYTE(3));
		break;
	default:
		JOIN(BYTE(0) | BYTE(1) | BYTE(2) | BYTE(3) | BYTE(4));
		for (unsigned int p = 5; p < width; p++)
			JOIN(values[i] | BYTE(p));
		break;
	}
}

/* In branch-free blocks, which vectorise; most columns differ in the first one. */
static bool all_equal(const uint64_t *values, size_t n)
{
	const size_t block = 64;
	size_t i = 0;

	for (; i + block <= n; i += block) {
		uint64_t differ = 0;

		for (size_t j = 0; j < block; j++)
			differ |= values[i + j] ^ values[0];
		if (differ)
			return false;
	}
	for (; i < n; i++)
		if (values[i] != values[0])
			return false;
	return true;
}

/* `skip` belongs to a column's plane: after a plane that did not shrink, the next few are not
 * tried. */
static uint32_t plane_encode(struct codec *codec, const uint8_t *plane, size_t n, uint8_t *skip,
			     struct buf *data)
{
	const uint8_t skip_after_failure = 7;
	size_t bound, packed;
	void *to;

	if (n > 1 && plane[0] == plane[n - 1] && !memcmp(plane, plane + 1, n - 1)) {
		buf_append(data, plane, 1);
		return PLANE_ENTRY(PLANE_CONSTANT, 1u);
	}
	if (*skip) {
		--*skip;
	} else if (n >= PLANE_MIN_ZSTD) {
		bound = ZSTD_compressBound(n);
		to = buf_reserve(data, bound);
		if (!to)
			return 0;
		packed = ZSTD_compress2(codec->compress, to, bound, plane, n);
		if (!ZSTD_isError(packed) && packed < n) {
			data->size += packed;
			*skip = packed > n - n / 64 ? skip_after_failure : 0;
			return PLANE_ENTRY(PLANE_ZSTD, (uint32_t)packed);
		}
		*skip = skip_after_failure;
	}
	buf_append(data, plane, n);
	return PLANE_ENTRY(PLANE_RAW, (uint32_t)n);
}

/* Planes of times are noise: short matches in them take long to find and save nothing, but Huffman
 * coding does. So: a fast level with long matches only, but with compressed literals, which fast
 * levels omit by default. A zstd that does not support that gets level 1. */
static int prepare_compress(struct codec *codec)
{
	const int long_matches = 6, fast = -7, huffman = 1;

	if (codec->compress)
		return 0;
	codec->compress = ZSTD_createCCtx();
	if (!codec->compress)
		return -ENOMEM;
	if (ZSTD_isError(ZSTD_CCtx_setParameter(codec->compress, ZSTD_c_literalCompressionMode,
						huffman)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(codec->compress, ZSTD_c_compressionLevel, fast)))
		ZSTD_CCtx_setParameter(codec->compress, ZSTD_c_compressionLevel, 1);
	ZSTD_CCtx_setParameter(codec->compress, ZSTD_c_minMatch, long_matches);
	return 0;
}

int codec_encode(struct codec *codec, const struct column_desc *column, uint64_t *values,
		 const uint64_t *duration, size_t n, struct buf *entries, struct buf *data)
{
	struct column_entry entry = { .id = column->id,
				      .coding = column->coding,
				      .n_values = (uint32_t)n };
	uint64_t all = 0, base = 0;
	uint32_t planes[8];
	uint8_t *cut;

	if (prepare_compress(codec) < 0)
		return -ENOMEM;
	if (n && column->coding != CODING_START && all_equal(values, n)) {
		base = values[0]; /* also right for differences, which are then all zero */
	} else if (n) {
		base = transform_column(column->coding, values, duration, n, &all);
	}
	memcpy(&entry.base, &base, sizeof(base));
	while (entry.width < 8 && all >> (8 * entry.width))
		entry.width++;
	codec->plane.size = 0;
	cut = buf_reserve(&codec->plane, n * entry.width + 1);
	if (!cut) {
		codec->plane.failed = false;
		return -ENOMEM;
	}
	planes_cut(values, n, entry.width, cut);
	for (unsigned int p = 0; p < entry.width; p++)
		planes[p] = plane_encode(codec, cut + p * n, n,
					 &codec->skip[column->id % CODEC_COLUMNS][p], data);
	buf_append(entries, &entry, sizeof(entry));
	buf_append(entries, planes, entry.width * sizeof(planes[0]));
	return entries->failed || data->failed ? -ENOMEM : 0;
}

/* The bytes of one plane: in place if stored raw, else in `to`. NULL on damage. */
static const uint8_t *plane_decode(struct codec *codec, uint32_t stored, const uint8_t *data,
				   size_t n, uint8_t *to)
{
	size_t bytes = PLANE_BYTES(stored);

	switch (PLANE_MODE(stored)) {
	case PLANE_RAW:
		return bytes == n ? data : NULL;
	case PLANE_CONSTANT:
		if (bytes != 1)
			return NULL;
		memset(to, data[0], n);
		return to;
	case PLANE_ZSTD:
		if (ZSTD_decompressDCtx(codec->decompress, to, n, data, bytes) != n)
			return NULL;
		return to;
	}
	return NULL;
}

int codec_decode(struct codec *codec, const struct column_view *view, const uint64_t *duration,
		 uint64_t *values)
{
	size_t n = view->entry.n_values;
	const uint8_t *data = view->data, *planes[8] = { 0 };
	uint64_t base;
	uint8_t *room;

	memcpy(&base, &view->entry.base, sizeof(base));
	if (!codec->decompress && !(codec->decompress = ZSTD_createDCtx()))
		return -ENOMEM;
	codec->plane.size = 0;
	room = buf_reserve(&codec->plane, n * view->entry.width + 1);
	if (!room) {
		codec->plane.failed = false;
		return -ENOMEM;
	}
	for (unsigned int p = 0; p < view->entry.width; p++) {
		uint32_t stored;

		memcpy(&stored, view->planes + p * sizeof(stored), sizeof(stored));
		planes[p] = plane_decode(codec, stored, data, n, room + p * n);
		if (!planes[p])
			return -EBADMSG;
		data += PLANE_BYTES(stored);
	}
	planes_join(planes, n, view->entry.width, values);
	return restore_column(view->entry.coding, base, values, duration, n);
}

#define NARROW(ctype)                                                                              \
	do {                                                                                       \
		ctype *typed = to;                                                                 \
		for (size_t i = 0; i < n; i++)                                                     \
			typed[i] = (ctype)values[i];                                               \
	} while (0)

void column_narrow(enum column_type type, const uint64_t *values, size_t n, void *to)
{
	switch (type) {
	case COLUMN_U8:
		NARROW(uint8_t);
		break;
	case COLUMN_U16:
		NARROW(uint16_t);
		break;
	case COLUMN_U32:
	case COLUMN_I32:
		NARROW(uint32_t);
		break;
	case COLUMN_U64:
	case COLUMN_I64:
	case COLUMN_F64:
		memcpy(to, values, n * sizeof(values[0]));
		break;
	}
}

/* Unrolled by hand: the stride is unknown, so the compiler does not. */
#define GATHER(ctype)                                                                              \
	do {                                                                                       \
		const char *from = rows;                                                           \
		ctype v[4];                                                                        \
		size_t i = 0;                                                                      \
		for (; i + 4 <= n; i += 4, from += 4 * stride) {                                   \
			memcpy(&v[0], from, sizeof(v[0]));                                         \
			memcpy(&v[1], from + stride, sizeof(v[0]));                                \
			memcpy(&v[2], from + 2 * stride, sizeof(v[0]));                            \
			memcpy(&v[3], from + 3 * stride, sizeof(v[0]));                            \
			to[i] = (uint64_t)v[0];                                                    \
			to[i + 1] = (uint64_t)v[1];                                                \
			to[i + 2] = (uint64_t)v[2];                                                \
			to[i + 3] = (uint64_t)v[3];                                                \
		}                                                                                  \
		for (; i < n; i++, from += stride) {                                               \
			memcpy(&v[0], from, sizeof(v[0]));                                         \
			to[i] = (uint64_t)v[0];                                                    \
		}                                                                                  \
	} while (0)

void column_gather(enum column_type type, const char *rows, size_t stride, size_t n, uint64_t *to)
{
	switch (type) {
	case COLUMN_U8:
		GATHER(uint8_t);
		break;
	case COLUMN_U16:
		GATHER(uint16_t);
		break;
	case COLUMN_U32:
		GATHER(uint32_t);
		break;
	case COLUMN_I32:
		GATHER(int32_t);
		break;
	case COLUMN_U64:
	case COLUMN_I64:
	case COLUMN_F64:
		GATHER(uint64_t);
		break;
	}
}
