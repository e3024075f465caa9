/* SPDX-License-Identifier: Apache-2.0
 *
 * Units with prefixes; see scaled_units.h.
 */
#include "base/text/scaled_units.h"

#include <stddef.h>
#include <string.h>

/* Words of which the prefix is a part. */
static const struct {
	const char *word, *of;
	int power;
} times[] = {
	{ "ns", "s", -9 }, { "nsecond", "s", -9 }, { "us", "s", -6 }, { "usecond", "s", -6 },
	{ "ms", "s", -3 }, { "msecond", "s", -3 }, { "s", "s", 0 },   { "second", "s", 0 },
};

/* Others take one in front. */
static const struct {
	char sign;
	int power;
} prefixes[] = { { 'K', 3 }, { 'M', 6 }, { 'G', 9 }, { 'T', 12 }, { 'P', 15 } };
static const char *const prefixed[] = { "byte", "hz",	  "inst",    "cycle", "sector",
					"warp", "thread", "request", "sample" };

/* One side of a fraction. */
struct word {
	const char *text;
	size_t length;
	int power;
};

static bool is_unit_word(const struct word *word, const char *text)
{
	return strlen(text) == word->length && !memcmp(word->text, text, word->length);
}

static struct word read_word(const char *text, size_t length)
{
	struct word word = { text, length, 0 };

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (is_unit_word(&word, times[i].word))
			return (struct word){ times[i].of, strlen(times[i].of), times[i].power };
	for (size_t p = 0; length > 1 && p < sizeof(prefixes) / sizeof(prefixes[0]); p++) {
		struct word rest = { text + 1, length - 1, prefixes[p].power };

		for (size_t i = 0;
		     *text == prefixes[p].sign && i < sizeof(prefixed) / sizeof(prefixed[0]); i++)
			if (is_unit_word(&rest, prefixed[i]))
				return rest;
	}
	return word;
}

static void split_unit(const char *unit, struct word sides[2])
{
	const char *slash = strchr(unit, '/');
	size_t length = slash ? (size_t)(slash - unit) : strlen(unit);

	sides[0] = read_word(unit, length);
	sides[1] = slash ? read_word(slash + 1, strlen(slash + 1)) : (struct word){ "", 0, 0 };
}

bool scaled_unit_power(const char *unit, const char *into, int *ret_power)
{
	struct word from[2], to[2];

	split_unit(unit, from);
	split_unit(into, to);
	for (int i = 0; i < 2; i++)
		if (from[i].length != to[i].length ||
		    memcmp(from[i].text, to[i].text, from[i].length) != 0)
			return false;
	*ret_power = from[0].power - to[0].power - (from[1].power - to[1].power);
	return true;
}

/* Small powers of ten are exact, their inverses are not. */
double scaled_by_power(double value, int power)
{
	double factor = 1;

	for (int i = power < 0 ? -power : power; i > 0; i--)
		factor *= 10;
	return power < 0 ? value / factor : value * factor;
}
