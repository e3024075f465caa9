/* SPDX-License-Identifier: Apache-2.0
 *
 * The word that was probably meant.
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

struct nearest {
	const char *word;
	const char *best; /* NULL: nothing is near enough to suggest */
	size_t distance;
};

struct nearest nearest_to(const char *word);
void nearest_offer(struct nearest *nearest, const char *candidate);

/* Insertions, deletions, substitutions and swaps of neighbours between two words; words longer
 * than 63 characters are infinitely far from everything. */
size_t word_distance(const char *a, const char *b);

#endif
