/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of an inference run as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/inference/inference.h"

static int compute_inference(const struct material *m, void *answer)
{
	return inference_analyze(m->run, answer);
}

SUBJECT_RELEASE(inference)

const struct subject subject_inference = {
	.id = SUBJECT_ID_inference,
	.name = "inference",
	.size = sizeof(struct inference),
	.length = 25,
	.kinds = WANT_DEVICE | WANT(TOKEN),
	.compute = compute_inference,
	.release = release_inference,
};
