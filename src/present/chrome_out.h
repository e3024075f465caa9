/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON text at the speed of memory, for traces of gigabytes: the caller writes keys and braces as they
 * stand, this writes numbers and bytes into blocks. Failures stick and come out of out_finish.
 * One thread.
 */
#ifndef PRESENT_CHROME_OUT_H
#define PRESENT_CHROME_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

struct gzip_out;

struct out {
	char *at, *end; /* the rest of the block */
	char *block;
	FILE *file;
	struct gzip_out *gzip; /* NULL: plain */
	int failed;
};

int out_init(struct out *out, FILE *file, bool gzip);
/* Gives the block away. */
void out_flush(struct out *out);
/* 0 or the first failure; `r` is one from before, or 0. Releases. */
int out_finish(struct out *out, int r);
void out_long(struct out *out, const char *bytes, size_t n);
/* Quoted and escaped; what is no UTF-8 becomes U+FFFD. */
void out_string(struct out *out, const char *text);
void out_double(struct out *out, double value); /* null unless finite */
/* The same into memory. */
void buf_escaped(struct buf *buf, const char *text);

#define OUT_NUMBER 24 /* most bytes of a number */

static inline void out_bytes(struct out *out, const char *bytes, size_t n)
{
	if ((size_t)(out->end - out->at) < n) {
		out_long(out, bytes, n);
		return;
	}
	memcpy(out->at, bytes, n);
	out->at += n;
}

/* A literal: its length is known. */
#define OUT(out, literal) out_bytes(out, literal, sizeof(literal) - 1)

static inline void out_text(struct out *out, const char *text)
{
	out_bytes(out, text, strlen(text));
}

extern const char out_pairs[201]; /* "00" "01" .. "99" */

/* Ends at `end`; where it begins. */
static inline char *number_before(char *end, uint64_t value)
{
	while (value >= 100) {
		end -= 2;
		memcpy(end, out_pairs + value % 100 * 2, 2);
		value /= 100;
	}
	if (value >= 10) {
		end -= 2;
		memcpy(end, out_pairs + value * 2, 2);
	} else {
		*--end = (char)('0' + value);
	}
	return end;
}

static inline void out_uint(struct out *out, uint64_t value)
{
	char text[OUT_NUMBER], *end = text + sizeof(text), *p = number_before(end, value);

	out_bytes(out, p, (size_t)(end - p));
}

static inline void out_int(struct out *out, int64_t value)
{
	if (value < 0)
		OUT(out, "-");
	out_uint(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

/* Nanoseconds as microseconds with three decimals: exact, which no double is. */
static inline void out_us(struct out *out, int64_t ns)
{
	uint64_t magnitude = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	char text[OUT_NUMBER + 4], *end = text + sizeof(text), *p = end - 4;
	unsigned int decimals = (unsigned int)(magnitude % 1000);

	p[0] = '.';
	p[1] = (char)('0' + decimals / 100);
	memcpy(p + 2, out_pairs + decimals % 100 * 2, 2);
	p = number_before(p, magnitude / 1000);
	if (ns < 0)
		*--p = '-';
	out_bytes(out, p, (size_t)(end - p));
}

#endif
