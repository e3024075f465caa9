/* SPDX-License-Identifier: Apache-2.0
 *
 * Serving figures that are one number: duration, throughput, goodput, requests in flight; see
 * serving.h.
 *
 * GuideLLM's rates are means over a window whose moments it merges, with tokens spread evenly from
 * the first text of a request to its last. That ends the window up to merge_ns early, so we do the
 * same.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "lab/serving/serving_inside.h"

struct event {
	int64_t at_ns;
	double weight;
};

struct events {
	struct event *v;
	size_t n, capacity;
};

static int add_event(struct events *events, int64_t at_ns, double weight)
{
	if (array_grow(&events->v, &events->capacity, events->n + 1, sizeof(*events->v)) < 0)
		return -ENOMEM;
	events->v[events->n++] = (struct event){ at_ns, weight };
	return 0;
}

static int by_time(const void *a, const void *b)
{
	int64_t x = ((const struct event *)a)->at_ns, y = ((const struct event *)b)->at_ns;

	return x < y ? -1 : x > y;
}

/* Sorts; events within merge_ns of the first of a group become one there. */
static void merge_events(struct events *events, int64_t merge_ns)
{
	size_t kept = 0;

	if (events->n)
		qsort(events->v, events->n, sizeof(*events->v), by_time);
	for (size_t i = 0; i < events->n; i++) {
		if (kept && events->v[i].at_ns - events->v[kept - 1].at_ns <= merge_ns)
			events->v[kept - 1].weight += events->v[i].weight;
		else
			events->v[kept++] = events->v[i];
	}
	events->n = kept;
}

/* Weight per second from start to end, NaN when they are one moment. Merges the events. */
static int rate_of_events(struct events *events, int64_t start_ns, int64_t end_ns, int64_t merge_ns,
			  double *ret)
{
	size_t kept = 0;
	double total = 0;

	for (size_t i = 0; i < events->n; i++)
		if (events->v[i].at_ns >= start_ns && events->v[i].at_ns <= end_ns) {
			total += events->v[i].weight;
			events->v[kept++] = events->v[i];
		}
	events->n = kept;
	if (add_event(events, start_ns, 0) < 0 || add_event(events, end_ns, 0) < 0)
		return -ENOMEM;
	merge_events(events, merge_ns);
	*ret = events->n > 1
		       ? total / ((double)(events->v[events->n - 1].at_ns - events->v[0].at_ns) /
				  1e9)
		       : NAN;
	return 0;
}

/* Output tokens over time: all at the last chunk, or one at the first and the others evenly over
 * the later chunks. */
static int add_tokens(struct events *events, const struct view *view)
{
	size_t later = view->n_chunks ? view->n_chunks - 1 : 0;
	double tokens = view->tokens > 0 ? (double)view->tokens : 0;
	int r;

	if (!later)
		return add_event(events, view->n_chunks ? view->last_ns : view->request->end_ns,
				 tokens);
	r = add_event(events, view->first_ns, tokens > 0);
	for (size_t i = 1; r == 0 && tokens > 1 && i <= later; i++)
		r = add_event(events,
			      view->first_ns + (int64_t)((double)(view->last_ns - view->first_ns) *
							 (double)i / (double)later),
			      (tokens - 1) / (double)later);
	return r;
}

static int add_prompt(struct events *events, const struct view *view)
{
	return add_event(events, view->streamed ? view->first_ns : view->request->end_ns,
			 view->request->prompt_tokens > 0 ? (double)view->request->prompt_tokens
							  : 0);
}

/* What one pass over the requests collects. */
struct sums {
	size_t good, judged;
	int64_t first_ns, last_ns; /* first sent, last chunk, of successful requests; -1: none */
	struct events ends, good_ends, outputs, all_tokens; /* with rules->all_requests */
	struct events under_way;
};

static int add_windowed(struct sums *sums, const struct view *view)
{
	const struct request *request = view->request;

	if (request->end_ns < 0)
		return 0;
	if (add_event(&sums->ends, request->end_ns, 1) < 0 ||
	    add_tokens(&sums->outputs, view) < 0 || add_tokens(&sums->all_tokens, view) < 0 ||
	    add_prompt(&sums->all_tokens, view) < 0)
		return -ENOMEM;
	return 0;
}

/* From when to when a request counts as in flight. */
static int add_under_way(struct sums *sums, const struct view *view, const struct rules *rules,
			 const struct requests *requests)
{
	int64_t from = view->request->sent_ns;
	int64_t to = rules->peak_by_second ? view->last_ns : view->request->end_ns;

	if (from < 0 || to < 0 || (!rules->all_requests && !view->ok))
		return 0;
	if (!rules->peak_by_second) {
		from = from < requests->start_ns ? requests->start_ns : from;
		to = to > requests->end_ns ? requests->end_ns : to;
		if (to < from)
			return 0;
	}
	if (add_event(&sums->under_way, from, 1) < 0 || add_event(&sums->under_way, to, -1) < 0)
		return -ENOMEM;
	return 0;
}

static int add_view(struct sums *sums, const struct requests *requests, const struct view *view,
		    const struct rules *rules, const struct goodput_limit *limit)
{
	const struct request *request = view->request;
	bool judged = false, good;

	if (rules->all_requests && add_windowed(sums, view) < 0)
		return -ENOMEM;
	if (add_under_way(sums, view, rules, requests) < 0)
		return -ENOMEM;
	if (!view->ok)
		return 0;
	if (sums->first_ns < 0 || request->sent_ns < sums->first_ns)
		sums->first_ns = request->sent_ns;
	if (view->last_ns > sums->last_ns)
		sums->last_ns = view->last_ns;
	if (!limit)
		return 0;
	good = view_is_good(view, rules, limit, &judged);
	sums->judged += judged;
	sums->good += good;
	return good ? add_event(&sums->good_ends, request->end_ns, 1) : 0;
}

static int gather_sums(const struct requests *requests, const struct rules *rules,
		       const struct goodput_limit *limit, struct sums *sums)
{
	struct chunk_room room = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < requests->n; i++) {
		struct view view;

		if (requests->v[i].warmup)
			continue;
		r = view_request(requests, &requests->v[i], rules, &room, &view);
		if (r == 0)
			r = add_view(sums, requests, &view, rules, limit);
	}
	free(room.v);
	return r;
}

/* Most at once; the times of peak_by_second are whole seconds after the first request. */
static void find_concurrency(struct sums *sums, const struct rules *rules, double window_s,
			     struct serving *serving)
{
	struct events *events = &sums->under_way;
	double now = 0, most = 0, area = 0;

	if (!events->n) {
		serving->concurrency_mean = serving->concurrency_max = NAN;
		return;
	}
	if (rules->peak_by_second)
		for (size_t i = 0; i < events->n; i++) {
			struct event *event = &events->v[i];

			event->at_ns = (event->at_ns - sums->first_ns) / 1000000000 +
				       (event->weight < 0);
		}
	merge_events(events, rules->merge_ns);
	for (size_t i = 0; i + 1 < events->n; i++) {
		now += events->v[i].weight;
		most = now > most ? now : most;
		area += now * (double)(events->v[i + 1].at_ns - events->v[i].at_ns);
	}
	serving->concurrency_max = most;
	serving->concurrency_mean = rules->rates[SERVING_CONCURRENCY_MEAN] ? area / 1e9 / window_s
									   : NAN;
}

static int find_windowed(const struct requests *requests, const struct rules *rules,
			 struct sums *sums, struct serving *serving)
{
	const struct {
		struct events *events;
		double *place;
	} rates[] = {
		{ &sums->ends, &serving->requests_per_s },
		{ &sums->outputs, &serving->output_tokens_per_s },
		{ &sums->all_tokens, &serving->total_tokens_per_s },
		{ &sums->good_ends, &serving->goodput_per_s },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(rates) / sizeof(rates[0]); i++)
		r = rate_of_events(rates[i].events, requests->start_ns, requests->end_ns,
				   rules->merge_ns, rates[i].place);
	return r;
}

static void find_plain(const struct sums *sums, double window_s, struct serving *serving)
{
	serving->requests_per_s = (double)serving->ok / window_s;
	serving->output_tokens_per_s = (double)serving->output_tokens / window_s;
	serving->total_tokens_per_s = (double)(serving->prompt_tokens + serving->output_tokens) /
				      window_s;
	serving->goodput_per_s = (double)sums->good / window_s;
}

/* A rate that cannot be had is NaN, with the reason. */
static void deny_rate(struct serving *serving, enum serving_rate which, double *place, bool known,
		      const char *reason)
{
	if (known && !isnan(*place))
		return;
	*place = NAN;
	if (!serving->rate_reasons[which])
		serving->rate_reasons[which] = reason;
}

static void find_reasons(const struct rules *rules, const struct goodput_limit *limit,
			 const struct sums *sums, struct serving *serving)
{
	const char *nothing = serving->ok ? "the measured part took no time"
					  : "no request was answered";
	bool outputs = serving->output_tokens >= 0, prompts = serving->prompt_tokens >= 0;

	deny_rate(serving, SERVING_OUTPUT_TOKENS_PER_S, &serving->output_tokens_per_s, outputs,
		  outputs ? nothing : "the number of output tokens is not known");
	deny_rate(serving, SERVING_TOTAL_TOKENS_PER_S, &serving->total_tokens_per_s,
		  outputs && prompts,
		  !prompts   ? "the number of prompt tokens is unknown"
		  : !outputs ? "the number of output tokens is not known"
			     : nothing);
	deny_rate(serving, SERVING_DURATION, &serving->duration_s, true, nothing);
	deny_rate(serving, SERVING_REQUESTS_PER_S, &serving->requests_per_s, true, nothing);
	/* Nothing to judge: GuideLLM has no goodput then, the others none that is good. */
	deny_rate(serving, SERVING_GOODPUT, &serving->goodput_per_s,
		  limit && (sums->judged || !rules->all_requests),
		  !limit	 ? "no limits were given"
		  : sums->judged ? nothing
				 : "no request has all of the figures that have limits");
	deny_rate(serving, SERVING_CONCURRENCY_MEAN, &serving->concurrency_mean, true,
		  rules->rates[SERVING_CONCURRENCY_MEAN] ? nothing
							 : "this dialect has no such figure");
	deny_rate(serving, SERVING_CONCURRENCY_MAX, &serving->concurrency_max, true, nothing);
}

static double seconds(int64_t from_ns, int64_t to_ns)
{
	return from_ns >= 0 && to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : NAN;
}

int serving_compute_rates(const struct requests *requests, const struct rules *rules,
			  const struct goodput_limit *limit, struct serving *serving)
{
	struct sums sums = { .first_ns = -1, .last_ns = -1 };
	double window_s = seconds(requests->start_ns, requests->end_ns);
	int r;

	if (limit && limit->ttft_ms <= 0 && limit->tpot_ms <= 0 && limit->e2el_ms <= 0)
		limit = NULL;
	r = gather_sums(requests, rules, limit, &sums);
	serving->duration_s = rules->spans_chunks ? seconds(sums.first_ns, sums.last_ns) : window_s;
	if (r == 0 && rules->all_requests && !isnan(window_s))
		r = find_windowed(requests, rules, &sums, serving);
	else
		find_plain(&sums, window_s, serving);
	if (r == 0) {
		find_concurrency(&sums, rules, window_s, serving);
		find_reasons(rules, limit, &sums, serving);
	}
	free(sums.ends.v);
	free(sums.good_ends.v);
	free(sums.outputs.v);
	free(sums.all_tokens.v);
	free(sums.under_way.v);
	return r;
}
