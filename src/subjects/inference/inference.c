/* SPDX-License-Identifier: Apache-2.0
 *
 * Latency and throughput of generation; see inference.h. Pure, any thread.
 */
#include "subjects/inference/inference.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cmp.h"
#include "subjects/numbers/intervals.h"

enum { EVENT_BEGIN, EVENT_TOKEN, EVENT_END };

struct event {
	uint64_t request;
	int64_t time_ns;
	size_t row;
	uint16_t shard;
};

struct lists {
	struct inference_samples s;
	int64_t first_begin_ns, last_token_ns;
	struct span *spans[STAGES]; /* of the requests that got so far */
	size_t n_spans[STAGES];
	uint64_t stage_tokens[STAGES];
};

static int by_request_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->request, y->request) ?:
	       CMP(x->time_ns, y->time_ns) ?: CMP(x->row, y->row);
}

/* events[0..n): one request from its begin up to the next begin of the same id. */
static void add_request(const struct run *run, const struct event *events, size_t n,
			struct lists *l, struct inference *out)
{
	static const char none[] = "it has no token";
	const struct table_token *t = &run->token;
	struct inference_request *row = &out->rows[out->n_rows++];
	int64_t begin = events[0].time_ns, first = 0, last = 0;
	size_t tokens = 0;

	*row = (struct inference_request){ .request = events[0].request,
					   .rank = run->shards[events[0].shard].rank,
					   .begin_ns = begin,
					   .prompt_tokens = t->count[events[0].row],
					   .ttft_ns = value_absent(none),
					   .time_ns = value_absent(none),
					   .tokens_per_s = value_absent(none),
					   .tpot_ns =
						   value_absent("it has fewer than two tokens") };
	out->requests++;
	out->prompt_tokens += row->prompt_tokens;
	if (out->requests == 1 || begin < l->first_begin_ns)
		l->first_begin_ns = begin;
	for (size_t i = 1; i < n; i++) {
		row->finished = row->finished || t->event[events[i].row] == EVENT_END;
		if (t->event[events[i].row] != EVENT_TOKEN)
			continue;
		if (!tokens++)
			first = events[i].time_ns;
		else
			l->s.itl[l->s.n_itl++] = (double)(events[i].time_ns - last);
		last = events[i].time_ns;
	}
	out->finished += row->finished;
	out->tokens += tokens;
	row->tokens = tokens;
	if (!tokens)
		return;
	row->ttft_ns = value_of((double)(first - begin));
	row->time_ns = value_of((double)(last - begin));
	l->spans[STAGE_PREFILL][l->n_spans[STAGE_PREFILL]++] = (struct span){ .start_ns = begin,
									      .end_ns = first };
	l->stage_tokens[STAGE_PREFILL] += row->prompt_tokens;
	l->spans[STAGE_DECODE][l->n_spans[STAGE_DECODE]++] = (struct span){ .start_ns = first,
									    .end_ns = last };
	l->stage_tokens[STAGE_DECODE] += tokens - 1;
	if (last > l->last_token_ns || out->tokens == tokens)
		l->last_token_ns = last;
	l->s.ttft[l->s.n_ttft++] = row->ttft_ns.v;
	if (tokens > 1) {
		row->tpot_ns = value_of((double)(last - first) / (double)(tokens - 1));
		l->s.tpot[l->s.n_tpot++] = row->tpot_ns.v;
	}
	row->tokens_per_s = value_absent("it took no time");
	if (last > begin) {
		row->tokens_per_s = value_of((double)tokens * 1e9 / (double)(last - begin));
		l->s.rate[l->s.n_rate++] = row->tokens_per_s.v;
	}
}

static void walk(const struct run *run, const struct event *events, size_t n, struct lists *l,
		 struct inference *out)
{
	const struct table_token *t = &run->token;

	for (size_t from = 0; from < n;) {
		size_t to = from + 1;

		if (t->event[events[from].row] != EVENT_BEGIN) {
			out->without_begin++;
			from++;
			continue;
		}
		while (to < n && events[to].shard == events[from].shard &&
		       events[to].request == events[from].request &&
		       t->event[events[to].row] != EVENT_BEGIN)
			to++;
		add_request(run, events + from, to - from, l, out);
		from = to;
	}
}

static int by_begin(const void *a, const void *b)
{
	const struct inference_request *x = a, *y = b;

	return CMP(x->begin_ns, y->begin_ns) ?: CMP(x->rank, y->rank) ?:
	       CMP(x->request, y->request);
}

static void finish_stage(struct lists *l, int which, struct inference_stage *stage)
{
	static const char none[] = "no tokens were generated";
	size_t n = spans_merge(l->spans[which], l->n_spans[which]);
	int64_t time_ns = spans_length(l->spans[which], n);

	*stage = (struct inference_stage){ value_absent(none), value_absent(none),
					   value_absent(none), value_absent(none),
					   value_absent(none) };
	if (!l->n_spans[which])
		return;
	stage->time_ns = value_of((double)time_ns);
	stage->tokens = value_of((double)l->stage_tokens[which]);
	stage->tokens_per_s =
		time_ns > 0 && l->stage_tokens[which]
			? value_of((double)l->stage_tokens[which] * 1e9 / (double)time_ns)
			: value_absent(
				  which == STAGE_PREFILL
					  ? "no prompt tokens were reported, or they took no time"
					  : "no request has two tokens");
}

static void finish_inference(struct lists *l, struct inference *out)
{
	out->ttft_ns = stats_summarize(l->s.ttft, l->s.n_ttft);
	out->tpot_ns = stats_summarize(l->s.tpot, l->s.n_tpot);
	out->itl_ns = stats_summarize(l->s.itl, l->s.n_itl);
	out->request_tokens_per_s = stats_summarize(l->s.rate, l->s.n_rate);
	if (out->tokens && l->last_token_ns > l->first_begin_ns)
		out->tokens_per_s = value_of((double)out->tokens * 1e9 /
					     (double)(l->last_token_ns - l->first_begin_ns));
	else
		out->tokens_per_s = value_absent("no tokens were generated");
	for (int i = 0; i < STAGES; i++)
		finish_stage(l, i, &out->stages[i]);
	if (out->n_rows)
		qsort(out->rows, out->n_rows, sizeof(*out->rows), by_begin);
}

/* ret_lists: the samples, and the spans of the stages in one piece, to be released. */
static int collect_tokens(const struct run *run, struct lists *ret_lists, struct inference *out)
{
	const struct table_token *t = &run->token;
	struct lists l = { 0 };
	size_t n = t->n;
	struct event *events = calloc(n ? n : 1, sizeof(*events));
	double *numbers = calloc(n ? n * 4 : 1, sizeof(*numbers));
	struct span *spans = calloc(n ? n * STAGES : 1, sizeof(*spans));

	out->rows = calloc(n ? n : 1, sizeof(*out->rows));
	if (!events || !numbers || !spans || !out->rows) {
		free(events);
		free(numbers);
		free(spans);
		inference_release(out);
		return -ENOMEM;
	}
	l.s.ttft = numbers;
	l.s.tpot = numbers + n;
	l.s.itl = numbers + 2 * n;
	l.s.rate = numbers + 3 * n;
	l.spans[STAGE_PREFILL] = spans;
	l.spans[STAGE_DECODE] = spans + n;
	for (size_t i = 0; i < n; i++)
		events[i] = (struct event){ t->request[i], t->time_ns[i], i, t->shard[i] };
	if (n)
		qsort(events, n, sizeof(*events), by_request_time);
	walk(run, events, n, &l, out);
	free(events);
	*ret_lists = l;
	return 0;
}

int inference_analyze(const struct run *run, struct inference *ret_inference)
{
	struct inference out = { 0 };
	struct lists l;
	int r = collect_tokens(run, &l, &out);

	if (r < 0)
		return r;
	finish_inference(&l, &out);
	inference_samples_release(&l.s);
	free(l.spans[0]);
	r = inference_stages_fill(run, &out);
	if (r < 0) {
		inference_release(&out);
		return r;
	}
	*ret_inference = out;
	return 0;
}

void inference_release(struct inference *inference)
{
	free(inference->rows);
	*inference = (struct inference){ 0 };
}

int inference_samples_take(const struct run *run, struct inference_samples *ret_samples)
{
	struct inference out = { 0 };
	struct lists l;
	int r = collect_tokens(run, &l, &out);

	if (r < 0)
		return r;
	free(l.spans[0]);
	inference_release(&out);
	*ret_samples = l.s;
	return 0;
}

void inference_samples_release(struct inference_samples *samples)
{
	free(samples->ttft); /* all four in one */
	*samples = (struct inference_samples){ 0 };
}
