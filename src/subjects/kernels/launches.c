/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch latency and overhead; see launches.h.
 */
#include "subjects/kernels/launches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/numbers/stats.h"
#include "subjects/shared/attribution.h"

#define NONE UINT32_MAX

/* Per kernel and call as little as will do, and looked at in their order: runs have millions of both. */
struct builder {
	const struct run *run;
	const struct attribution *at;
	uint64_t *counts;   /* bit of each kernel: it does */
	uint32_t *per_call; /* kernels of each call */
	uint32_t *first;    /* of each call: the kernel that began first, or NONE */
	uint32_t *row_of;   /* of each launch id; NONE: no kernel of it counts */
	size_t n_launches, n;
	/* By row, so that each has its own part. */
	double *overheads; /* of the kernels that count */
	double *latencies; /* of the first kernels of calls */
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

static bool does_count(const struct builder *b, size_t kernel)
{
	return b->counts[kernel / 64] >> kernel % 64 & 1;
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

		if (t->untimed[i])
			continue;
		call = b->at->kernel_call[i];
		if (call == NO_CALL32) {
			*ret_without += 1;
			continue;
		}
		if (!all && !selected(b, sel, i, &cursor))
			continue;
		b->counts[i / 64] |= UINT64_C(1) << i % 64;
		b->per_call[call]++;
		if (b->first[call] == NONE || t->start_ns[i] < t->start_ns[b->first[call]])
			b->first[call] = (uint32_t)i;
		if (t->launch[i] >= b->n_launches)
			b->n_launches = (size_t)t->launch[i] + 1;
		b->n++;
	}
}

static int by_name(const void *a, const void *b)
{
	const struct launch_row *x = a, *y = b;

	return CMP(x->name, y->name);
}

static int name_of_row(const void *key, const void *row)
{
	uint32_t name = *(const uint32_t *)key, other = ((const struct launch_row *)row)->name;

	return CMP(name, other);
}

const struct launch_row *launches_find(const struct launches *launches, uint32_t name)
{
	return launches->n ? bsearch(&name, launches->rows, launches->n, sizeof(*launches->rows),
				     name_of_row)
			   : NULL;
}

/* A row for each name of the launches whose kernels count, and which launch counts to which. */
static int list_rows(struct builder *b, struct launches *out)
{
	size_t n = 0;

	b->row_of = array_new(b->n_launches + 1, sizeof(*b->row_of));
	out->rows = calloc(b->n_launches + 1, sizeof(*out->rows));
	if (!b->row_of || !out->rows)
		return -ENOMEM;
	memset(b->row_of, 0xff, b->n_launches * sizeof(*b->row_of));
	for (size_t i = 0; i < b->run->kernel.n; i++)
		if (does_count(b, i))
			b->row_of[b->run->kernel.launch[i]] = 0;
	for (size_t id = 0; id < b->n_launches; id++)
		if (b->row_of[id] != NONE)
			out->rows[n++].name = run_launch(b->run, (uint32_t)id).name;
	qsort(out->rows, n, sizeof(*out->rows), by_name);
	for (size_t i = 0; i < n; i++)
		if (!i || out->rows[i].name != out->rows[i - 1].name)
			out->rows[out->n++].name = out->rows[i].name;
	for (size_t id = 0; id < b->n_launches; id++) {
		uint32_t name = run_launch(b->run, (uint32_t)id).name;

		if (b->row_of[id] != NONE)
			b->row_of[id] = (uint32_t)(launches_find(out, name) - out->rows);
	}
	return 0;
}

static bool is_first(const struct builder *b, size_t kernel)
{
	return b->first[b->at->kernel_call[kernel]] == kernel;
}

/* Counts and sums of the rows, and their parts of the two lists. at: room for two of each row. */
static void fill_rows(struct builder *b, struct launches *out, size_t *at)
{
	const struct table_kernel *t = &b->run->kernel;
	const struct table_api *api = &b->run->api;
	size_t overheads = 0, latencies = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct launch_row *row;

		if (!does_count(b, i))
			continue;
		row = &out->rows[b->row_of[t->launch[i]]];
		row->count++;
		row->calls += is_first(b, i);
	}
	for (size_t r = 0; r < out->n; r++) {
		at[2 * r] = overheads;
		at[2 * r + 1] = latencies;
		overheads += out->rows[r].count;
		latencies += out->rows[r].calls;
	}
	for (size_t i = 0; i < t->n; i++) {
		uint32_t call = b->at->kernel_call[i], r;
		struct launch_row *row;
		double overhead;

		if (!does_count(b, i))
			continue;
		r = b->row_of[t->launch[i]];
		row = &out->rows[r];
		overhead = (double)api->duration_ns[call] / b->per_call[call];
		row->call_ns += overhead;
		row->time_ns += t->duration_ns[i];
		row->bound += overhead > (double)t->duration_ns[i];
		b->overheads[at[2 * r]++] = overhead;
		if (is_first(b, i))
			b->latencies[at[2 * r + 1]++] =
				(double)(t->start_ns[i] - api->start_ns[call]);
	}
}

static struct value median(double *x, size_t n)
{
	return n ? value_of(stats_percentile(x, n, 50))
		 : value_absent("no timed kernel of these has its launch call recorded");
}

/* The medians move numbers inside the parts of the rows: what is over all comes after. */
static void find_medians(struct builder *b, struct launches *out)
{
	double *overheads = b->overheads, *latencies = b->latencies;

	for (size_t r = 0; r < out->n; r++) {
		struct launch_row *row = &out->rows[r];

		row->overhead_ns = median(overheads, row->count);
		row->latency_ns =
			row->calls ? median(latencies, row->calls)
				   : value_absent("other kernels of their calls began before them");
		overheads += row->count;
		latencies += row->calls;
		out->count += row->count;
		out->bound += row->bound;
		out->calls += row->calls;
		out->call_ns += row->call_ns;
		out->time_ns += row->time_ns;
	}
	out->overhead_ns = median(b->overheads, out->count);
	out->latency_ns = median(b->latencies, out->calls);
}

static int make_launch_rows(struct builder *b, struct launches *out)
{
	size_t *at;
	int r = list_rows(b, out);

	if (r < 0)
		return r;
	at = calloc(2 * out->n + 1, sizeof(*at));
	b->overheads = array_new(b->n + 1, sizeof(*b->overheads));
	b->latencies = array_new(b->n + 1, sizeof(*b->latencies));
	if (!at || !b->overheads || !b->latencies) {
		free(at);
		return -ENOMEM;
	}
	fill_rows(b, out, at);
	find_medians(b, out);
	free(at);
	return 0;
}

static int build_launches(struct builder *b, const struct selection *sel, struct launches *out)
{
	bool all = !attribution_needed(b->run, sel);
	size_t kernels = b->run->kernel.n + 1, calls = b->run->api.n + 1;
	int r;

	if (kernels >= NONE || calls >= NONE)
		return -E2BIG;
	b->counts = calloc(kernels / 64 + 1, sizeof(*b->counts));
	b->per_call = calloc(calls, sizeof(*b->per_call));
	b->first = calloc(calls, sizeof(*b->first));
	r = b->counts && b->per_call && b->first ? 0 : -ENOMEM;
	if (r >= 0) {
		find_calls(b, sel, all, &out->without_call);
		r = make_launch_rows(b, out);
	}
	free(b->counts);
	free(b->per_call);
	free(b->first);
	free(b->row_of);
	free(b->overheads);
	free(b->latencies);
	return r;
}

int launches_analyze_at(const struct attribution *at, const struct selection *sel,
			struct launches *ret_launches)
{
	struct launches result = { 0 };
	struct builder b = { .run = at->run, .at = at };
	int r = build_launches(&b, sel, &result);

	if (r < 0) {
		free(result.rows);
		return r;
	}
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
