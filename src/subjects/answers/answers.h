/* SPDX-License-Identifier: Apache-2.0
 *
 * What subjects answer about a run, as views, verdicts and plots read it: answer_kernels(answers).
 *
 * A reader declares the subjects that it reads; they and what they stand on are computed, nothing
 * else. Unless NDEBUG is set, reading another one aborts, also where it happens to be there: the
 * next document with that reader would lack it. Any thread, once computed.
 */
#ifndef SUBJECTS_ANSWERS_H
#define SUBJECTS_ANSWERS_H

#include "subjects/answers/question.h"
#include "subjects/subjects.h"

struct reader {
	const char *name;
	const struct subject *const *reads; /* up to NULL */
};

/* The list of what is read, outside functions: readers point to it. */
#define READS(...) ((const struct subject *const[]){ __VA_ARGS__, NULL })

struct answer_set;

/* One question's answers as one reader sees them. */
struct answers {
	void *const *of; /* by enum subject_id; NULL: not asked for */
	struct reader reader;
	struct answer_set *set; /* that answers_release frees; NULL: another's */
};

/* A question, and who reads the answers to it. */
struct asked {
	struct question question;
	struct reader reader;
};

enum subject_id {
#define SUBJECT(name) SUBJECT_ID_##name,
	SUBJECTS(SUBJECT)
#undef SUBJECT
		SUBJECT_COUNT
};

/* ret_answers: n of them, the i-th to the i-th question; all are released with the first. Large runs
 * are computed by several threads. 0 or -errno. */
int answers_compute(const struct run *run, const struct asked *asked, size_t n,
		    struct answers *ret_answers);
/* Answers that hold nothing: for the columns of a table without a run. 0 or -ENOMEM. */
int answers_empty(struct reader reader, struct answers *ret_answers);
void answers_release(struct answers *answers);

/* The same answers for a part of the reader, which declares for itself what it reads. */
struct answers answers_for(const struct answers *answers, struct reader part);
/* For what is shown wherever it was asked for. */
bool answers_has(const struct answers *answers, const struct subject *subject);
/* Aborts when the reader has not declared the subject. */
void answers_check(const struct answers *answers, const struct subject *subject);

#ifdef NDEBUG
#define ANSWERS_CHECK(answers, subject) ((void)0)
#else
#define ANSWERS_CHECK(answers, subject) answers_check(answers, subject)
#endif

#define SUBJECT(name)                                                                              \
	static inline const struct name *answer_##name(const struct answers *answers)              \
	{                                                                                          \
		ANSWERS_CHECK(answers, &subject_##name);                                           \
		return answers->of[SUBJECT_ID_##name];                                             \
	}
SUBJECTS(SUBJECT)
#undef SUBJECT

#endif
