/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON text by 64 bytes at a time; see json_scan.h.
 *
 * For each 64 bytes there are masks, a bit a byte: quotes, backslashes, braces. Quotes that are not
 * escaped toggle "inside a string", so that the exclusive or of all bits up to each one tells which
 * bytes are inside; braces outside of strings are counted. Only how the masks are made differs.
 */
#include "ingest/shared/json_scan.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))

struct masks {
	uint64_t quote, backslash, open, close, control;
};

typedef struct masks load_masks(const char *p);
typedef uint64_t load_ends(const char *p); /* of quotes and backslashes */
typedef uint64_t xor_before(uint64_t bits);

/* Bit i: the exclusive or of bits 0 to i. */
INLINE uint64_t xor_shifts(uint64_t bits)
{
	bits ^= bits << 1;
	bits ^= bits << 2;
	bits ^= bits << 4;
	bits ^= bits << 8;
	bits ^= bits << 16;
	return bits ^ bits << 32;
}

/* Which bytes follow a backslash that is not escaped itself. *carry: whether the first byte does. */
INLINE uint64_t escaped_by(uint64_t backslash, uint64_t *carry)
{
	const uint64_t even = UINT64_C(0x5555555555555555);
	uint64_t follows, odd_starts, runs, escaped;

	if (!backslash) {
		escaped = *carry;
		*carry = 0;
		return escaped;
	}
	backslash &= ~*carry;
	follows = backslash << 1 | *carry;
	/* Adding the start of a run of backslashes to the run carries to the byte after it. */
	odd_starts = backslash & ~even & ~follows;
	*carry = __builtin_add_overflow(odd_starts, backslash, &runs);
	return (even ^ runs << 1) & follows;
}

INLINE const char *object_end(const char *p, const char *end, unsigned int depth, bool *ret_control,
			      load_masks *load, xor_before *prefix_xor)
{
	uint64_t carry = 0, inside_before = 0, controls = 0;

	for (; p < end; p += 64) {
		struct masks m = load(p);
		uint64_t left = (uint64_t)(end - p) < 64 ? (UINT64_C(1) << (end - p)) - 1
							 : ~UINT64_C(0);
		uint64_t quote = m.quote & ~escaped_by(m.backslash, &carry);
		uint64_t inside = prefix_xor(quote) ^ inside_before;
		uint64_t braces = (m.open | m.close) & ~inside & left;

		inside_before = (uint64_t)((int64_t)inside >> 63);
		for (; braces; braces &= braces - 1) {
			uint64_t bit = braces & -braces;

			depth += m.open & bit ? 1 : -1U;
			if (!depth) {
				if (controls | (m.control & inside & (bit - 1)))
					*ret_control = true;
				return p + __builtin_ctzll(bit) + 1;
			}
		}
		controls |= m.control & inside & left;
	}
	return NULL;
}

/* n: bytes of which load() makes bits. */
INLINE const char *string_end(const char *p, const char *end, bool *ret_escaped, load_ends *load,
			      unsigned int n)
{
	while (p < end) {
		uint64_t bits = load(p);

		if (!bits) {
			p += n;
			continue;
		}
		p += __builtin_ctzll(bits);
		if (p >= end || *p == '"')
			break;
		*ret_escaped = true;
		p += 2;
	}
	return p;
}

/* Eight bytes in a register: bit 7 of each byte that equals c, gathered. */
#define EACH UINT64_C(0x0101010101010101)
INLINE uint64_t gather(uint64_t high_bits)
{
	return (high_bits >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

INLINE uint64_t equal_to(uint64_t word, uint64_t c)
{
	uint64_t x = word ^ (EACH * c);

	return ~(((x & ~(EACH << 7)) + ~(EACH << 7)) | x) & EACH << 7;
}

INLINE uint64_t load_word(const char *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	return word;
}

INLINE struct masks portable_masks(const char *p)
{
	struct masks m = { 0 };

	for (unsigned int i = 0; i < 64; i += 8) {
		uint64_t word = load_word(p + i);
		uint64_t low = ~(((word & ~(EACH << 7)) + EACH * 0x60) | word) & EACH << 7;

		m.quote |= gather(equal_to(word, '"')) << i;
		m.backslash |= gather(equal_to(word, '\\')) << i;
		m.open |= gather(equal_to(word, '{')) << i;
		m.close |= gather(equal_to(word, '}')) << i;
		m.control |= gather(low) << i;
	}
	return m;
}

INLINE uint64_t portable_ends(const char *p)
{
	uint64_t word = load_word(p);

	return gather(equal_to(word, '"') | equal_to(word, '\\'));
}

static const char *portable_object_end(const char *p, const char *end, unsigned int depth,
				       bool *ret_control)
{
	return object_end(p, end, depth, ret_control, portable_masks, xor_shifts);
}

static const char *portable_string_end(const char *p, const char *end, bool *ret_escaped)
{
	return string_end(p, end, ret_escaped, portable_ends, 8);
}

static const struct scan portable = { "portable", portable_string_end, portable_object_end };

#if defined(__x86_64__)

INLINE uint64_t sse2_equal(const __m128i *v, char c)
{
	__m128i to = _mm_set1_epi8(c);
	uint64_t bits = 0;

	for (int i = 0; i < 4; i++)
		bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v[i], to)) << 16 * i;
	return bits;
}

INLINE struct masks sse2_masks(const char *p)
{
	__m128i v[4], last = _mm_set1_epi8(0x1f);
	struct masks m = { 0 };

	for (int i = 0; i < 4; i++) {
		v[i] = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));
		m.control |= (uint64_t)(uint32_t)_mm_movemask_epi8(
				     _mm_cmpeq_epi8(_mm_min_epu8(v[i], last), v[i]))
			     << 16 * i;
	}
	m.quote = sse2_equal(v, '"');
	m.backslash = sse2_equal(v, '\\');
	m.open = sse2_equal(v, '{');
	m.close = sse2_equal(v, '}');
	return m;
}

INLINE uint64_t sse2_ends(const char *p)
{
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);

	return (uint32_t)_mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
							_mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))));
}

static const char *sse2_object_end(const char *p, const char *end, unsigned int depth,
				   bool *ret_control)
{
	return object_end(p, end, depth, ret_control, sse2_masks, xor_shifts);
}

static const char *sse2_string_end(const char *p, const char *end, bool *ret_escaped)
{
	return string_end(p, end, ret_escaped, sse2_ends, 16);
}

static const struct scan sse2 = { "sse2", sse2_string_end, sse2_object_end };

#define AVX2 __attribute__((target("avx2,pclmul,bmi")))

AVX2 INLINE uint64_t avx2_equal(__m256i a, __m256i b, char c)
{
	__m256i to = _mm256_set1_epi8(c);

	return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, to)) |
	       (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, to)) << 32;
}

AVX2 INLINE struct masks avx2_masks(const char *p)
{
	__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
	__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
	__m256i last = _mm256_set1_epi8(0x1f);
	__m256i low_a = _mm256_cmpeq_epi8(_mm256_min_epu8(a, last), a);
	__m256i low_b = _mm256_cmpeq_epi8(_mm256_min_epu8(b, last), b);

	return (struct masks){
		.quote = avx2_equal(a, b, '"'),
		.backslash = avx2_equal(a, b, '\\'),
		.open = avx2_equal(a, b, '{'),
		.close = avx2_equal(a, b, '}'),
		.control = (uint32_t)_mm256_movemask_epi8(low_a) |
			   (uint64_t)(uint32_t)_mm256_movemask_epi8(low_b) << 32,
	};
}

AVX2 INLINE uint64_t avx2_ends(const char *p)
{
	__m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);

	return (uint32_t)_mm256_movemask_epi8(
		_mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('"')),
				_mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\'))));
}

/* A product without carries by all ones is the exclusive or of all bits below. */
AVX2 INLINE uint64_t xor_product(uint64_t bits)
{
	return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_set_epi64x(0, (int64_t)bits),
								_mm_set1_epi8((char)0xff), 0));
}

AVX2 static const char *avx2_object_end(const char *p, const char *end, unsigned int depth,
					bool *ret_control)
{
	return object_end(p, end, depth, ret_control, avx2_masks, xor_product);
}

AVX2 static const char *avx2_string_end(const char *p, const char *end, bool *ret_escaped)
{
	return string_end(p, end, ret_escaped, avx2_ends, 32);
}

static const struct scan avx2 = { "avx2", avx2_string_end, avx2_object_end };

const struct scan *scan_way(size_t i)
{
	if (i == 0)
		return &portable;
	if (i == 1)
		return &sse2;
	if (i == 2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
	    __builtin_cpu_supports("bmi"))
		return &avx2;
	return NULL;
}

#elif defined(__aarch64__)

INLINE uint64_t neon_gather(const uint8x16_t *v)
{
	static const uint8_t weights[16] = { 1, 2, 4, 8, 16, 32, 64, 128,
					     1, 2, 4, 8, 16, 32, 64, 128 };
	uint8x16_t w = vld1q_u8(weights);
	uint8x16_t a = vpaddq_u8(vandq_u8(v[0], w), vandq_u8(v[1], w));
	uint8x16_t b = vpaddq_u8(vandq_u8(v[2], w), vandq_u8(v[3], w));

	a = vpaddq_u8(a, b);
	a = vpaddq_u8(a, a);
	return vgetq_lane_u64(vreinterpretq_u64_u8(a), 0);
}

INLINE uint64_t neon_equal(const uint8x16_t *v, uint8_t c)
{
	uint8x16_t to = vdupq_n_u8(c);
	uint8x16_t equal[4];

	for (int i = 0; i < 4; i++)
		equal[i] = vceqq_u8(v[i], to);
	return neon_gather(equal);
}

INLINE struct masks neon_masks(const char *p)
{
	uint8x16_t v[4], low[4];

	for (int i = 0; i < 4; i++) {
		v[i] = vld1q_u8((const uint8_t *)p + 16 * i);
		low[i] = vcltq_u8(v[i], vdupq_n_u8(0x20));
	}
	return (struct masks){
		.quote = neon_equal(v, '"'),
		.backslash = neon_equal(v, '\\'),
		.open = neon_equal(v, '{'),
		.close = neon_equal(v, '}'),
		.control = neon_gather(low),
	};
}

/* The narrowing shift leaves four bits of each byte. */
static const char *neon_string_end(const char *p, const char *end, bool *ret_escaped)
{
	while (p < end) {
		uint8x16_t v = vld1q_u8((const uint8_t *)p);
		uint8x16_t found = vorrq_u8(vceqq_u8(v, vdupq_n_u8('"')),
					    vceqq_u8(v, vdupq_n_u8('\\')));
		uint64_t bits = vget_lane_u64(
			vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(found), 4)), 0);

		if (!bits) {
			p += 16;
			continue;
		}
		p += __builtin_ctzll(bits) / 4;
		if (p >= end || *p == '"')
			break;
		*ret_escaped = true;
		p += 2;
	}
	return p;
}

static const char *neon_object_end(const char *p, const char *end, unsigned int depth,
				   bool *ret_control)
{
	return object_end(p, end, depth, ret_control, neon_masks, xor_shifts);
}

static const struct scan neon = { "neon", neon_string_end, neon_object_end };

const struct scan *scan_way(size_t i)
{
	return i == 0 ? &portable : i == 1 ? &neon : NULL;
}

#else

const struct scan *scan_way(size_t i)
{
	return i == 0 ? &portable : NULL;
}

#endif

const struct scan *scan_best(void)
{
	const struct scan *best = &portable, *way;

	for (size_t i = 0; (way = scan_way(i)) != NULL; i++)
		best = way;
	return best;
}
