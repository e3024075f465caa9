/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of serving from requests, in three dialects: the same word names different numbers in
 * vLLM's bench, GuideLLM and AIPerf. Each figure carries the formula of its dialect.
 */
#ifndef LAB_SERVING_H
#define LAB_SERVING_H

#include "base/json_write.h"
#include "lab/requests.h"

enum dialect { DIALECT_VLLM, DIALECT_GUIDELLM, DIALECT_AIPERF, DIALECTS };
extern const char *const dialect_names[DIALECTS + 1];

/* Of one figure over requests (or gaps). n 0: absent, and `reason` says why. */
struct distribution {
	size_t n;
	double mean, std, min, max, p50, p90, p95, p99;
	const char *reason;
};

struct goodput_limit {
	double ttft_ms, tpot_ms, e2el_ms; /* 0: no limit */
};

enum serving_metric {
	SERVING_TTFT,
	SERVING_TPOT,
	SERVING_ITL,
	SERVING_ICL,
	SERVING_E2EL,
	SERVING_METRICS
};

struct serving {
	enum dialect dialect;
	struct distribution metrics[SERVING_METRICS]; /* milliseconds */
	size_t ok, failed, cancelled, timeouts, unfinished;
	double duration_s, requests_per_s, output_tokens_per_s, total_tokens_per_s;
	double goodput_per_s; /* NaN: no limits were given */
	int64_t prompt_tokens, output_tokens;
	struct distribution lateness; /* of the client: sent - due, ms */
	double concurrency_mean;
	size_t concurrency_max;
};

const char *serving_metric_key(enum serving_metric metric);
/* "(latency - TTFT) / (n - 1)…", or NULL: the dialect has no such figure. */
const char *serving_formula(enum dialect dialect, enum serving_metric metric);
int goodput_parse(const char *text, struct goodput_limit *ret_limit, struct err *err);
/* 0 or -ENOMEM. */
int serving_compute(const struct requests *requests, enum dialect dialect,
		    const struct goodput_limit *limit, struct serving *ret_serving);
void serving_write_json(const struct serving *serving, struct json *json);

#endif
