/* SPDX-License-Identifier: Apache-2.0
 *
 * Nearest words by the distance of optimal string alignment. Pure functions.
 */
#include "base/text/nearest.h"

#include <stdint.h>
#include <string.h>

enum { WORD_MAX = 63 };

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t word_distance(const char *a, const char *b)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *above = rows[1], *row = rows[2];
	size_t na = strlen(a), nb = strlen(b);

	if (na > WORD_MAX || nb > WORD_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= nb; j++) {
		above[j] = j;
		before[j] = j;
	}
	for (size_t i = 1; i <= na; i++) {
		size_t *recycled = before;

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			row[j] = smaller(smaller(above[j], row[j - 1]) + 1,
					 above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = smaller(row[j], before[j - 2] + 1);
		}
		before = above;
		above = row;
		row = recycled;
	}
	return above[nb];
}

struct nearest nearest_to(const char *word)
{
	size_t slips = strlen(word) / 3;

	/* One slip for every three characters, and always one: more would be guessing. */
	return (struct nearest){ .word = word, .distance = (slips ? slips : 1) + 1 };
}

void nearest_offer(struct nearest *nearest, const char *candidate)
{
	size_t length = strlen(nearest->word);
	size_t distance = word_distance(nearest->word, candidate);

	/* What has been typed so far of a longer word is as good as one slip. */
	if (length >= 3 && strncmp(nearest->word, candidate, length) == 0)
		distance = smaller(distance, 1);
	if (distance < nearest->distance) {
		nearest->distance = distance;
		nearest->best = candidate;
	}
}
