/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of an experiment as JSON; see metrics.h.
 */
#include "lab/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/serving/figures.h"
#include "lab/serving/serving.h"

static void put_absent(struct json *json, const char *key, const char *reason)
{
	char name[64];

	json_key(json, key);
	json_null(json);
	snprintf(name, sizeof(name), "%s_reason", key);
	json_key(json, name);
	json_string(json, reason && *reason ? reason : "unknown");
}

/* NaN means unknown. */
static void put_number(struct json *json, const char *key, double value, const char *reason)
{
	if (!isfinite(value)) {
		put_absent(json, key, reason);
		return;
	}
	json_key(json, key);
	json_double(json, value);
}

static void put_tokens(struct json *json, const char *key, int64_t tokens, const char *reason)
{
	if (tokens < 0) {
		put_absent(json, key, reason ? reason : "the program did not count them");
		return;
	}
	json_key(json, key);
	json_int(json, tokens);
}

/* Median and tail of each latency: what a comparison of repeats needs. */
static void put_percentiles(struct json *json, const struct serving *serving)
{
	json_key(json, dialect_names[serving->dialect]);
	json_object(json);
	for (int m = 0; m < SERVING_METRICS; m++) {
		const struct distribution *d = &serving->metrics[m];
		const char *key = serving_metric_key((enum serving_metric)m);

		if (!d->n) {
			put_absent(json, key, d->reason);
			continue;
		}
		json_key(json, key);
		json_object(json);
		json_key(json, "p50");
		json_double(json, d->p50);
		json_key(json, "p99");
		json_double(json, d->p99);
		json_object_end(json);
	}
	json_object_end(json);
}

static int put_repeat_serving(struct json *json, const struct point *point, const struct figures *f,
			      size_t repeat)
{
	struct requests one;
	int r = 0;

	if (point->experiment->task == TASK_TRAINING) {
		put_absent(json, "serving", "training serves no requests");
		return 0;
	}
	r = figures_requests(f, &point->requests, repeat, &one);
	if (r < 0)
		return r;
	json_key(json, "serving");
	json_object(json);
	for (int i = 0; i < DIALECTS && r == 0; i++) {
		struct serving serving;

		r = serving_compute(&one, (enum dialect)i, NULL, &serving);
		if (r == 0)
			put_percentiles(json, &serving);
	}
	json_object_end(json);
	free(one.v);
	return r;
}

static int put_repeats(struct json *json, const struct point *point, const struct figures *f,
		       const char *reason)
{
	int r = 0;

	if (!f->repeats) {
		put_absent(json, "repeats",
			   reason ? reason : "the requests do not divide into the repeats");
		return 0;
	}
	json_key(json, "repeats");
	json_array(json);
	for (size_t i = 0; i < f->n && r == 0; i++) {
		const struct repeat_figures *one = &f->repeats[i];
		double rate = one->tokens < 0 ? NAN : (double)one->tokens / one->time_s;
		const char *why = one->ok ? "the program did not count tokens"
					  : "no request succeeded";

		json_object_line(json);
		put_number(json, "inference_time", one->time_s, "no request has ended");
		put_tokens(json, "tokens", one->tokens, NULL);
		put_number(json, "tokens_per_second", one->ok ? rate : NAN, why);
		json_key(json, "requests");
		json_uint(json, one->requests);
		json_key(json, "requests_ok");
		json_uint(json, one->ok);
		r = put_repeat_serving(json, point, f, i);
		json_object_end(json);
	}
	json_array_end(json);
	return r;
}

static int put_serving(struct json *json, const struct point *point)
{
	const struct experiment *e = point->experiment;
	struct goodput_limit limit = { 0 };
	int r = 0;

	if (e->task == TASK_TRAINING) {
		put_absent(json, "serving", "training serves no requests");
		return 0;
	}
	if (!point->measured) {
		put_absent(json, "serving", point->unmeasured.message);
		return 0;
	}
	if (e->goodput)
		r = goodput_parse(e->goodput, &limit, NULL);
	json_key(json, "serving");
	json_object(json);
	for (int i = 0; i < DIALECTS && r == 0; i++) {
		struct serving serving;

		r = serving_compute(&point->requests, (enum dialect)i, &limit, &serving);
		if (r < 0)
			break;
		json_key(json, dialect_names[i]);
		serving_write_json(&serving, json);
	}
	json_object_end(json);
	return r;
}

static void put_memory(struct json *json, const struct point *point)
{
	const struct estimate *est = &point->estimate;
	const char *why = point->unestimated.message;
	bool known = !why[0], traced = point->trace_peak_bytes >= 0;
	double rss = point->peak_rss_bytes ? (double)point->peak_rss_bytes : NAN;
	double measured = traced ? point->trace_peak_bytes : rss;

	json_key(json, "memory");
	json_object(json);
	put_number(json, "estimated_bytes", known ? est->total_bytes : NAN, why);
	put_number(json, "parameters", known ? est->parameters : NAN, why);
	put_number(json, "weights_bytes", known ? est->weights_bytes : NAN, why);
	put_number(json, "cache_bytes", known ? est->cache_bytes : NAN, why);
	put_number(json, "activation_bytes", known ? est->activation_bytes : NAN, why);
	put_number(json, "training_bytes", known ? est->training_bytes : NAN, why);
	json_key(json, "activation_how");
	json_string(json, ESTIMATE_ACTIVATIONS);
	put_number(json, "measured_peak_bytes", measured, "no program was run");
	json_key(json, "measured_how");
	json_string(json, traced ? "trace: what the program's allocators held at most"
				 : "resident set of the largest process, libraries included");
	put_number(json, "trace_peak_bytes", traced ? point->trace_peak_bytes : NAN,
		   point->trace_unknown.message);
	put_number(json, "peak_rss_bytes", rss, "no program was run");
	put_number(json, "measured_to_estimated", known ? measured / est->total_bytes : NAN,
		   known ? "no program was run" : why);
	json_object_end(json);
}

static void put_setting(struct json *json, const struct point *point)
{
	const struct experiment *e = point->experiment;

	json_key(json, "schema");
	json_string(json, "moescope/metrics/1");
	json_key(json, "model");
	json_string(json, e->model_name);
	json_key(json, "engine");
	json_string(json, e->engine);
	json_key(json, "task");
	json_string(json, parameter_find("task")->choices[e->task]);
	json_key(json, "prompt");
	json_string(json, e->prompt ? e->prompt : "");
	json_key(json, "batch_size");
	json_int(json, e->batch_size);
	json_key(json, "max_tokens");
	json_int(json, e->max_tokens);
	json_key(json, "temperature");
	json_double(json, e->temperature);
	json_key(json, "tensor_parallel_size");
	json_int(json, e->tensor_parallel_size);
}

int metrics_write(const struct point *point, struct json *json)
{
	const struct experiment *e = point->experiment;
	const struct requests *requests = &point->requests;
	struct figures f = { .time_s = NAN, .tokens_per_s = NAN };
	const char *reason = NULL;
	int r = point->measured ? figures_compute(e, requests, &f) : 0;

	if (r < 0)
		return r;
	reason = point->measured ? f.reason : point->unmeasured.message;
	json_object(json);
	put_setting(json, point);
	put_number(json, "inference_time", f.time_s, reason);
	put_number(json, "tokens_per_second", f.tokens_per_s, reason);
	put_number(json, "load_time",
		   point->measured && requests->load_ns >= 0 ? (double)requests->load_ns * 1e-9
							     : NAN,
		   point->measured ? "the program did not tell" : reason);
	json_key(json, "wall_time");
	json_double(json, (double)(point->end_ns - point->start_ns) * 1e-9);
	put_tokens(json, "requests", point->measured ? (int64_t)f.all.requests : -1, reason);
	put_tokens(json, "requests_ok", point->measured ? (int64_t)f.all.ok : -1, reason);
	put_tokens(json, "prompt_tokens", point->measured ? f.prompt_tokens : -1,
		   point->measured ? NULL : reason);
	put_tokens(json, "output_tokens", point->measured ? f.output_tokens : -1,
		   point->measured ? NULL : reason);
	if (e->task == TASK_TRAINING)
		put_number(json, "step_time",
			   f.all.ok ? f.all.time_s / (double)f.all.requests : NAN, reason);
	r = put_repeats(json, point, &f, point->measured ? NULL : reason);
	if (r == 0)
		r = put_serving(json, point);
	put_memory(json, point);
	json_object_end(json);
	figures_release(&f);
	return r;
}
