/* SPDX-License-Identifier: Apache-2.0
 *
 * What subjects answer about a run, as views, verdicts and plots read it: answer_kernels(answers).
 * A reader names the subjects that it reads.
 */
#ifndef SUBJECTS_ANSWERS_H
#define SUBJECTS_ANSWERS_H

#include "subjects/findings.h"
#include "subjects/subjects.h"

struct subject {
	const char *name;
	unsigned int find; /* enum finding */
};

/* The list of what is read, for a table of readers. */
#define READS(...) ((const struct subject *const[]){ __VA_ARGS__, NULL })

struct answers {
	const struct findings *findings;
};

#define SUBJECT(name)                                                                              \
	static inline const struct name *answer_##name(const struct answers *answers)              \
	{                                                                                          \
		return &answers->findings->name;                                                   \
	}
SUBJECTS(SUBJECT)
#undef SUBJECT

/* enum finding of them all. */
unsigned int subjects_find(const struct subject *const *reads);

#endif
