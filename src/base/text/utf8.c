/* SPDX-License-Identifier: Apache-2.0
 *
 * See utf8.h.
 */
#include "base/text/utf8.h"

#include <string.h>

size_t utf8_decode(const char *text, size_t length, uint32_t *ret_point, int *ret_valid)
{
	const unsigned char *s = (const unsigned char *)text;
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t point;
	size_t n;

	*ret_valid = 1;
	if (s[0] < 0x80) {
		*ret_point = s[0];
		return 1;
	}
	if (s[0] >= 0xC2 && s[0] < 0xE0) {
		n = 2;
		point = s[0] & 0x1Fu;
	} else if (s[0] >= 0xE0 && s[0] < 0xF0) {
		n = 3;
		point = s[0] & 0x0Fu;
	} else if (s[0] >= 0xF0 && s[0] < 0xF5) {
		n = 4;
		point = s[0] & 0x07u;
	} else {
		goto broken;
	}
	if (n > length)
		goto broken;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xC0) != 0x80)
			goto broken;
		point = point << 6 | (s[i] & 0x3Fu);
	}
	if (point < smallest[n] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
		goto broken;
	*ret_point = point;
	return n;
broken:
	*ret_valid = 0;
	*ret_point = UTF8_REPLACEMENT;
	return 1;
}

size_t utf8_encode(uint32_t point, char *to)
{
	static const unsigned char lead[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
	size_t n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;

	for (size_t i = n; i-- > 1; point >>= 6)
		to[i] = (char)(0x80 | (point & 0x3F));
	to[0] = (char)(n == 1 ? point : lead[n] | point);
	return n;
}

int utf8_is_harmless(uint32_t point)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x0, 0x1F },	    { 0x7F, 0x9F },	{ 0x61C, 0x61C },
		{ 0x200E, 0x200F }, { 0x2028, 0x202E }, { 0x2066, 0x2069 },
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (point <= ranges[i].last)
			return point < ranges[i].first;
	return 1;
}

void utf8_make_harmless(char *text)
{
	size_t length = strlen(text), from = 0, to = 0;

	while (from < length) {
		uint32_t point;
		int valid;
		size_t n = utf8_decode(text + from, length - from, &point, &valid);

		if (valid && utf8_is_harmless(point)) {
			memmove(text + to, text + from, n);
			to += n;
		} else {
			text[to++] = '?';
		}
		from += n;
	}
	text[to] = 0;
}

int utf8_point_width(uint32_t point)
{
	static const struct {
		uint32_t first, last;
		int width;
	} ranges[] = {
		{ 0x0, 0x1F, 0 },	 { 0x7F, 0x9F, 0 },	  { 0x300, 0x36F, 0 },
		{ 0x483, 0x489, 0 },	 { 0x591, 0x5BD, 0 },	  { 0x610, 0x61A, 0 },
		{ 0x64B, 0x65F, 0 },	 { 0x1100, 0x115F, 2 },	  { 0x1AB0, 0x1AFF, 0 },
		{ 0x1DC0, 0x1DFF, 0 },	 { 0x200B, 0x200F, 0 },	  { 0x20D0, 0x20FF, 0 },
		{ 0x2E80, 0x303E, 2 },	 { 0x3041, 0x33FF, 2 },	  { 0x3400, 0x4DBF, 2 },
		{ 0x4E00, 0x9FFF, 2 },	 { 0xA000, 0xA4CF, 2 },	  { 0xAC00, 0xD7A3, 2 },
		{ 0xF900, 0xFAFF, 2 },	 { 0xFE00, 0xFE0F, 0 },	  { 0xFE20, 0xFE2F, 0 },
		{ 0xFE30, 0xFE4F, 2 },	 { 0xFF00, 0xFF60, 2 },	  { 0xFFE0, 0xFFE6, 2 },
		{ 0x1F300, 0x1F64F, 2 }, { 0x1F900, 0x1F9FF, 2 }, { 0x20000, 0x3FFFD, 2 },
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (point < ranges[i].first)
			return 1;
		if (point <= ranges[i].last)
			return ranges[i].width;
	}
	return 1;
}

size_t utf8_width(const char *text)
{
	size_t length = strlen(text), at = 0, width = 0;

	while (at < length) {
		uint32_t point;
		int valid;

		at += utf8_decode(text + at, length - at, &point, &valid);
		width += (size_t)utf8_point_width(point);
	}
	return width;
}
