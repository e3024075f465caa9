/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls by name; see api_calls.h. Pure, any thread.
 */
#include "subjects/api/api_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/shared/attribution.h"
#include "subjects/shared/lanes.h"

#define NO_ROW UINT32_MAX

struct builder {
	const struct attribution *at;
	const struct selection *sel;
	/* Of each call, whether it launched any timed device record, and whether several, as a
	 * graph launch does; of those the begin of the first, in the order of the calls. */
	uint64_t *launched, *several;
	uint32_t *several_before; /* of each 64 calls */
	int64_t *first_ns;
	uint32_t *row_of; /* by name and driver */
	struct api_row *rows;
	size_t n, capacity;
	size_t *next;	   /* where the next number of a row goes */
	double *work;	   /* a number of each selected call, row after row */
	uint8_t *left_out; /* calls that are not selected; NULL: none */
	size_t n_work;
};

static size_t api_call_key(const struct table_api *api, size_t i)
{
	return (size_t)api->name[i] << 1 | (api->driver[i] != 0);
}

static bool bit(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

/* Which of the calls with several records it is. */
static size_t several_index(const struct builder *b, size_t call)
{
	uint64_t before = b->several[call / 64] & ((UINT64_C(1) << call % 64) - 1);

	return b->several_before[call / 64] + (size_t)__builtin_popcountll(before);
}

static void note_launch(struct builder *b, uint32_t call, int64_t start_ns)
{
	uint64_t mask = UINT64_C(1) << call % 64;

	(void)start_ns;
	if (b->launched[call / 64] & mask)
		b->several[call / 64] |= mask;
	b->launched[call / 64] |= mask;
}

static void note_first(struct builder *b, uint32_t call, int64_t start_ns)
{
	int64_t *first;

	if (!bit(b->several, call))
		return;
	first = &b->first_ns[several_index(b, call)];
	*first = start_ns < *first ? start_ns : *first;
}

/* A latency that is known without looking at other records of the call. */
static void take_latency(struct builder *b, uint32_t call, int64_t start_ns)
{
	const struct table_api *api = &b->at->run->api;

	if (bit(b->several, call) || (b->left_out && b->left_out[call]))
		return;
	b->work[b->next[b->row_of[api_call_key(api, call)]]++] =
		(double)(start_ns - api->start_ns[call]);
}

static void each_launch(struct builder *b,
			void (*note)(struct builder *b, uint32_t call, int64_t start_ns))
{
	const struct run *run = b->at->run;
	struct lane_table tables[] = { LANE_TABLE(&run->kernel), LANE_TABLE(&run->copy),
				       LANE_TABLE(&run->set) };
	const uint32_t *calls[] = { b->at->kernel_call, b->at->copy_call, b->at->set_call };

	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
		for (size_t i = 0; i < tables[t].n; i++)
			if (!tables[t].untimed[i] && calls[t][i] != NO_CALL32)
				note(b, calls[t][i], tables[t].start_ns[i]);
}

static int find_launches(struct builder *b)
{
	size_t words = b->at->run->api.n / 64 + 1, n = 0;

	b->launched = calloc(words, sizeof(*b->launched));
	b->several = calloc(words, sizeof(*b->several));
	b->several_before = calloc(words, sizeof(*b->several_before));
	if (!b->launched || !b->several || !b->several_before)
		return -ENOMEM;
	each_launch(b, note_launch);
	for (size_t i = 0; i < words; i++) {
		b->several_before[i] = (uint32_t)n;
		n += (size_t)__builtin_popcountll(b->several[i]);
	}
	b->first_ns = array_new(n + 1, sizeof(*b->first_ns));
	if (!b->first_ns)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		b->first_ns[i] = INT64_MAX;
	if (n)
		each_launch(b, note_first);
	return 0;
}

static int api_rows_by_time(const void *a, const void *b)
{
	const struct api_row *x = a, *y = b;

	return CMP(y->time_ns, x->time_ns) ?: CMP(x->name, y->name) ?:
	       (int)x->driver - (int)y->driver;
}

static struct value median(double *x, size_t n)
{
	return n ? value_of(stats_percentile(x, n, 50))
		 : value_absent("no timed device record belongs to these calls");
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

static int make_api_rows(struct builder *b)
{
	const struct table_api *api = &b->at->run->api;
	size_t most = 0;

	for (size_t i = 0; i < api->n; i++)
		most = api_call_key(api, i) > most ? api_call_key(api, i) : most;
	b->row_of = malloc((most + 1) * sizeof(*b->row_of));
	if (!b->row_of)
		return -ENOMEM;
	memset(b->row_of, 0xff, (most + 1) * sizeof(*b->row_of));
	for (size_t i = 0; i < api->n; i++) {
		uint32_t *row = &b->row_of[api_call_key(api, i)];

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
		b->rows[*row].errors += api->status[i] && api->status[i] != API_NOT_TOLD;
		b->rows[*row].not_told += api->status[i] == API_NOT_TOLD;
		b->rows[*row].launches += bit(b->launched, i);
		b->n_work++;
	}
	return 0;
}

static void begin_rows(struct builder *b, bool latencies)
{
	size_t first = 0;

	for (size_t i = 0; i < b->n; i++) {
		b->next[i] = first;
		first += (size_t)(latencies ? b->rows[i].launches : b->rows[i].count);
	}
}

/* Puts the durations of each row side by side; next[i]: the end of row i. */
static void lay_out_durations(struct builder *b)
{
	const struct table_api *api = &b->at->run->api;

	begin_rows(b, false);
	for (size_t i = 0; i < api->n; i++)
		if (!b->left_out || !b->left_out[i])
			b->work[b->next[b->row_of[api_call_key(api, i)]]++] =
				(double)api->duration_ns[i];
}

static void lay_out_latencies(struct builder *b)
{
	const struct table_api *api = &b->at->run->api;

	begin_rows(b, true);
	each_launch(b, take_latency);
	for (size_t word = 0; word < api->n / 64 + 1; word++) {
		for (uint64_t rest = b->several[word]; rest; rest &= rest - 1) {
			size_t call = word * 64 + (size_t)__builtin_ctzll(rest);

			if (b->left_out && b->left_out[call])
				continue;
			b->work[b->next[b->row_of[api_call_key(api, call)]]++] =
				(double)(b->first_ns[several_index(b, call)] - api->start_ns[call]);
		}
	}
}

static int summarize_calls(struct builder *b, struct api_calls *result)
{
	size_t first = 0;

	b->work = array_new(b->n_work + 1, sizeof(*b->work));
	b->next = calloc(b->n + 1, sizeof(*b->next));
	if (!b->work || !b->next)
		return -ENOMEM;
	lay_out_durations(b);
	for (size_t i = 0; i < b->n; first = b->next[i++])
		b->rows[i].summary = stats_summarize(b->work + first, b->next[i] - first);
	lay_out_latencies(b);
	first = 0;
	for (size_t i = 0; i < b->n; first = b->next[i++])
		b->rows[i].latency_ns = median(b->work + first, b->next[i] - first);
	result->launches = first;
	if (b->n_work)
		result->latency_ns = median(b->work, first);
	return 0;
}

static void finish_calls(struct api_calls *calls)
{
	for (size_t i = 0; i < calls->n; i++) {
		calls->count += calls->rows[i].count;
		calls->errors += calls->rows[i].errors;
		calls->not_told += calls->rows[i].not_told;
		calls->time_ns += calls->rows[i].time_ns;
	}
	for (size_t i = 0; i < calls->n; i++)
		calls->rows[i].share_pct = calls->time_ns > 0
						   ? 100.0 * (double)calls->rows[i].time_ns /
							     (double)calls->time_ns
						   : 0;
	if (calls->n)
		qsort(calls->rows, calls->n, sizeof(*calls->rows), api_rows_by_time);
}

int api_calls_analyze_at(const struct attribution *at, const struct selection *sel,
			 struct api_calls *ret_calls)
{
	struct api_calls result = { .latency_ns = value_absent("no calls in this run or window") };
	struct builder b = { .at = at, .sel = sel };
	int r = 0;

	if (at->run->api.n) {
		r = find_launches(&b);
		if (r >= 0)
			r = leave_out(&b);
		if (r >= 0)
			r = make_api_rows(&b);
		if (r >= 0)
			r = summarize_calls(&b, &result);
	}
	free(b.launched);
	free(b.several);
	free(b.several_before);
	free(b.first_ns);
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
	finish_calls(&result);
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
