/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks the rules about a run built by hand.
 */
#ifndef TESTS_JUDGE_H
#define TESTS_JUDGE_H

#include <string.h>

#include "asking.h"
#include "fake_run.h"
#include "verdicts/verdicts.h"

struct judged {
	struct answers a;
	struct verdicts v;
};

static inline struct judged judge(const struct run *run)
{
	static const struct subject *reads[SUBJECT_COUNT + 1];
	struct judged j;

	verdicts_reads(reads);
	j.a = answers_of(run, reads, &(struct question){ .sel = SELECT_ALL });
	assert_int_equal(verdicts_analyze(run, &j.a, &j.v), 0);
	return j;
}

static inline void judged_release(struct judged *j)
{
	verdicts_release(&j->v);
	answers_release(&j->a);
}

static inline const struct verdict *judged_find(const struct judged *j, const char *id)
{
	for (size_t i = 0; i < j->v.n; i++)
		if (!strcmp(j->v.items[i].id, id))
			return &j->v.items[i];
	return NULL;
}

/* The verdict by value: its texts are in it, and what it points to is static. */
static inline struct verdict verdict_of(const struct run *run, const char *id, int *ret_found)
{
	struct judged j = judge(run);
	const struct verdict *found = judged_find(&j, id);
	struct verdict v = { 0 };

	*ret_found = found != NULL;
	if (found)
		v = *found;
	judged_release(&j);
	return v;
}

#define SAYS(run, id, wanted)                                                                      \
	do {                                                                                       \
		int found_;                                                                        \
		struct verdict verdict_ = verdict_of(run, id, &found_);                            \
		assert_true(found_);                                                               \
		assert_int_equal(verdict_.severity, wanted);                                       \
	} while (0)
#define SILENT(run, id)                                                                            \
	do {                                                                                       \
		int found_;                                                                        \
		verdict_of(run, id, &found_);                                                      \
		assert_false(found_);                                                              \
	} while (0)
/* The first verdict of all, with this gain in percent. */
#define FIRST(run, wanted, gain)                                                                   \
	do {                                                                                       \
		struct judged j_ = judge(run);                                                     \
		assert_true(j_.v.n > 0);                                                           \
		assert_string_equal(j_.v.items[0].id, wanted);                                     \
		assert_true(j_.v.items[0].gain_pct.known);                                         \
		assert_non_null(j_.v.items[0].gain_assumption);                                    \
		assert_float_equal(j_.v.items[0].gain_pct.v, gain, 0.01);                          \
		judged_release(&j_);                                                               \
	} while (0)

#endif
