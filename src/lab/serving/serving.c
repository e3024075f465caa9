/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of serving.h. A table here says what each dialect means by a word, taken from the
 * sources of its owner: which requests count, which chunks, what is divided by what, weights, and
 * how a percentile is found. docs/experiments.md has the same in prose.
 */
#include "lab/serving/serving.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "lab/serving/serving_inside.h"
#include "subjects/numbers/stats.h"

const char *const dialect_names[DIALECTS + 1] = { "vllm", "guidellm", "aiperf", NULL };

static const struct rules dialects[DIALECTS] = {
	[DIALECT_VLLM] = {
		.owner = "vLLM bench serve 0.32.0",
		.empty_chunks = true,
		.zero_tokens = true,
		.peak_by_second = true,
		.tpot_limit = SERVING_TPOT,
		.absent_is_zero = true,
		.metrics = {
			[SERVING_TTFT] = { VALUE_FIRST, WEIGHT_ONE, "first chunk - sent" },
			[SERVING_TPOT] = { VALUE_AFTER_FIRST, WEIGHT_ONE,
					   "(last chunk - first chunk) / (output tokens - 1), of "
					   "requests with 2 tokens or more" },
			[SERVING_ITL] = { VALUE_GAPS, WEIGHT_ONE,
					  "every gap between chunks, all requests pooled" },
			[SERVING_E2EL] = { VALUE_LAST, WEIGHT_ONE, "last chunk - sent" },
		},
		.rates = {
			[SERVING_DURATION] = "end - start of the measured part",
			[SERVING_REQUESTS_PER_S] = "requests that are ok / duration",
			[SERVING_OUTPUT_TOKENS_PER_S] = "output tokens of those / duration",
			[SERVING_TOTAL_TOKENS_PER_S] = ("prompt and output tokens of those / "
						       "duration"),
			[SERVING_GOODPUT] = ("requests that are ok with ttft, tpot and e2el within "
					    "the limits / duration; tpot is 0 with one token"),
			[SERVING_CONCURRENCY_MEAN] = NULL,
			[SERVING_CONCURRENCY_MAX] = ("most requests in flight in the "
						    "same second"),
		},
	},
	[DIALECT_GUIDELLM] = {
		.owner = "GuideLLM 0.8.1",
		.steps = true,
		.all_requests = true,
		.merge_ns = 100000,
		.tpot_limit = SERVING_ITL,
		.metrics = {
			[SERVING_TTFT] = { VALUE_FIRST, WEIGHT_ONE, "first text - sent" },
			[SERVING_TPOT] = { VALUE_PER_TOKEN, WEIGHT_TOKENS,
					   "(last text - sent) / output tokens, each request "
					   "weighted by its tokens" },
			[SERVING_ITL] = { VALUE_AFTER_FIRST, WEIGHT_TOKENS_BUT_ONE,
					  "(last text - first text) / (output tokens - 1), each "
					  "request weighted by its tokens less one" },
			[SERVING_E2EL] = { VALUE_END, WEIGHT_ONE, "end of the answer - sent" },
		},
		.rates = {
			[SERVING_DURATION] = "end - start of the measured part",
			[SERVING_REQUESTS_PER_S] = "requests that ended in any way / duration",
			[SERVING_OUTPUT_TOKENS_PER_S] = "output tokens of all requests / duration",
			[SERVING_TOTAL_TOKENS_PER_S] = ("prompt and output tokens of all requests / "
						       "duration"),
			[SERVING_GOODPUT] = ("requests that are ok with ttft, itl (for tpot) and "
					    "e2el within the limits / duration; one token has no "
					    "itl and does not count"),
			[SERVING_CONCURRENCY_MEAN] = "requests in flight, mean over time",
			[SERVING_CONCURRENCY_MAX] = "most requests in flight at a moment",
		},
	},
	[DIALECT_AIPERF] = {
		.owner = "AIPerf 0.13.0",
		.spans_chunks = true,
		.tpot_limit = SERVING_ITL,
		.metrics = {
			[SERVING_TTFT] = { VALUE_FIRST, WEIGHT_ONE, "first text - sent" },
			[SERVING_ITL] = { VALUE_AFTER_FIRST, WEIGHT_ONE,
					  "(last text - first text) / (output tokens - 1), of "
					  "requests with 2 tokens or more" },
			[SERVING_ICL] = { VALUE_GAPS, WEIGHT_ONE,
					  "every gap between texts, all requests pooled" },
			[SERVING_E2EL] = { VALUE_LAST, WEIGHT_ONE, "last text - sent" },
		},
		.rates = {
			[SERVING_DURATION] = "last text of any request - first request sent",
			[SERVING_REQUESTS_PER_S] = "requests that are ok / (end - start of the measured part)",
			[SERVING_OUTPUT_TOKENS_PER_S] = ("output tokens of those / (end - start of the measured "
							"part)"),
			[SERVING_TOTAL_TOKENS_PER_S] = ("prompt and output tokens of those / "
						       "(end - start of the measured part)"),
			[SERVING_GOODPUT] = ("requests that are ok with ttft, itl (for tpot) and "
					    "e2el within the limits / (end - start of the measured "
					    "part); one token has no itl and fails a limit on it"),
			[SERVING_CONCURRENCY_MEAN] = "requests in flight that will be ok, mean over time",
			[SERVING_CONCURRENCY_MAX] = "most of those at a moment",
		},
	},
};

const char *serving_owner(enum dialect dialect)
{
	return dialects[dialect].owner;
}

const char *serving_formula(enum dialect dialect, enum serving_metric metric)
{
	return dialects[dialect].metrics[metric].formula;
}

const char *serving_rate_formula(enum dialect dialect, enum serving_rate rate)
{
	return dialects[dialect].rates[rate];
}

int dialect_find(const char *name)
{
	for (int i = 0; dialect_names[i]; i++)
		if (!strcmp(dialect_names[i], name))
			return i;
	return -1;
}

/* Pieces and empty chunks in one order. */
static int all_chunks(const struct requests *requests, const struct request *request,
		      struct chunk_room *room)
{
	const int64_t *pieces = request_pieces(requests, request);
	const int64_t *empties = request_empties(requests, request);
	size_t n = request->pieces + request->empties;

	if (array_grow(&room->v, &room->capacity, n, sizeof(*room->v)) < 0)
		return -ENOMEM;
	for (size_t i = 0, piece = 0, empty = 0; i < n; i++)
		room->v[i] = empty == request->empties || (piece < request->pieces &&
							   pieces[piece] <= empties[empty])
				     ? pieces[piece++]
				     : empties[empty++];
	return 0;
}

int view_request(const struct requests *requests, const struct request *request,
		 const struct rules *rules, struct chunk_room *room, struct view *ret_view)
{
	struct view view = { .request = request,
			     .chunks = request_pieces(requests, request),
			     .n_chunks = request->pieces,
			     .last_ns = -1 };

	if (rules->empty_chunks && request->empties) {
		if (all_chunks(requests, request, room) < 0)
			return -ENOMEM;
		view.chunks = room->v;
		view.n_chunks += request->empties;
	}
	view.tokens = request->output_tokens;
	if (view.tokens < 0 || (!view.tokens && rules->zero_tokens))
		view.tokens = request->pieces ? (int64_t)request->pieces : -1;
	if (view.n_chunks) {
		view.streamed = true;
		view.first_ns = view.chunks[0];
		view.last_ns = view.chunks[view.n_chunks - 1];
	} else if (!request->empties && request->output_tokens > 0) {
		view.last_ns = request->end_ns; /* an answer that arrived whole */
	}
	view.ok = request->end == REQUEST_OK && view.last_ns >= 0;
	*ret_view = view;
	return 0;
}

/* False: this request has no such value. Not for gaps. */
static bool view_value(const struct view *view, enum value value, double *ret_ms)
{
	const struct request *request = view->request;
	double divisor = 1;
	int64_t from = request->sent_ns, to = view->last_ns;

	switch (value) {
	case VALUE_FIRST:
		to = view->first_ns;
		break;
	case VALUE_LAST:
		break;
	case VALUE_END:
		to = request->end_ns;
		break;
	case VALUE_AFTER_FIRST:
		from = view->first_ns;
		divisor = (double)(view->tokens - 1);
		break;
	case VALUE_PER_TOKEN:
		divisor = (double)view->tokens;
		break;
	default:
		return false;
	}
	if (divisor < 1 ||
	    (!view->streamed && (value == VALUE_FIRST || value == VALUE_AFTER_FIRST)))
		return false;
	*ret_ms = (double)(to - from) / 1e6 / divisor;
	return true;
}

bool view_is_good(const struct view *view, const struct rules *rules,
		  const struct goodput_limit *limit, bool *ret_judged)
{
	const struct {
		double limit;
		enum serving_metric metric;
		bool absent_is_zero;
	} tests[] = {
		{ limit->ttft_ms, SERVING_TTFT, false },
		{ limit->tpot_ms, rules->tpot_limit, rules->absent_is_zero },
		{ limit->e2el_ms, SERVING_E2EL, false },
	};
	bool good = true;

	*ret_judged = true;
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		double ms = 0;

		if (tests[i].limit <= 0)
			continue;
		if (!view_value(view, rules->metrics[tests[i].metric].value, &ms) &&
		    !tests[i].absent_is_zero) {
			*ret_judged = false;
			return false;
		}
		good = good && ms <= tests[i].limit;
	}
	return good;
}

struct sample {
	double value, weight;
};

struct samples {
	struct sample *v;
	size_t n, capacity;
};

static int add_sample(struct samples *samples, double value, double weight)
{
	if (array_grow(&samples->v, &samples->capacity, samples->n + 1, sizeof(*samples->v)) < 0)
		return -ENOMEM;
	samples->v[samples->n++] = (struct sample){ value, weight };
	return 0;
}

static int by_value(const void *a, const void *b)
{
	double x = ((const struct sample *)a)->value, y = ((const struct sample *)b)->value;

	return x < y ? -1 : x > y;
}

/* Equal values become one, those without weight none. */
static size_t combine_equal(struct sample *v, size_t n, double *ret_total)
{
	size_t kept = 0;

	*ret_total = 0;
	for (size_t i = 0; i < n; i++) {
		if (v[i].weight <= 0)
			continue;
		*ret_total += v[i].weight;
		if (kept && v[kept - 1].value == v[i].value)
			v[kept - 1].weight += v[i].weight;
		else
			v[kept++] = v[i];
	}
	return kept;
}

/* The smallest value that at least this share of the weight does not exceed. The shares are summed
 * one by one, as the owner does: at a tie the rounding of that sum decides. */
static double step_at(const struct sample *v, size_t n, double total, double share)
{
	double sum = 0;

	for (size_t i = 0; i + 1 < n; i++) {
		sum += v[i].weight / total;
		if (sum >= share)
			return v[i].value;
	}
	return v[n - 1].value;
}

static struct distribution by_steps(struct samples *samples)
{
	struct sample *v = samples->v;
	struct distribution d = { 0 };
	double total, squares = 0;
	size_t n;

	if (!samples->n)
		return d;
	qsort(v, samples->n, sizeof(*v), by_value);
	n = combine_equal(v, samples->n, &total);
	if (!n)
		return d;
	for (size_t i = 0; i < n; i++)
		d.mean += v[i].value * (v[i].weight / total);
	for (size_t i = 0; i < n; i++)
		squares += (v[i].value - d.mean) * (v[i].value - d.mean) * (v[i].weight / total);
	d.n = (size_t)(total + 0.5);
	d.std = sqrt(squares);
	d.min = v[0].value;
	d.max = v[n - 1].value;
	d.p50 = step_at(v, n, total, 0.5);
	d.p90 = step_at(v, n, total, 0.9);
	d.p95 = step_at(v, n, total, 0.95);
	d.p99 = step_at(v, n, total, 0.99);
	return d;
}

/* Population standard deviation, and percentiles interpolated between neighbours, as in NumPy. */
static int interpolated(const struct samples *samples, struct distribution *ret)
{
	struct stats_summary summary;
	double *x;

	if (!samples->n)
		return 0;
	x = array_new(samples->n, sizeof(*x));
	if (!x)
		return -ENOMEM;
	for (size_t i = 0; i < samples->n; i++)
		x[i] = samples->v[i].value;
	summary = stats_summarize(x, samples->n);
	*ret = (struct distribution){ .n = summary.n,
				      .mean = summary.mean,
				      .std = summary.std,
				      .min = summary.min,
				      .max = summary.max,
				      .p50 = summary.p50,
				      .p90 = stats_percentile_sorted(x, samples->n, 90),
				      .p95 = summary.p95,
				      .p99 = summary.p99 };
	free(x);
	return 0;
}

static int summarize(struct samples *samples, bool steps, struct distribution *ret)
{
	*ret = (struct distribution){ 0 };
	if (!steps)
		return interpolated(samples, ret);
	*ret = by_steps(samples);
	return 0;
}

static int add_gaps(struct samples *samples, const struct view *view)
{
	for (size_t i = 1; i < view->n_chunks; i++)
		if (add_sample(samples, (double)(view->chunks[i] - view->chunks[i - 1]) / 1e6, 1) <
		    0)
			return -ENOMEM;
	return 0;
}

static int add_values(const struct view *view, const struct rules *rules,
		      struct samples samples[SERVING_METRICS])
{
	for (int i = 0; i < SERVING_METRICS; i++) {
		const struct figure *figure = &rules->metrics[i];
		double ms, weight = 1;

		if (figure->value == VALUE_GAPS && add_gaps(&samples[i], view) < 0)
			return -ENOMEM;
		if (!view_value(view, figure->value, &ms))
			continue;
		if (figure->weight != WEIGHT_ONE)
			weight = (double)(view->tokens - (figure->weight == WEIGHT_TOKENS_BUT_ONE));
		if (add_sample(&samples[i], ms, weight) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void count_requests(const struct view *view, struct serving *serving)
{
	const struct request *request = view->request;
	size_t *const counts[] = {
		[REQUEST_OK] = view->ok ? &serving->ok : &serving->failed,
		[REQUEST_FAILED] = &serving->failed,
		[REQUEST_CANCELLED] = &serving->cancelled,
		[REQUEST_TIMEOUT] = &serving->timeouts,
		[REQUEST_UNFINISHED] = &serving->unfinished,
	};

	(*counts[request->end])++;
	if (!view->ok)
		return;
	serving->server_counts = serving->server_counts && request->server_counts;
	if (request->prompt_tokens < 0)
		serving->prompt_tokens = -1;
	else if (serving->prompt_tokens >= 0)
		serving->prompt_tokens += request->prompt_tokens;
	if (view->tokens < 0)
		serving->output_tokens = -1;
	else if (serving->output_tokens >= 0)
		serving->output_tokens += view->tokens;
}

static const char *why_absent(const struct serving *serving, const struct figure *figure,
			      bool streamed)
{
	if (figure->value == VALUE_NONE)
		return "this dialect has no such figure";
	if (!serving->ok)
		return "no request was answered";
	if (!streamed)
		return "the answers were not streamed";
	return "no answer had more than one token";
}

static int collect_samples(const struct requests *requests, const struct rules *rules,
			   struct samples samples[SERVING_METRICS], struct samples *late,
			   struct serving *serving, bool *ret_streamed)
{
	struct chunk_room room = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < requests->n; i++) {
		const struct request *request = &requests->v[i];
		struct view view;

		if (request->warmup)
			continue;
		r = view_request(requests, request, rules, &room, &view);
		if (r < 0)
			break;
		count_requests(&view, serving);
		*ret_streamed = *ret_streamed || (view.ok && view.streamed);
		if (view.ok)
			r = add_values(&view, rules, samples);
		if (r == 0 && request->due_ns >= 0 && request->sent_ns >= 0)
			r = add_sample(late, (double)(request->sent_ns - request->due_ns) / 1e6, 1);
	}
	free(room.v);
	return r;
}

int serving_compute(const struct requests *requests, enum dialect dialect,
		    const struct goodput_limit *limit, struct serving *ret_serving)
{
	const struct rules *rules = &dialects[dialect];
	struct serving serving = { .dialect = dialect, .server_counts = true };
	struct samples samples[SERVING_METRICS] = { 0 }, late = { 0 };
	bool streamed = false;
	int r = collect_samples(requests, rules, samples, &late, &serving, &streamed);

	if (!serving.ok) {
		serving.prompt_tokens = serving.output_tokens = 0;
		serving.server_counts = false;
	}
	for (int i = 0; r == 0 && i < SERVING_METRICS; i++) {
		r = summarize(&samples[i], rules->steps, &serving.metrics[i]);
		if (!serving.metrics[i].n)
			serving.metrics[i].reason = why_absent(&serving, &rules->metrics[i],
							       streamed);
	}
	if (r == 0)
		r = summarize(&late, false, &serving.lateness);
	if (!serving.lateness.n)
		serving.lateness.reason = "no request had a time at which it was due";
	if (r == 0)
		r = serving_compute_rates(requests, rules, limit, &serving);
	for (int i = 0; i < SERVING_METRICS; i++)
		free(samples[i].v);
	free(late.v);
	if (r == 0)
		*ret_serving = serving;
	return r;
}

int goodput_parse(const char *text, struct goodput_limit *ret_limit, struct err *err)
{
	struct goodput_limit limit = { 0 };
	const struct {
		const char *name;
		double *place;
	} names[] = {
		{ "ttft", &limit.ttft_ms },
		{ "tpot", &limit.tpot_ms },
		{ "e2el", &limit.e2el_ms },
	};

	for (const char *at = text; *(at += strspn(at, " ,"));) {
		size_t length = strcspn(at, ":"), i = 0;
		double value;
		char *end;

		while (i < 3 &&
		       (strlen(names[i].name) != length || strncmp(at, names[i].name, length) != 0))
			i++;
		if (i == 3 || !at[length])
			return err_set(err, -EINVAL,
				       "goodput '%s': expected ttft:MS, tpot:MS or e2el:MS at '%s'",
				       text, at);
		value = strtod(at + length + 1, &end);
		if (end == at + length + 1 || !isfinite(value) || value <= 0 || !strchr(" ,", *end))
			return err_set(err, -EINVAL,
				       "goodput '%s': %s needs a number of milliseconds above 0",
				       text, names[i].name);
		if (*names[i].place > 0)
			return err_set(err, -EINVAL, "goodput '%s': %s occurs twice", text,
				       names[i].name);
		*names[i].place = value;
		at = end;
	}
	*ret_limit = limit;
	return 0;
}
