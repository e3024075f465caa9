/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch latency and overhead; see launches.h.
 */
#include "analyze/launches.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/attribution.h"
#include "analyze/stats.h"

/* A timed kernel with its call. */
struct launched {
	uint32_t name;
	bool first; /* of its call, by device start */
	int64_t duration_ns, latency_ns;
	size_t call;
};

struct builder {
	const struct run *run;
	struct attribution at;
	struct launched *items;
	size_t n;
	uint32_t *per_call; /* kernels of each call */
	size_t *first;	    /* of each call: item + 1 */
	double *work;
};

static bool selected(const struct builder *b, const struct selection *sel, bool all, size_t kernel)
{
	const struct table_kernel *t = &b->run->kernel;
	struct device_work work = { t->correlation[kernel], t->graph_node[kernel],
				    t->start_ns[kernel], t->shard[kernel] };
	struct place place;

	return all || (attribution_find(&b->at, &work, &place) &&
		       attribution_selects(&b->at, sel, &place));
}

static void collect(struct builder *b, const struct selection *sel, bool all, uint64_t *ret_without)
{
	const struct table_kernel *t = &b->run->kernel;

	for (size_t i = 0; i < t->n; i++) {
		size_t call;
		struct launched *item;

		if (t->untimed[i])
			continue;
		call = attribution_call(&b->at, t->shard[i], t->correlation[i], t->start_ns[i]);
		if (call == NO_CALL) {
			*ret_without += 1;
			continue;
		}
		if (!selected(b, sel, all, i))
			continue;
		item = &b->items[b->n++];
		*item = (struct launched){ run_launch(b->run, t->launch[i]).name, false,
					   t->duration_ns[i],
					   t->start_ns[i] - b->run->api.start_ns[call], call };
		b->per_call[call]++;
		if (!b->first[call] || item->latency_ns < b->items[b->first[call] - 1].latency_ns)
			b->first[call] = b->n;
	}
	for (size_t c = 0; c < b->run->api.n; c++)
		if (b->first[c])
			b->items[b->first[c] - 1].first = true;
}

static double overhead(const struct builder *b, const struct launched *item)
{
	return (double)b->run->api.duration_ns[item->call] / b->per_call[item->call];
}

static int by_name(const void *a, const void *b)
{
	const struct launched *x = a, *y = b;

	return x->name < y->name ? -1 : x->name > y->name;
}

static struct value median(double *x, size_t n)
{
	return n ? value_of(stats_median(x, n))
		 : value_absent("no timed kernel of these has its launch call recorded");
}

/* Medians of n items; the row's sums with them. */
static struct launch_row make_row(const struct builder *b, const struct launched *items, size_t n)
{
	struct launch_row row = { .name = n ? items->name : 0, .count = n };
	size_t firsts = 0;

	for (size_t i = 0; i < n; i++) {
		b->work[i] = overhead(b, &items[i]);
		row.call_ns += b->work[i];
		row.time_ns += items[i].duration_ns;
		row.bound += b->work[i] > (double)items[i].duration_ns;
	}
	row.overhead_ns = median(b->work, n);
	for (size_t i = 0; i < n; i++)
		if (items[i].first)
			b->work[firsts++] = (double)items[i].latency_ns;
	row.latency_ns = firsts ? median(b->work, firsts)
				: value_absent("other kernels of their calls began before them");
	if (!n)
		row.latency_ns = row.overhead_ns;
	return row;
}

static int make_rows(struct builder *b, struct launches *out)
{
	struct launch_row all;
	size_t rows = 0;

	if (b->n)
		qsort(b->items, b->n, sizeof(*b->items), by_name);
	for (size_t i = 0; i < b->n; i++)
		rows += !i || b->items[i].name != b->items[i - 1].name;
	out->rows = calloc(rows ? rows : 1, sizeof(*out->rows));
	if (!out->rows)
		return -ENOMEM;
	for (size_t i = 0, end; i < b->n; i = end) {
		for (end = i; end < b->n && b->items[end].name == b->items[i].name;)
			end++;
		out->rows[out->n++] = make_row(b, b->items + i, end - i);
	}
	all = make_row(b, b->items, b->n);
	out->count = all.count;
	out->bound = all.bound;
	out->call_ns = all.call_ns;
	out->time_ns = all.time_ns;
	out->latency_ns = all.latency_ns;
	out->overhead_ns = all.overhead_ns;
	for (size_t i = 0; i < b->n; i++)
		out->calls += b->items[i].first;
	return 0;
}

static int build(struct builder *b, const struct selection *sel, struct launches *out)
{
	bool all = !attribution_needed(b->run, sel);
	size_t kernels = b->run->kernel.n, calls = b->run->api.n;
	int r = all ? attribution_init_calls(&b->at, b->run) : attribution_init(&b->at, b->run);

	if (r < 0)
		return r;
	b->items = calloc(kernels ? kernels : 1, sizeof(*b->items));
	b->work = calloc(kernels ? kernels : 1, sizeof(*b->work));
	b->per_call = calloc(calls ? calls : 1, sizeof(*b->per_call));
	b->first = calloc(calls ? calls : 1, sizeof(*b->first));
	r = b->items && b->work && b->per_call && b->first ? 0 : -ENOMEM;
	if (r >= 0) {
		collect(b, sel, all, &out->without_call);
		r = make_rows(b, out);
	}
	attribution_release(&b->at);
	free(b->items);
	free(b->work);
	free(b->per_call);
	free(b->first);
	return r;
}

int launches_analyze(const struct run *run, const struct selection *sel,
		     struct launches *ret_launches)
{
	struct launches result = { 0 };
	struct builder b = { .run = run };
	int r = build(&b, sel, &result);

	if (r < 0)
		return r;
	result.bound_pct = result.count
				   ? value_of(100.0 * (double)result.bound / (double)result.count)
				   : result.overhead_ns;
	*ret_launches = result;
	return 0;
}

struct launches launches_absent(const char *reason)
{
	struct value absent = value_absent(reason);

	return (struct launches){ .latency_ns = absent,
				  .overhead_ns = absent,
				  .bound_pct = absent };
}

void launches_release(struct launches *launches)
{
	free(launches->rows);
	*launches = (struct launches){ 0 };
}

static int name_of_row(const void *key, const void *row)
{
	uint32_t name = *(const uint32_t *)key, other = ((const struct launch_row *)row)->name;

	return name < other ? -1 : name > other;
}

const struct launch_row *launches_find(const struct launches *launches, uint32_t name)
{
	return launches->n ? bsearch(&name, launches->rows, launches->n, sizeof(*launches->rows),
				     name_of_row)
			   : NULL;
}
