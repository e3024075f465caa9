/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows from gear records; see coverage.h.
 */
#include "subjects/shared/coverage.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cmp.h"
#include "subjects/numbers/order.h"

const char *gear_name(unsigned int gear)
{
	static const char *const names[] = { "none", "counts", "windows", "always", "yielded" };

	return gear < sizeof(names) / sizeof(names[0]) ? names[gear] : "?";
}

static int level_changes_by_time(const void *a, const void *b)
{
	const struct level_change *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->time_ns, y->time_ns);
}

static void take_changes(const struct run *run, struct coverage *c)
{
	const struct table_gear *t = &run->gear;
	static const char unknown[] = "not measured yet";

	for (size_t i = 0; i < t->n; i++)
		c->changes[i] = (struct level_change){
			.time_ns = t->time_ns[i],
			.why = t->why[i],
			.shard = t->shard[i],
			.gear = t->gear[i],
			.attached = t->attached[i] != 0,
			.cost_pct = t->cost_pct[i] > 0 ? value_of(t->cost_pct[i])
						       : value_absent(unknown),
		};
	c->n_changes = t->n;
	if (t->n)
		qsort(c->changes, t->n, sizeof(*c->changes), level_changes_by_time);
	for (size_t i = 0; i < t->n; i++)
		c->changes[i].gear_changed = !i || c->changes[i].shard != c->changes[i - 1].shard ||
					     c->changes[i].gear != c->changes[i - 1].gear;
	for (size_t i = 0; i < t->n; i++)
		if (!c->device_bytes.known || (double)t->device_bytes[i] > c->device_bytes.v)
			c->device_bytes = value_of((double)t->device_bytes[i]);
	if (!t->n)
		c->device_bytes = value_absent("no gear records in this run");
}

/* What an attached stretch cost: what the governor knew at its begin, else at its end, else at
 * the last time that it knew. */
static struct value stretch_cost(const struct level_change *changes, size_t i, size_t end)
{
	struct value cost = changes[i].cost_pct;

	if (!cost.known && i + 1 < end)
		cost = changes[i + 1].cost_pct;
	for (size_t j = end; !cost.known && j-- > 0 && changes[j].shard == changes[i].shard;)
		cost = changes[j].cost_pct;
	return cost;
}

struct governed {
	double cost_ns; /* percent times ns */
	bool unknown;
};

/* The changes [first, end) of one process. */
static void cut_process(const struct run *run, struct coverage *c, size_t first, size_t end,
			struct governed *governed)
{
	const struct level_change *changes = c->changes;
	uint16_t shard = changes[first].shard;
	int64_t process_end = run->shards[shard].end_ns;
	struct span watched = { .shard = shard };

	while (first < end && changes[first].gear == GEAR_NONE)
		first++;
	if (first == end)
		return;
	watched.start_ns = changes[first].time_ns;
	watched.end_ns = changes[end - 1].gear == GEAR_NONE ? changes[end - 1].time_ns
							    : process_end;
	if (watched.end_ns < changes[end - 1].time_ns)
		watched.end_ns = changes[end - 1].time_ns; /* the last sign of life is older */
	for (size_t i = first; i < end; i++) {
		int64_t until = i + 1 < end ? changes[i + 1].time_ns : watched.end_ns;
		struct span span = { changes[i].time_ns, until, 0, 0, shard };

		if (changes[i].attached) {
			struct value cost = stretch_cost(changes, i, end);

			c->windows[c->n_windows++] = span;
			governed->cost_ns += cost.known ? cost.v * (double)(until - span.start_ns)
							: 0;
			governed->unknown |= !cost.known && until > span.start_ns;
		} else if (changes[i].gear == GEAR_YIELDED && until > span.start_ns) {
			c->yields[c->n_yields++] = (struct yielded){ span.start_ns, until,
								     changes[i].why, shard };
		}
	}
	c->watched[c->n_watched++] = watched;
}

static void mark_devices(const uint16_t *shard, size_t n, bool *has)
{
	for (size_t i = 0; i < n; i++)
		has[shard[i]] = true;
}

/* Processes without a governor: covered wholly, when there is anything. */
static void add_ungoverned(const struct run *run, struct coverage *c, bool *has)
{
	mark_devices(run->kernel.shard, run->kernel.n, has);
	mark_devices(run->copy.shard, run->copy.n, has);
	mark_devices(run->set.shard, run->set.n, has);
	mark_devices(run->api.shard, run->api.n, has);
	for (size_t i = 0; i < c->n_changes; i++)
		has[c->changes[i].shard] = false;
	for (size_t s = 0; s < run->n_shards; s++) {
		struct span span = { run_since(run, s), run->shards[s].end_ns, 0, 0, (uint16_t)s };

		if (!has[s])
			continue;
		c->windows[c->n_windows++] = span;
		c->watched[c->n_watched++] = span;
	}
}

const struct span *coverage_window(const struct coverage *coverage, uint16_t shard,
				   int64_t start_ns, int64_t end_ns)
{
	const struct span *windows = coverage->windows;
	size_t low; /* one past the last that begins by then */

	ORDER_FIND(low, coverage->n_windows, coverage->n_windows,
		   windows[probe].shard < shard ||
			   (windows[probe].shard == shard && windows[probe].start_ns <= start_ns));
	if (!low || windows[low - 1].shard != shard || windows[low - 1].end_ns < end_ns)
		return NULL;
	return &windows[low - 1];
}

static bool is_watched(const struct coverage *c, uint16_t shard)
{
	struct span lane = { .shard = shard };
	size_t n;

	return spans_lane(c->watched, c->n_watched, &lane, &n) != NULL;
}

bool coverage_has_step(const struct coverage *coverage, const struct run *run, size_t step)
{
	const struct table_step *t = &run->step;

	return !t->unfinished[step] &&
	       (!is_watched(coverage, t->shard[step]) ||
		coverage_window(coverage, t->shard[step], t->start_ns[step],
				t->start_ns[step] + t->duration_ns[step]) != NULL);
}

static void count_steps(const struct run *run, struct coverage *c)
{
	for (size_t i = 0; i < run->step.n; i++) {
		if (!is_watched(c, run->step.shard[i]))
			continue;
		c->steps++;
		c->steps_covered += coverage_has_step(c, run, i);
	}
}

static void measure_coverage(struct coverage *c, const struct governed *governed)
{
	static const char none[] = "no device records were collected in this run";

	c->n_windows = spans_merge(c->windows, c->n_windows);
	c->n_watched = spans_merge(c->watched, c->n_watched);
	c->covered_ns = spans_length(c->windows, c->n_windows);
	c->watched_ns = spans_length(c->watched, c->n_watched);
	c->sampled = c->covered_ns < c->watched_ns;
	c->coverage_pct = c->watched_ns > 0
				  ? value_of(100.0 * (double)c->covered_ns / (double)c->watched_ns)
				  : value_absent(none);
	if (!c->n_changes)
		c->governed_pct = value_absent("no gear records in this run");
	else if (governed->unknown)
		c->governed_pct = value_absent("the cost while collecting was not measured");
	else
		c->governed_pct = c->watched_ns > 0
					  ? value_of(governed->cost_ns / (double)c->watched_ns)
					  : value_absent(none);
}

int coverage_analyze(const struct run *run, struct coverage *ret_coverage)
{
	size_t most = run->gear.n + run->n_shards + 1;
	struct governed governed = { 0 };
	struct coverage c = { 0 };
	bool *has = calloc(run->n_shards + 1, sizeof(*has));

	c.windows = calloc(most, sizeof(*c.windows));
	c.watched = calloc(most, sizeof(*c.watched));
	c.changes = calloc(most, sizeof(*c.changes));
	c.yields = calloc(most, sizeof(*c.yields));
	if (!has || !c.windows || !c.watched || !c.changes || !c.yields) {
		free(has);
		coverage_release(&c);
		return -ENOMEM;
	}
	take_changes(run, &c);
	for (size_t i = 0, end; i < c.n_changes; i = end) {
		for (end = i; end < c.n_changes && c.changes[end].shard == c.changes[i].shard;)
			end++;
		cut_process(run, &c, i, end, &governed);
	}
	add_ungoverned(run, &c, has);
	free(has);
	measure_coverage(&c, &governed);
	count_steps(run, &c);
	*ret_coverage = c;
	return 0;
}

void coverage_release(struct coverage *coverage)
{
	free(coverage->windows);
	free(coverage->watched);
	free(coverage->changes);
	free(coverage->yields);
	*coverage = (struct coverage){ 0 };
}
