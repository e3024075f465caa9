/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of steps for a comparison: times, tokens, phases. See digest.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "analyze/digest_inside.h"

/* The figure of one step; false: it has none. */
typedef bool (*unit_figure)(const struct digest_unit *unit, int which, double *ret);

static bool time_of(const struct digest_unit *unit, int which, double *ret)
{
	(void)which;
	*ret = unit->time_ns;
	return true;
}

static bool rate_of(const struct digest_unit *unit, int which, double *ret)
{
	(void)which;
	*ret = unit->time_ns > 0 ? unit->tokens * 1e9 / unit->time_ns : 0;
	return unit->tokens_known && unit->time_ns > 0;
}

static bool phase_of(const struct digest_unit *unit, int which, double *ret)
{
	*ret = unit->phase_ns[which];
	return unit->phases_known;
}

static int add(struct digest_builder *b, enum compare_metric_id metric, const char *of, int which,
	       unit_figure figure)
{
	double *x = calloc(b->n_units + 1, sizeof(*x));
	size_t n = 0;

	if (!x)
		return -ENOMEM;
	for (size_t u = 0; u < b->n_units; u++)
		n += figure(&b->units[u], which, &x[n]);
	return digest_add(b, metric, of, which, x, n);
}

static bool phase_is_used(const struct digest_builder *b, int phase)
{
	for (size_t u = 0; u < b->n_units; u++)
		if (b->units[u].phases_known && b->units[u].phase_ns[phase] > 0)
			return true;
	return false;
}

int digest_steps(struct digest_builder *b)
{
	const char *none = !b->run->step.n ? "no steps were recorded"
			   : !b->steps.n   ? "no steps in the chosen window"
					   : "no step was finished by every rank";
	const char **missing = b->digest->missing;
	int r;

	missing[COMPARE_STEP_TIME] = missing[COMPARE_STEP_TIME_MEAN] = none;
	missing[COMPARE_TOKENS_PER_S] = b->n_units ? "the program did not give the tokens of its "
						     "steps"
						   : none;
	missing[COMPARE_PHASE_TIME] = b->n_units ? "no range names a phase" : none;
	r = add(b, COMPARE_STEP_TIME, "", 0, time_of);
	if (r >= 0)
		r = add(b, COMPARE_STEP_TIME_MEAN, "", 0, time_of);
	if (r >= 0)
		r = add(b, COMPARE_TOKENS_PER_S, "", 0, rate_of);
	for (int p = 1; r >= 0 && p < STEP_PHASES; p++)
		if (phase_is_used(b, p))
			r = add(b, COMPARE_PHASE_TIME, phase_name((unsigned int)p), p, phase_of);
	return r;
}
