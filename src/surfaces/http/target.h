/* SPDX-License-Identifier: Apache-2.0
 *
 * The target of a request, taken apart: "/api/runs/a%20b/kernels?limit=20" has four segments and one
 * pair. Input is untrusted: whatever is not plain is refused with a sentence; values may have lines. Pure.
 */
#ifndef SURFACES_HTTP_TARGET_H
#define SURFACES_HTTP_TARGET_H

#include <stddef.h>

#include "base/err.h"

#define TARGET_MAX 8192
#define TARGET_SEGMENTS 6
#define TARGET_PAIRS 16

struct target {
	const char *segments[TARGET_SEGMENTS];
	size_t n_segments;
	struct {
		const char *key, *value;
	} pairs[TARGET_PAIRS];
	size_t n_pairs;
	char text[2 * TARGET_MAX]; /* that they point into */
};

/* 0 or -EINVAL. */
int target_parse(const char *raw, struct target *ret_target, struct err *err);
/* The value of a key; NULL: it is not there. */
const char *target_value(const struct target *target, const char *key);

#endif
