/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls by name; see api_calls.h. Pure, any thread.
 */
#include "analyze/api_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/attribution.h"
#include "base/buf.h"

#define NO_WORK UINT32_MAX
#define NO_ROW UINT32_MAX

struct builder {
	const struct attribution *at;
	const struct selection *sel;
	/* Of each call the device record that it launched first. A graph launch has many. Kernels
	 * by their row, copies and sets behind them. */
	uint32_t *first_work;
	uint32_t *row_of; /* by name and driver */
	struct api_row *rows;
	size_t n, capacity;
	size_t *next;	   /* where the next number of a row goes */
	double *work;	   /* a number of each selected call, row after row */
	uint8_t *left_out; /* calls that are not selected; NULL: none */
	size_t n_work;
};

static int64_t work_start(const struct run *run, uint32_t work)
{
	if (work < run->kernel.n)
		return run->kernel.start_ns[work];
	work -= (uint32_t)run->kernel.n;
	return work < run->copy.n ? run->copy.start_ns[work]
				  : run->set.start_ns[work - run->copy.n];
}

static void note_start(struct builder *b, uint32_t call, size_t work, int64_t start_ns)
{
	if (call == NO_CALL32)
		return;
	if (b->first_work[call] == NO_WORK ||
	    start_ns < work_start(b->at->run, b->first_work[call]))
		b->first_work[call] = (uint32_t)work;
}

static int find_first_work(struct builder *b)
{
	const struct run *run = b->at->run;
	size_t copies = run->kernel.n, sets = copies + run->copy.n;

	if (sets + run->set.n >= NO_WORK)
		return -EFBIG;
	b->first_work = array_new(run->api.n, sizeof(*b->first_work));
	if (!b->first_work)
		return -ENOMEM;
	memset(b->first_work, 0xff, run->api.n * sizeof(*b->first_work));
	for (size_t i = 0; i < run->kernel.n; i++)
		if (!run->kernel.untimed[i])
			note_start(b, b->at->kernel_call[i], i, run->kernel.start_ns[i]);
	for (size_t i = 0; i < run->copy.n; i++)
		if (!run->copy.untimed[i])
			note_start(b, b->at->copy_call[i], copies + i, run->copy.start_ns[i]);
	for (size_t i = 0; i < run->set.n; i++)
		if (!run->set.untimed[i])
			note_start(b, b->at->set_call[i], sets + i, run->set.start_ns[i]);
	return 0;
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
	return n ? value_of(stats_percentile(x, n, 50))
		 : value_absent("no timed device record belongs to these calls");
}

static size_t key_of(const struct table_api *api, size_t i)
{
	return (size_t)api->name[i] << 1 | (api->driver[i] != 0);
}

static int leave_out(struct builder *b)
{
	const struct run *run = b->at->run;
	struct attribution_cursor cursor = { 0 };

	if (!attribution_needed(run, b->sel))
		return 0;
	b->left_out = array_new(run->api.n, 1);
	if (!b->left_out)
		return -ENOMEM;
	for (size_t i = 0; i < run->api.n; i++) {
		struct place place = attribution_place_near(b->at, &cursor, i);

		b->left_out[i] = !attribution_selects(b->at, b->sel, &place);
	}
	return 0;
}

static int make_rows(struct builder *b)
{
	const struct table_api *api = &b->at->run->api;
	size_t most = 0;

	for (size_t i = 0; i < api->n; i++)
		most = key_of(api, i) > most ? key_of(api, i) : most;
	b->row_of = malloc((most + 1) * sizeof(*b->row_of));
	if (!b->row_of)
		return -ENOMEM;
	memset(b->row_of, 0xff, (most + 1) * sizeof(*b->row_of));
	for (size_t i = 0; i < api->n; i++) {
		uint32_t *row = &b->row_of[key_of(api, i)];

		if (b->left_out && b->left_out[i])
			continue;
		if (*row == NO_ROW) {
			if (array_grow(&b->rows, &b->capacity, b->n + 1, sizeof(*b->rows)) < 0)
				return -ENOMEM;
			*row = (uint32_t)b->n;
			b->rows[b->n++] = (struct api_row){ .name = api->name[i],
							    .driver = api->driver[i] != 0 };
		}
		b->rows[*row].count++;
		b->rows[*row].time_ns += api->duration_ns[i];
		b->rows[*row].errors += api->status[i] != 0;
		b->rows[*row].launches += b->first_work[i] != NO_WORK;
		b->n_work++;
	}
	return 0;
}

/* Puts the durations, or the latencies, of each row side by side; next[i]: the end of row i. */
static void lay_out(struct builder *b, bool latencies)
{
	const struct table_api *api = &b->at->run->api;
	size_t first = 0;

	for (size_t i = 0; i < b->n; i++) {
		b->next[i] = first;
		first += (size_t)(latencies ? b->rows[i].launches : b->rows[i].count);
	}
	for (size_t i = 0; i < api->n; i++) {
		uint32_t row = b->row_of[key_of(api, i)];

		if (b->left_out && b->left_out[i])
			continue;
		if (!latencies)
			b->work[b->next[row]++] = (double)api->duration_ns[i];
		else if (b->first_work[i] != NO_WORK)
			b->work[b->next[row]++] =
				(double)(work_start(b->at->run, b->first_work[i]) -
					 api->start_ns[i]);
	}
}

static int summarize(struct builder *b, struct api_calls *result)
{
	size_t first = 0;

	b->work = array_new(b->n_work + 1, sizeof(*b->work));
	b->next = calloc(b->n + 1, sizeof(*b->next));
	if (!b->work || !b->next)
		return -ENOMEM;
	lay_out(b, false);
	for (size_t i = 0; i < b->n; first = b->next[i++])
		b->rows[i].summary = stats_summarize(b->work + first, b->next[i] - first);
	lay_out(b, true);
	first = 0;
	for (size_t i = 0; i < b->n; first = b->next[i++])
		b->rows[i].latency_ns = median(b->work + first, b->next[i] - first);
	result->launches = first;
	if (b->n_work)
		result->latency_ns = median(b->work, first);
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

int api_calls_analyze_at(const struct attribution *at, const struct selection *sel,
			 struct api_calls *ret_calls)
{
	struct api_calls result = { .latency_ns = value_absent("no calls in this run or window") };
	struct builder b = { .at = at, .sel = sel };
	int r = 0;

	if (at->run->api.n) {
		r = find_first_work(&b);
		if (r >= 0)
			r = leave_out(&b);
		if (r >= 0)
			r = make_rows(&b);
		if (r >= 0)
			r = summarize(&b, &result);
	}
	free(b.first_work);
	free(b.row_of);
	free(b.left_out);
	free(b.next);
	free(b.work);
	if (r < 0) {
		free(b.rows);
		return r;
	}
	result.rows = b.rows;
	result.n = b.n;
	finish(&result);
	*ret_calls = result;
	return 0;
}

int api_calls_analyze(const struct run *run, const struct selection *sel,
		      struct api_calls *ret_calls)
{
	struct attribution at;
	int r = attribution_needed(run, sel) ? attribution_init(&at, run)
					     : attribution_init_calls(&at, run);

	if (r < 0)
		return r;
	r = api_calls_analyze_at(&at, sel, ret_calls);
	attribution_release(&at);
	return r;
}

void api_calls_release(struct api_calls *calls)
{
	free(calls->rows);
	*calls = (struct api_calls){ 0 };
}
