/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of threads that leave their CPU pause where they do so too often, and what cannot be sampled; by hand, so
 * the source itself is included.
 */
#include "host/stacks/native.c" /* NOLINT(bugprone-suspicious-include) */

#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

/* Threads of a CPU that leave it too often are left alone for longer and longer. */
static void pauses(void **state)
{
	struct ring ring = { .fd = -1 };
	struct native *n = calloc(1, sizeof(*n));
	int64_t now_ns = 1000 * PAUSE_NS, off_ns = 0;

	(void)state;
	n->rings = &ring;
	n->n_rings = 1;
	assert_true(native_leaves_since(n, now_ns) == INT64_MAX); /* not to be had */
	n->leaves = true;
	n->leaves_ns = n->counted_ns = now_ns;
	for (int i = 0; i < 20; i++) {
		ring.leaves += LEAVE_HZ / 10;
		now_ns += LEAVE_NS;
		assert_true(native_leaves_since(n, now_ns) == 1000 * PAUSE_NS);
	}
	for (int64_t pause_ns = PAUSE_NS; pause_ns <= PAUSE_MOST_NS; pause_ns *= 2) {
		ring.leaves = LEAVE_HZ;
		now_ns += LEAVE_NS;
		off_ns = now_ns;
		assert_true(native_leaves_since(n, now_ns) == INT64_MAX);
		assert_true(native_leaves_since(n, off_ns + pause_ns - 1) == INT64_MAX);
		now_ns = off_ns + pause_ns;
		assert_true(native_leaves_since(n, now_ns) == now_ns);
	}
	free(n);
}

static void refusals(void **state)
{
	struct native *n = NULL;
	char why[512] = "";
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(native_open(&n, pid, 100, why, sizeof(why)), -ESRCH);
	assert_non_null(strstr(why, "has ended"));
	assert_int_equal(native_open(&n, getpid(), 0, why, sizeof(why)), -EINVAL);
	explain(-EINVAL, 1, UINT32_MAX, why, sizeof(why));
	assert_non_null(strstr(why, "perf_event_max_sample_rate"));
	assert_null(n);
	native_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(pauses), cmocka_unit_test(refusals) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
