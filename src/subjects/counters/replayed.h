/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether launches that were counted in several passes (run --replay) were like those that were counted in one: each
 * pass was a run of the kernel, and a figure is put together from all of them. CUPTI tells nothing of single passes, so
 * what is compared is the kernel's time and clock, which both kinds of launches have, over launches of the same shape. Pure,
 * any thread.
 */
#ifndef SUBJECTS_REPLAYED_H
#define SUBJECTS_REPLAYED_H

#include <stdbool.h>

#include "tables/tables.h"

/* Beyond what launches of one pass vary by themselves. */
#define REPLAYED_TIME_PCT 10
#define REPLAYED_CLOCK_PCT 5 /* as CLOCK_SPREAD_PCT */

/* Of a kernel and a section (strings): how far the mean is outside of what launches of one pass had, in percent of the
 * nearer end, the worst of all shapes; 0: inside, or there is nothing to compare with. */
struct replayed_kernel {
	uint32_t kernel, section;
	double time_pct, clock_pct;
};

struct replayed {
	struct replayed_kernel *all;
	size_t n;
};

/* The section of metrics that were counted so. */
bool replayed_section(const struct run *run, uint32_t section);
int replayed_compare(const struct run *run, struct replayed *ret_replayed);
void replayed_release(struct replayed *replayed);
/* NULL: neither its time nor its clock was counted in that section. */
const struct replayed_kernel *replayed_find(const struct replayed *replayed, uint32_t kernel,
					    uint32_t section);

#endif
