/* SPDX-License-Identifier: Apache-2.0
 *
 * Subjects, what they declare to need and to read, and who may read their answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "asking.h"
#include "fake_run.h"
#include "subjects/answers/subject.h"
#include "subjects/kernels/kernels.h"
#include "subjects/kernels/launches.h"
#include "subjects/routing/routing.h"
#include "subjects/steps/steps.h"
#include "verdicts/verdicts.h"

static const struct question everything = { .sel = { INT64_MIN, INT64_MAX, -1, -1 } };
static const struct subject *const kernel_reads[] = { &subject_kernels, &subject_steps, NULL };

/* Two steps with a kernel each. */
static struct run *small_run(void)
{
	struct run *run = fake_run_new();

	for (int64_t i = 0; i < 2; i++) {
		fake_step(run, i, 1000 * i, 1000 * i + 900, 10);
		fake_call(run, "cudaLaunchKernel", 1000 * i + 10, 1000 * i + 20, (uint64_t)i + 1);
		fake_kernel(run, "k", 1000 * i + 30, 1000 * i + 130, (uint64_t)i + 1);
	}
	fake_span(run, 0, 2000);
	return run;
}

static void test_the_list(void **state)
{
	size_t n = 0;

	(void)state;
	for (; subjects_all[n]; n++) {
		const struct subject *s = subjects_all[n];
		size_t reads = 0;

		assert_int_equal(s->id, n);
		assert_true(s->size > 0 && s->compute && s->length > 0);
		/* None is read by itself, at any distance: it would never be ready. */
		for (const struct subject *const *r = s->reads; r && *r; r++, reads++)
			for (const struct subject *const *rr = (*r)->reads; rr && *rr; rr++)
				assert_ptr_not_equal(*rr, s);
		assert_true(reads <= SUBJECT_READS_MAX);
	}
	assert_int_equal(n, SUBJECT_COUNT);
}

static void test_what_is_asked_is_there(void **state)
{
	struct run *run = small_run();
	struct answers a = answers_of(run, kernel_reads, &everything);

	(void)state;
	assert_int_equal(answer_kernels(&a)->count, 2);
	assert_int_equal(answer_steps(&a)->n, 2);
	assert_true(answers_has(&a, &subject_steps));
	/* Nothing else is computed. */
	assert_false(answers_has(&a, &subject_routing));
	assert_null(a.of[SUBJECT_ID_routing]);
	answers_release(&a);
	assert_null(a.of);
	fake_run_free(run);
}

static void test_one_subject_two_questions(void **state)
{
	struct run *run = small_run();
	struct asked asked[2] = { { everything, { "all", kernel_reads } },
				  { everything, { "the second step", kernel_reads } } };
	struct answers a[2];

	(void)state;
	asked[1].question.sel.step_first = 1;
	assert_int_equal(answers_compute(run, asked, 2, a), 0);
	assert_int_equal(answer_kernels(&a[0])->count, 2);
	assert_int_equal(answer_kernels(&a[1])->count, 1);
	assert_int_equal(answer_steps(&a[1])->n, 1);
	answers_release(a);
	fake_run_free(run);
}

/* What the subjects that are read read in turn is loaded, too, and no more than the question needs. */
static void test_plans(void **state)
{
	static const struct subject *const tax[] = { &subject_imbalance_tax, NULL };
	static const struct subject *const kernels[] = { &subject_kernels, NULL };
	static const struct subject *const launches[] = { &subject_launches, NULL };
	struct question q = everything;
	struct plan plan = { 0 };

	(void)state;
	plan_subjects(&plan, &q, tax);
	assert_true(plan.want.kinds & WANT(ROUTING) && plan.want.kinds & WANT(STEP));
	assert_false(plan.want.kinds & WANT(ROUTED));
	q.routed_tokens = true;
	plan_subjects(&plan, &q, tax);
	assert_true(plan.want.kinds & WANT(ROUTED));

	plan = (struct plan){ 0 };
	plan_subjects(&plan, &q, kernels);
	assert_false(plan.want.kinds & (WANT(RANGE) | WANT(OP)));
	assert_true(plan.needs & NEEDS_CLASSES);
	assert_false(plan.want.columns[RECORD_KERNEL] & WANT_COLUMN(kernel, graph));
	q.kernels_by = KERNELS_BY_GRAPH;
	plan_subjects(&plan, &q, kernels);
	assert_int_equal(plan.want.columns[RECORD_KERNEL], 0); /* all */
	q.sel.layer = 1;
	plan_subjects(&plan, &q, kernels);
	assert_true(plan.want.kinds & WANT(RANGE) && plan.want.kinds & WANT(OP));

	plan = (struct plan){ 0 };
	q.no_launches = true;
	plan_subjects(&plan, &q, launches);
	assert_true(!plan.want.kinds && !plan.needs);
}

static void test_wants_add_up(void **state)
{
	struct run_want want = { .kinds = WANT(API), .columns = { [RECORD_API] = 1 } };
	struct run_want more = { .kinds = WANT(API) | WANT(STEP), .columns = { [RECORD_API] = 6 } };

	(void)state;
	want_add(&want, &more);
	assert_int_equal(want.kinds, WANT(API) | WANT(STEP));
	assert_int_equal(want.columns[RECORD_API], 7);
	assert_int_equal(want.columns[RECORD_STEP], 0);
	/* All of them stay all, whichever comes first. */
	more.columns[RECORD_API] = 0;
	want_add(&want, &more);
	assert_int_equal(want.columns[RECORD_API], 0);
	more.columns[RECORD_API] = 6;
	want_add(&want, &more);
	assert_int_equal(want.columns[RECORD_API], 0);
}

#ifndef NDEBUG
static void read_undeclared(const struct answers *a)
{
	answer_routing(a);
}

/* It is there, and still the part has not declared it. */
static void read_beside(const struct answers *a)
{
	static const struct subject *const steps[] = { &subject_steps, NULL };
	struct answers part = answers_for(a, (struct reader){ "a part", steps });

	answer_steps(&part);
	answer_kernels(&part);
}

static void declare_too_much(const struct answers *a)
{
	static const struct subject *const routing[] = { &subject_routing, NULL };

	answers_for(a, (struct reader){ "a part", routing });
}

/* What the function says before it aborts. */
static void aborts(void (*read_it)(const struct answers *), const struct answers *a,
		   const char *sentence)
{
	char said[256] = "";
	int fds[2], status;
	pid_t child;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		read_it(a);
		_exit(0);
	}
	close(fds[1]);
	assert_true(read(fds[0], said, sizeof(said) - 1) > 0);
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_string_equal(said, sentence);
}

static void test_undeclared_reads_abort(void **state)
{
	struct run *run = small_run();
	struct answers a = answers_of(run, kernel_reads, &everything);

	(void)state;
	aborts(read_undeclared, &a,
	       "'the test' reads the answer of 'routing' without having declared it\n");
	aborts(read_beside, &a,
	       "'a part' reads the answer of 'kernels' without having declared it\n");
	aborts(declare_too_much, &a,
	       "'the test' reads the answer of 'routing' without having declared it\n");
	answers_release(&a);
	fake_run_free(run);
}
#endif

/* What the rules declare is all that they read: judged with that alone, none aborts. */
static void test_verdicts_read_what_they_declare(void **state)
{
	const struct subject *reads[SUBJECT_COUNT + 1];
	struct run *run = small_run();
	struct verdicts verdicts;
	struct answers a;

	(void)state;
	verdicts_reads(reads);
	a = answers_of(run, reads, &everything);
	assert_true(answers_has(&a, &subject_device_use));
	assert_false(answers_has(&a, &subject_ops));
	assert_int_equal(verdicts_analyze(run, &a, &verdicts), 0);
	verdicts_release(&verdicts);
	answers_release(&a);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_list),
		cmocka_unit_test(test_what_is_asked_is_there),
		cmocka_unit_test(test_one_subject_two_questions),
		cmocka_unit_test(test_plans),
		cmocka_unit_test(test_wants_add_up),
#ifndef NDEBUG
		cmocka_unit_test(test_undeclared_reads_abort),
#endif
		cmocka_unit_test(test_verdicts_read_what_they_declare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
