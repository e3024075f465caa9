/* SPDX-License-Identifier: Apache-2.0
 *
 * The routing formulas, each on one vector of assignments per expert. Symbols: T tokens,
 * E experts, k slots per token, n[e] assignments, N their sum, m = N/E. Pure, any thread.
 */
#ifndef SUBJECTS_ROUTING_METRICS_H
#define SUBJECTS_ROUTING_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct load_metrics {
	bool known; /* false: no assignments, nothing else is defined */
	uint64_t total, max;
	double mean;
	double imbalance;     /* max n / m */
	double balancedness;  /* m / max n */
	double max_violation; /* (max n - m) / m */
	double cv;	      /* population std(n) / m */
	double gini;
	double entropy_norm; /* 1 when E is 1 */
	uint32_t dead, starved, overloaded, unique;
};

/* The largest utilization_pct of an expert. `load` must be known. */
static inline double load_busiest_pct(const struct load_metrics *load)
{
	return 100.0 * (double)load->max / (double)load->total;
}

/* 0 or -ENOMEM. */
int load_metrics_compute(const uint64_t *n, uint32_t experts, struct load_metrics *ret_metrics);

/* What perfectly uniform routing would show by chance. Arguments > 0; k may be a mean. */
double routing_cv_floor(double experts, double k, double tokens);
double routing_imbalance_floor(double experts, double k, double mean_load);
double routing_cv_excess(double cv, double cv_floor);
double routing_unique_expected(double experts, double k, double tokens);
/* Probability that two independent uniform sets of a and b experts intersect. */
double routing_repeat_null(uint32_t experts, uint32_t a, uint32_t b);

/* What one thing tells about another, in bits: counts[i * columns + j] pairs of i and j. */
double routing_mutual_bits(const double *counts, uint32_t rows, uint32_t columns,
			   const double *row_sums, const double *column_sums);
double routing_entropy_bits(const double *counts, uint32_t n);
/* What `tokens` tokens show of that by chance if the a and the b of the used experts that each
 * visits are drawn independently; to first order, for any loads. */
double routing_mutual_floor(double used_a, double a, double used_b, double b, double tokens);

/* Capacity of an expert: ceil(factor * T * k / E). */
uint64_t routing_capacity(double factor, uint64_t tokens, uint32_t k, uint32_t experts);
/* Assignments over the capacity, and empty places under it; of one batch. */
uint64_t routing_over_capacity(const uint64_t *n, uint32_t experts, uint64_t capacity);
uint64_t routing_under_capacity(const uint64_t *n, uint32_t experts, uint64_t capacity);
/* Rows that a grouped GEMM of tile height `tile_rows` works on. */
uint64_t routing_tile_rows(const uint64_t *n, uint32_t experts, uint32_t tile_rows);

/* The h busiest experts (ties: the lower index first), then those of the others that are among the h least
 * busy, the least busy last. How many there are: at most 2 h. */
uint32_t routing_ends(const uint64_t *n, uint32_t experts, uint32_t h, uint32_t *ret_experts);

/* |A and B| / |A or B| of the h busiest experts of two vectors (ties: the lower index).
 * 0 or -ENOMEM. */
int routing_hot_jaccard(const uint64_t *a, const uint64_t *b, uint32_t experts, uint32_t h,
			double *ret_jaccard);

/* Names of an earlier tool: cv, and clamp(100 - 10 cv, 0, 100). */
double routing_legacy_efficiency(double cv);

#endif
