/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers and strings of a Kineto trace. Times never go through a double: microseconds since 1970 with
 * three decimals have more digits than it holds.
 *
 * The zero bytes after the text are part of no value, so nothing here asks at each byte where it ends.
 */
#include "ingest/kineto/kineto_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text/utf8.h"

#define DEEPEST 512 /* nested values */

const char *value_bad(struct reader *r, const char *p, const char *why)
{
	r->why = p >= r->end ? NULL : why;
	return NULL;
}

const char *value_text(struct reader *r, const char *p, struct text *ret_text)
{
	struct text text = { .at = p + 1 };
	const char *end;

	if (*p != '"')
		return value_bad(r, p, "no string where one should be");
	end = r->scan->string_end(p + 1, r->end, &text.escaped);
	if (end >= r->end)
		return value_bad(r, r->end, "");
	if ((size_t)(end - text.at) > UINT32_MAX)
		return value_bad(r, p, "a string too long to be one");
	text.length = (uint32_t)(end - text.at);
	*ret_text = text;
	return end + 1;
}

static bool ends_value(char c)
{
	return c == ',' || c == '}' || c == ']' || (unsigned char)c <= ' ';
}

/* Numbers, true, false, null, NaN: whatever has letters, digits and signs. */
static const char *skip_word(struct reader *r, const char *p)
{
	const char *begin = p;

	while ((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
	       *p == '-' || *p == '+' || *p == '.')
		p++;
	if (p >= r->end || p == begin || !ends_value(*p))
		return value_bad(r, p, "no value where one should be");
	return p;
}

const char *value_skip(struct reader *r, const char *p)
{
	char closers[DEEPEST];
	unsigned int depth = 0;
	struct text text;

	for (;;) {
		/* before a value */
		if (*p == '{' || *p == '[') {
			if (depth == DEEPEST)
				return value_bad(r, p, "values nested too deeply");
			closers[depth++] = *p == '{' ? '}' : ']';
			p = skip_blanks(p + 1);
			if (*p != closers[depth - 1])
				goto member;
		} else if (*p == '"') {
			p = value_text(r, p, &text);
			if (!p)
				return NULL;
		} else {
			p = skip_word(r, p);
			if (!p)
				return NULL;
		}
		/* after one */
		for (;;) {
			if (!depth)
				return p;
			p = skip_blanks(p);
			if (*p != closers[depth - 1])
				break;
			depth--;
			p++;
		}
		if (*p != ',')
			return value_bad(r, p, "no comma between two values");
		p = skip_blanks(p + 1);
	member:
		if (closers[depth - 1] == '}') {
			p = value_text(r, p, &text);
			if (!p)
				return NULL;
			p = skip_blanks(p);
			if (*p != ':')
				return value_bad(r, p, "no colon after a key");
			p = skip_blanks(p + 1);
		}
	}
}

/* Digits with a point and an exponent: digits[0..n) times ten to the power of *ret_exponent. */
struct decimal {
	bool negative;
	uint64_t digits;
	int exponent;
	bool exact; /* there were no more digits than fit */
};

static const char *read_decimal(struct reader *r, const char *p, struct decimal *ret)
{
	struct decimal d = { .exact = true };
	bool any = false, point = false, full = false;

	if (*p == '-' || *p == '+')
		d.negative = *p++ == '-';
	for (;; p++) {
		unsigned int digit = (unsigned char)*p - (unsigned int)'0';
		uint64_t more;

		if (digit > 9) {
			if (*p != '.' || point)
				break;
			point = true;
			continue;
		}
		any = true;
		full = full || __builtin_mul_overflow(d.digits, 10, &more) ||
		       __builtin_add_overflow(more, digit, &more);
		if (full) {
			d.exact &= digit == 0 || point;
			d.exponent += !point;
			continue;
		}
		d.digits = more;
		d.exponent -= point;
	}
	if (!any)
		return value_bad(r, p, "no number where one should be");
	if (*p == 'e' || *p == 'E') {
		int power = 0;
		bool down;

		p++;
		down = *p == '-';
		p += *p == '-' || *p == '+';
		if (*p < '0' || *p > '9')
			return value_bad(r, p, "a number without its exponent");
		for (; *p >= '0' && *p <= '9'; p++)
			power = power < 10000 ? power * 10 + (*p - '0') : power;
		d.exponent += down ? -power : power;
	}
	*ret = d;
	return p;
}

/* The decimal times ten to the power of `scale`, rounded to a whole number, half away from zero. */
static int decimal_whole(const struct decimal *d, int scale, uint64_t *ret_value)
{
	uint64_t value = d->digits;
	int exponent = d->exponent + scale;
	unsigned int last = 0;

	if (!d->exact)
		return -ERANGE;
	for (; exponent > 0 && value; exponent--)
		if (__builtin_mul_overflow(value, 10, &value))
			return -ERANGE;
	for (; exponent < 0 && (value || last); exponent++) {
		last = value % 10;
		value /= 10;
	}
	value += last >= 5;
	*ret_value = value;
	return 0;
}

/* A number may stand in quotes. */
static const char *quoted_decimal(struct reader *r, const char *p, struct decimal *ret)
{
	if (*p != '"')
		return read_decimal(r, p, ret);
	p = read_decimal(r, skip_blanks(p + 1), ret);
	if (!p)
		return NULL;
	p = skip_blanks(p);
	return *p == '"' ? p + 1 : value_bad(r, p, "a string that is not a number");
}

const char *value_time(struct reader *r, const char *p, int64_t *ret_ns)
{
	struct decimal d;
	uint64_t magnitude = 0;
	const char *at = p;
	uint64_t digits = 0;
	unsigned int digit, decimals = 0;

	/* Nearly all: at most 16 digits and three decimals. */
	while ((digit = (unsigned char)*p - (unsigned int)'0') <= 9) {
		digits = digits * 10 + digit;
		p++;
	}
	if (p > at && p - at <= 16) {
		if (*p == '.') {
			p++;
			while ((digit = (unsigned char)*p - (unsigned int)'0') <= 9 &&
			       decimals < 3) {
				digits = digits * 10 + digit;
				decimals++;
				p++;
			}
		}
		if (digit > 9 && *p != 'e' && *p != 'E' && *p != '.') {
			static const uint64_t scale[] = { 1000, 100, 10, 1 };

			if (p >= r->end)
				return value_bad(r, p, "");
			if (digits * scale[decimals] > INT64_MAX)
				return value_bad(r, at, "a time that is out of range");
			*ret_ns = (int64_t)(digits * scale[decimals]);
			return p;
		}
	}
	p = quoted_decimal(r, at, &d);
	if (!p)
		return NULL;
	if (p >= r->end)
		return value_bad(r, p, "");
	if (decimal_whole(&d, 3, &magnitude) < 0 || magnitude > INT64_MAX)
		return value_bad(r, at, "a time that is out of range");
	*ret_ns = d.negative ? -(int64_t)magnitude : (int64_t)magnitude;
	return p;
}

const char *value_whole(struct reader *r, const char *p, uint64_t *ret_value)
{
	struct decimal d;
	uint64_t magnitude = 0, digits = 0;
	const char *at = p;
	unsigned int digit;

	while ((digit = (unsigned char)*p - (unsigned int)'0') <= 9) {
		digits = digits * 10 + digit;
		p++;
	}
	if (p > at && p - at <= 19 && *p != '.' && *p != 'e' && *p != 'E') {
		if (p >= r->end)
			return value_bad(r, p, "");
		*ret_value = digits;
		return p;
	}
	p = quoted_decimal(r, at, &d);
	if (!p)
		return NULL;
	if (p >= r->end)
		return value_bad(r, p, "");
	if (decimal_whole(&d, 0, &magnitude) < 0 || (d.negative && magnitude > INT64_MAX))
		return value_bad(r, at, "a number that is out of range");
	*ret_value = d.negative ? -magnitude : magnitude;
	return p;
}

const char *value_label(struct reader *r, const char *p, int64_t *ret_value, bool *ret_known)
{
	uint64_t value = 0, place = 1;
	struct text text;
	const char *q;

	*ret_known = true;
	if (*p != '"') {
		p = value_whole(r, p, &value);
		*ret_value = (int64_t)value;
		return p;
	}
	p = value_text(r, p, &text);
	if (!p)
		return NULL;
	q = text.at + text.length;
	while (q > text.at && q[-1] == ' ')
		q--;
	*ret_known = q > text.at && q[-1] >= '0' && q[-1] <= '9';
	for (; q > text.at && q[-1] >= '0' && q[-1] <= '9' && place < UINT64_C(1000000000000000000);
	     q--, place *= 10)
		value += (uint64_t)(q[-1] - '0') * place;
	*ret_value = (int64_t)value;
	return p;
}

static bool hex4(const char *p, const char *end, uint32_t *ret)
{
	uint32_t value = 0;

	if (end - p < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		char c = p[i] | 0x20;

		if (p[i] >= '0' && p[i] <= '9')
			value = value << 4 | (uint32_t)(p[i] - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint32_t)(c - 'a' + 10);
		else
			return false;
	}
	*ret = value;
	return true;
}

/* p: after \u. Half of a pair alone is not a character. */
static const char *read_point(const char *p, const char *end, uint32_t *ret_point)
{
	uint32_t point, low;

	if (!hex4(p, end, &point)) {
		*ret_point = UTF8_REPLACEMENT;
		return p;
	}
	p += 4;
	if (point >= 0xd800 && point < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' &&
	    hex4(p + 2, end, &low) && low >= 0xdc00 && low < 0xe000) {
		point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
		p += 6;
	}
	*ret_point = point >= 0xd800 && point < 0xe000 ? UTF8_REPLACEMENT : point;
	return p;
}

const char *text_plain(struct reader *r, struct text text, size_t *ret_length)
{
	const char *p = text.at, *end;
	char *to;
	size_t n = 0;

	if (!text.escaped) {
		*ret_length = text.length;
		return text.at ? text.at : "";
	}
	end = p + text.length;
	r->scratch.size = 0;
	/* No escape gives more bytes than it takes, but for a broken \u. */
	to = buf_reserve(&r->scratch, 2 * (size_t)text.length + 4);
	if (!to) {
		r->failed = -ENOMEM;
		return NULL;
	}
	while (p < end) {
		static const char names[] = "nrtbf", codes[] = "\n\r\t\b\f";
		const char *name;
		uint32_t point;

		if (*p != '\\' || p + 1 == end) {
			to[n++] = *p++;
			continue;
		}
		p += 2;
		name = memchr(names, p[-1], sizeof(names) - 1);
		if (name) {
			to[n++] = codes[name - names];
		} else if (p[-1] == 'u') {
			p = read_point(p, end, &point);
			n += utf8_encode(point, to + n);
		} else {
			to[n++] = p[-1];
		}
	}
	*ret_length = n;
	return to;
}

ALWAYS_INLINE uint64_t word_at(const char *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

ALWAYS_INLINE uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
	return hash ^ hash >> 35;
}

/* Of a cache whose entries are compared, so that not all of a long name has to be in it: its ends and
 * its middle, where arguments of templates differ. Reads up to 8 bytes after the string. */
static uint64_t hash_text(const char *p, size_t length)
{
	uint64_t hash = length * UINT64_C(0x9e3779b97f4a7c15);
	size_t i = 0;

	if (length > 64) {
		const char *places[] = { p, p + length / 3, p + length / 2, p + length - 16 };

		for (int k = 0; k < 4; k++)
			hash = mix(mix(hash, word_at(places[k])), word_at(places[k] + 8));
		return hash ^ hash >> 20;
	}
	for (; i + 8 <= length; i += 8)
		hash = mix(hash, word_at(p + i));
	if (i < length)
		hash = mix(hash, word_at(p + i) << (64 - 8 * (length - i)));
	return hash ^ hash >> 20;
}

/* "nccl" in any case. */
static bool has_nccl(const char *p, size_t length)
{
	for (size_t i = 0; i + 4 <= length; i++)
		if ((p[i] | 0x20) == 'n' && !strncasecmp(p + i, "nccl", 4))
			return true;
	return false;
}

/* As the backends of torch.distributed that run on processors name what they do. */
static bool is_host_collective(const char *p, size_t length)
{
	static const char *const backends[] = { "gloo:", "mpi:", "ucc:" };

	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
		if (length > strlen(backends[i]) && !memcmp(p, backends[i], strlen(backends[i])))
			return true;
	return false;
}

/* As torch.distributed names its own account of one, whatever the backend. */
static bool is_told_collective(const char *p, size_t length)
{
	static const char name[] = "record_param_comms";

	return length == sizeof(name) - 1 && !memcmp(p, name, length);
}

struct cached *text_entry(struct reader *r, struct text text)
{
	uint64_t hash;
	struct cached *entry;
	const char *plain;
	size_t length;
	char *copy;

	if (!text.at || !text.length)
		return NULL;
	hash = hash_text(text.at, text.length);
	entry = &r->lane->texts[hash % CACHED_TEXTS];
	if (entry->hash == hash && entry->length == text.length && entry->bytes &&
	    !memcmp(entry->bytes, text.at, text.length))
		return entry;
	plain = text_plain(r, text, &length);
	copy = plain ? realloc(entry->bytes, text.length) : NULL;
	if (!copy) {
		r->failed = -ENOMEM;
		return NULL;
	}
	memcpy(copy, text.at, text.length);
	*entry = (struct cached){ .hash = hash,
				  .bytes = copy,
				  .length = text.length,
				  .id = part_string(r->part, plain, length),
				  .has_nccl = has_nccl(copy, text.length),
				  .arithmetic = flops_operator(copy, text.length),
				  .host_collective = is_host_collective(copy, text.length),
				  .tells_collective = is_told_collective(copy, text.length) };
	return entry;
}

uint32_t text_id(struct reader *r, struct text text)
{
	const struct cached *entry = text_entry(r, text);

	return entry ? entry->id : 0;
}
