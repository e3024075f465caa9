/* SPDX-License-Identifier: Apache-2.0
 *
 * How often to look; see pace.h.
 */
#include "host/stacks/pace.h"

#define SECOND INT64_C(1000000000)
#define BUDGET 100 /* one of so many parts of a processor */
#define SAVED 10   /* one of so many parts of that, while there is a debt */
#define WEIGHT 16  /* of what looks took before, against the last one */

void pace_init(struct pace *p, unsigned int hz)
{
	*p = (struct pace){ .wanted_ns = SECOND / hz, .usual_ns = SECOND / hz / BUDGET };
}

int64_t pace_next(struct pace *p, int64_t cpu_ns, int64_t passed_ns)
{
	int64_t counted_ns = cpu_ns < 2 * p->usual_ns ? cpu_ns : 2 * p->usual_ns, next_ns;

	p->debt_ns += cpu_ns - counted_ns;
	if (p->debt_ns) {
		p->debt_ns -= passed_ns / BUDGET / SAVED;
		p->debt_ns = p->debt_ns > 0 ? p->debt_ns : 0;
	}
	p->usual_ns += (counted_ns - p->usual_ns) / WEIGHT;
	p->usual_ns += !p->usual_ns;
	next_ns = p->usual_ns * BUDGET;
	if (p->debt_ns)
		next_ns += next_ns / (SAVED - 1);
	if (next_ns < p->wanted_ns)
		next_ns = p->wanted_ns;
	return next_ns < SECOND ? next_ns : SECOND;
}
