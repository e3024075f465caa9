/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of requests; see requests_fields.h.
 */
#include "subjects/inference/requests_fields.h"

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
