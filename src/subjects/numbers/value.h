/* SPDX-License-Identifier: Apache-2.0
 *
 * A number that may be absent. Unknown is never zero: what is not known says why.
 */
#ifndef SUBJECTS_VALUE_H
#define SUBJECTS_VALUE_H

#include <math.h>
#include <stdbool.h>

struct value {
	double v;
	bool known;
	const char *reason; /* static text; when not known */
};

static inline struct value value_of(double v)
{
	return (struct value){ .v = v, .known = true };
}

static inline struct value value_absent(const char *reason)
{
	return (struct value){ .reason = reason };
}

/* factor * a / b; absent as a or b is, and for the reason no_b where there is no such number. */
static inline struct value value_ratio(struct value a, struct value b, double factor,
				       const char *no_b)
{
	if (!a.known || !b.known)
		return a.known ? b : a;
	return b.v > 0 && isfinite(factor * a.v / b.v) ? value_of(factor * a.v / b.v)
						       : value_absent(no_b);
}

#endif
