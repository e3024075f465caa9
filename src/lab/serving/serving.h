/* SPDX-License-Identifier: Apache-2.0
 *
 * Serving figures from requests, in three dialects: the same word names different numbers in vLLM's
 * bench, GuideLLM and AIPerf. Each figure has its dialect's formula.
 */
#ifndef LAB_SERVING_H
#define LAB_SERVING_H

#include "base/text/json_write.h"
#include "base/text/text_table.h"
#include "lab/serving/requests.h"

enum dialect { DIALECT_VLLM, DIALECT_GUIDELLM, DIALECT_AIPERF, DIALECTS };
extern const char *const dialect_names[DIALECTS + 1];

/* Of one figure over requests, gaps or tokens. n 0: absent, and `reason` says why. */
struct distribution {
	size_t n;
	double mean, std, min, max, p50, p90, p95, p99;
	const char *reason;
};

struct goodput_limit {
	double ttft_ms, tpot_ms, e2el_ms; /* 0: no limit */
};

/* With a distribution, in milliseconds. */
enum serving_metric {
	SERVING_TTFT,
	SERVING_TPOT,
	SERVING_ITL,
	SERVING_ICL,
	SERVING_E2EL,
	SERVING_METRICS
};

/* One number each. */
enum serving_rate {
	SERVING_DURATION,
	SERVING_REQUESTS_PER_S,
	SERVING_OUTPUT_TOKENS_PER_S,
	SERVING_TOTAL_TOKENS_PER_S,
	SERVING_GOODPUT,
	SERVING_CONCURRENCY_MEAN,
	SERVING_CONCURRENCY_MAX,
	SERVING_RATES
};

struct serving {
	enum dialect dialect;
	struct distribution metrics[SERVING_METRICS];
	/* Without warm-up. Answers without any text count as failed, as the owners have it. */
	size_t ok, failed, cancelled, timeouts, unfinished;
	/* NaN: absent, and rate_reasons says why. */
	double duration_s, requests_per_s, output_tokens_per_s, total_tokens_per_s;
	double goodput_per_s, concurrency_mean, concurrency_max;
	const char *rate_reasons[SERVING_RATES];
	int64_t prompt_tokens, output_tokens; /* of the successful requests; -1: unknown */
	bool server_counts;		      /* the server counted all of those tokens */
	struct distribution lateness;	      /* of the client: sent - due, ms */
};

const char *serving_metric_key(enum serving_metric metric); /* "ttft_ms" */
/* "(last chunk - first chunk) / (n - 1)…", or NULL: the dialect has no such figure. */
const char *serving_formula(enum dialect dialect, enum serving_metric metric);
const char *serving_rate_formula(enum dialect dialect, enum serving_rate rate);
double serving_rate(const struct serving *serving, enum serving_rate rate);
/* The program and version whose figures a dialect gives. */
const char *serving_owner(enum dialect dialect);

/* -1: unknown name. */
int dialect_find(const char *name);
/* "ttft:200 tpot:50 e2el:2000", milliseconds, any of them. */
int goodput_parse(const char *text, struct goodput_limit *ret_limit, struct err *err);
/* limit: NULL or all 0 for none. 0 or -ENOMEM. */
int serving_compute(const struct requests *requests, enum dialect dialect,
		    const struct goodput_limit *limit, struct serving *ret_serving);
/* One object. */
void serving_write_json(const struct serving *serving, struct json *json);
/* A table and the single figures; with `formulas`, a line for each on how it is computed. 0 or
 * -ENOMEM; write errors stay in ferror(out). */
int serving_print(const struct serving *serving, const struct text_layout *layout, bool formulas,
		  FILE *out);

#endif
