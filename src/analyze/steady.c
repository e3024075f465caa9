/* SPDX-License-Identifier: Apache-2.0
 *
 * Work without starting up and ending; see steady.h.
 */
#include "analyze/steady.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/stats.h"

/* The steps of one process, by start. */
static void mark_starting(const struct run *run, const size_t *rows, size_t n, double *room,
			  bool *ret_starting)
{
	const int64_t *duration_ns = run->step.duration_ns;
	double limit, later;
	size_t first = 0;

	if (n < STEADY_STEPS)
		return;
	for (size_t i = 0; i < n; i++)
		room[i] = (double)duration_ns[rows[i]];
	limit = STEADY_RATIO * stats_median(room, n);
	while (first < n && (double)duration_ns[rows[first]] > limit)
		first++;
	if (!first || first == n)
		return;
	/* Where later steps are often as long, the first ones are usual. */
	for (size_t i = first; i < n; i++)
		room[i] = (double)duration_ns[rows[i]];
	later = stats_percentile(room + first, n - first, STEADY_LATER_PCT);
	limit = later > limit ? later : limit;
	for (size_t i = 0; i < first && (double)duration_ns[rows[i]] > limit; i++)
		ret_starting[rows[i]] = true;
}

int steady_steps(const struct run *run, const struct selection *sel, bool *ret_starting)
{
	const struct table_step *step = &run->step;
	double *room = calloc(step->n + 1, sizeof(*room));
	struct step_index index;
	size_t n = 0;
	int r = room ? step_index_init(&index, run) : -ENOMEM;

	if (r < 0) {
		free(room);
		return r;
	}
	for (size_t i = 0; i < index.n; i++)
		if (!step->unfinished[index.rows[i]] &&
		    selection_has_step(sel, step->step[index.rows[i]]))
			index.rows[n++] = index.rows[i];
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && step->shard[index.rows[end]] == step->shard[index.rows[i]];)
			end++;
		mark_starting(run, index.rows + i, end - i, room, ret_starting);
	}
	step_index_release(&index);
	free(room);
	return 0;
}

/* Few kernels in a time that is emptier than the rest. */
static bool aside(double kernels, double time_ns, double all_kernels, double all_ns)
{
	return kernels <= STEADY_KERNELS * all_kernels && all_ns > time_ns &&
	       kernels / time_ns < 0.5 * (all_kernels - kernels) / (all_ns - time_ns);
}

struct timeline_window steady_window(const struct timeline_device *d)
{
	struct timeline_window whole = { d->start_ns, d->end_ns, d->device, d->shard };
	struct timeline_window window = whole;
	double kernels = (double)d->kernel_ns, all = (double)(d->end_ns - d->start_ns), cut;

	for (size_t i = 0; i < d->n_long_gaps; i++) {
		const struct timeline_gap *gap = &d->long_gaps[i];

		if (aside((double)gap->kernels_before_ns, (double)(gap->end_ns - whole.start_ns),
			  kernels, all))
			window.start_ns = gap->end_ns;
	}
	for (size_t i = d->n_long_gaps; i-- > 0;) {
		const struct timeline_gap *gap = &d->long_gaps[i];

		if (gap->start_ns > window.start_ns &&
		    aside(kernels - (double)gap->kernels_before_ns,
			  (double)(whole.end_ns - gap->start_ns), kernels, all))
			window.end_ns = gap->start_ns;
	}
	cut = all - (double)(window.end_ns - window.start_ns);
	return cut < STEADY_CUT * all || cut < STEADY_CUT_NS ? whole : window;
}
