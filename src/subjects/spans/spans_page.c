/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans that threads pass on, for the report.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "subjects/pages/pages.h"
#include "subjects/spans/named_spans.h"

#define TOP_SPANS 10

void spans_report(const struct scene *scene, struct page *page)
{
	const struct named_spans *spans = answer_named_spans(scene->answers);

	if (!spans->n)
		return;
	page_title(page, "Spans that threads pass on, by time");
	for (size_t i = 0; i < spans->n && i < TOP_SPANS; i++) {
		const struct named_span *span = &spans->rows[i];

		page_words(page, 2, 4, "%s%s%s: %s in %" PRIu64 ", longest %s",
			   span->domain ? run_string(scene->run, span->domain) : "",
			   span->domain ? "/" : "", run_string(scene->run, span->name),
			   format_ns((double)span->time_ns).text, span->count,
			   format_ns((double)span->max_ns).text);
	}
	page_rest(page, 2, spans->n, TOP_SPANS, ": moescope report --json");
}
