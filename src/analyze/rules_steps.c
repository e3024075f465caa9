/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about steps and their phases. See rules.h.
 */
#include "analyze/rules.h"
#include "moescope.h"

#define DATA_PCT 10.0
#define VARIATION 0.10
#define OPTIMIZER_PCT 15.0
#define WARMUP_RATIO 1.5
#define STEPS_MIN 8 /* fewer steps say nothing about variation */

bool rule_data_loading(const struct run *run, const struct findings *f, struct verdict *v)
{
	struct value share = f->steps.phase_pct[MOESCOPE_DATA];

	(void)run;
	/* With a device, what counts is whether it waits: gpu-starved-data. */
	if (!share.known || share.v <= 0 || f->use.devices)
		return false;
	rule_evidence(v, "data_pct", EVIDENCE_PCT, share.v);
	rule_evidence(v, "data_per_step_ns", EVIDENCE_NS,
		      (double)f->steps.phase_ns[MOESCOPE_DATA] / (double)f->steps.n_phased);
	if (share.v <= DATA_PCT) {
		v->severity = SEVERITY_OK;
		TITLE(v, "data loading takes %.1f%% of the step", share.v);
		ADVICE(v, "Nothing to do.");
		return true;
	}
	TITLE(v, "data loading takes %.0f%% of the step", share.v);
	rule_gain(v, share.v < 50 ? share.v : 100 - share.v,
		  share.v < 50 ? "all of it is hidden behind computation"
			       : "it is loaded while the rest of the step computes");
	ADVICE(v, "Load the next batch on another thread or process while this one computes; "
		  "cache or simplify what is done to each sample.");
	return true;
}

bool rule_step_variation(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct stats_summary *s = &f->steps.all;

	(void)run;
	if (s->n < STEPS_MIN)
		return false;
	rule_evidence(v, "cv_pct", EVIDENCE_PCT, 100 * s->cv);
	rule_evidence(v, "p50_ns", EVIDENCE_NS, s->p50);
	rule_evidence(v, "p95_ns", EVIDENCE_NS, s->p95);
	rule_evidence(v, "max_ns", EVIDENCE_NS, s->max);
	rule_evidence(v, "outliers", EVIDENCE_COUNT, (double)f->steps.n_outliers);
	if (s->cv <= VARIATION) {
		v->severity = SEVERITY_OK;
		TITLE(v, "step time is steady: variation %.1f%%", 100 * s->cv);
		ADVICE(v, "Nothing to do.");
		return true;
	}
	TITLE(v, "step time varies by %.0f%%", 100 * s->cv);
	if (s->mean > s->p50) {
		rule_gain(v, 100 * (s->mean - s->p50) / s->mean,
			  "every step could be as fast as the median one");
	} else {
		v->gain_pct = value_absent("the mean step is not above the median one");
	}
	/* What made the slow steps slow may have a verdict of its own, which comes first. */
	if (!v->gain_pct.known || v->severity < SEVERITY_WARNING)
		v->severity = SEVERITY_WARNING;
	ADVICE(v, "'moescope steps' says what the slow steps did longer: other programs on the "
		  "machine, input of different size, checkpoints, a busy data loader.");
	return true;
}

bool rule_optimizer_share(const struct run *run, const struct findings *f, struct verdict *v)
{
	struct value share = f->steps.phase_pct[MOESCOPE_OPTIMIZER];

	(void)run;
	if (!share.known || share.v <= OPTIMIZER_PCT)
		return false;
	TITLE(v, "the optimizer takes %.0f%% of the step (usual: under 15%%)", share.v);
	rule_evidence(v, "optimizer_pct", EVIDENCE_PCT, share.v);
	rule_gain(v, share.v - OPTIMIZER_PCT, "it can be brought to 15% of the present step");
	/* Usual is a habit, not a measurement: never more than a note. */
	v->severity = SEVERITY_NOTE;
	ADVICE(v, "Its cost does not depend on the batch: a larger batch or a fused optimizer "
		  "makes its share smaller.");
	return true;
}

bool rule_slow_start(const struct run *run, const struct findings *f, struct verdict *v)
{
	(void)run;
	if (!f->steps.warmup_ratio.known || f->steps.warmup_ratio.v < WARMUP_RATIO)
		return false;
	v->severity = SEVERITY_NOTE;
	TITLE(v, "the first %zu steps are %.1f times as long as the later ones", f->steps.n_warmup,
	      f->steps.warmup_ratio.v);
	rule_evidence(v, "warmup_mean_ns", EVIDENCE_NS, f->steps.warmup_mean_ns.v);
	rule_evidence(v, "p50_ns", EVIDENCE_NS, f->steps.all.p50);
	ADVICE(v, "They are part of every statistic here; give a step window to leave them out.");
	return true;
}
