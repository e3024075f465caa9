/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in table of kernel_class.h: which words in a kernel's name tell what it does. First
 * match wins.
 */
#ifndef DEVICE_KERNEL_PATTERNS_H
#define DEVICE_KERNEL_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>

#include "device/sheets/kernel_class.h"

/* Where the words stand. Template arguments name everything a kernel is made of, so most words
 * only tell something in the name of the function; wrappers are taken off (kernel_name.h). */
enum kernel_pattern_in {
	IN_FUNCTION,
	IN_NAME, /* anywhere, template arguments and parameters too */
};

struct kernel_pattern {
	const char *class;
	enum kernel_pattern_in in;
	const char *pattern; /* POSIX extended regular expression, upper and lower case alike */
};

extern const struct kernel_pattern kernel_patterns[];
extern const size_t n_kernel_patterns;

/* Words in the names of ranges and operations: the only such table. */
struct range_pattern {
	enum moe_part part; /* of a mixture of experts */
	bool certain;	    /* false: in runs that have one */
	const char *pattern;
	const char *except;    /* a word in whose presence it does not hold, or NULL */
	const char *class;     /* what kernels of the classes below are there, or NULL */
	const char *yields[3]; /* the classes of kernels that become `class` there */
};

#define N_RANGE_PATTERNS 8
extern const struct range_pattern range_patterns[N_RANGE_PATTERNS];

#endif
