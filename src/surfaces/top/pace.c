/* SPDX-License-Identifier: Apache-2.0
 *
 * The pace of panels; see pace.h.
 */
#include "surfaces/top/pace.h"

#include <stdbool.h>

static size_t cheapest(const int64_t *cost_ns, size_t n, const bool *done)
{
	size_t best = n;

	for (size_t i = 0; i < n; i++)
		if (!done[i] && (best == n || cost_ns[i] < cost_ns[best]))
			best = i;
	return best;
}

void pace(const int64_t *cost_ns, size_t n, int64_t interval_ns, double share,
	  int64_t *ret_period_ns)
{
	bool done[PACE_MOST] = { false };

	for (size_t left = n; left > 0; left--) {
		size_t i = cheapest(cost_ns, n, done);
		double fair = share / (double)left;
		double period = (double)cost_ns[i] / fair;

		ret_period_ns[i] = period > (double)interval_ns ? (int64_t)period : interval_ns;
		share -= (double)cost_ns[i] / (double)ret_period_ns[i];
		done[i] = true;
	}
}
