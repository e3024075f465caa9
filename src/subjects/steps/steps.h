/* SPDX-License-Identifier: Apache-2.0
 *
 * Step times and what they are made of.
 *
 * Policy: every finished step of the window counts, the first ones too; nothing is dropped as
 * warm-up. How much slower the beginning was is a number of its own (warmup_*). Steps cut by the
 * end of the process are listed but in no statistic. A first step that began when the library was
 * loaded has the program's set-up in its time: its tokens count, its time does not.
 *
 * Phases are wall time inside a step. Where ranges with phases lie in each other (an optimizer that
 * calls a closure, Lightning) time belongs to the innermost. The thread that shows the most different
 * phases (then covers the most time) leads; other threads count only where it has no phase range open. So worker threads that carry the phase of their work add nothing twice.
 */
#ifndef SUBJECTS_STEPS_H
#define SUBJECTS_STEPS_H

#include "subjects/numbers/stats.h"
#include "subjects/numbers/value.h"
#include "subjects/shared/selection.h"

#define STEP_PHASES 16 /* more than enum moescope_phase has; phases beyond count as other */

struct step_row {
	size_t row; /* into run->step */
	int64_t step;
	uint32_t rank;
	int64_t start_ns, duration_ns;
	bool recorded, unfinished, outlier;
	bool timed; /* finished, and without the set-up of the program in its time */
	uint8_t probe, source, stage;  /* enum step_source, enum step_stage */
	uint16_t batch;		       /* requests; 0: not told */
	bool phases_known;	       /* recorded, and at least one range with a phase in it */
	int64_t phase_ns[STEP_PHASES]; /* [0]: other, the time outside all phases */
	struct value tokens, tokens_per_s;
};

struct steps {
	struct step_row *rows; /* by shard, then start */
	size_t n;
	size_t n_unfinished, n_set_up, n_not_recorded;
	struct stats_summary all;	   /* finished steps, ns */
	struct stats_summary recorded;	   /* those of them with recording on */
	struct value tokens, tokens_per_s; /* over the steps that gave their tokens */
	size_t n_phased;
	int64_t phase_ns[STEP_PHASES]; /* sum over the steps with phases_known; [0]: other */
	int64_t phased_ns;	       /* their time */
	struct value phase_pct[STEP_PHASES];
	/* Outliers: more than 3 scaled median absolute deviations and more than 10% above the
	 * median. */
	size_t n_outliers;
	struct value outlier_limit_ns;
	/* Of the first 5 finished steps of each process against the median of the rest; processes
	 * with fewer than 15 do not count. */
	struct value warmup_mean_ns, warmup_ratio;
	size_t n_warmup;
	/* Finished steps that starting up made long, and the others; see steady.h. */
	struct stats_summary starting, steady;
	const struct step_row *slowest_starting, *slowest_steady; /* of the rows; NULL: none */
};

const char *step_stage_name(unsigned int stage); /* "prefill" "decode" "mixed"; "" */
const char *step_source_name(
	unsigned int source); /* "program" "range" "device_range" "repetition" */

int steps_analyze(const struct run *run, const struct selection *sel, struct steps *ret_steps);
void steps_release(struct steps *steps);

/* Its fields; see steps_fields.c. */
struct field_set;
/* In text an engine shows the batch of a step, a training its phases. */
enum steps_form { STEPS_OF_TRAINING = 1 << 0, STEPS_OF_ENGINE = 1 << 1 };

enum steps_form steps_form(const struct steps *steps);

extern const struct field_set steps_fields, steps_total;

#endif
