/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of devices by phase, by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "asking.h"
#include "fake_run.h"
#include "moescope.h"
#include "subjects/steps/device_phases.h"

static const struct subject *const reads[] = { &subject_device_phases, NULL };

static struct device_phases look(const struct run *run)
{
	struct answers a = answers_of(run, reads, &(struct question){ .sel = SELECT_ALL });
	struct device_phases phases = *answer_device_phases(&a);

	answers_release(&a);
	return phases;
}

/* One step of 1000 ns. The host launches all of it in the first 300 ns:
 *   forward   kernels 150-400 and 380-450 (beside the first)
 *   backward  kernel 500-700, after a gap; a copy 720-760
 *   nothing   kernel 800-850
 * and waits until the end. */
static struct run *one_step(void)
{
	struct run *run = fake_run_new();

	fake_step(run, 0, 0, 1000, 0);
	fake_range(run, fake_site(run, "forward", -1, -1, MOESCOPE_FORWARD), 50, 150, 1, 0);
	fake_range(run, fake_site(run, "backward", -1, -1, MOESCOPE_BACKWARD), 150, 250, 1, 0);
	fake_call(run, "cudaLaunchKernel", 100, 110, 1);
	fake_call(run, "cudaLaunchKernel", 120, 130, 2);
	fake_call(run, "cudaLaunchKernel", 160, 170, 3);
	fake_call(run, "cudaMemcpyAsync", 180, 190, 4);
	fake_call(run, "cudaLaunchKernel", 280, 290, 5);
	fake_kernel(run, "a", 150, 400, 1);
	fake_kernel(run, "b", 380, 450, 2);
	fake_kernel(run, "c", 500, 700, 3);
	fake_copy(run, 1, 2, 64, 720, 760, 4);
	fake_kernel(run, "d", 800, 850, 5);
	fake_span(run, 0, 2000);
	return run;
}

static void test_moments(void **state)
{
	struct run *run = one_step();
	struct device_phases phases = look(run);

	(void)state;
	assert_null(phases.reason);
	assert_int_equal(phases.steps, 1);
	/* From the begin of the step to 450, then with the gap before it to 760, then to 850. */
	assert_int_equal(phases.ns[MOESCOPE_FORWARD], 450);
	assert_int_equal(phases.ns[MOESCOPE_BACKWARD], 310);
	assert_int_equal(phases.ns[0], 90);
	/* A second step begins anew; work that goes on beyond it is cut. */
	fake_step(run, 1, 1000, 1400, 0);
	fake_range(run, fake_site(run, "forward", -1, -1, MOESCOPE_FORWARD), 1010, 1100, 1, 0);
	fake_call(run, "cudaLaunchKernel", 1020, 1030, 6);
	fake_kernel(run, "a", 1200, 1500, 6);
	phases = look(run);
	assert_int_equal(phases.steps, 2);
	assert_int_equal(phases.ns[MOESCOPE_FORWARD], 450 + 400);
	fake_run_free(run);
}

static void test_absent(void **state)
{
	struct run *run = fake_run_new();

	(void)state;
	fake_step(run, 0, 0, 1000, 0);
	assert_string_equal(look(run).reason, "no device records in this run");
	fake_kernel(run, "a", 150, 400, 1);
	assert_string_equal(look(run).reason, "no work of these steps was launched in a phase");
	fake_run_free(run);
	run = fake_run_new();
	fake_kernel(run, "a", 150, 400, 1);
	assert_string_equal(look(run).reason, "device records cover no step wholly");
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_moments),
		cmocka_unit_test(test_absent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
