/* SPDX-License-Identifier: Apache-2.0
 *
 * Latency and throughput of generation, from the times of the tokens really produced.
 *
 * TTFT  first token - begin of the request
 * TPOT  (last token - first token) / (tokens - 1), per request
 * ITL   time between two tokens of a request, all of them
 * tokens/s of a request: tokens / (last token - begin); overall: all tokens over the time from
 * the first begin to the last token. Loading the model comes before the first begin and is out.
 *
 * Prefill of a request is from its begin to its first token, decode from there to its last. Their
 * time is that in which at least one request is at it; tokens/s are prompt tokens, or tokens after
 * the first, over that time. A request waiting in a queue is in its prefill: ranges of the phase
 * and device time say what was worked.
 */
#ifndef SUBJECTS_INFERENCE_H
#define SUBJECTS_INFERENCE_H

#include "subjects/numbers/stats.h"
#include "subjects/numbers/value.h"
#include "tables/tables.h"

struct inference_request {
	uint64_t request;
	uint32_t rank;
	int64_t begin_ns;
	uint64_t prompt_tokens, tokens;
	bool finished; /* its end was recorded */
	struct value ttft_ns, tpot_ns, tokens_per_s;
	struct value time_ns; /* from its begin to its last token */
};

enum { STAGE_PREFILL, STAGE_DECODE, STAGES };

struct inference_stage {
	struct value time_ns, tokens, tokens_per_s;
	struct value range_ns;	/* with a range of this phase open, per process */
	struct value device_ns; /* kernels launched in such ranges */
};

struct inference {
	size_t requests, finished; /* finished: their end was recorded */
	size_t without_begin;	   /* token rows of requests whose begin is not in the run */
	uint64_t prompt_tokens, tokens;
	struct stats_summary ttft_ns, tpot_ns, itl_ns, request_tokens_per_s; /* n 0: absent */
	struct value tokens_per_s;
	struct inference_stage stages[STAGES];
	struct inference_request *rows; /* by begin */
	size_t n_rows;
};

/* The figures behind the summaries, request after request; ns, and tokens per second. */
struct inference_samples {
	double *ttft, *tpot, *itl, *rate;
	size_t n_ttft, n_tpot, n_itl, n_rate;
};

int inference_samples_take(const struct run *run, struct inference_samples *ret_samples);
void inference_samples_release(struct inference_samples *samples);

int inference_analyze(const struct run *run, struct inference *ret_inference);
void inference_release(struct inference *inference);

/* Fills range_ns and device_ns of the stages; used by inference_analyze. */
int inference_stages_fill(const struct run *run, struct inference *out);

/* Its fields; see requests_fields.c. */
struct field_set;
extern const struct field_set requests_fields, inference_total;

#endif
