/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the ends of strings and objects in JSON text, at the speed of memory. Nothing here knows what
 * the text means, and nothing is checked: callers that need to know whether it is JSON look at it
 * themselves. Pure, any thread.
 *
 * All ways give the same answers; which one is used is decided once, by what the processor can do.
 */
#ifndef INGEST_JSON_SCAN_H
#define INGEST_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* So many bytes after the end of a text may be read (never used). */
#define SCAN_PAD 64

struct scan {
	const char *name; /* "avx2" */
	/* p: after the quote that begins a string. The quote that ends it, or a place at or after
	 * `end`. *ret_escaped is set when the string holds a backslash, else left alone. */
	const char *(*string_end)(const char *p, const char *end, bool *ret_escaped);
	/* p: inside of `depth` objects, outside of strings. The place after the brace that ends the
	 * outermost of them, or NULL when it does not come before `end`. *ret_control is set when a
	 * string has a control character in it (then it may be none), else left alone. */
	const char *(*object_end)(const char *p, const char *end, unsigned int depth,
				  bool *ret_control);
};

#define SCAN_NEAR 16
/* How many of the 16 bytes at p come before the first quote or backslash; 16: there is none. For keys
 * and other short strings, where a call would cost more. */
static inline unsigned int scan_near_portable(const char *p)
{
	const uint64_t each = UINT64_C(0x0101010101010101);

	for (unsigned int i = 0; i < SCAN_NEAR; i += 8) {
		uint64_t word, quote, backslash, found;

		memcpy(&word, p + i, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
		word = __builtin_bswap64(word);
#endif
		quote = word ^ each * '"';
		backslash = word ^ each * '\\';
		/* Bit 7 of each byte that is zero; others only above the first of those. */
		found = (((quote - each) & ~quote) | ((backslash - each) & ~backslash)) & each << 7;
		if (found)
			return i + (unsigned int)__builtin_ctzll(found) / 8;
	}
	return SCAN_NEAR;
}

static inline unsigned int scan_near(const char *p)
{
#if defined(__SSE2__)
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
	unsigned int bits = (unsigned int)_mm_movemask_epi8(_mm_or_si128(
		_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))));

	return bits ? (unsigned int)__builtin_ctz(bits) : SCAN_NEAR;
#else
	return scan_near_portable(p);
#endif
}

/* The best way for this processor. */
const struct scan *scan_best(void);
/* Way i of those that this processor can go, the portable one first; NULL after the last. */
const struct scan *scan_way(size_t i);

#endif
