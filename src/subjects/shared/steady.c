/* SPDX-License-Identifier: Apache-2.0
 *
 * Work without starting up and ending; see steady.h.
 */
#include "subjects/shared/steady.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cmp.h"
#include "subjects/numbers/order.h"
#include "subjects/numbers/stats.h"

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
		for (end = i;
		     end < n && step->shard[index.rows[end]] == step->shard[index.rows[i]];)
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

static struct timeline_window cut_ends(const struct timeline_device *d)
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

/* A kernel, whatever its grid, and when the device first ran it. */
struct code {
	uint32_t name, registers, shared_bytes;
	int64_t first_ns;
};

static int by_code(const void *a, const void *b)
{
	const struct code *x = a, *y = b;

	return CMP(x->name, y->name) ?: CMP(x->registers, y->registers) ?:
	       CMP(x->shared_bytes, y->shared_bytes) ?: CMP(x->first_ns, y->first_ns);
}

static bool same_code(const struct code *x, const struct code *y)
{
	return x->name == y->name && x->registers == y->registers &&
	       x->shared_bytes == y->shared_bytes;
}

/* What the device ran, by code, then time; *ret_n of them. free() it. */
static struct code *codes_of(const struct run *run, const struct timeline_device *d, size_t *ret_n)
{
	const struct table_kernel *k = &run->kernel;
	struct code *codes;
	uint32_t most = 0;
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++)
		most = k->launch[i] > most ? k->launch[i] : most;
	codes = calloc((size_t)most + 1, sizeof(*codes));
	if (!codes)
		return NULL;
	for (uint32_t i = 0; i <= most; i++)
		codes[i].first_ns = INT64_MAX;
	for (size_t i = 0; i < k->n; i++)
		if (k->shard[i] == d->shard && k->device[i] == d->device && !k->untimed[i] &&
		    k->start_ns[i] < codes[k->launch[i]].first_ns)
			codes[k->launch[i]].first_ns = k->start_ns[i];
	for (uint32_t i = 0; i <= most; i++) {
		struct row_launch launch;

		if (codes[i].first_ns == INT64_MAX)
			continue;
		launch = run_launch(run, i);
		codes[n++] = (struct code){ launch.name, launch.registers,
					    launch.static_shared_bytes, codes[i].first_ns };
	}
	qsort(codes, n, sizeof(*codes), by_code);
	*ret_n = n;
	return codes;
}

/* The last gap that ended by then; d->n_long_gaps: none. */
static size_t gap_before(const struct timeline_device *d, int64_t time_ns)
{
	size_t low;

	ORDER_FIND(low, d->n_long_gaps, d->n_long_gaps, d->long_gaps[probe].end_ns <= time_ns);
	return low ? low - 1 : d->n_long_gaps;
}

/* Gaps after which the device soon runs what it never ran before. */
static int mark_first_uses(const struct run *run, const struct timeline_device *d,
			   bool *ret_prepares)
{
	size_t n;
	struct code *codes = codes_of(run, d, &n);

	if (!codes)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		size_t at = gap_before(d, codes[i].first_ns);
		int64_t length, since;

		if (at == d->n_long_gaps || (i && same_code(&codes[i - 1], &codes[i])))
			continue;
		length = d->long_gaps[at].end_ns - d->long_gaps[at].start_ns;
		since = codes[i].first_ns - d->long_gaps[at].end_ns;
		if (length >= STEADY_FIRST_NS && since <= length && since <= STEADY_SOON_NS)
			ret_prepares[at] = true;
	}
	free(codes);
	return 0;
}

static int find_preparing(const struct run *run, const struct timeline_device *d,
			  bool *ret_prepares)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n_long_gaps; i++)
		n += d->long_gaps[i].prepares;
	for (size_t i = 0; i < d->n_long_gaps; i++)
		ret_prepares[i] = n <= STEADY_PREPARES && d->long_gaps[i].prepares;
	return run->info.source[0] ? 0 : mark_first_uses(run, d, ret_prepares);
}

/* Time between two gaps: of less than either, and less than half full, it is a part of the
 * preparation (tuning, a first try). */
static bool goes_too(const struct timeline_window *window, int64_t left_ns, int64_t right_ns,
		     int64_t kernels_ns)
{
	int64_t length = window->end_ns - window->start_ns;

	return length < left_ns && length < right_ns && 2 * kernels_ns < length;
}

int steady_windows(const struct run *run, const struct timeline_device *d,
		   struct timeline_window *windows, size_t *ret_n)
{
	struct timeline_window rest = cut_ends(d);
	int64_t left = rest.start_ns - d->start_ns, right = d->end_ns - rest.end_ns;
	int64_t end = rest.end_ns, kernels = 0, last = d->kernel_ns;
	bool *prepares = calloc(d->n_long_gaps + 1, sizeof(*prepares));
	int r = prepares ? find_preparing(run, d, prepares) : -ENOMEM;
	size_t n = 0;

	for (size_t i = 0; r >= 0 && i < d->n_long_gaps; i++) {
		const struct timeline_gap *gap = &d->long_gaps[i];
		int64_t length = gap->end_ns - gap->start_ns;

		if (gap->end_ns <= rest.start_ns)
			kernels = gap->kernels_before_ns;
		if (gap->start_ns >= end && gap->kernels_before_ns < last)
			last = gap->kernels_before_ns;
		if (!prepares[i] || gap->start_ns <= rest.start_ns || gap->end_ns >= end)
			continue;
		rest.end_ns = gap->start_ns;
		if (!goes_too(&rest, left, length, gap->kernels_before_ns - kernels))
			windows[n++] = rest;
		rest.start_ns = gap->end_ns;
		kernels = gap->kernels_before_ns;
		left = length;
	}
	rest.end_ns = end;
	if (!n || !goes_too(&rest, left, right, last - kernels))
		windows[n++] = rest;
	*ret_n = n;
	free(prepares);
	return r;
}
