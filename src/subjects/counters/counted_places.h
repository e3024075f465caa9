/* SPDX-License-Identifier: Apache-2.0
 *
 * What the launches of a range, a layer or an expert moved and computed, by the counters of 'run --counters', which says
 * where the program made each launch. Launches belong to the innermost range of their thread, and to the layer and the
 * expert that it or one around it names.
 *
 * A launch may have a part of the metrics alone. So an amount of a place is, for each of its kernels and metrics, the mean
 * over the launches there that have it times all its launches there: an estimate, unless all have it. If a kernel has
 * none, the amount is absent.
 *
 * tokens  of the steps that were counted whole: those between the first and the last step with counted launches, in which
 *         no launch was to be counted and was not. Of a layer and an expert by the routing of these steps, of a range as
 *         the steps told
 */
#ifndef SUBJECTS_COUNTED_PLACES_H
#define SUBJECTS_COUNTED_PLACES_H

#include "subjects/numbers/value.h"
#include "tables/tables.h"

struct attribution;

struct counted_place {
	char *range; /* "outer/inner"; NULL: none, or not asked */
	struct value layer, expert;
	uint64_t launches, kernels;
	struct value
		measured_pct; /* launches that have a metric, of all: the least of those used */
	struct value time_ns, share_pct; /* of the time of all counted launches */
	struct value dram_bytes, dram_bytes_per_s;
	struct value tensor_ops, tensor_ops_per_s, ops_per_byte;
	uint64_t steps; /* counted whole */
	struct value tokens, dram_bytes_per_token;
};

struct counted_table {
	struct counted_place *rows; /* by time, largest first */
	size_t n;
};

struct counted_places {
	struct counted_table ranges, layers, experts;
	uint64_t launches; /* that the run says the place of */
	bool estimated;	   /* an amount of some place is */
};

int counted_places_analyze(const struct attribution *at, struct counted_places *ret_places);
void counted_places_release(struct counted_places *places);

struct field_set;
extern const struct field_set counted_ranges_fields, counted_layers_fields, counted_experts_fields;

#endif
