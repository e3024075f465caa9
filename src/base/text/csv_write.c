/* SPDX-License-Identifier: Apache-2.0
 *
 * See csv_write.h.
 */
#include "base/text/csv_write.h"

#include <stdbool.h>
#include <string.h>

#include "base/text/utf8.h"

/* "-12", "+1.5e-3": digits, with what belongs to them. */
static bool is_number(const char *text)
{
	size_t digits;

	text += *text == '-' || *text == '+';
	digits = strspn(text, "0123456789");
	text += digits;
	if (*text == '.') {
		size_t behind = strspn(++text, "0123456789");

		digits += behind;
		text += behind;
	}
	if (digits && (*text == 'e' || *text == 'E')) {
		text++;
		text += *text == '-' || *text == '+';
		digits = strspn(text, "0123456789");
		text += digits;
	}
	return digits && !*text;
}

static bool is_formula(const char *text)
{
	return *text && strchr("=+-@\t\r", *text) && !is_number(text);
}

static void put_point(const char *text, size_t n, uint32_t point, bool valid, FILE *out)
{
	if (valid && (utf8_is_harmless(point) || (*text && strchr("\t\r\n", *text))))
		fwrite(text, 1, n, out);
	else
		fputc('?', out);
}

void csv_write_text(const char *text, FILE *out)
{
	bool formula = is_formula(text), quoted = strpbrk(text, ",\"\r\n") != NULL;
	size_t length = strlen(text), at = 0;

	if (quoted)
		fputc('"', out);
	if (formula)
		fputc('\'', out);
	while (at < length) {
		/* Most of all names is plain. */
		size_t plain = at, n;
		uint32_t point;
		int valid;

		while (plain < length && text[plain] >= ' ' && text[plain] < 0x7f &&
		       text[plain] != '"')
			plain++;
		fwrite(text + at, 1, plain - at, out);
		at = plain;
		if (at == length)
			break;
		if (text[at] == '"')
			fputc('"', out);
		n = utf8_decode(text + at, length - at, &point, &valid);
		put_point(text + at, n, point, valid, out);
		at += n;
	}
	if (quoted)
		fputc('"', out);
}
