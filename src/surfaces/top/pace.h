/* SPDX-License-Identifier: Apache-2.0
 *
 * How often the panels of a live view are made anew, so that all of them together cost no more than a
 * share of a core whatever the size of the run. Pure.
 */
#ifndef SURFACES_PACE_H
#define SURFACES_PACE_H

#include <stddef.h>
#include <stdint.h>

#define PACE_MOST 16 /* panels */

/* cost_ns: CPU time that each took the last time. ret_period_ns: an interval for those that can afford it;
 * what they leave of the share is divided evenly among the dearer ones, which wait longer. */
void pace(const int64_t *cost_ns, size_t n, int64_t interval_ns, double share,
	  int64_t *ret_period_ns);

#endif
