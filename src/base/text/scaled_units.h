/* SPDX-License-Identifier: Apache-2.0
 *
 * Units as kernel profilers write them, with prefixes that differ from value to value: usecond and
 * msecond, Kbyte/s and Gbyte/s. Pure, any thread.
 */
#ifndef BASE_SCALED_UNITS_H
#define BASE_SCALED_UNITS_H

#include <stdbool.h>

/* The power of ten that a value in `unit` is multiplied by to be one in `into`; false: they do not
 * measure the same. A unit is itself, whatever it is; prefixes are decimal, as Nsight Compute's. */
bool scaled_unit_power(const char *unit, const char *into, int *ret_power);
double scaled_by_power(double value, int power);

#endif
