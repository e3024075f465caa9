/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of figures that may be absent; include cmocka.h before.
 */
#ifndef TESTS_FIGURES_H
#define TESTS_FIGURES_H

#include <math.h>

#include "subjects/numbers/value.h"

static inline void is_about(struct value value, double expected)
{
	assert_true(value.known);
	assert_true(fabs(value.v - expected) <= 1e-9 * fabs(expected));
}

static inline void is_absent(struct value value, const char *reason)
{
	assert_false(value.known);
	assert_string_equal(value.reason, reason);
}

#endif
