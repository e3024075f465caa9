/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls by name; see api_calls.h. Pure, any thread.
 */
#include "analyze/api_calls.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/attribution.h"

#define NO_LATENCY INT64_MIN

/* One call that the selection keeps. */
struct call {
	uint64_t key; /* name and driver */
	int64_t duration_ns, latency_ns;
	bool failed;
};

static void note_start(const struct attribution *at, int64_t *latency, uint16_t shard,
		       uint64_t correlation, int64_t start_ns)
{
	size_t call = attribution_call(at, shard, correlation, start_ns);
	int64_t after;

	if (call == NO_CALL)
		return;
	after = start_ns - at->run->api.start_ns[call];
	if (latency[call] == NO_LATENCY || after < latency[call])
		latency[call] = after;
}

/* Of each call, the time to its first device record. A graph launch has many. */
static void note_latencies(const struct attribution *at, int64_t *latency)
{
	const struct table_kernel *kernel = &at->run->kernel;
	const struct table_copy *copy = &at->run->copy;
	const struct table_set *set = &at->run->set;

	for (size_t i = 0; i < kernel->n; i++)
		if (!kernel->untimed[i])
			note_start(at, latency, kernel->shard[i], kernel->correlation[i],
				   kernel->start_ns[i]);
	for (size_t i = 0; i < copy->n; i++)
		if (!copy->untimed[i])
			note_start(at, latency, copy->shard[i], copy->correlation[i],
				   copy->start_ns[i]);
	for (size_t i = 0; i < set->n; i++)
		if (!set->untimed[i])
			note_start(at, latency, set->shard[i], set->correlation[i],
				   set->start_ns[i]);
}

static int by_key(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static int by_time(const void *a, const void *b)
{
	const struct api_row *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns > y->time_ns ? -1 : 1;
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return (int)x->driver - (int)y->driver;
}

static struct value median(double *x, size_t n)
{
	return n ? value_of(stats_median(x, n))
		 : value_absent("no timed device record belongs to these calls");
}

/* The n calls of one row; `work` holds n numbers. */
static struct api_row make_row(const struct call *calls, size_t n, double *work)
{
	struct api_row row = { .name = (uint32_t)(calls->key >> 1),
			       .driver = calls->key & 1,
			       .count = n };
	size_t with_latency = 0;

	for (size_t i = 0; i < n; i++) {
		work[i] = (double)calls[i].duration_ns;
		row.time_ns += calls[i].duration_ns;
		row.errors += calls[i].failed;
	}
	row.summary = stats_summarize(work, n);
	for (size_t i = 0; i < n; i++)
		if (calls[i].latency_ns != NO_LATENCY)
			work[with_latency++] = (double)calls[i].latency_ns;
	row.launches = with_latency;
	row.latency_ns = median(work, with_latency);
	return row;
}

static int make_rows(struct call *calls, size_t n, struct api_calls *ret)
{
	struct api_calls result = { 0 };
	double *work = calloc(n, sizeof(*work));
	size_t rows = 0;

	qsort(calls, n, sizeof(*calls), by_key);
	for (size_t i = 0; i < n; i++)
		rows += !i || calls[i].key != calls[i - 1].key;
	result.rows = calloc(rows, sizeof(*result.rows));
	if (!work || !result.rows) {
		free(work);
		free(result.rows);
		return -ENOMEM;
	}
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && calls[end].key == calls[i].key;)
			end++;
		result.rows[result.n++] = make_row(calls + i, end - i, work);
	}
	for (size_t i = 0; i < n; i++)
		if (calls[i].latency_ns != NO_LATENCY)
			work[result.launches++] = (double)calls[i].latency_ns;
	result.latency_ns = median(work, result.launches);
	free(work);
	*ret = result;
	return 0;
}

static void finish(struct api_calls *calls)
{
	for (size_t i = 0; i < calls->n; i++) {
		calls->count += calls->rows[i].count;
		calls->errors += calls->rows[i].errors;
		calls->time_ns += calls->rows[i].time_ns;
	}
	for (size_t i = 0; i < calls->n; i++)
		calls->rows[i].share_pct = calls->time_ns > 0
						   ? 100.0 * (double)calls->rows[i].time_ns /
							     (double)calls->time_ns
						   : 0;
	if (calls->n)
		qsort(calls->rows, calls->n, sizeof(*calls->rows), by_time);
}

static size_t select_calls(const struct attribution *at, const struct selection *sel,
			   const int64_t *latency, struct call *calls)
{
	const struct table_api *api = &at->run->api;
	bool all = !attribution_needed(at->run, sel);
	size_t n = 0;

	for (size_t i = 0; i < api->n; i++) {
		if (!all) {
			struct place place = attribution_place(at, i);

			if (!attribution_selects(at, sel, &place))
				continue;
		}
		calls[n++] = (struct call){ (uint64_t)api->name[i] << 1 | (api->driver[i] != 0),
					    api->duration_ns[i], latency[i], api->status[i] != 0 };
	}
	return n;
}

int api_calls_analyze(const struct run *run, const struct selection *sel,
		      struct api_calls *ret_calls)
{
	struct api_calls result = { .latency_ns = value_absent("no calls in this run or window") };
	size_t n = run->api.n, selected;
	struct attribution at;
	int64_t *latency;
	struct call *calls;
	int r;

	if (!n) {
		*ret_calls = result;
		return 0;
	}
	r = attribution_needed(run, sel) ? attribution_init(&at, run)
					 : attribution_init_calls(&at, run);
	if (r < 0)
		return r;
	latency = calloc(n, sizeof(*latency));
	calls = calloc(n, sizeof(*calls));
	r = latency && calls ? 0 : -ENOMEM;
	if (r >= 0) {
		for (size_t i = 0; i < n; i++)
			latency[i] = NO_LATENCY;
		note_latencies(&at, latency);
		selected = select_calls(&at, sel, latency, calls);
		if (selected)
			r = make_rows(calls, selected, &result);
	}
	free(latency);
	free(calls);
	attribution_release(&at);
	if (r < 0)
		return r;
	finish(&result);
	*ret_calls = result;
	return 0;
}

void api_calls_release(struct api_calls *calls)
{
	free(calls->rows);
	*calls = (struct api_calls){ 0 };
}
