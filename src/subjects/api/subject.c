/* SPDX-License-Identifier: Apache-2.0
 *
 * API calls as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/api/api_calls.h"

static int compute_api_calls(const struct material *m, void *answer)
{
	return api_calls_analyze_at(m->at, &m->question->sel, answer);
}

SUBJECT_RELEASE(api_calls)

const struct subject subject_api_calls = {
	.id = SUBJECT_ID_api_calls,
	.name = "api_calls",
	.size = sizeof(struct api_calls),
	.length = 90,
	.kinds = WANT_DEVICE,
	.needs = NEEDS_CALLS | NEEDS_SELECTED_PLACES,
	.compute = compute_api_calls,
	.release = release_api_calls,
};
