/* SPDX-License-Identifier: Apache-2.0
 *
 * The routing formulas; see routing_metrics.h.
 */
#include "subjects/routing/routing_metrics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return CMP(x, y);
}

static int gini(const uint64_t *n, uint32_t experts, double total, double *ret_gini)
{
	uint64_t *sorted = malloc(experts * sizeof(*sorted));
	double sum = 0;

	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, n, experts * sizeof(*sorted));
	qsort(sorted, experts, sizeof(*sorted), ascending);
	for (uint32_t i = 0; i < experts; i++)
		sum += (2.0 * (i + 1.0) - experts - 1.0) * (double)sorted[i];
	free(sorted);
	*ret_gini = sum / (experts * total);
	return 0;
}

int load_metrics_compute(const uint64_t *n, uint32_t experts, struct load_metrics *ret_metrics)
{
	struct load_metrics m = { 0 };
	double squares = 0, entropy = 0;
	int r;

	for (uint32_t e = 0; e < experts; e++) {
		m.total += n[e];
		if (n[e] > m.max)
			m.max = n[e];
	}
	if (!m.total) {
		*ret_metrics = m;
		return 0;
	}
	m.known = true;
	m.mean = (double)m.total / experts;
	for (uint32_t e = 0; e < experts; e++) {
		double load = (double)n[e], p = load / (double)m.total;

		squares += (load - m.mean) * (load - m.mean);
		entropy -= n[e] ? p * log(p) : 0;
		m.dead += n[e] == 0;
		m.unique += n[e] != 0;
		m.starved += load < 0.5 * m.mean;
		m.overloaded += load > 1.5 * m.mean;
	}
	m.imbalance = (double)m.max / m.mean;
	m.balancedness = m.mean / (double)m.max;
	m.max_violation = ((double)m.max - m.mean) / m.mean;
	m.cv = sqrt(squares / experts) / m.mean;
	m.entropy_norm = experts > 1 ? entropy / log(experts) : 1;
	r = gini(n, experts, (double)m.total, &m.gini);
	if (r < 0)
		return r;
	*ret_metrics = m;
	return 0;
}

double routing_cv_floor(double experts, double k, double tokens)
{
	return sqrt(fmax(0, experts - k) / (tokens * k));
}

double routing_imbalance_floor(double experts, double k, double mean_load)
{
	return 1 + sqrt(2 * log(experts) * fmax(0, 1 - k / experts) / mean_load);
}

double routing_cv_excess(double cv, double cv_floor)
{
	return sqrt(fmax(0, cv * cv - cv_floor * cv_floor));
}

double routing_unique_expected(double experts, double k, double tokens)
{
	return experts * (1 - pow(fmax(0, 1 - k / experts), tokens));
}

double routing_repeat_null(uint32_t experts, uint32_t a, uint32_t b)
{
	double miss = 1;

	/* C(E-a, b) / C(E, b) as a product: no factorials to overflow. */
	for (uint32_t i = 0; i < b; i++) {
		if (experts < a + i + 1)
			return 1;
		miss *= (double)(experts - a - i) / (double)(experts - i);
	}
	return 1 - miss;
}

static double sum_of(const double *counts, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += counts[i];
	return sum;
}

double routing_mutual_bits(const double *counts, uint32_t rows, uint32_t columns,
			   const double *row_sums, const double *column_sums)
{
	double total = sum_of(row_sums, rows), bits = 0;

	for (uint32_t i = 0; i < rows; i++)
		for (uint32_t j = 0; row_sums[i] > 0 && j < columns; j++) {
			double n = counts[(size_t)i * columns + j];

			if (n > 0)
				bits += n / total *
					log2(n * total / (row_sums[i] * column_sums[j]));
		}
	return fmax(0, bits); /* rounding may leave less than nothing */
}

double routing_entropy_bits(const double *counts, uint32_t n)
{
	double total = sum_of(counts, n), bits = 0;

	for (uint32_t i = 0; i < n; i++)
		bits -= counts[i] > 0 ? counts[i] / total * log2(counts[i] / total) : 0;
	return bits;
}

double routing_mutual_floor(double used_a, double a, double used_b, double b, double tokens)
{
	return fmax(0, used_a / a - 1) * fmax(0, used_b / b - 1) / (2 * M_LN2 * tokens);
}

uint64_t routing_capacity(double factor, uint64_t tokens, uint32_t k, uint32_t experts)
{
	double capacity = ceil(factor * (double)tokens * k / experts);

	return capacity < 0x1p63 ? (uint64_t)capacity : UINT64_MAX;
}

uint64_t routing_over_capacity(const uint64_t *n, uint32_t experts, uint64_t capacity)
{
	uint64_t over = 0;

	for (uint32_t e = 0; e < experts; e++)
		over += n[e] > capacity ? n[e] - capacity : 0;
	return over;
}

uint64_t routing_under_capacity(const uint64_t *n, uint32_t experts, uint64_t capacity)
{
	uint64_t under = 0;

	for (uint32_t e = 0; e < experts; e++)
		under += n[e] < capacity ? capacity - n[e] : 0;
	return under;
}

uint64_t routing_tile_rows(const uint64_t *n, uint32_t experts, uint32_t tile_rows)
{
	uint64_t rows = 0;

	for (uint32_t e = 0; e < experts; e++)
		rows += (n[e] + tile_rows - 1) / tile_rows * tile_rows;
	return rows;
}

/* Whether expert a comes before b from the busiest to the least busy. */
static bool is_busier(const uint64_t *n, uint32_t a, uint32_t b)
{
	return n[a] != n[b] ? n[a] > n[b] : a < b;
}

/* The next one after `last` (UINT32_MAX: the first) in that order, or with `back` against it. */
static uint32_t next_by_load(const uint64_t *n, uint32_t experts, uint32_t last, bool back)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t e = 0; e < experts; e++) {
		if (last != UINT32_MAX && (e == last || is_busier(n, e, last) != back))
			continue;
		if (best == UINT32_MAX || is_busier(n, e, best) != back)
			best = e;
	}
	return best;
}

uint32_t routing_ends(const uint64_t *n, uint32_t experts, uint32_t h, uint32_t *ret_experts)
{
	uint32_t hot = h < experts ? h : experts;
	uint32_t cold = h < experts - hot ? h : experts - hot;
	uint32_t last = UINT32_MAX;

	for (uint32_t i = 0; i < hot; i++)
		ret_experts[i] = last = next_by_load(n, experts, last, false);
	last = UINT32_MAX;
	for (uint32_t i = 0; i < cold; i++)
		ret_experts[hot + cold - 1 - i] = last = next_by_load(n, experts, last, true);
	return hot + cold;
}

/* Marks the h busiest experts with `bit`. Selection by repeated maximum: h is small. */
static void mark_hot(const uint64_t *n, uint32_t experts, uint32_t h, uint8_t bit, uint8_t *marks)
{
	for (uint32_t i = 0; i < h; i++) {
		uint32_t best = UINT32_MAX;

		for (uint32_t e = 0; e < experts; e++)
			if (!(marks[e] & bit) && (best == UINT32_MAX || n[e] > n[best]))
				best = e;
		if (best == UINT32_MAX)
			break;
		marks[best] |= bit;
	}
}

int routing_hot_jaccard(const uint64_t *a, const uint64_t *b, uint32_t experts, uint32_t h,
			double *ret_jaccard)
{
	uint8_t *marks = calloc(experts ? experts : 1, 1);
	uint32_t both = 0, either = 0;

	if (!marks)
		return -ENOMEM;
	if (h > experts)
		h = experts;
	mark_hot(a, experts, h, 1, marks);
	mark_hot(b, experts, h, 2, marks);
	for (uint32_t e = 0; e < experts; e++) {
		both += marks[e] == 3;
		either += marks[e] != 0;
	}
	free(marks);
	*ret_jaccard = either ? (double)both / either : 1;
	return 0;
}

double routing_legacy_efficiency(double cv)
{
	return fmin(100, fmax(0, 100 - 10 * cv));
}
