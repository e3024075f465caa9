/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of inference; see fields.h.
 */
#include "subjects/inference/inference.h"

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct inference_request, member)

static const struct field fields[] = {
	{ "request", "request", UNIT_INT, OF(request) },
	{ "rank", "rank", UNIT_INT, OF(rank) },
	{ "begin_ns", "begin", UNIT_NS, MEMBER_AS(FIELD_TIME, struct inference_request, begin_ns) },
	{ "prompt_tokens", "prompt", UNIT_INT, OF(prompt_tokens) },
	{ "tokens", "tokens", UNIT_INT, OF(tokens) },
	{ "ttft_ns", "TTFT", UNIT_NS, OF(ttft_ns) },
	{ "tpot_ns", "TPOT", UNIT_NS, OF(tpot_ns) },
	{ "time_ns", "time", UNIT_NS, OF(time_ns) },
	{ "request_tokens_per_s", "tokens/s", UNIT_COUNT, OF(tokens_per_s) },
	{ "finished", NULL, UNIT_INT, OF(finished) },
};

const struct field_set requests_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct inference, rows, n_rows) } },
	.levels = 1,
};

#define OF_SUMMARY(member) MEMBER(struct stats_summary, member)

static const struct field summary_fields[] = {
	{ "count", NULL, UNIT_INT, OF_SUMMARY(n) },
	{ "mean", NULL, UNIT_RATIO, OF_SUMMARY(mean) },
	{ "p50", NULL, UNIT_RATIO, OF_SUMMARY(p50) },
	{ "p95", NULL, UNIT_RATIO, OF_SUMMARY(p95) },
	{ "p99", NULL, UNIT_RATIO, OF_SUMMARY(p99) },
	{ "min", NULL, UNIT_RATIO, OF_SUMMARY(min) },
	{ "max", NULL, UNIT_RATIO, OF_SUMMARY(max) },
};

static const struct field_group summary = { FIELD_OBJECT, FIELD_ON_ONE_LINE,
					    FIELDS(summary_fields) };

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
	{ "time_ns", NULL, UNIT_NS, OF_STAGE(time_ns) },
	{ "tokens", NULL, UNIT_COUNT, OF_STAGE(tokens) },
	{ "tokens_per_s", NULL, UNIT_COUNT, OF_STAGE(tokens_per_s) },
	{ "range_ns", NULL, UNIT_NS, OF_STAGE(range_ns) },
	{ "device_ns", NULL, UNIT_NS, OF_STAGE(device_ns) },
};

static const struct field_group stage = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(stage_fields) };

#define STAGE(which) .offset = offsetof(struct inference, stages[which]), .of = &stage
#define OF_ALL(member) MEMBER(struct inference, member)

static const struct field total_fields[] = {
	{ "requests", NULL, UNIT_INT, OF_ALL(requests) },
	{ "finished", NULL, UNIT_INT, OF_ALL(finished) },
	{ "without_begin", NULL, UNIT_INT, OF_ALL(without_begin) },
	{ "prompt_tokens", NULL, UNIT_COUNT, OF_ALL(prompt_tokens) },
	{ "tokens", NULL, UNIT_COUNT, OF_ALL(tokens) },
	{ "tokens_per_s", NULL, UNIT_COUNT, OF_ALL(tokens_per_s) },
	{ "ttft_ns", SUMMARY(ttft_ns), .absent = no_tokens },
	{ "tpot_ns", SUMMARY(tpot_ns), .absent = no_second_token },
	{ "itl_ns", SUMMARY(itl_ns), .absent = no_second_token },
	{ "request_tokens_per_s", SUMMARY(request_tokens_per_s), .absent = no_tokens },
	{ "prefill", STAGE(STAGE_PREFILL) },
	{ "decode", STAGE(STAGE_DECODE) },
};

const struct field_set inference_total = { FIELDS(total_fields) };
