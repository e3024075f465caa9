/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison of runs out: text, JSON (schema moescope/compare/1) or CSV. One thread at a time.
 */
#ifndef PRESENT_COMPARE_H
#define PRESENT_COMPARE_H

#include <stdio.h>

#include "base/err.h"
#include "compare/compare.h"
#include "compare/compare_conditions.h"
#include "present/frame/present.h"

/* A condition on one of the pairs. */
struct compare_check {
	const struct condition *condition;
	const struct compare_pair *pair;
	struct judgement judgement;
};

struct compare_scene {
	const struct comparison *comparison;
	const struct compare_check *checks;
	size_t n_checks;
	const struct present_options *options; /* limit and sort are for kernels and operations */
};

/* 0 or -errno with err filled; -EINVAL: sort names no column. */
int present_compare(const struct compare_scene *scene, FILE *out, struct err *err);

#endif
