/* SPDX-License-Identifier: Apache-2.0
 *
 * How often to look: as often as is wanted, unless looks take more than a hundredth of a processor. What comes once,
 * as reading the names of a library, does not make the next looks rarer by far: it is saved little by little.
 */
#ifndef HOST_STACKS_PACE_H
#define HOST_STACKS_PACE_H

#include <stdint.h>

struct pace {
	int64_t wanted_ns; /* from look to look */
	int64_t usual_ns,
		debt_ns; /* of a processor: what a look takes, and what came in addition */
};

/* hz: looks a second, at most. */
void pace_init(struct pace *pace, unsigned int hz);
/* After a look that took cpu_ns of a processor and began passed_ns after the one before: the time from its begin
 * to that of the next. */
int64_t pace_next(struct pace *pace, int64_t cpu_ns, int64_t passed_ns);

#endif
