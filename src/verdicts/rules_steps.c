/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about steps and their phases. See rules.h.
 */
#include "moescope.h"
#include "subjects/device/device_use.h"
#include "subjects/steps/device_phases.h"
#include "subjects/steps/steps.h"
#include "verdicts/rules.h"

#define DATA_PCT 10.0
#define VARIATION 0.10
#define OPTIMIZER_PCT 15.0
#define ASIDE_PCT 10.0
#define IDLE_PCT 5.0 /* of a device: from here on its waiting has verdicts */
#define STEPS_MIN 8  /* fewer steps say nothing about variation */

/* The step that spent the most time in a phase; NULL: none did. */
static const struct step_row *longest_in(const struct steps *steps, int phase)
{
	const struct step_row *longest = NULL;

	for (size_t i = 0; i < steps->n; i++)
		if (steps->rows[i].timed && steps->rows[i].phase_ns[phase] > 0 &&
		    (!longest || steps->rows[i].phase_ns[phase] > longest->phase_ns[phase]))
			longest = &steps->rows[i];
	return longest;
}

bool rule_data_loading(const struct run *run, const struct answers *a, struct verdict *v)
{
	struct value share = answer_steps(a)->phase_pct[MOESCOPE_DATA];

	(void)run;
	/* With a device, what counts is whether it waits: gpu-starved-data. */
	if (!share.known || share.v <= 0 || answer_device_use(a)->devices)
		return false;
	rule_evidence(v, "data_pct", EVIDENCE_PCT, share.v);
	rule_evidence(v, "data_per_step_ns", EVIDENCE_NS,
		      (double)answer_steps(a)->phase_ns[MOESCOPE_DATA] /
			      (double)answer_steps(a)->n_phased);
	if (share.v <= DATA_PCT) {
		v->severity = SEVERITY_OK;
		TITLE(v, "data loading takes %.1f%% of the step", share.v);
		ADVICE(v, "Nothing to do.");
		return true;
	}
	TITLE(v, "data loading takes %.0f%% of the step", share.v);
	rule_when_step(v, "the step with the longest data loading",
		       longest_in(answer_steps(a), MOESCOPE_DATA));
	rule_gain(v, share.v < 50 ? share.v : 100 - share.v,
		  share.v < 50 ? "all of it is hidden behind computation"
			       : "it is loaded while the rest of the step computes");
	ADVICE(v, "Load the next batch on another thread or process while this one computes; "
		  "cache or simplify the work on each sample.");
	return true;
}

bool rule_step_variation(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct stats_summary *s = &answer_steps(a)->steady;
	double idle = answer_device_use(a)->launch_ns + answer_device_use(a)->host_ns +
		      answer_device_use(a)->data_ns + answer_device_use(a)->sync_ns +
		      answer_device_use(a)->copy_wait_ns;

	(void)run;
	if (s->n < STEPS_MIN)
		return false;
	rule_evidence(v, "cv_pct", EVIDENCE_PCT, 100 * s->cv);
	rule_evidence(v, "p50_ns", EVIDENCE_NS, s->p50);
	rule_evidence(v, "p95_ns", EVIDENCE_NS, s->p95);
	rule_evidence(v, "max_ns", EVIDENCE_NS, s->max);
	rule_evidence(v, "outliers", EVIDENCE_COUNT, (double)answer_steps(a)->n_outliers);
	if (s->cv <= VARIATION) {
		v->severity = SEVERITY_OK;
		TITLE(v, "step time is steady: variation %.1f%%", 100 * s->cv);
		ADVICE(v, "Nothing to do.");
		return true;
	}
	/* A few steps that are quicker than the others, as the first ones of a recording are. */
	if (s->p95 <= (1 + VARIATION) * s->p50 && s->mean <= s->p50) {
		return false;
	}
	TITLE(v, "step time varies by %.0f%%", 100 * s->cv);
	rule_when_step(v, "the slowest step", answer_steps(a)->slowest_steady);
	if (s->mean > s->p50)
		rule_gain(v, 100 * (s->mean - s->p50) / s->mean,
			  "every step could be as fast as the median one");
	else
		v->gain_pct = value_absent("the mean step is not above the median one");
	/* What made the slow steps slow may have a verdict of its own, which comes first. */
	if (!v->gain_pct.known || v->severity < SEVERITY_WARNING)
		v->severity = SEVERITY_WARNING;
	if (answer_device_use(a)->devices &&
	    100 * idle >= IDLE_PCT * answer_device_use(a)->window_ns) {
		v->gain_pct = value_absent("the device's waits have their own estimates");
		v->gain_assumption = NULL;
	}
	ADVICE(v, "'moescope steps' says what the slow steps did longer: other programs on the "
		  "machine, input of different size, checkpoints, a busy data loader.");
	return true;
}

/* Of the device's time, where there is a device: the host runs ahead, or waits in a phase. */
static struct value optimizer_share(const struct answers *a)
{
	double all = 0;

	if (!answer_device_use(a)->devices)
		return answer_steps(a)->phase_pct[MOESCOPE_OPTIMIZER];
	for (int p = 0; !answer_device_phases(a)->reason && p < STEP_PHASES; p++)
		all += (double)answer_device_phases(a)->ns[p];
	return all > 0 ? value_of(100 * (double)answer_device_phases(a)->ns[MOESCOPE_OPTIMIZER] /
				  all)
		       : value_absent("device time by phase is unknown");
}

bool rule_optimizer_share(const struct run *run, const struct answers *a, struct verdict *v)
{
	struct value share = optimizer_share(a);

	(void)run;
	if (!share.known || share.v <= OPTIMIZER_PCT)
		return false;
	TITLE(v, "the optimizer takes %.0f%% of the step (usual: under 15%%)", share.v);
	rule_evidence(v, "optimizer_pct", EVIDENCE_PCT, share.v);
	rule_when_step(v, "the step with the longest optimizer",
		       longest_in(answer_steps(a), MOESCOPE_OPTIMIZER));
	rule_gain(v, share.v - OPTIMIZER_PCT, "it shrinks to 15% of the present step");
	/* Usual is a habit, not a measurement: never more than a note. */
	v->severity = SEVERITY_NOTE;
	ADVICE(v, "Its cost does not depend on the batch: a larger batch or a fused optimizer "
		  "reduces its share.");
	return true;
}

static bool slow_steps(const struct steps *steps, struct verdict *v)
{
	if (!steps->starting.n || !steps->steady.n || !(steps->steady.p50 > 0))
		return false;
	TITLE(v, "the first steps (%zu of %zu) are %.1f times as long as the later ones",
	      steps->starting.n, steps->all.n, steps->starting.mean / steps->steady.p50);
	rule_when_step(v, "the slowest of the first steps", steps->slowest_starting);
	rule_evidence(v, "warmup_mean_ns", EVIDENCE_NS, steps->starting.mean);
	rule_evidence(v, "p50_ns", EVIDENCE_NS, steps->steady.p50);
	ADVICE(v,
	       "The other verdicts ignore them, statistics do not; give a step window to exclude "
	       "them there too.");
	return true;
}

bool rule_slow_start(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct device_use *use = answer_device_use(a);
	double aside = use->aside_ns + use->prepare_ns, whole = aside + use->window_ns;

	(void)run;
	v->severity = SEVERITY_NOTE;
	if (slow_steps(answer_steps(a), v))
		return true;
	if (!use->devices || use->of_steps || 100 * aside < ASIDE_PCT * whole)
		return false;
	TITLE(v, "start-up and shutdown take %.0f%% of the time; the other verdicts ignore them",
	      100 * aside / whole);
	rule_evidence(v, "judged_ns", EVIDENCE_NS, use->window_ns);
	rule_evidence(v, "aside_ns", EVIDENCE_NS, use->aside_ns);
	if (use->prepare_ns > 0)
		rule_evidence(v, "preparing_code_ns", EVIDENCE_NS, use->prepare_ns);
	ADVICE(v, "If the program is always this short: keep compiled code (caches of Triton, JAX "
		  "and CuPy), load less. Mark steps to judge those instead.");
	return true;
}
