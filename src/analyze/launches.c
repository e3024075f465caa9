/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch latency and overhead; see launches.h.
 */
#include "analyze/launches.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/attribution.h"
#include "analyze/stats.h"

#define NONE UINT32_MAX

/* Per kernel and call as little as will do: runs have millions of both. */
struct builder {
	const struct run *run;
	const struct attribution *at;
	uint32_t *call_of;  /* of each kernel; NONE: it does not count */
	uint32_t *per_call; /* kernels of each call */
	uint32_t *first;    /* of each call: the kernel that began first, or NONE */
	uint32_t *order;    /* the kernels that count, by name */
	size_t n;
	double *work; /* for n numbers */
};

static bool selected(const struct builder *b, const struct selection *sel, size_t kernel,
		     struct attribution_cursor *cursor)
{
	const struct table_kernel *t = &b->run->kernel;
	struct device_work work = { t->correlation[kernel], t->graph_node[kernel],
				    t->start_ns[kernel], t->shard[kernel] };
	struct place place;

	return attribution_find_near(b->at, cursor, &work, b->at->kernel_call[kernel], &place) &&
	       attribution_selects(b->at, sel, &place);
}

static void find_calls(struct builder *b, const struct selection *sel, bool all,
		       uint64_t *ret_without)
{
	const struct table_kernel *t = &b->run->kernel;
	struct attribution_cursor cursor = { 0 };

	for (size_t c = 0; c < b->run->api.n; c++)
		b->first[c] = NONE;
	for (size_t i = 0; i < t->n; i++) {
		uint32_t call;

		b->call_of[i] = NONE;
		if (t->untimed[i])
			continue;
		call = b->at->kernel_call[i];
		if (call == NO_CALL32) {
			*ret_without += 1;
			continue;
		}
		if (!all && !selected(b, sel, i, &cursor))
			continue;
		b->call_of[i] = call;
		b->per_call[call]++;
		if (b->first[call] == NONE || t->start_ns[i] < t->start_ns[b->first[call]])
			b->first[call] = (uint32_t)i;
		b->n++;
	}
}

static uint32_t name_of(const struct builder *b, size_t kernel)
{
	return run_launch(b->run, b->run->kernel.launch[kernel]).name;
}

/* Fills `order` and gives the ends of the names' parts of it; names are few and dense. */
static int order_by_name(struct builder *b, size_t **ret_ends, size_t *ret_names)
{
	size_t names = 0, sum = 0, *at;

	for (size_t i = 0; i < b->run->kernel.n; i++)
		if (b->call_of[i] != NONE && name_of(b, i) >= names)
			names = (size_t)name_of(b, i) + 1;
	at = calloc(names ? names : 1, sizeof(*at));
	if (!at)
		return -ENOMEM;
	for (size_t i = 0; i < b->run->kernel.n; i++)
		if (b->call_of[i] != NONE)
			at[name_of(b, i)]++;
	for (size_t name = 0; name < names; name++) {
		size_t count = at[name];

		at[name] = sum;
		sum += count;
	}
	for (size_t i = 0; i < b->run->kernel.n; i++)
		if (b->call_of[i] != NONE)
			b->order[at[name_of(b, i)]++] = (uint32_t)i;
	*ret_ends = at;
	*ret_names = names;
	return 0;
}

static struct value median(double *x, size_t n)
{
	return n ? value_of(stats_percentile(x, n, 50))
		 : value_absent("no timed kernel of these has its launch call recorded");
}

/* Sums and medians over n kernels. */
static struct launch_row make_row(const struct builder *b, const uint32_t *kernels, size_t n)
{
	const struct table_kernel *t = &b->run->kernel;
	const struct table_api *api = &b->run->api;
	struct launch_row row = { .name = n ? name_of(b, *kernels) : 0, .count = n };
	size_t firsts = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t call = b->call_of[kernels[i]];
		double overhead = (double)api->duration_ns[call] / b->per_call[call];

		b->work[i] = overhead;
		row.call_ns += overhead;
		row.time_ns += t->duration_ns[kernels[i]];
		row.bound += overhead > (double)t->duration_ns[kernels[i]];
	}
	row.overhead_ns = median(b->work, n);
	for (size_t i = 0; i < n; i++) {
		uint32_t call = b->call_of[kernels[i]];

		if (b->first[call] == kernels[i])
			b->work[firsts++] = (double)(t->start_ns[kernels[i]] - api->start_ns[call]);
	}
	row.calls = firsts;
	row.latency_ns = firsts || !n
				 ? median(b->work, firsts)
				 : value_absent("other kernels of their calls began before them");
	return row;
}

static int make_rows(struct builder *b, struct launches *out)
{
	size_t *ends, names, rows = 0, from = 0;
	struct launch_row all;
	int r = order_by_name(b, &ends, &names);

	if (r < 0)
		return r;
	for (size_t name = 0; name < names; name++)
		rows += ends[name] > (name ? ends[name - 1] : 0);
	out->rows = calloc(rows ? rows : 1, sizeof(*out->rows));
	if (!out->rows) {
		free(ends);
		return -ENOMEM;
	}
	for (size_t name = 0; name < names; from = ends[name++])
		if (ends[name] > from)
			out->rows[out->n++] = make_row(b, b->order + from, ends[name] - from);
	free(ends);
	all = make_row(b, b->order, b->n);
	out->count = all.count;
	out->bound = all.bound;
	out->calls = all.calls;
	out->call_ns = all.call_ns;
	out->time_ns = all.time_ns;
	out->latency_ns = all.latency_ns;
	out->overhead_ns = all.overhead_ns;
	return 0;
}

static int build(struct builder *b, const struct selection *sel, struct launches *out)
{
	bool all = !attribution_needed(b->run, sel);
	size_t kernels = b->run->kernel.n + 1, calls = b->run->api.n + 1;
	int r;

	if (kernels >= NONE || calls >= NONE)
		return -E2BIG;
	b->call_of = calloc(kernels, sizeof(*b->call_of));
	b->order = calloc(kernels, sizeof(*b->order));
	b->work = calloc(kernels, sizeof(*b->work));
	b->per_call = calloc(calls, sizeof(*b->per_call));
	b->first = calloc(calls, sizeof(*b->first));
	r = b->call_of && b->order && b->work && b->per_call && b->first ? 0 : -ENOMEM;
	if (r >= 0) {
		find_calls(b, sel, all, &out->without_call);
		r = make_rows(b, out);
	}
	free(b->call_of);
	free(b->order);
	free(b->work);
	free(b->per_call);
	free(b->first);
	return r;
}

int launches_analyze_at(const struct attribution *at, const struct selection *sel,
			struct launches *ret_launches)
{
	struct launches result = { 0 };
	struct builder b = { .run = at->run, .at = at };
	int r = build(&b, sel, &result);

	if (r < 0)
		return r;
	result.bound_pct = result.count
				   ? value_of(100.0 * (double)result.bound / (double)result.count)
				   : result.overhead_ns;
	*ret_launches = result;
	return 0;
}

int launches_analyze(const struct run *run, const struct selection *sel,
		     struct launches *ret_launches)
{
	struct attribution at;
	int r = attribution_needed(run, sel) ? attribution_init(&at, run)
					     : attribution_init_calls(&at, run);

	if (r < 0)
		return r;
	r = launches_analyze_at(&at, sel, ret_launches);
	attribution_release(&at);
	return r;
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
