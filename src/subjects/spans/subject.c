/* SPDX-License-Identifier: Apache-2.0
 *
 * Named spans as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/spans/named_spans.h"

static int compute_named_spans(const struct material *m, void *answer)
{
	return named_spans_analyze(m->run, answer);
}

SUBJECT_RELEASE(named_spans)

const struct subject subject_named_spans = {
	.id = SUBJECT_ID_named_spans,
	.name = "named_spans",
	.size = sizeof(struct named_spans),
	.length = 22,
	.kinds = WANT(SPAN),
	.compute = compute_named_spans,
	.release = release_named_spans,
};
