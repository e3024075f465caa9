/* SPDX-License-Identifier: Apache-2.0
 *
 * How many bytes it is to the next sample: exponentially distributed, so that every byte has the same chance whatever came before
 * it, and an allocation of s bytes is sampled with probability 1 - exp(-s / distance). Any thread, its own seed.
 */
#ifndef HEAP_GAP_H
#define HEAP_GAP_H

#include <stdint.h>

/* splitmix64 */
static inline uint64_t gap_random(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* By von Neumann's method, which is exact and needs no logarithm, hence no library inside the program: how often a
 * run of falling random numbers is of even length, and the first number of one that is not. */
static inline int64_t gap_draw(uint64_t *seed, uint64_t distance)
{
	for (uint64_t whole = 0;; whole++) {
		uint64_t first = gap_random(seed) >> 11, last = first, next;
		unsigned int length = 1;

		for (; (next = gap_random(seed) >> 11) < last; last = next)
			length++;
		if (length % 2)
			return (int64_t)(((double)whole + (double)first * 0x1p-53) *
					 (double)distance);
	}
}

#endif
