/* SPDX-License-Identifier: Apache-2.0
 *
 * See target.h.
 */
#include "surfaces/http/target.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/text/utf8.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_utf8(const char *text)
{
	uint32_t point;
	int valid = 1;

	while (*text && valid)
		text += utf8_decode(text, strlen(text), &point, &valid);
	return valid;
}

/* Decodes up to one of `ends` into *out, which moves behind the NUL; NULL: not plain text. `also`: control
 * characters that are. */
static const char *decode(const char *from, const char *ends, bool plus, const char *also,
			  char **out)
{
	char *start = *out, *to = start;

	while (*from && !strchr(ends, *from)) {
		int high = -1, low = -1;

		if (*from == '%') {
			high = hex_digit(from[1]);
			low = high < 0 ? -1 : hex_digit(from[2]);
			if (low < 0 || (high == 0 && low == 0))
				return NULL;
			*to++ = (char)(high << 4 | low);
			from += 3;
		} else {
			*to++ = plus && *from == '+' ? ' ' : *from;
			from++;
		}
		if (((unsigned char)to[-1] < ' ' && !strchr(also, to[-1])) || to[-1] == 0x7f)
			return NULL;
	}
	*to++ = '\0';
	*out = to;
	return is_utf8(start) ? from : NULL;
}

int target_parse(const char *raw, struct target *ret_target, struct err *err)
{
	struct target *t = ret_target;
	char *out = t->text;

	t->n_segments = t->n_pairs = 0;
	if (strlen(raw) > TARGET_MAX)
		return err_set(err, -EINVAL, "the address has more than %d characters.",
			       TARGET_MAX);
	if (*raw != '/')
		return err_set(err, -EINVAL, "the address does not begin with a '/'.");
	while (raw && *raw == '/' && t->n_segments < TARGET_SEGMENTS) {
		char *segment = out;

		raw = decode(raw + 1, "/?", false, "", &out);
		if (*segment || (raw && *raw == '/'))
			t->segments[t->n_segments++] = segment;
	}
	while (raw && (*raw == '?' || *raw == '&') && t->n_pairs < TARGET_PAIRS) {
		t->pairs[t->n_pairs].key = out;
		raw = decode(raw + 1, "=&", true, "", &out);
		t->pairs[t->n_pairs].value = "";
		if (raw && *raw == '=') {
			t->pairs[t->n_pairs].value = out;
			raw = decode(raw + 1, "&", true, "\n\t", &out);
		}
		t->n_pairs++;
	}
	if (!raw)
		return err_set(err, -EINVAL, "the address is not valid percent-encoded UTF-8.");
	if (*raw)
		return err_set(err, -EINVAL, "the address has too many parts.");
	return 0;
}

const char *target_value(const struct target *target, const char *key)
{
	for (size_t i = 0; i < target->n_pairs; i++)
		if (!strcmp(target->pairs[i].key, key))
			return target->pairs[i].value;
	return NULL;
}
