/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks subjects about a run built by hand.
 */
#ifndef TESTS_ASKING_H
#define TESTS_ASKING_H

#include "subjects/answers/answers.h"

/* reads: up to NULL, as long-lived as the answers. */
static inline struct answers answers_of(const struct run *run, const struct subject *const *reads,
					const struct question *question)
{
	struct asked asked = { *question, { "the test", reads } };
	struct answers answers;

	assert_int_equal(answers_compute(run, &asked, 1, &answers), 0);
	return answers;
}

#endif
