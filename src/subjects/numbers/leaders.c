/* SPDX-License-Identifier: Apache-2.0
 *
 * See leaders.h.
 */
#include "subjects/numbers/leaders.h"

#include <errno.h>
#include <stdlib.h>

struct claim {
	int phases;
	int64_t covered_ns;
};

static bool is_more(const struct claim *a, const struct claim *b)
{
	return a->phases != b->phases ? a->phases > b->phases : a->covered_ns > b->covered_ns;
}

/* What the ranges of one thread name; *at moves behind them. Ranges inside others with a phase
 * cover nothing more. */
static struct claim claim_of(const struct run *run, const struct nested *ranges, size_t n,
			     size_t *at)
{
	const struct nested *first = &ranges[*at];
	int64_t covered_to = INT64_MIN, covered = 0;
	uint32_t seen = 0;

	for (; *at < n && ranges[*at].shard == first->shard && ranges[*at].thread == first->thread;
	     (*at)++) {
		const struct nested *item = &ranges[*at];
		uint8_t phase = item->is_op ? 0 : run_site(run, run->range.site[item->row]).phase;

		if (!phase)
			continue;
		seen |= 1u << (phase & 31);
		if (item->end_ns > covered_to) {
			covered += item->end_ns -
				   (item->start_ns > covered_to ? item->start_ns : covered_to);
			covered_to = item->end_ns;
		}
	}
	return (struct claim){ __builtin_popcount(seen), covered };
}

int leaders_find(const struct run *run, const struct nested *ranges, size_t n,
		 uint32_t **ret_leaders)
{
	uint32_t *leaders = calloc(run->n_shards + 1, sizeof(*leaders));
	struct claim most = { 0 };

	if (!leaders)
		return -ENOMEM;
	for (size_t at = 0; at < n;) {
		const struct nested *first = &ranges[at];
		struct claim claim;

		if (first == ranges || first[-1].shard != first->shard)
			most = (struct claim){ 0 };
		claim = claim_of(run, ranges, n, &at);
		if (first->shard < run->n_shards && is_more(&claim, &most)) {
			most = claim;
			leaders[first->shard] = first->thread;
		}
	}
	*ret_leaders = leaders;
	return 0;
}
