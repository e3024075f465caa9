/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of steps for a comparison: times, tokens, phases. See digest.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "compare/digest_inside.h"

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

struct extent {
	int64_t first_ns, last_ns;
	bool any;
};

static void extend(struct extent *e, size_t n, const uint16_t *shards, uint16_t shard,
		   const int64_t *start_ns, const int64_t *duration_ns, const uint8_t *untimed)
{
	for (size_t i = 0; i < n; i++) {
		if (shards[i] != shard || (untimed && untimed[i]))
			continue;
		if (!e->any || start_ns[i] < e->first_ns)
			e->first_ns = start_ns[i];
		if (!e->any || start_ns[i] + duration_ns[i] > e->last_ns)
			e->last_ns = start_ns[i] + duration_ns[i];
		e->any = true;
	}
}

/* From the first to the last thing that was recorded: mean over the processes that did something. */
static int run_time(struct digest_builder *b)
{
	const struct run *run = b->run;
	double *x = calloc(1, sizeof(*x));
	size_t n = 0;

	if (!x)
		return -ENOMEM;
	for (uint16_t s = 0; s < run->n_shards; s++) {
		struct extent e = { 0 };

#define EXTEND(table, untimed)                                                                     \
	extend(&e, (table).n, (table).shard, s, (table).start_ns, (table).duration_ns, untimed)
		EXTEND(run->kernel, run->kernel.untimed);
		EXTEND(run->copy, run->copy.untimed);
		EXTEND(run->set, run->set.untimed);
		EXTEND(run->api, NULL);
		EXTEND(run->range, NULL);
		EXTEND(run->op, NULL);
#undef EXTEND
		*x += (double)(e.last_ns - e.first_ns);
		n += e.any;
	}
	*x /= n ? (double)n : 1;
	return digest_add(b, COMPARE_RUN_TIME, "", 0, x, n ? 1 : 0);
}

int digest_steps(struct digest_builder *b)
{
	const char *none = !b->run->step.n ? "no steps were recorded"
			   : !b->steps.n   ? "no steps in the chosen window"
					   : "no step was finished by every rank";
	const char **missing = b->digest->missing;
	int r;

	if (b->whole) {
		missing[COMPARE_STEP_TIME] = missing[COMPARE_STEP_TIME_MEAN] =
			missing[COMPARE_TOKENS_PER_S] = missing[COMPARE_PHASE_TIME] = none;
		return run_time(b);
	}
	missing[COMPARE_RUN_TIME] = "it is compared by its steps";
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
