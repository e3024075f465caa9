/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON text at the speed of memory, for traces of gigabytes: the caller writes keys and braces as they
 * stand, this writes numbers and bytes into blocks. Failures stick and come out of emit_finish.
 * One thread.
 */
#ifndef EXPORTS_CHROME_EMIT_H
#define EXPORTS_CHROME_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

struct gzip_out;

struct emitter {
	char *at, *end; /* the rest of the block */
	char *block;
	FILE *file;
	struct gzip_out *gzip; /* NULL: plain */
	int failed;
};

int emit_init(struct emitter *out, FILE *file, bool gzip);
/* 0 or the first failure; `r` is one from before, or 0. Releases. */
int emit_finish(struct emitter *out, int r);
void emit_long(struct emitter *out, const char *bytes, size_t n);
/* Quoted and escaped; what is no UTF-8 becomes U+FFFD. */
void emit_string(struct emitter *out, const char *text);
void emit_double(struct emitter *out, double value); /* null unless finite */
/* The same into memory. */
void buf_escaped(struct buf *buf, const char *text);

#define EMIT_NUMBER 24 /* most bytes of a number */

static inline void emit_bytes(struct emitter *out, const char *bytes, size_t n)
{
	if ((size_t)(out->end - out->at) < n) {
		emit_long(out, bytes, n);
		return;
	}
	memcpy(out->at, bytes, n);
	out->at += n;
}

/* A literal: its length is known. */
#define EMIT(out, literal) emit_bytes(out, literal, sizeof(literal) - 1)

static inline void emit_text(struct emitter *out, const char *text)
{
	emit_bytes(out, text, strlen(text));
}

extern const char emit_pairs[201]; /* "00" "01" .. "99" */

/* Ends at `end`; where it begins. */
static inline char *number_before(char *end, uint64_t value)
{
	while (value >= 100) {
		end -= 2;
		memcpy(end, emit_pairs + value % 100 * 2, 2);
		value /= 100;
	}
	if (value >= 10) {
		end -= 2;
		memcpy(end, emit_pairs + value * 2, 2);
	} else {
		*--end = (char)('0' + value);
	}
	return end;
}

static inline void emit_uint(struct emitter *out, uint64_t value)
{
	char text[EMIT_NUMBER], *end = text + sizeof(text), *p = number_before(end, value);

	emit_bytes(out, p, (size_t)(end - p));
}

static inline void emit_int(struct emitter *out, int64_t value)
{
	if (value < 0)
		EMIT(out, "-");
	emit_uint(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

/* Nanoseconds as microseconds with three decimals: exact, which no double is. */
static inline void emit_us(struct emitter *out, int64_t ns)
{
	uint64_t magnitude = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	char text[EMIT_NUMBER + 4], *end = text + sizeof(text), *p = end - 4;
	unsigned int decimals = (unsigned int)(magnitude % 1000);

	p[0] = '.';
	p[1] = (char)('0' + decimals / 100);
	memcpy(p + 2, emit_pairs + decimals % 100 * 2, 2);
	p = number_before(p, magnitude / 1000);
	if (ns < 0)
		*--p = '-';
	emit_bytes(out, p, (size_t)(end - p));
}

#endif
