/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about whether the run can be trusted, and what recording it cost. See rules.h.
 */
#include <inttypes.h>
#include <string.h>

#include "subjects/overhead/overhead.h"
#include "subjects/shared/coverage.h"
#include "verdicts/rules.h"

#define COST_PCT 1.0

bool rule_program_failed(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct run_info *info = &run->info;

	(void)a;
	v->severity = SEVERITY_CRITICAL;
	if (!strcmp(info->status, "exited") && info->exit_status) {
		TITLE(v, "the program failed: exit status %d", info->exit_status);
		rule_evidence(v, "exit_status", EVIDENCE_COUNT, info->exit_status);
	} else if (!strcmp(info->status, "killed")) {
		TITLE(v, "the program was killed by signal %d (%s)", info->signal,
		      strsignal(info->signal));
		rule_evidence(v, "signal", EVIDENCE_COUNT, info->signal);
	} else if (!strcmp(info->status, "abandoned")) {
		v->severity = SEVERITY_WARNING;
		TITLE(v,
		      "the run was abandoned: its recorder was killed before it noted the program's "
		      "end");
	} else if (!strcmp(info->status, "unknown")) {
		v->severity = SEVERITY_WARNING;
		TITLE(v, "how the program ended is unknown");
	} else {
		return false;
	}
	ADVICE(v, "Figures cover what ran before the end; read the program's own output first.");
	return true;
}

bool rule_records_lost(const struct run *run, const struct answers *a, struct verdict *v)
{
	uint64_t lost = loss_total(&run->loss);

	(void)a;
	if (!lost)
		return false;
	v->severity = SEVERITY_WARNING;
	rule_evidence(v, "lost", EVIDENCE_COUNT, (double)lost);
	/* They are there, up to the last sign of life. */
	if (lost == run->loss.unfinished) {
		v->severity = SEVERITY_NOTE;
		TITLE(v, "the process ended inside %" PRIu64 " range%s or step%s", lost,
		      lost == 1 ? "" : "s", lost == 1 ? "" : "s");
		ADVICE(v, "Their times are too short; nothing else is missing.");
		return true;
	}
	if (lost == run->loss.damaged_events) {
		TITLE(v,
		      "%" PRIu64 " event%s of the imported file could not be read: sums below are "
		      "too small",
		      lost, lost == 1 ? "" : "s");
		ADVICE(v, "The notes at the top say where in the file. Copy it again, or export it "
			  "again.");
		return true;
	}
	TITLE(v, "%" PRIu64 " loss%s while recording: sums below are too small", lost,
	      lost == 1 ? "" : "es");
	if (run->loss.dropped_ring_full) {
		rule_evidence(v, "dropped_ring_full", EVIDENCE_COUNT,
			      (double)run->loss.dropped_ring_full);
		ADVICE(v, "Give the threads larger buffers (run --ring-kb 4096), or record less "
			  "(run --level steps, or a schedule).");
	} else {
		ADVICE(v, "The counters at the top say what was lost and where.");
	}
	return true;
}

/* Without a measurement of on against off, the governor's own estimate. */
static bool governor_cost(const struct coverage *c, struct verdict *v)
{
	if (!c->governed_pct.known)
		return false;
	rule_evidence(v, "governed_pct", EVIDENCE_PCT, c->governed_pct.v);
	if (c->coverage_pct.known)
		rule_evidence(v, "coverage_pct", EVIDENCE_PCT, c->coverage_pct.v);
	if (c->governed_pct.v <= COST_PCT) {
		v->severity = SEVERITY_OK;
		TITLE(v, "profiling costs less than 1%% of the time (est. by the governor)");
		ADVICE(v, "Nothing to do.");
		return true;
	}
	v->severity = SEVERITY_WARNING;
	TITLE(v, "profiling costs est. %.1f%% of the time", c->governed_pct.v);
	ADVICE(v, "Give it a budget (run --budget 1), or record less: a schedule, --level steps. "
		  "'run --overhead-check' measures it.");
	return true;
}

bool rule_profiler_cost(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct overhead *o = answer_overhead(a);

	(void)run;
	if (!o->measured_pct.known)
		return governor_cost(answer_coverage(a), v);
	rule_evidence(v, "measured_pct", EVIDENCE_PCT, o->measured_pct.v);
	rule_evidence(v, "low_pct", EVIDENCE_PCT, o->low_pct.v);
	rule_evidence(v, "high_pct", EVIDENCE_PCT, o->high_pct.v);
	rule_evidence(v, "pairs", EVIDENCE_COUNT, (double)o->pairs);
	if (o->high_pct.v <= COST_PCT) {
		v->severity = SEVERITY_OK;
		TITLE(v, "profiling costs less than 1%% of the step time");
		ADVICE(v, "Nothing to do.");
	} else if (o->low_pct.v <= 0) {
		v->severity = SEVERITY_NOTE;
		TITLE(v,
		      "the cost of profiling is lost in the noise of the steps (95%%: %.1f to "
		      "%.1f%%)",
		      o->low_pct.v, o->high_pct.v);
		ADVICE(v, "More pairs (run --overhead-check N) or a quieter machine narrow it.");
	} else if (o->measured_pct.v <= COST_PCT) {
		v->severity = SEVERITY_OK;
		TITLE(v, "profiling costs about %.1f%% of the step time (95%%: %.1f to %.1f%%)",
		      o->measured_pct.v, o->low_pct.v, o->high_pct.v);
		ADVICE(v, "More pairs (run --overhead-check N) narrow the interval.");
	} else {
		v->severity = o->low_pct.v > COST_PCT ? SEVERITY_WARNING : SEVERITY_NOTE;
		TITLE(v, "profiling costs about %.1f%% of the step time (95%%: %.1f to %.1f%%)",
		      o->measured_pct.v, o->low_pct.v, o->high_pct.v);
		ADVICE(v, "Record less: run --level steps, a schedule, or --sample N.");
	}
	return true;
}
