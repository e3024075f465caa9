/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of named spans; see fields.h.
 */
#include "subjects/spans/named_spans.h"

#include "subjects/answers/answers.h"
#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct named_span, member)
#define STRING(member) MEMBER_AS(FIELD_STRING, struct named_span, member)

static const struct field span_fields[] = {
	{ "name", NULL, UNIT_TEXT, STRING(name), .meaning = "of the range" },
	{ "domain", NULL, UNIT_TEXT, STRING(domain), .none = "the default domain",
	  .meaning = "null: the default one" },
	{ "count", NULL, UNIT_INT, OF(count), .meaning = "ranges" },
	{ "time_ns", NULL, UNIT_NS, OF(time_ns), .meaning = "sum of their durations",
	  .metric = NO_METRIC },
	{ "max_ns", NULL, UNIT_NS, OF(max_ns), .metric = NO_METRIC },
	{ "moved", NULL, UNIT_INT, OF(moved), .meaning = "ended on another thread" },
	{ "unfinished", NULL, UNIT_INT, OF(unfinished) },
};

static const struct field_group spans = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(span_fields),
	.items = { ITEMS(struct named_spans, rows, n) },
	PART("span", "Ranges that threads pass on, by name."),
};

static const void *named_spans(const struct field_row *at)
{
	return answer_named_spans(at->answers);
}

static const struct field fields[] = {
	{ "spans", .from = named_spans, .of = &spans, .meaning = "ranges that threads pass on" },
};

const struct field_set named_spans_fields = { FIELDS(fields) };
