/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over requests; see figures.h.
 */
#include "lab/serving/figures.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -1 is unknown, and stays so. */
static void add_tokens(int64_t *sum, int64_t tokens)
{
	*sum = *sum < 0 || tokens < 0 ? -1 : *sum + tokens;
}

static int64_t output_of(const struct request *request)
{
	if (request->output_tokens >= 0)
		return request->output_tokens;
	return request->pieces ? (int64_t)request->pieces : -1;
}

/* Sums `n` measured requests, after skipping the first `skip`. */
static void sum_up(const struct experiment *e, const struct requests *requests, size_t skip,
		   size_t n, struct repeat_figures *ret)
{
	int64_t start = INT64_MAX, end = -1;

	*ret = (struct repeat_figures){ .requests = n };
	for (size_t i = 0; i < requests->n && n; i++) {
		const struct request *request = &requests->v[i];

		if (request->warmup)
			continue;
		if (skip) {
			skip--;
			continue;
		}
		n--;
		if (request->sent_ns >= 0 && request->sent_ns < start)
			start = request->sent_ns;
		if (request->end_ns > end)
			end = request->end_ns;
		if (request->end != REQUEST_OK)
			continue;
		ret->ok++;
		add_tokens(&ret->tokens,
			   e->task == TASK_TRAINING ? request->prompt_tokens : output_of(request));
	}
	ret->time_s = end > start ? (double)(end - start) * 1e-9 : NAN;
}

static int split_requests(const struct experiment *e, const struct requests *requests,
			  size_t measured, struct figures *f)
{
	size_t n = (size_t)e->repeats;

	if (!measured || measured % n)
		return 0;
	f->repeats = calloc(n, sizeof(*f->repeats));
	if (!f->repeats)
		return -ENOMEM;
	f->n = n;
	f->all = (struct repeat_figures){ 0 };
	for (size_t i = 0; i < n; i++) {
		struct repeat_figures *one = &f->repeats[i];

		sum_up(e, requests, i * (measured / n), measured / n, one);
		f->all.time_s += one->time_s;
		f->all.requests += one->requests;
		f->all.ok += one->ok;
		add_tokens(&f->all.tokens, one->tokens);
	}
	return 0;
}

int figures_compute(const struct experiment *experiment, const struct requests *requests,
		    struct figures *ret_figures)
{
	struct figures f = { 0 };
	size_t measured = 0;
	int r;

	for (size_t i = 0; i < requests->n; i++) {
		const struct request *request = &requests->v[i];

		if (request->warmup)
			continue;
		measured++;
		if (request->end != REQUEST_OK)
			continue;
		add_tokens(&f.prompt_tokens, request->prompt_tokens);
		add_tokens(&f.output_tokens, output_of(request));
	}
	sum_up(experiment, requests, 0, measured, &f.all);
	r = split_requests(experiment, requests, measured, &f);
	if (r < 0)
		return r;
	f.time_s = f.all.ok ? f.all.time_s / (double)(f.n ? f.n : 1) : NAN;
	f.tokens_per_s = f.all.ok && f.all.tokens >= 0 ? (double)f.all.tokens / f.all.time_s : NAN;
	f.reason = !measured	      ? "no request was measured"
		   : !f.all.ok	      ? "no request succeeded"
		   : isnan(f.time_s)  ? "requests have no times"
		   : f.all.tokens < 0 ? "the program did not count tokens"
				      : NULL;
	*ret_figures = f;
	return 0;
}

void figures_release(struct figures *figures)
{
	free(figures->repeats);
}

int figures_requests(const struct figures *figures, const struct requests *requests, size_t repeat,
		     struct requests *ret_requests)
{
	size_t each = figures->repeats[repeat].requests, skip = repeat * each;
	struct requests one = *requests;

	one.v = calloc(each + 1, sizeof(*one.v));
	if (!one.v)
		return -ENOMEM;
	one.n = 0;
	one.start_ns = INT64_MAX;
	one.end_ns = -1;
	for (size_t i = 0; i < requests->n && one.n < each; i++) {
		const struct request *request = &requests->v[i];

		if (request->warmup)
			continue;
		if (skip) {
			skip--;
			continue;
		}
		one.v[one.n++] = *request;
		if (request->sent_ns >= 0 && request->sent_ns < one.start_ns)
			one.start_ns = request->sent_ns;
		if (request->end_ns > one.end_ns)
			one.end_ns = request->end_ns;
	}
	if (one.end_ns < one.start_ns)
		one.start_ns = one.end_ns;
	*ret_requests = one;
	return 0;
}
