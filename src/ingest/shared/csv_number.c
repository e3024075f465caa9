/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as people of several countries write them; see csv.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/shared/csv.h"

/* Longer numbers than any double has digits. */
#define NUMBER_LENGTH_MAX 400

/* The bytes of a sign between groups of digits that is neither point nor comma: a blank, one that
 * does not break, a narrow one, an apostrophe. 0: there is none. */
static size_t other_group(const char *text, size_t length)
{
	if (length >= 1 && (*text == ' ' || *text == '\''))
		return 1;
	if (length >= 2 && !memcmp(text, "\xc2\xa0", 2))
		return 2;
	if (length >= 3 && (!memcmp(text, "\xe2\x80\xaf", 3) || !memcmp(text, "\xe2\x80\x99", 3)))
		return 3;
	return 0;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

struct shape {
	unsigned int points, commas, others;
	char last;	     /* sign of the last point or comma */
	size_t before_first; /* digits before the first sign */
	size_t after_last;   /* digits after the last point or comma */
	bool zero;	     /* a zero and a sign begin it */
	size_t end;	     /* where the number ends */
};

/* Digits with signs between them; false: no digit begins it. */
static bool look_at_digits(const char *text, size_t length, struct shape *ret)
{
	struct shape shape = { 0 };
	size_t i = length && (*text == '-' || *text == '+'), digits = 0;

	if (i == length || !is_digit(text[i]))
		return false;
	while (i < length) {
		bool first = !shape.points && !shape.commas && !shape.others;
		size_t group;

		if (is_digit(text[i])) {
			digits++;
			i++;
			continue;
		}
		if (i + 1 < length && (text[i] == '.' || text[i] == ',') && is_digit(text[i + 1])) {
			shape.points += text[i] == '.';
			shape.commas += text[i] == ',';
			shape.last = text[i];
			group = 1;
		} else {
			group = other_group(text + i, length - i);
			if (!group || i + group >= length || !is_digit(text[i + group]))
				break;
			shape.others++;
		}
		if (first) {
			shape.before_first = digits;
			shape.zero = digits == 1 && text[i - 1] == '0';
		}
		i += group;
		digits = 0;
	}
	shape.after_last = digits;
	shape.end = i;
	*ret = shape;
	return true;
}

void number_form_see(struct number_form *form, const char *text, size_t length)
{
	struct shape shape;
	bool both, several;
	char decimal = 0;

	if (length > NUMBER_LENGTH_MAX || !look_at_digits(text, length, &shape) ||
	    shape.end != length || !shape.last)
		return;
	both = shape.points && shape.commas;
	several = shape.points + shape.commas > 1;
	if (several && !both)
		decimal = shape.points ? ',' : '.';
	else if (both || shape.others || shape.after_last != 3 || shape.before_first > 3 ||
		 shape.zero)
		decimal = shape.last;
	form->points += decimal == '.';
	form->commas += decimal == ',';
}

void number_form_decide(struct number_form *form)
{
	form->decimal = form->commas > form->points ? ',' : '.';
}

enum number_kind number_read(const struct number_form *form, const char *text, size_t length,
			     double *ret_value)
{
	char plain[NUMBER_LENGTH_MAX + 1];
	size_t n = 0;
	unsigned int decimals = 0, digits_of_group = 0, groups = 0;
	struct shape shape;
	char *end;
	double value;

	if (length > NUMBER_LENGTH_MAX || !look_at_digits(text, length, &shape))
		return NUMBER_NONE;
	/* An exponent alone may follow. */
	if (shape.end != length && text[shape.end] != 'e' && text[shape.end] != 'E')
		return NUMBER_NONE;
	for (size_t i = 0; i < shape.end;) {
		size_t group = other_group(text + i, shape.end - i);

		if (text[i] == form->decimal) {
			if (decimals++ || (groups && digits_of_group != 3))
				return NUMBER_OTHER;
			plain[n++] = '.';
			i++;
		} else if (group || text[i] == '.' || text[i] == ',') {
			/* Behind the decimal sign there are no groups; others have three digits, the
			 * first may have less and is not 0. */
			if (decimals || (groups ? digits_of_group != 3 : shape.before_first > 3) ||
			    shape.zero)
				return NUMBER_OTHER;
			groups++;
			digits_of_group = 0;
			i += group ? group : 1;
		} else {
			digits_of_group += is_digit(text[i]);
			plain[n++] = text[i++];
		}
	}
	if (groups && !decimals && digits_of_group != 3)
		return NUMBER_OTHER;
	memcpy(plain + n, text + shape.end, length - shape.end);
	n += length - shape.end;
	plain[n] = 0;
	/* The C locale: commands never set another. */
	value = strtod(plain, &end);
	if (end != plain + n || !isfinite(value))
		return NUMBER_NONE;
	*ret_value = value;
	return NUMBER_READ;
}
