/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that make a digest share; see digest.h.
 */
#ifndef COMPARE_DIGEST_INSIDE_H
#define COMPARE_DIGEST_INSIDE_H

#include "compare/digest.h"
#include "subjects/shared/attribution.h"
#include "subjects/shared/coverage.h"
#include "subjects/steps/steps.h"

#define NO_UNIT SIZE_MAX

struct digest_unit {
	int64_t step, start_ns;
	size_t first; /* of its ranks, while units are made */
	bool recorded, covered;
	double time_ns, tokens; /* mean and sum over the ranks */
	bool tokens_known, phases_known;
	double phase_ns[STEP_PHASES];
};

struct digest_builder {
	const struct run *run;
	const struct selection *sel;
	struct coverage coverage;
	struct steps steps;
	struct step_index index;
	struct digest_unit *units; /* by start */
	size_t n_units, ranks;
	size_t *unit_of;		 /* by row of run->step: index into units or NO_UNIT */
	size_t n_covered;		 /* units with records of every rank */
	size_t *covered_at;		 /* by unit: among those, or NO_UNIT */
	size_t n_recorded, *recorded_at; /* likewise, recorded on every rank */
	bool has_device;
	bool whole;	   /* the only unit is the run */
	size_t *kernel_at; /* of each kernel: among the covered units, or NO_UNIT */
	/* Where kernels come from, and of each its path; until digest_kernels has run. */
	struct attribution at;
	uint32_t *kernel_path;
	struct run_digest *digest;
	size_t figures_capacity, facts_capacity;
};

/* Takes x over, also on failure; n 0 adds nothing. */
int digest_add(struct digest_builder *b, enum compare_metric_id metric, const char *of, int order,
	       double *x, size_t n);

int digest_program(struct digest_builder *b); /* routing, requests, memory */
/* Kernels, copies, calls; fills kernel_at, kernel_path and at. */
int digest_device(struct digest_builder *b);
/* The covered unit of a moment of a process, or NO_UNIT. */
size_t digest_covered_at(const struct digest_builder *b, uint16_t shard, int64_t time_ns);
int digest_idle(struct digest_builder *b);
int digest_kernels(struct digest_builder *b); /* by name, class and range, and collectives */
int digest_host(struct digest_builder *b);
int digest_facts(struct digest_builder *b);

#endif
