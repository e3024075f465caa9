/* SPDX-License-Identifier: Apache-2.0
 *
 * A number that may be absent. Unknown is never zero: what is not known says why.
 */
#ifndef SUBJECTS_VALUE_H
#define SUBJECTS_VALUE_H

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

#endif
