/* SPDX-License-Identifier: Apache-2.0
 *
 * Latency and throughput of generation; see inference.h. Pure, any thread.
 */
#include "analyze/inference.h"

#include <errno.h>
#include <stdlib.h>

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
};

static int by_request_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	if (x->request != y->request)
		return x->request < y->request ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* events[0..n): one request from its begin up to the next begin of the same id. */
static void add_request(const struct table_token *t, const struct event *events, size_t n,
			struct lists *l, struct inference *out)
{
	int64_t begin = events[0].time_ns, first = 0, last = 0;
	size_t tokens = 0;

	out->requests++;
	out->prompt_tokens += t->count[events[0].row];
	if (out->requests == 1 || begin < l->first_begin_ns)
		l->first_begin_ns = begin;
	for (size_t i = 1; i < n; i++) {
		out->finished += t->event[events[i].row] == EVENT_END;
		if (t->event[events[i].row] != EVENT_TOKEN)
			continue;
		if (!tokens++)
			first = events[i].time_ns;
		else
			l->s.itl[l->s.n_itl++] = (double)(events[i].time_ns - last);
		last = events[i].time_ns;
	}
	out->tokens += tokens;
	if (!tokens)
		return;
	if (last > l->last_token_ns || out->tokens == tokens)
		l->last_token_ns = last;
	l->s.ttft[l->s.n_ttft++] = (double)(first - begin);
	if (tokens > 1)
		l->s.tpot[l->s.n_tpot++] = (double)(last - first) / (double)(tokens - 1);
	if (last > begin)
		l->s.rate[l->s.n_rate++] = (double)tokens * 1e9 / (double)(last - begin);
}

static void walk(const struct table_token *t, const struct event *events, size_t n, struct lists *l,
		 struct inference *out)
{
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
		add_request(t, events + from, to - from, l, out);
		from = to;
	}
}

static int collect(const struct run *run, struct lists *ret_lists, struct inference *out)
{
	const struct table_token *t = &run->token;
	struct lists l = { 0 };
	size_t n = t->n;
	struct event *events = calloc(n ? n : 1, sizeof(*events));
	double *numbers = calloc(n ? n * 4 : 1, sizeof(*numbers));

	if (!events || !numbers) {
		free(events);
		free(numbers);
		return -ENOMEM;
	}
	l.s.ttft = numbers;
	l.s.tpot = numbers + n;
	l.s.itl = numbers + 2 * n;
	l.s.rate = numbers + 3 * n;
	for (size_t i = 0; i < n; i++)
		events[i] = (struct event){ t->request[i], t->time_ns[i], i, t->shard[i] };
	if (n)
		qsort(events, n, sizeof(*events), by_request_time);
	walk(t, events, n, &l, out);
	free(events);
	*ret_lists = l;
	return 0;
}

int inference_analyze(const struct run *run, struct inference *ret_inference)
{
	struct inference out = { 0 };
	struct lists l;
	int r = collect(run, &l, &out);

	if (r < 0)
		return r;
	out.ttft_ns = stats_summarize(l.s.ttft, l.s.n_ttft);
	out.tpot_ns = stats_summarize(l.s.tpot, l.s.n_tpot);
	out.itl_ns = stats_summarize(l.s.itl, l.s.n_itl);
	out.request_tokens_per_s = stats_summarize(l.s.rate, l.s.n_rate);
	if (out.tokens && l.last_token_ns > l.first_begin_ns)
		out.tokens_per_s = value_of((double)out.tokens * 1e9 /
					    (double)(l.last_token_ns - l.first_begin_ns));
	else
		out.tokens_per_s = value_absent("no tokens were generated");
	inference_samples_release(&l.s);
	*ret_inference = out;
	return 0;
}

int inference_samples_take(const struct run *run, struct inference_samples *ret_samples)
{
	struct inference out = { 0 };
	struct lists l;
	int r = collect(run, &l, &out);

	if (r >= 0)
		*ret_samples = l.s;
	return r;
}

void inference_samples_release(struct inference_samples *samples)
{
	free(samples->ttft); /* all four in one */
	*samples = (struct inference_samples){ 0 };
}
