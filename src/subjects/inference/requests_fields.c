/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of inference; see fields.h.
 */
#include "subjects/inference/inference.h"

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct inference_request, member)

static const struct field fields[] = {
	{ "request", "request", UNIT_INT, OF(request), .meaning = "number" },
	{ "rank", "rank", UNIT_INT, OF(rank) },
	{ "begin_ns", "begin", UNIT_NS, MEMBER_AS(FIELD_TIME, struct inference_request, begin_ns),
	  .meaning = "since the start of the run" },
	{ "prompt_tokens", "prompt", UNIT_INT, OF(prompt_tokens), .meaning = "given" },
	{ "tokens", "tokens", UNIT_INT, OF(tokens), .meaning = "produced" },
	{ "ttft_ns", "TTFT", UNIT_NS, OF(ttft_ns), .meaning = "first token - begin" },
	{ "tpot_ns", "TPOT", UNIT_NS, OF(tpot_ns),
	  .meaning = "(last - first token) / (tokens - 1)" },
	{ "time_ns", "time", UNIT_NS, OF(time_ns), .meaning = "last token - begin",
	  .metric = NO_METRIC },
	{ "request_tokens_per_s", "tokens/s", UNIT_COUNT, OF(tokens_per_s) },
	{ "finished", NULL, UNIT_INT, OF(finished), .meaning = "its end was recorded" },
};

const struct field_set requests_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct inference, rows, n_rows) } },
	.levels = 1,
	.meaning = "request of an inference run",
};

#define OF_SUMMARY(member) MEMBER(struct stats_summary, member)

static const struct field summary_fields[] = {
	{ "count", NULL, UNIT_INT, OF_SUMMARY(n), .meaning = "values" },
	{ "mean", NULL, UNIT_RATIO, OF_SUMMARY(mean) },
	{ "p50", NULL, UNIT_RATIO, OF_SUMMARY(p50), .meaning = "median" },
	{ "p95", NULL, UNIT_RATIO, OF_SUMMARY(p95), .meaning = "95th percentile" },
	{ "p99", NULL, UNIT_RATIO, OF_SUMMARY(p99), .meaning = "99th percentile" },
	{ "min", NULL, UNIT_RATIO, OF_SUMMARY(min) },
	{ "max", NULL, UNIT_RATIO, OF_SUMMARY(max) },
};

static const struct field_group summary = {
	FIELD_OBJECT, FIELD_ON_ONE_LINE, FIELDS(summary_fields),
	PART("summary", "Statistics; the unit is in the key that holds it.")
};

static bool is_empty(const struct field_row *at)
{
	const char *member = (const char *)at->item + at->field->offset;

	return !((const struct stats_summary *)(const void *)member)->n;
}

static const char *no_tokens(const struct field_row *at)
{
	return is_empty(at) ? "no tokens were generated" : NULL;
}

static const char *no_second_token(const struct field_row *at)
{
	return is_empty(at) ? "no request has two tokens" : NULL;
}

#define SUMMARY(member) .offset = offsetof(struct inference, member), .of = &summary

#define OF_STAGE(member) MEMBER(struct inference_stage, member)

static const struct field stage_fields[] = {
	{ "time_ns", NULL, UNIT_NS, OF_STAGE(time_ns), .meaning = "at least one request is at it",
	  .metric = NO_METRIC },
	{ "tokens", NULL, UNIT_COUNT, OF_STAGE(tokens),
	  .meaning = "prompt tokens, or tokens after the first" },
	{ "tokens_per_s", NULL, UNIT_COUNT, OF_STAGE(tokens_per_s), .meaning = "tokens / time",
	  .metric = NO_METRIC },
	{ "range_ns", NULL, UNIT_NS, OF_STAGE(range_ns),
	  .meaning = "with a range of this phase open" },
	{ "device_ns", NULL, UNIT_NS, OF_STAGE(device_ns),
	  .meaning = "kernels launched in such ranges" },
};

static const struct field_group stage = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(stage_fields),
					  PART("stage", "Prefill or decode of all requests.") };

#define STAGE(which) .offset = offsetof(struct inference, stages[which]), .of = &stage
#define OF_ALL(member) MEMBER(struct inference, member)

static const struct field total_fields[] = {
	{ "requests", NULL, UNIT_INT, OF_ALL(requests), .meaning = "begun", .grows = true },
	{ "finished", NULL, UNIT_INT, OF_ALL(finished), .meaning = "whose end was recorded",
	  .grows = true },
	{ "without_begin", NULL, UNIT_INT, OF_ALL(without_begin),
	  .meaning = "token records of requests whose begin is not in the run" },
	{ "prompt_tokens", NULL, UNIT_COUNT, OF_ALL(prompt_tokens),
	  .meaning = "given to the requests", .grows = true },
	{ "tokens", NULL, UNIT_COUNT, OF_ALL(tokens), .meaning = "produced", .grows = true },
	{ "tokens_per_s", NULL, UNIT_COUNT, OF_ALL(tokens_per_s),
	  .meaning = "all tokens / (last token - first begin)", .metric = NO_METRIC },
	{ "ttft_ns", SUMMARY(ttft_ns), .absent = no_tokens,
	  .meaning = "first token - begin of the request" },
	{ "tpot_ns", SUMMARY(tpot_ns), .absent = no_second_token,
	  .meaning = "(last - first token) / (tokens - 1), by request" },
	{ "itl_ns", SUMMARY(itl_ns), .absent = no_second_token,
	  .meaning = "between two tokens of a request" },
	{ "request_tokens_per_s", SUMMARY(request_tokens_per_s), .absent = no_tokens },
	{ "prefill", STAGE(STAGE_PREFILL) },
	{ "decode", STAGE(STAGE_DECODE) },
};

const struct field_set inference_total = {
	FIELDS(total_fields), .meaning = "Generation, from the times of the tokens really produced."
};
