/* SPDX-License-Identifier: Apache-2.0
 *
 * Time of the program and of its devices in prefill and decode; see inference.h. Pure, any thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "moescope.h"
#include "subjects/inference/inference.h"
#include "subjects/numbers/intervals.h"
#include "subjects/shared/attribution.h"

static int stage_of(unsigned int phase)
{
	return phase == MOESCOPE_PREFILL  ? STAGE_PREFILL
	       : phase == MOESCOPE_DECODE ? STAGE_DECODE
					  : STAGES;
}

#define ADD_SPANS(table)                                                                           \
	for (size_t i = 0; i < (table)->n; i++) {                                                  \
		int stage = stage_of(run_site(run, (table)->site[i]).phase);                       \
                                                                                                   \
		if (stage != STAGES)                                                               \
			spans[n++] = (struct span){                                                \
				.start_ns = (table)->start_ns[i],                                  \
				.end_ns = (table)->start_ns[i] + (table)->duration_ns[i],          \
				.group = (uint32_t)stage,                                          \
				.shard = (table)->shard[i],                                        \
			};                                                                         \
	}

/* How long a process has a range or operation of each phase open, whatever thread it is on. */
static int host_time(const struct run *run, bool *ret_any, struct inference *out)
{
	struct span *spans = calloc(run->range.n + run->op.n + 1, sizeof(*spans));
	size_t n = 0;

	if (!spans)
		return -ENOMEM;
	ADD_SPANS(&run->range)
	ADD_SPANS(&run->op)
	*ret_any = n > 0;
	n = spans_merge(spans, n);
	for (int s = 0; s < STAGES; s++)
		out->stages[s].range_ns = value_absent("no range names this phase");
	for (size_t i = 0; i < n; i++) {
		struct value *sum = &out->stages[spans[i].group].range_ns;

		*sum = value_of(sum->v + (double)(spans[i].end_ns - spans[i].start_ns));
	}
	free(spans);
	return 0;
}

static int device_time(const struct run *run, struct inference *out)
{
	const struct table_kernel *t = &run->kernel;
	double sums[STAGES + 1] = { 0 };
	struct attribution_cursor cursor = { 0 };
	struct attribution at;
	int r = attribution_init(&at, run);

	if (r < 0)
		return r;
	for (size_t i = 0; i < t->n; i++) {
		struct device_work work = { t->correlation[i], t->graph_node[i], t->start_ns[i],
					    t->shard[i] };
		struct place place;

		if (!t->untimed[i] &&
		    attribution_find_near(&at, &cursor, &work, at.kernel_call[i], &place))
			sums[stage_of(place.phase)] += (double)t->duration_ns[i];
	}
	attribution_release(&at);
	for (int s = 0; s < STAGES; s++)
		out->stages[s].device_ns = out->stages[s].range_ns.known
						   ? value_of(sums[s])
						   : value_absent("no range names this phase");
	return 0;
}

int inference_stages_fill(const struct run *run, struct inference *out)
{
	bool any = false;
	int r = host_time(run, &any, out);

	if (r < 0)
		return r;
	for (int s = 0; s < STAGES; s++)
		out->stages[s].device_ns =
			value_absent(!run->kernel.n ? "no device records in this run"
				     : !any	    ? "no range names this phase"
						    : "the calls that launched the device's work "
						      "were not recorded");
	return any && run->kernel.n && (run->api.n || run->graph_node.n) ? device_time(run, out)
									 : 0;
}
