/* SPDX-License-Identifier: Apache-2.0
 *
 * A run's digest, the steps that it is over, and their figures; see digest.h.
 */
#include "compare/digest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "compare/digest_inside.h"
#include "subjects/numbers/stats.h"

/* One step of one rank. */
struct entry {
	int64_t step, start_ns;
	size_t at; /* into steps.rows */
	unsigned int times;
	uint16_t shard;
};

static int by_shard_step(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static int by_step(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->times != y->times)
		return x->times < y->times ? -1 : 1;
	return x->shard < y->shard ? -1 : x->shard > y->shard;
}

static int by_start(const void *a, const void *b)
{
	const struct digest_unit *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

/* All steps, those of a number together; *ret_ranks: processes that have any. */
static struct entry *list_steps(const struct digest_builder *b, size_t *ret_ranks)
{
	struct entry *entries = calloc(b->steps.n + 1, sizeof(*entries));
	size_t ranks = 0;

	if (!entries)
		return NULL;
	for (size_t i = 0; i < b->steps.n; i++) {
		const struct step_row *row = &b->steps.rows[i];

		entries[i] = (struct entry){ row->step, row->start_ns, i, 0,
					     b->run->step.shard[row->row] };
	}
	if (b->steps.n)
		qsort(entries, b->steps.n, sizeof(*entries), by_shard_step);
	for (size_t i = 0; i < b->steps.n; i++) {
		bool same_shard = i && entries[i].shard == entries[i - 1].shard;

		ranks += !same_shard;
		if (same_shard && entries[i].step == entries[i - 1].step)
			entries[i].times = entries[i - 1].times + 1;
	}
	if (b->steps.n)
		qsort(entries, b->steps.n, sizeof(*entries), by_step);
	*ret_ranks = ranks;
	return entries;
}

/* The n entries from `first` on are one step. False: not every rank has finished it. */
static bool make_unit(struct digest_builder *b, const struct entry *entries, size_t first, size_t n,
		      struct digest_unit *unit)
{
	double ranks = (double)b->ranks;

	*unit = (struct digest_unit){ .first = first,
				      .step = entries[first].step,
				      .start_ns = entries[first].start_ns,
				      .recorded = true,
				      .covered = true,
				      .tokens_known = true,
				      .phases_known = true };
	for (size_t i = first; i < first + n; i++) {
		const struct step_row *row = &b->steps.rows[entries[i].at];

		if (!row->timed) {
			b->digest->unfinished += row->unfinished;
			b->digest->warmup += !row->unfinished;
			return false;
		}
		unit->start_ns = row->start_ns < unit->start_ns ? row->start_ns : unit->start_ns;
		unit->recorded = unit->recorded && row->recorded;
		unit->covered = unit->covered && row->recorded &&
				coverage_has_step(&b->coverage, b->run, row->row);
		unit->time_ns += (double)row->duration_ns / ranks;
		unit->tokens_known = unit->tokens_known && row->tokens.known;
		unit->tokens += row->tokens.known ? row->tokens.v : 0;
		unit->phases_known = unit->phases_known && row->phases_known;
		for (int p = 0; p < STEP_PHASES; p++)
			unit->phase_ns[p] += (double)row->phase_ns[p] / ranks;
	}
	b->digest->partial += n < b->ranks;
	return n == b->ranks;
}

static void number_units(struct digest_builder *b, const struct entry *entries)
{
	for (size_t u = 0; u < b->n_units; u++) {
		for (size_t i = 0; i < b->ranks; i++)
			b->unit_of[b->steps.rows[entries[b->units[u].first + i].at].row] = u;
		b->recorded_at[u] = b->units[u].recorded ? b->n_recorded++ : NO_UNIT;
		b->covered_at[u] = b->units[u].covered ? b->n_covered++ : NO_UNIT;
	}
}

/* Processes that did something: what is summed over them is divided by their number. */
static size_t count_ranks(const struct run *run)
{
	size_t n = 0;

	for (size_t s = 0; s < run->n_shards; s++) {
		bool found = false;

		for (size_t i = 0; i < run->kernel.n && !found; i++)
			found = run->kernel.shard[i] == s;
		for (size_t i = 0; !run->kernel.n && i < run->op.n && !found; i++)
			found = run->op.shard[i] == s;
		for (size_t i = 0; !run->kernel.n && i < run->range.n && !found; i++)
			found = run->range.shard[i] == s;
		n += found;
	}
	return n ? n : 1;
}

static int whole_unit(struct digest_builder *b)
{
	b->units = calloc(1, sizeof(*b->units));
	b->covered_at = calloc(1, sizeof(*b->covered_at));
	b->recorded_at = calloc(1, sizeof(*b->recorded_at));
	if (!b->units || !b->covered_at || !b->recorded_at)
		return -ENOMEM;
	b->units[0] = (struct digest_unit){ .recorded = true, .covered = true };
	b->n_units = b->n_covered = b->n_recorded = 1;
	b->ranks = count_ranks(b->run);
	return 0;
}

static int make_units(struct digest_builder *b)
{
	size_t most = b->steps.n + 1;
	struct entry *entries = list_steps(b, &b->ranks);

	b->units = calloc(most, sizeof(*b->units));
	b->unit_of = calloc(b->run->step.n + 1, sizeof(*b->unit_of));
	b->covered_at = calloc(most, sizeof(*b->covered_at));
	b->recorded_at = calloc(most, sizeof(*b->recorded_at));
	if (!entries || !b->units || !b->unit_of || !b->covered_at || !b->recorded_at) {
		free(entries);
		return -ENOMEM;
	}
	for (size_t i = 0; i < b->run->step.n; i++)
		b->unit_of[i] = NO_UNIT;
	for (size_t i = 0, end; i < b->steps.n; i = end) {
		for (end = i; end < b->steps.n && entries[end].step == entries[i].step &&
			      entries[end].times == entries[i].times;)
			end++;
		b->n_units += make_unit(b, entries, i, end - i, &b->units[b->n_units]);
	}
	if (b->n_units)
		qsort(b->units, b->n_units, sizeof(*b->units), by_start);
	/* Who chooses steps has chosen them all. */
	if (!selection_is_window(b->sel) && b->n_units >= 3 * b->steps.n_warmup) {
		b->digest->warmup += b->steps.n_warmup;
		b->n_units -= b->steps.n_warmup;
		memmove(b->units, b->units + b->steps.n_warmup, b->n_units * sizeof(*b->units));
	}
	number_units(b, entries);
	free(entries);
	b->digest->steps = b->n_units;
	b->digest->covered = b->has_device ? b->n_covered : 0;
	return 0;
}

static void release_units(struct digest_builder *b)
{
	free(b->units);
	free(b->unit_of);
	free(b->covered_at);
	free(b->recorded_at);
	b->units = NULL;
	b->unit_of = b->covered_at = b->recorded_at = NULL;
}

static struct value statistic_of(enum figure_statistic statistic, const double *x, size_t n)
{
	struct value value = value_of(stats_mean(x, n));
	double *copy;

	if (statistic != FIGURE_MEDIAN)
		return value;
	copy = calloc(n, sizeof(*copy));
	if (!copy)
		return value_absent(NULL);
	memcpy(copy, x, n * sizeof(*copy));
	value = value_of(stats_median(copy, n));
	free(copy);
	return value;
}

int digest_add(struct digest_builder *b, enum compare_metric_id metric, const char *of, int order,
	       double *x, size_t n)
{
	struct run_digest *d = b->digest;
	struct digest_figure *figure;

	if (!n) {
		free(x);
		return 0;
	}
	if (array_grow(&d->figures, &b->figures_capacity, d->n + 1, sizeof(*d->figures)) < 0) {
		free(x);
		return -ENOMEM;
	}
	figure = &d->figures[d->n++];
	*figure = (struct digest_figure){ .metric = metric, .order = order, .x = x, .n = n };
	snprintf(figure->of, sizeof(figure->of), "%s", of);
	d->missing[metric] = NULL;
	figure->value = statistic_of(compare_metrics[metric].statistic, x, n);
	return figure->value.known ? 0 : -ENOMEM;
}

/* The figure of one step; false: it has none. */
typedef bool (*unit_figure)(const struct digest_unit *unit, int which, double *ret);

static bool time_of(const struct digest_unit *unit, int which, double *ret)
{
	(void)which;
	*ret = unit->time_ns;
	return true;
}

static bool rate_of(const struct digest_unit *unit, int which, double *ret)
{
	(void)which;
	*ret = unit->time_ns > 0 ? unit->tokens * 1e9 / unit->time_ns : 0;
	return unit->tokens_known && unit->time_ns > 0;
}

static bool phase_of(const struct digest_unit *unit, int which, double *ret)
{
	*ret = unit->phase_ns[which];
	return unit->phases_known;
}

static int add_unit_figure(struct digest_builder *b, enum compare_metric_id metric, const char *of,
			   int which, unit_figure figure)
{
	double *x = calloc(b->n_units + 1, sizeof(*x));
	size_t n = 0;

	if (!x)
		return -ENOMEM;
	for (size_t u = 0; u < b->n_units; u++)
		n += figure(&b->units[u], which, &x[n]);
	return digest_add(b, metric, of, which, x, n);
}

static bool phase_is_used(const struct digest_builder *b, int phase)
{
	for (size_t u = 0; u < b->n_units; u++)
		if (b->units[u].phases_known && b->units[u].phase_ns[phase] > 0)
			return true;
	return false;
}

struct extent {
	int64_t first_ns, last_ns;
	bool any;
};

static void widen_extent(struct extent *e, size_t n, const uint16_t *shards, uint16_t shard,
			 const int64_t *start_ns, const int64_t *duration_ns,
			 const uint8_t *untimed)
{
	for (size_t i = 0; i < n; i++) {
		if (shards[i] != shard || (untimed && untimed[i]))
			continue;
		if (!e->any || start_ns[i] < e->first_ns)
			e->first_ns = start_ns[i];
		if (!e->any || start_ns[i] + duration_ns[i] > e->last_ns)
			e->last_ns = start_ns[i] + duration_ns[i];
		e->any = true;
	}
}

/* From the first to the last thing that was recorded: mean over the processes that did something. */
static int add_run_time(struct digest_builder *b)
{
	const struct run *run = b->run;
	double *x = calloc(1, sizeof(*x));
	size_t n = 0;

	if (!x)
		return -ENOMEM;
	for (uint16_t s = 0; s < run->n_shards; s++) {
		struct extent e = { 0 };

#define EXTEND(table, untimed)                                                                     \
	widen_extent(&e, (table).n, (table).shard, s, (table).start_ns, (table).duration_ns,       \
		     untimed)
		EXTEND(run->kernel, run->kernel.untimed);
		EXTEND(run->copy, run->copy.untimed);
		EXTEND(run->set, run->set.untimed);
		EXTEND(run->api, NULL);
		EXTEND(run->range, NULL);
		EXTEND(run->op, NULL);
#undef EXTEND
		*x += (double)(e.last_ns - e.first_ns);
		n += e.any;
	}
	*x /= n ? (double)n : 1;
	return digest_add(b, COMPARE_RUN_TIME, "", 0, x, n ? 1 : 0);
}

/* Times, tokens, phases. */
static int add_steps(struct digest_builder *b)
{
	const char *none = !b->run->step.n ? "no steps were recorded"
			   : !b->steps.n   ? "no steps in the chosen window"
					   : "no step was finished by every rank";
	const char **missing = b->digest->missing;
	int r;

	if (b->whole) {
		missing[COMPARE_STEP_TIME] = missing[COMPARE_STEP_TIME_MEAN] =
			missing[COMPARE_TOKENS_PER_S] = missing[COMPARE_PHASE_TIME] = none;
		return add_run_time(b);
	}
	missing[COMPARE_RUN_TIME] = "it is compared by its steps";
	missing[COMPARE_STEP_TIME] = missing[COMPARE_STEP_TIME_MEAN] = none;
	missing[COMPARE_TOKENS_PER_S] = b->n_units ? "the program did not give the tokens of its "
						     "steps"
						   : none;
	missing[COMPARE_PHASE_TIME] = b->n_units ? "no range names a phase" : none;
	r = add_unit_figure(b, COMPARE_STEP_TIME, "", 0, time_of);
	if (r >= 0)
		r = add_unit_figure(b, COMPARE_STEP_TIME_MEAN, "", 0, time_of);
	if (r >= 0)
		r = add_unit_figure(b, COMPARE_TOKENS_PER_S, "", 0, rate_of);
	for (int p = 1; r >= 0 && p < STEP_PHASES; p++)
		if (phase_is_used(b, p))
			r = add_unit_figure(b, COMPARE_PHASE_TIME, phase_name((unsigned int)p), p,
					    phase_of);
	return r;
}

static int by_metric(const void *a, const void *b)
{
	const struct digest_figure *x = a, *y = b;

	if (x->metric != y->metric)
		return x->metric < y->metric ? -1 : 1;
	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	return strcmp(x->of, y->of);
}

/* Something was recorded, and no step that can be used. A window that holds no step holds nothing. */
static bool is_for_whole(const struct digest_builder *b)
{
	return !b->n_units && !selection_is_window(b->sel) &&
	       (b->has_device || b->run->op.n || b->run->range.n);
}

static int prepare_digest(struct digest_builder *b)
{
	const struct run *run = b->run;
	int r = coverage_analyze(run, &b->coverage);

	b->has_device = run->kernel.n || run->copy.n || run->set.n || run->api.n;
	b->digest->sampled = b->coverage.sampled;
	b->digest->lost = loss_total(&run->loss);
	if (r >= 0)
		r = steps_analyze(run, b->sel, &b->steps);
	if (r >= 0)
		r = step_index_init(&b->index, run);
	if (r >= 0)
		r = make_units(b);
	b->digest->has_steps = r >= 0 && b->n_units;
	b->whole = b->whole || (r >= 0 && is_for_whole(b));
	b->digest->whole = b->whole;
	if (r >= 0 && b->whole) {
		release_units(b);
		b->digest->steps = b->digest->covered = b->digest->warmup = 0;
		r = whole_unit(b);
	}
	b->digest->name = strdup(run->info.name);
	b->digest->path = strdup(run->info.path);
	return r < 0 || (b->digest->name && b->digest->path) ? r : -ENOMEM;
}

static int take_digest(const struct run *run, const struct selection *sel, bool whole,
		       struct run_digest *ret_digest)
{
	struct run_digest digest = { 0 };
	struct digest_builder b = { .run = run, .sel = sel, .whole = whole, .digest = &digest };
	int (*const parts[])(struct digest_builder *) = { prepare_digest, add_steps,
							  digest_program, digest_device,
							  digest_kernels, digest_idle,
							  digest_host,	  digest_facts };
	int r = 0;

	for (int i = 0; i < COMPARE_METRICS; i++)
		digest.missing[i] = "not recorded in this run";
	for (size_t i = 0; r >= 0 && i < sizeof(parts) / sizeof(parts[0]); i++)
		r = parts[i](&b);
	if (digest.n)
		qsort(digest.figures, digest.n, sizeof(*digest.figures), by_metric);
	coverage_release(&b.coverage);
	steps_release(&b.steps);
	step_index_release(&b.index);
	release_units(&b);
	free(b.kernel_at);
	free(b.kernel_path);
	attribution_release(&b.at);
	if (r < 0) {
		digest_release(&digest);
		return r;
	}
	*ret_digest = digest;
	return 0;
}

int digest_take(const struct run *run, const struct selection *sel, struct run_digest *ret_digest)
{
	return take_digest(run, sel, false, ret_digest);
}

int digest_take_whole(const struct run *run, struct run_digest *ret_digest)
{
	const struct selection all = SELECT_ALL;

	return take_digest(run, &all, true, ret_digest);
}

static void rows_release(struct digest_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		free(rows->rows[i].name);
		free(rows->rows[i].short_name);
	}
	free(rows->rows);
}

void digest_release(struct run_digest *digest)
{
	for (size_t i = 0; i < digest->n; i++)
		free(digest->figures[i].x);
	free(digest->figures);
	for (int i = 0; i < COMPARE_TABLES; i++)
		rows_release(&digest->tables[i]);
	for (size_t i = 0; i < digest->n_facts; i++) {
		free(digest->facts[i].key);
		free(digest->facts[i].value);
	}
	free(digest->facts);
	free(digest->name);
	free(digest->path);
	*digest = (struct run_digest){ 0 };
}
