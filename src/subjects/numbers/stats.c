/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics on plain arrays; see stats.h.
 */
#include "subjects/numbers/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"

/* Whether it is whole, not negative and below 2^32, as a time in nanoseconds is. */
static inline bool is_word(double x)
{
	return x >= 0 && x < 4294967296.0 && !signbit(x) && (double)(uint32_t)x == x;
}

/* Whole numbers below 2^53 add up without an error. False: they are not. */
static bool sum_words(const double *x, size_t n, double *ret_sum)
{
	uint64_t total = 0;

	for (size_t i = 0; i < n; i++) {
		if (!is_word(x[i]))
			return false;
		total += (uint32_t)x[i];
	}
	*ret_sum = (double)total;
	return total < UINT64_C(1) << 53;
}

static double sum(const double *x, size_t n)
{
	double total = 0, carry = 0;

	if (sum_words(x, n, &total))
		return total;
	total = 0;
	/* Kahan: step times of a long run are many and of very different size. */
	for (size_t i = 0; i < n; i++) {
		double y = x[i] - carry, t = total + y;

		carry = (t - total) - y;
		total = t;
	}
	return total;
}

double stats_mean(const double *x, size_t n)
{
	return n ? sum(x, n) / (double)n : 0;
}

static double std_around(const double *x, size_t n, double mean)
{
	double total = 0;

	for (size_t i = 0; i < n; i++)
		total += (x[i] - mean) * (x[i] - mean);
	return n ? sqrt(total / (double)n) : 0;
}

double stats_std(const double *x, size_t n)
{
	return std_around(x, n, stats_mean(x, n));
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return CMP(x, y);
}

static bool is_ascending(const double *x, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (!(x[i - 1] <= x[i]))
			return false;
	return true;
}

/* Below this many numbers, the counters of a radix sort cost more than they save. */
#define RADIX_LEAST 128
#define RADIX_BITS 11
#define RADIX_DIGITS 3

typedef uint32_t __attribute__((may_alias)) word;

static bool are_words(const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_word(x[i]))
			return false;
	return true;
}

/* From the lowest digit up; digits that all numbers share are left out. The result is in `from` or
 * `room`. */
static word *radix_sort(word *from, word *room, size_t n)
{
	uint32_t counts[RADIX_DIGITS][1 << RADIX_BITS] = { 0 };
	const uint32_t mask = (1 << RADIX_BITS) - 1;

	for (size_t i = 0; i < n; i++)
		for (int d = 0; d < RADIX_DIGITS; d++)
			counts[d][from[i] >> d * RADIX_BITS & mask]++;
	for (int d = 0; d < RADIX_DIGITS; d++) {
		uint32_t *next = counts[d], total = 0;
		word *swap = from;

		if (next[from[0] >> d * RADIX_BITS & mask] == n)
			continue;
		for (uint32_t i = 0; i <= mask; i++) {
			uint32_t count = next[i];

			next[i] = total;
			total += count;
		}
		for (size_t i = 0; i < n; i++)
			room[next[from[i] >> d * RADIX_BITS & mask]++] = from[i];
		from = room;
		room = swap;
	}
	return from;
}

/* The halves of the numbers' own memory are the two arrays that the sort needs. */
static void sort_words(double *x, size_t n)
{
	word *words = (word *)x, *sorted;

	for (size_t i = 0; i < n; i++)
		words[i] = (uint32_t)x[i];
	sorted = radix_sort(words, words + n, n);
	if (sorted == words)
		for (size_t i = n; i-- > 0;)
			x[i] = words[i];
	else
		for (size_t i = 0; i < n; i++)
			x[i] = sorted[i];
}

void stats_sort(double *x, size_t n)
{
	if (n < 2 || is_ascending(x, n))
		return;
	if (n >= RADIX_LEAST && n < UINT32_MAX && are_words(x, n))
		sort_words(x, n);
	else
		qsort(x, n, sizeof(*x), ascending);
}

/* Between x[i] and x[i + 1] of n sorted numbers of any type. */
#define PERCENTILE(x, n, p)                                                                        \
	({                                                                                         \
		double at = (p) / 100.0 * (double)((n)-1), below = floor(at);                      \
		size_t i_low = (size_t)below;                                                      \
		i_low + 1 >= (n)                                                                   \
			? (double)(x)[(n)-1]                                                       \
			: (double)(x)[i_low] +                                                     \
				  ((double)(x)[i_low + 1] - (double)(x)[i_low]) * (at - below);    \
	})

double stats_percentile_sorted(const double *x, size_t n, double p)
{
	return PERCENTILE(x, n, p);
}

/* The upper bits of a number, such that a larger number never has a smaller one. */
#define SELECT_BITS 14
#define SELECT_LEAST 4096

static uint32_t upper_bits(double x)
{
	uint64_t bits;

	x += 0.0; /* there is one zero */
	memcpy(&bits, &x, sizeof(bits));
	bits ^= bits >> 63 ? ~UINT64_C(0) : UINT64_C(1) << 63;
	return (uint32_t)(bits >> (64 - SELECT_BITS));
}

double stats_percentile(double *x, size_t n, double p)
{
	size_t counts[1 << SELECT_BITS] = { 0 }, first = 0, found = 0, rank;
	uint32_t low = 0, high;
	double at = p / 100 * (double)(n - 1);

	if (n < SELECT_LEAST) {
		stats_sort(x, n);
		return stats_percentile_sorted(x, n, p);
	}
	for (size_t i = 0; i < n; i++)
		counts[upper_bits(x[i])]++;
	rank = (size_t)at;
	while (first + counts[low] <= rank)
		first += counts[low++];
	/* The next number up may have other upper bits. */
	found = first + counts[high = low];
	while (found <= rank + 1 && found < n)
		found += counts[++high];
	found = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t upper = upper_bits(x[i]);

		if (upper >= low && upper <= high) {
			double swap = x[found];

			x[found++] = x[i];
			x[i] = swap;
		}
	}
	stats_sort(x, found);
	rank -= first;
	if (rank + 1 >= found)
		return x[found - 1];
	return x[rank] + (x[rank + 1] - x[rank]) * (at - floor(at));
}

double stats_median(double *x, size_t n)
{
	stats_sort(x, n);
	return stats_percentile_sorted(x, n, 50);
}

/* Of n sorted numbers of any type. */
#define SUMMARIZE(x, n, total)                                                                     \
	struct stats_summary s = { .n = n, .sum = total };                                         \
	double squares = 0;                                                                        \
	s.mean = s.sum / (double)(n);                                                              \
	for (size_t i = 0; i < (n); i++)                                                           \
		squares += ((double)(x)[i] - s.mean) * ((double)(x)[i] - s.mean);                  \
	s.std = sqrt(squares / (double)(n));                                                       \
	s.cv = s.mean != 0 ? s.std / s.mean : 0;                                                   \
	s.min = (double)(x)[0];                                                                    \
	s.max = (double)(x)[(n)-1];                                                                \
	s.p50 = PERCENTILE(x, n, 50);                                                              \
	s.p95 = PERCENTILE(x, n, 95);                                                              \
	s.p99 = PERCENTILE(x, n, 99);                                                              \
	return s

struct stats_summary stats_summarize(double *x, size_t n)
{
	if (!n)
		return (struct stats_summary){ 0 };
	stats_sort(x, n);
	SUMMARIZE(x, n, sum(x, n));
}

struct stats_summary stats_summarize_words(uint32_t *x, size_t n, uint32_t *room)
{
	uint64_t total = 0;

	if (!n)
		return (struct stats_summary){ 0 };
	x = radix_sort(x, room, n);
	for (size_t i = 0; i < n; i++)
		total += x[i];
	SUMMARIZE(x, n, (double)total);
}

uint64_t stats_random(uint64_t *state)
{
	uint64_t x = *state ? *state : 1;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * UINT64_C(2685821657736338717);
}
