/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about communication between devices and ranks (comm.h). See rules.h.
 */
#include "subjects/comm/comm.h"
#include "subjects/stacks/sampled_stacks.h"
#include "subjects/steps/steps.h"
#include "verdicts/rules.h"

#define EXPOSED_PCT 5.0 /* of the time; less is not worth a line */
#define LATE_PCT 60.0	/* of the collectives: more often than chance lets one of two be */
#define LATE_WAIT_PCT 2.0
#define LATE_MATCHED 8 /* fewer collectives say nothing about who is late */

/* One rank makes the others wait; what of the exposed time that is. */
static bool one_is_late(const struct comm *comm, double *ret_wait_pct)
{
	const struct comm_skew *skew = &comm->skew;

	if (skew->matched < LATE_MATCHED || !skew->late_rank.known || skew->late_pct.v < LATE_PCT ||
	    !comm->wait_pct.known || comm->wait_pct.v < LATE_WAIT_PCT)
		return false;
	*ret_wait_pct = comm->wait_pct.v;
	if (comm->exposed_pct.known && *ret_wait_pct > comm->exposed_pct.v)
		*ret_wait_pct = comm->exposed_pct.v;
	return true;
}

static struct span longest_communication(const struct comm *comm)
{
	struct span longest = { 0 };

	for (size_t d = 0; d < comm->n_devices; d++)
		for (size_t i = 0; i < comm->devices[d].when.n; i++) {
			const struct span *span = &comm->devices[d].when.spans[i];

			if (span->end_ns - span->start_ns <= longest.end_ns - longest.start_ns)
				continue;
			longest = *span;
			longest.device = comm->devices[d].device;
			longest.shard = comm->devices[d].shard;
		}
	return longest;
}

bool rule_comm_exposed(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct comm *comm = answer_comm(a);
	double wait = 0, rest;
	struct span longest;

	if (!comm->all.count || !comm->exposed_pct.known)
		return false;
	/* Waiting for a late rank is that rank's verdict. */
	rest = one_is_late(comm, &wait) ? comm->exposed_pct.v - wait : comm->exposed_pct.v;
	if (rest < EXPOSED_PCT)
		return false;
	TITLE(v, "exposed communication takes %.0f%% of the time%s%s", rest,
	      comm->of_steps ? " of the steps" : "",
	      wait > 0 ? ", not counting the wait for the late rank" : "");
	longest = longest_communication(comm);
	rule_when_span(run, v, "the longest communication", "kernels", &longest);
	rule_evidence(v, "exposed_pct", EVIDENCE_PCT, comm->exposed_pct.v);
	if (comm->all.overlap_pct.known)
		rule_evidence(v, "comm_overlap_pct", EVIDENCE_PCT, comm->all.overlap_pct.v);
	rule_evidence(v, "comm_ns", EVIDENCE_NS, (double)comm->all.time_ns);
	if (comm->of_steps && answer_steps(a)->all.n)
		rule_evidence(v, "exposed_per_step_ns", EVIDENCE_NS,
			      comm->exposed_pct.v / 100 * answer_steps(a)->all.mean);
	rule_gain(v, rest, "all of it overlaps computation");
	ADVICE(v,
	       "Start it earlier and compute meanwhile: gradients in buckets during the backward "
	       "pass, weights gathered a layer ahead, two micro-batches so that dispatch and "
	       "combine of one overlap the other. Send fewer, larger messages. 'moescope comm' "
	       "lists the collectives.");
	return true;
}

/* Words for a group of which only some ranks were recorded: one of the others may be later. */
static const char *recorded_of(const struct run *run, const struct comm *comm, char *out,
			       size_t size)
{
	uint32_t largest = 0;

	for (size_t i = 0; i < comm->n; i++)
		if (comm->rows[i].skew.matched && comm->rows[i].group_size > largest)
			largest = comm->rows[i].group_size;
	out[0] = 0;
	if (largest > run_processes(run))
		rule_words(out, size, " (%zu of %u ranks recorded)", run_processes(run), largest);
	return out;
}

bool rule_rank_late(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct comm *comm = answer_comm(a);
	const struct comm_skew *skew = &comm->skew;
	char scope[64];
	double wait;

	if (!one_is_late(comm, &wait))
		return false;
	TITLE(v,
	      "rank %.0f is the last to start %.0f%% of the collectives%s: the others wait %.1f%% of the time",
	      skew->late_rank.v, skew->late_pct.v, recorded_of(run, comm, scope, sizeof(scope)),
	      comm->wait_pct.v);
	if (skew->worst.end_ns > skew->worst.start_ns)
		v->when = (struct verdict_when){ "the collective that ranks waited for the longest",
						 "kernels",
						 skew->worst.start_ns,
						 skew->worst.end_ns,
						 skew->worst_rank,
						 value_absent("a collective is of several") };
	rule_evidence(v, "wait_pct", EVIDENCE_PCT, comm->wait_pct.v);
	rule_evidence(v, "late_pct", EVIDENCE_PCT, skew->late_pct.v);
	rule_evidence(v, "skew_mean_ns", EVIDENCE_NS, skew->mean_ns.v);
	rule_evidence(v, "matched", EVIDENCE_COUNT, (double)skew->matched);
	rule_gain(v, wait, "it starts with the others");
	ADVICE(v,
	       "Find what takes that rank longer before each collective: more tokens or experts, "
	       "data loading, a slower or throttled device, another program. Compare 'moescope "
	       "steps' and 'moescope kernels' of its file with another rank's.");
	return true;
}
