/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls into libraries as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/calls/library_calls.h"

static int compute_library_calls(const struct material *m, void *answer)
{
	return library_calls_analyze(m->at, m->question->by_shape, answer);
}

SUBJECT_RELEASE(library_calls)

const struct subject subject_library_calls = {
	.id = SUBJECT_ID_library_calls,
	.name = "library_calls",
	.size = sizeof(struct library_calls),
	.length = 40,
	.kinds = WANT_DEVICE_ALONE | WANT(API) | WANT(OS_CALL) | WANT(CALL_COUNT) |
		 WANT(LIBRARY_CALL),
	.needs = NEEDS_CALLS,
	.compute = compute_library_calls,
	.release = release_library_calls,
};
