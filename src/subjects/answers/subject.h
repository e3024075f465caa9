/* SPDX-License-Identifier: Apache-2.0
 *
 * A subject: from a run and a question to an answer. Its plan says what it needs, before the run is
 * loaded and after, so that nothing is loaded or made that nobody reads; what it reads of other
 * subjects gives the order in which they are computed. Pure, any thread.
 */
#ifndef SUBJECTS_SUBJECT_H
#define SUBJECTS_SUBJECT_H

#include "subjects/answers/answers.h"
#include "subjects/answers/question.h"

struct attribution;
struct device_lanes;

/* What several subjects stand on, and what a question must bring. */
enum {
	NEEDS_CALLS = 1,	   /* material's at: the call of each device record */
	NEEDS_PLACES = 2,	   /* and where in the program it was made */
	NEEDS_SELECTED_PLACES = 4, /* that only if the selection or the schedule leaves work out */
	NEEDS_LANES = 8,	   /* material's lanes */
	NEEDS_CLASSES = 16,	   /* question's classes */
	NEEDS_PEAKS = 32,	   /* question's peaks */
};

struct plan {
	struct run_want want; /* of the run */
	unsigned int needs;   /* NEEDS_… */
};

/* What an answer is made of. `at` and `lanes` are empty unless the plan needs them. */
struct material {
	const struct run *run;
	const struct question *question;
	const struct attribution *at;
	const struct device_lanes *lanes;
	struct answers answers; /* those that the plan reads */
};

#define SUBJECT_READS_MAX 4

struct subject {
	enum subject_id id;
	const char *name;
	size_t size;	     /* of its answer */
	unsigned int length; /* the longest begin first, so that none is left over for one thread */
	/* What it needs whatever is asked. Of kernels the usual columns: see plan_kinds. */
	uint64_t kinds;
	unsigned int needs;
	/* Other answers to the same question, at most SUBJECT_READS_MAX; NULL: none. */
	const struct subject *const *reads;
	/* Adds what depends on the question and the run; may be NULL. run: NULL before it is loaded.
	 * 0 or -errno; without a run always 0. */
	int (*plan)(const struct question *question, const struct run *run, struct plan *plan);
	int (*compute)(const struct material *material, void *answer); /* into zeros */
	void (*release)(void *answer); /* also what compute left half done; may be NULL */
};

/* The release of a subject by its own. */
#define SUBJECT_RELEASE(name)                                                                      \
	static void release_##name(void *answer)                                                   \
	{                                                                                          \
		name##_release(answer);                                                            \
	}

/* Records of the devices and when they were collected. */
#define WANT_DEVICE_ALONE                                                                          \
	(WANT(KERNEL) | WANT(COPY) | WANT(SET) | WANT(STEP) | WANT(GRAPH_NODE) | WANT(GEAR) |      \
	 WANT(DEVICE))
/* And what places them in the program: ranges and operations are most of a foreign trace. */
#define WANT_DEVICE (WANT_DEVICE_ALONE | WANT(API) | WANT(RANGE) | WANT(OP))

/* Records of these kinds, whole; kernels without the columns that only rows by stream or graph are
 * made of. */
void plan_kinds(struct plan *plan, uint64_t kinds);
/* Some columns of a kind, as in struct run_want; 0: all. */
void plan_columns(struct plan *plan, enum record_kind kind, uint64_t columns);
/* The plan of one subject, without what it reads. */
int plan_subject(const struct subject *subject, const struct question *question,
		 const struct run *run, struct plan *ret_plan);
/* Adds what `reads` need before a run is loaded, and what they read in turn. */
void plan_subjects(struct plan *plan, const struct question *question,
		   const struct subject *const *reads);
/* Adds to a want what another one has. */
void want_add(struct run_want *want, const struct run_want *more);

#endif
