/* SPDX-License-Identifier: Apache-2.0
 *
 * Latency and throughput of generation, from the times of the tokens really produced.
 *
 * TTFT  first token - begin of the request
 * TPOT  (last token - first token) / (tokens - 1), per request
 * ITL   time between two tokens of a request, all of them
 * tokens/s of a request: tokens / (last token - begin); overall: all tokens over the time from
 * the first begin to the last token. Loading the model comes before the first begin and is out.
 */
#ifndef ANALYZE_INFERENCE_H
#define ANALYZE_INFERENCE_H

#include "analyze/stats.h"
#include "analyze/value.h"
#include "tables/tables.h"

struct inference {
	size_t requests, finished; /* finished: their end was recorded */
	size_t without_begin;	   /* token rows of requests whose begin is not in the run */
	uint64_t prompt_tokens, tokens;
	struct stats_summary ttft_ns, tpot_ns, itl_ns, request_tokens_per_s; /* n 0: absent */
	struct value tokens_per_s;
};

/* The figures behind the summaries, request after request; ns, and tokens per second. */
struct inference_samples {
	double *ttft, *tpot, *itl, *rate;
	size_t n_ttft, n_tpot, n_itl, n_rate;
};

int inference_samples_take(const struct run *run, struct inference_samples *ret_samples);
void inference_samples_release(struct inference_samples *samples);

int inference_analyze(const struct run *run, struct inference *ret_inference);

#endif
