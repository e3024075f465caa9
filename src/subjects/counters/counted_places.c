/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters by place; see counted_places.h. Pure, any thread.
 */
#include "subjects/counters/counted_places.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/counters/paired_sums.h"
#include "subjects/shared/attribution.h"

enum amount { TIME, BYTES, OPS, AMOUNTS };
enum grouping { BY_RANGE, BY_LAYER, BY_EXPERT };

/* A metric that is an amount, or a part of one. */
struct part {
	uint32_t metric; /* string */
	enum amount amount;
	const char *unit;
};

/* A row of run->metric or run->counted, by its launch. */
struct row_of {
	uint16_t shard;
	uint32_t profile;
	size_t row;
};

struct launch {
	uint32_t kernel, path;
	int32_t layer, expert;
	uint16_t shard;
	int64_t step;
	bool in_step, whole; /* whole: the step was counted from its begin to its end */
	size_t first, n;     /* of the metrics by launch */
};

/* A step in which a launch was to be counted and was not. */
struct lost_in {
	uint16_t shard;
	int64_t step;
};

/* A row of run->routing. */
struct routed {
	int64_t step;
	int32_t layer;
	size_t row;
};

/* Of a part: over the launches of a kernel in a place that have it; [1]: those in whole steps. */
struct part_sum {
	double sum[2];
	uint64_t n[2];
};

struct work {
	const struct run *run;
	const struct attribution *at;
	struct part *parts;
	size_t n_parts, parts_capacity;
	struct row_of *metrics;
	struct launch *launches;
	size_t n, capacity;
	struct lost_in *lost; /* by process and step */
	size_t n_lost, lost_capacity;
	struct routed *routed; /* by step and layer */
	size_t n_routed;
	const char *no_routing;	    /* why the tokens of layers are not known; NULL: they may be */
	struct part_sum *part_sums; /* scratch, of n_parts */
	int64_t *steps;		    /* scratch, of n */
};

/* ---- which metrics are which amount */

static bool is_amount(const char *name, struct part *part)
{
	if (!strcmp(name, TIME_METRIC)) {
		part->amount = TIME;
		part->unit = "ns";
	} else if (dram_metric_way(name)) {
		part->amount = BYTES;
		part->unit = "byte";
	} else if (is_tensor_metric(name)) {
		part->amount = OPS;
		part->unit = "";
	} else {
		return false;
	}
	return true;
}

static bool has_part(const struct work *work, const char *name)
{
	for (size_t i = 0; i < work->n_parts; i++)
		if (!strcmp(run_string(work->run, work->parts[i].metric), name))
			return true;
	return false;
}

static bool has_bytes(const struct work *work, enum dram_way way)
{
	for (size_t i = 0; i < work->n_parts; i++)
		if (dram_metric_way(run_string(work->run, work->parts[i].metric)) == way)
			return true;
	return false;
}

/* What other parts have, too, must not be added twice; and bytes of one direction are no amount. */
static bool is_left_out(const struct work *work, const char *name)
{
	bool each_way = has_bytes(work, DRAM_READ) && has_bytes(work, DRAM_WRITE);
	enum dram_way way = dram_metric_way(name);

	if (way)
		return each_way == (way == DRAM_BOTH_WAYS);
	for (size_t i = 0; i < work->n_parts; i++)
		if (tensor_metric_covers(run_string(work->run, work->parts[i].metric), name))
			return true;
	return false;
}

static int list_parts(struct work *work)
{
	const struct table_metric *t = &work->run->metric;
	struct part *chosen;
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		const char *name = run_string(work->run, t->name[i]);
		struct part part = { .metric = t->name[i] };

		if (!is_amount(name, &part) || has_part(work, name))
			continue;
		if (array_grow(&work->parts, &work->parts_capacity, work->n_parts + 1,
			       sizeof(*work->parts)) < 0)
			return -ENOMEM;
		work->parts[work->n_parts++] = part;
	}
	chosen = array_new(work->n_parts, sizeof(*chosen));
	work->part_sums = calloc(work->n_parts + 1, sizeof(*work->part_sums));
	if (!chosen || !work->part_sums) {
		free(chosen);
		return -ENOMEM;
	}
	for (size_t i = 0; i < work->n_parts; i++)
		if (!is_left_out(work, run_string(work->run, work->parts[i].metric)))
			chosen[n++] = work->parts[i];
	free(work->parts);
	work->parts = chosen;
	work->n_parts = n;
	return 0;
}

/* ---- launches, and where the program made them */

static int by_launch(const void *a, const void *b)
{
	const struct row_of *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->profile, y->profile) ?: CMP(x->row, y->row);
}

static bool is_before(const struct row_of *x, const struct row_of *y)
{
	return x->shard != y->shard ? x->shard < y->shard : x->profile < y->profile;
}

/* free() them. */
static int rows_by_launch(const uint16_t *shard, const uint32_t *profile, size_t n,
			  struct row_of **ret_rows)
{
	struct row_of *rows = array_new(n, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		rows[i] = (struct row_of){ shard[i], profile[i], i };
	if (n)
		qsort(rows, n, sizeof(*rows), by_launch);
	*ret_rows = rows;
	return 0;
}

/* counted: a row of run->counted. n 0: nothing of it was counted. */
static int add_launch(struct work *work, size_t first, size_t n, size_t counted,
		      struct attribution_cursor *cursor)
{
	const struct table_counted *t = &work->run->counted;
	struct place place = attribution_place_of(work->at, cursor, t->shard[counted],
						  t->thread[counted], t->time_ns[counted]);
	size_t row;

	if (!n) {
		if (place.step == NO_STEP)
			return 0;
		if (array_grow(&work->lost, &work->lost_capacity, work->n_lost + 1,
			       sizeof(*work->lost)) < 0)
			return -ENOMEM;
		work->lost[work->n_lost++] = (struct lost_in){ t->shard[counted],
							       work->run->step.step[place.step] };
		return 0;
	}
	row = work->metrics[first].row;
	if (array_grow(&work->launches, &work->capacity, work->n + 1, sizeof(*work->launches)) < 0)
		return -ENOMEM;
	work->launches[work->n++] = (struct launch){
		.kernel = run_launch(work->run, work->run->metric.launch[row]).name,
		.path = place.path,
		.layer = place.layer,
		.expert = place.expert,
		.shard = t->shard[counted],
		.step = place.step == NO_STEP ? 0 : work->run->step.step[place.step],
		.in_step = place.step != NO_STEP,
		.first = first,
		.n = n,
	};
	return 0;
}

static int by_lost(const void *a, const void *b)
{
	const struct lost_in *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->step, y->step);
}

/* Each launch that the run says the place of, with its metrics. */
static int list_launches(struct work *work)
{
	const struct run *run = work->run;
	struct attribution_cursor cursor = { work->at->n_ranges, work->at->steps.n,
					     work->at->n_ranges };
	struct row_of *counted = NULL;
	size_t begin = 0, end;
	int r = rows_by_launch(run->metric.shard, run->metric.profile, run->metric.n,
			       &work->metrics);

	if (r == 0)
		r = rows_by_launch(run->counted.shard, run->counted.profile, run->counted.n,
				   &counted);
	for (size_t i = 0; r == 0 && i < run->counted.n; i++) {
		const struct row_of *launch = &counted[i];

		while (begin < run->metric.n && is_before(&work->metrics[begin], launch))
			begin++;
		for (end = begin; end < run->metric.n && !is_before(launch, &work->metrics[end]);)
			end++;
		r = add_launch(work, begin, end - begin, launch->row, &cursor);
		begin = end;
	}
	free(counted);
	if (r == 0 && work->n_lost)
		qsort(work->lost, work->n_lost, sizeof(*work->lost), by_lost);
	return r;
}

static bool is_spoiled(const struct work *work, const struct launch *launch)
{
	struct lost_in key = { launch->shard, launch->step };

	return work->n_lost &&
	       bsearch(&key, work->lost, work->n_lost, sizeof(key), by_lost) != NULL;
}

/* Those between the first and the last step with launches, which may have begun before counting did, or ended after. */
static void find_whole_steps(struct work *work)
{
	for (size_t i = 0, end; i < work->n; i = end) {
		bool any = false;
		int64_t first = 0, last = 0;

		for (end = i; end < work->n && work->launches[end].shard == work->launches[i].shard;
		     end++) {
			const struct launch *launch = &work->launches[end];

			if (!launch->in_step)
				continue;
			first = !any || launch->step < first ? launch->step : first;
			last = !any || launch->step > last ? launch->step : last;
			any = true;
		}
		for (size_t k = i; k < end; k++)
			work->launches[k].whole = work->launches[k].in_step &&
						  work->launches[k].step > first &&
						  work->launches[k].step < last &&
						  !is_spoiled(work, &work->launches[k]);
	}
}

/* ---- tokens */

static int by_step_and_layer(const void *a, const void *b)
{
	const struct routed *x = a, *y = b;

	return CMP(x->step, y->step) ?: CMP(x->layer, y->layer) ?: CMP(x->row, y->row);
}

static int list_routing(struct work *work)
{
	const struct table_routing *t = &work->run->routing;

	work->no_routing = t->n ? NULL : "no routing was recorded";
	work->routed = array_new(t->n, sizeof(*work->routed));
	if (!work->routed)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		/* With several processes an expert may have had tokens of others, or not. */
		if (t->shard[i] != t->shard[0])
			work->no_routing = "several processes recorded routing";
		work->routed[i] = (struct routed){ t->step[i], t->layer[i], i };
	}
	work->n_routed = t->n;
	if (t->n)
		qsort(work->routed, t->n, sizeof(*work->routed), by_step_and_layer);
	return 0;
}

static uint64_t routed_tokens(const struct work *work, const struct launch *of,
			      enum grouping grouping, int64_t step)
{
	const struct table_routing *t = &work->run->routing;
	struct routed key = { step, of->layer, 0 };
	uint64_t tokens = 0;
	size_t i;

	ORDER_FIND(i, work->n_routed, work->n_routed,
		   by_step_and_layer(&work->routed[probe], &key) < 0);
	for (; i < work->n_routed && work->routed[i].step == step &&
	       work->routed[i].layer == of->layer;
	     i++) {
		size_t row = work->routed[i].row;
		uint64_t load = t->load_first[row] + (uint64_t)of->expert;

		if (grouping == BY_LAYER)
			tokens += t->tokens[row];
		else if (load < t->load_first[row + 1])
			tokens += t->load[load];
	}
	return tokens;
}

static uint64_t told_tokens(const struct work *work, const struct launch *of, int64_t step)
{
	const struct table_step *t = &work->run->step;

	for (size_t i = 0; i < t->n; i++)
		if (t->shard[i] == of->shard && t->step[i] == step)
			return t->tokens_known[i] ? t->tokens[i] : 0;
	return 0;
}

static int by_number(const void *a, const void *b)
{
	return CMP(*(const int64_t *)a, *(const int64_t *)b);
}

/* The tokens of the whole steps of n launches of one place. */
static void add_tokens(const struct work *work, const struct launch *launches, size_t n,
		       enum grouping grouping, struct counted_place *row)
{
	const char *none = grouping == BY_RANGE ? "the steps did not report their tokens"
						: "no routing of these steps was recorded";
	uint64_t tokens = 0;
	size_t steps = 0;

	for (size_t i = 0; i < n; i++)
		if (launches[i].whole)
			work->steps[steps++] = launches[i].step;
	if (steps)
		qsort(work->steps, steps, sizeof(*work->steps), by_number);
	for (size_t i = 0; i < steps; i++) {
		if (i && work->steps[i] == work->steps[i - 1])
			continue;
		row->steps++;
		tokens += grouping == BY_RANGE
				  ? told_tokens(work, launches, work->steps[i])
				  : routed_tokens(work, launches, grouping, work->steps[i]);
	}
	if (!row->steps)
		row->tokens = value_absent("no step was counted from its begin to its end");
	else if (grouping != BY_RANGE && work->no_routing)
		row->tokens = value_absent(work->no_routing);
	else
		row->tokens = tokens ? value_of((double)tokens) : value_absent(none);
}

/* ---- sums of a place */

/* An amount of all launches of a place, and [1] of those in whole steps. */
struct total {
	double sum[2];
	bool counted, missing[2];
};

static void sum_launch(const struct work *work, const struct launch *launch)
{
	const struct table_metric *t = &work->run->metric;

	for (size_t i = launch->first; i < launch->first + launch->n; i++) {
		size_t row = work->metrics[i].row;

		for (size_t p = 0; p < work->n_parts; p++) {
			double value;

			if (work->parts[p].metric != t->name[row] ||
			    !metric_number(work->run, row, work->parts[p].unit, &value))
				continue;
			for (int w = 0; w <= launch->whole; w++) {
				work->part_sums[p].sum[w] += value;
				work->part_sums[p].n[w]++;
			}
		}
	}
}

/* The launches of one kernel in a place. *measured: the least share of launches that have a metric so far. */
static void add_kernel(const struct work *work, const struct launch *launches, size_t n,
		       struct total *totals, double *measured)
{
	uint64_t number[2] = { n, 0 };

	memset(work->part_sums, 0, work->n_parts * sizeof(*work->part_sums));
	for (size_t i = 0; i < n; i++) {
		sum_launch(work, &launches[i]);
		number[1] += launches[i].whole;
	}
	for (size_t p = 0; p < work->n_parts; p++) {
		const struct part_sum *sum = &work->part_sums[p];
		struct total *total = &totals[work->parts[p].amount];

		total->counted = true;
		if (sum->n[0])
			*measured = fmin(*measured, (double)sum->n[0] / (double)n);
		for (int w = 0; w < 2; w++)
			if (sum->n[w])
				total->sum[w] += sum->sum[w] / (double)sum->n[w] *
						 (double)number[w];
			else if (number[w])
				total->missing[w] = true;
	}
}

static struct value known_total(const struct total *total, int whole, const char *not_counted)
{
	if (!total->counted)
		return value_absent(not_counted);
	if (total->missing[whole])
		return value_absent("it was not counted in a launch of each kernel");
	return isfinite(total->sum[whole]) ? value_of(total->sum[whole])
					   : value_absent("the sum is too large");
}

static void fill_figures(const struct total *totals, struct counted_place *row)
{
	static const char *const not_counted[AMOUNTS] = {
		[TIME] = "gpu__time_duration was not counted",
		[BYTES] = "dram__bytes was not counted",
		[OPS] = "sm__ops_path_tensor was not counted",
	};

	row->time_ns = known_total(&totals[TIME], 0, not_counted[TIME]);
	row->dram_bytes = known_total(&totals[BYTES], 0, not_counted[BYTES]);
	row->tensor_ops = known_total(&totals[OPS], 0, not_counted[OPS]);
	row->dram_bytes_per_s = value_ratio(row->dram_bytes, row->time_ns, 1e9, "it took no time");
	row->tensor_ops_per_s = value_ratio(row->tensor_ops, row->time_ns, 1e9, "it took no time");
	row->ops_per_byte = value_ratio(row->tensor_ops, row->dram_bytes, 1,
					"it moved no bytes of DRAM");
	row->dram_bytes_per_token = value_ratio(known_total(&totals[BYTES], 1, not_counted[BYTES]),
						row->tokens, 1, "it had no tokens");
}

static int by_range(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;

	return CMP(x->path, y->path) ?: CMP(x->kernel, y->kernel) ?: CMP(x->first, y->first);
}

static int by_layer(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;

	return CMP(x->layer, y->layer) ?: CMP(x->kernel, y->kernel) ?: CMP(x->first, y->first);
}

static int by_expert(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;

	return CMP(x->layer, y->layer) ?: CMP(x->expert, y->expert) ?:
	       CMP(x->kernel, y->kernel) ?: CMP(x->first, y->first);
}

static bool same_place(const struct launch *x, const struct launch *y, enum grouping grouping)
{
	if (grouping == BY_RANGE)
		return x->path == y->path;
	return x->layer == y->layer && (grouping == BY_LAYER || x->expert == y->expert);
}

static struct value number_or(int32_t number, const char *none)
{
	return number >= 0 ? value_of(number) : value_absent(none);
}

/* n launches of one place, by kernel. */
static int make_place(const struct work *work, const struct launch *launches, size_t n,
		      enum grouping grouping, struct counted_place *row)
{
	struct total totals[AMOUNTS] = { 0 };
	double measured = 1;

	*row = (struct counted_place){ .launches = n };
	row->layer = grouping == BY_RANGE ? value_absent("of all layers")
					  : number_or(launches->layer, "no range names it");
	row->expert = grouping == BY_EXPERT ? number_or(launches->expert, "no range names it")
					    : value_absent("of all experts");
	add_tokens(work, launches, n, grouping, row);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && launches[end].kernel == launches[i].kernel;)
			end++;
		add_kernel(work, &launches[i], end - i, totals, &measured);
		row->kernels++;
	}
	fill_figures(totals, row);
	row->measured_pct = work->n_parts
				    ? value_of(100 * measured)
				    : value_absent("no bytes, operations or times were counted");
	return grouping == BY_RANGE && launches->path
		       ? attribution_path_text(work->at, launches->path, &row->range)
		       : 0;
}

static int by_time(const void *a, const void *b)
{
	const struct counted_place *x = a, *y = b;
	double tx = x->time_ns.known ? x->time_ns.v : -1, ty = y->time_ns.known ? y->time_ns.v : -1;
	double lx = x->layer.known ? x->layer.v : -1, ly = y->layer.known ? y->layer.v : -1;
	double ex = x->expert.known ? x->expert.v : -1, ey = y->expert.known ? y->expert.v : -1;

	return CMP(ty, tx) ?: CMP(y->launches, x->launches) ?: CMP(lx, ly) ?: CMP(ex, ey) ?:
	       strcmp(x->range ? x->range : "", y->range ? y->range : "");
}

static int fill_table(struct work *work, enum grouping grouping, struct counted_table *table)
{
	static int (*const orders[])(const void *, const void *) = { by_range, by_layer,
								     by_expert };
	size_t capacity = 0;
	int r = 0;

	if (work->n)
		qsort(work->launches, work->n, sizeof(*work->launches), orders[grouping]);
	for (size_t i = 0, end; r == 0 && i < work->n; i = end) {
		const struct launch *first = &work->launches[i];

		for (end = i + 1;
		     end < work->n && same_place(first, &work->launches[end], grouping);)
			end++;
		if ((grouping == BY_LAYER && first->layer < 0) ||
		    (grouping == BY_EXPERT && first->expert < 0))
			continue;
		r = array_grow(&table->rows, &capacity, table->n + 1, sizeof(*table->rows));
		if (r == 0)
			r = make_place(work, first, end - i, grouping, &table->rows[table->n++]);
	}
	if (r == 0 && table->n)
		qsort(table->rows, table->n, sizeof(*table->rows), by_time);
	return r;
}

/* Each launch is in one range, or in none: together these are all. */
static void add_shares(struct counted_places *places)
{
	struct counted_table *tables[] = { &places->ranges, &places->layers, &places->experts };
	struct value all = value_of(0);

	for (size_t i = 0; i < places->ranges.n; i++) {
		const struct value *time = &places->ranges.rows[i].time_ns;

		places->estimated = places->estimated ||
				    (places->ranges.rows[i].measured_pct.known &&
				     places->ranges.rows[i].measured_pct.v < 100);

		all = all.known && time->known ? value_of(all.v + time->v)
		      : all.known	       ? *time
					       : all;
	}
	for (size_t k = 0; k < sizeof(tables) / sizeof(tables[0]); k++)
		for (size_t i = 0; i < tables[k]->n; i++)
			tables[k]->rows[i].share_pct = value_ratio(
				tables[k]->rows[i].time_ns, all, 100, "the launches took no time");
}

static int fill_places(struct work *work, struct counted_places *places)
{
	int r = list_parts(work);

	if (r == 0)
		r = list_launches(work);
	if (r == 0)
		r = list_routing(work);
	work->steps = r == 0 ? array_new(work->n, sizeof(*work->steps)) : NULL;
	if (r == 0 && !work->steps)
		r = -ENOMEM;
	if (r < 0)
		return r;
	places->launches = work->n;
	find_whole_steps(work);
	r = fill_table(work, BY_RANGE, &places->ranges);
	if (r == 0)
		r = fill_table(work, BY_LAYER, &places->layers);
	if (r == 0)
		r = fill_table(work, BY_EXPERT, &places->experts);
	if (r == 0)
		add_shares(places);
	return r;
}

int counted_places_analyze(const struct attribution *at, struct counted_places *ret_places)
{
	struct work work = { .run = at->run, .at = at };
	struct counted_places places = { 0 };
	int r = 0;

	if (work.run && work.run->counted.n && work.run->metric.n)
		r = fill_places(&work, &places);
	free(work.parts);
	free(work.part_sums);
	free(work.metrics);
	free(work.launches);
	free(work.lost);
	free(work.routed);
	free(work.steps);
	if (r < 0)
		counted_places_release(&places);
	*ret_places = places;
	return r;
}

static void release_table(struct counted_table *table)
{
	for (size_t i = 0; i < table->n; i++)
		free(table->rows[i].range);
	free(table->rows);
}

void counted_places_release(struct counted_places *places)
{
	release_table(&places->ranges);
	release_table(&places->layers);
	release_table(&places->experts);
	*places = (struct counted_places){ 0 };
}
