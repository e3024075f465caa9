/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks by tables of exceptions: this program's own, compared with what the C library makes of the same tables; and
 * files that are cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <execinfo.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/stacks/frame_tables.h"
#include "host/stacks/symbols.h"
#include "host/stacks/unwind.h"

#define DEPTH 64

static uint64_t ips[DEPTH];
static void *expected[DEPTH];
static size_t n, n_expected;

/* Those that a caller relies on, where this function is now. */
#define TAKE_REGISTERS(r)                                                                          \
	__asm__ volatile("mov %%rbx, 24(%0)\n\tmov %%rbp, 48(%0)\n\tmov %%rsp, 56(%0)\n\t"         \
			 "mov %%r12, 96(%0)\n\tmov %%r13, 104(%0)\n\tmov %%r14, 112(%0)\n\t"       \
			 "mov %%r15, 120(%0)\n\tlea 0(%%rip), %%rax\n\tmov %%rax, 128(%0)"         \
			 :                                                                         \
			 : "r"(r)                                                                  \
			 : "rax", "memory")

static __attribute__((noinline)) void take_stack(void)
{
	uint64_t registers[UNWIND_REGISTERS] = { 0 };
	struct symbols *symbols = symbols_open(getpid());
	struct unwinder *u = unwinder_open(getpid(), symbols);

	assert_non_null(u);
	n_expected = (size_t)backtrace(expected, DEPTH);
	TAKE_REGISTERS(registers);
	n = unwind(u, registers, ips, DEPTH);
	unwinder_close(u);
	symbols_close(symbols);
}

static __attribute__((noinline)) int compare(const void *a, const void *b)
{
	if (!n_expected)
		take_stack();
	return *(const int *)a - *(const int *)b;
}

/* Through a function of the C library, which has no frame pointers. */
static void test_own_stack(void **state)
{
	int numbers[] = { 2, 1 };
	size_t own = 0; /* functions of the C library's, or of a sanitizer's, in front */

	(void)state;
	qsort(numbers, 2, sizeof(numbers[0]), compare);
	assert_true(n > 4);
	while (own + 1 < n_expected && (uintptr_t)expected[own + 1] != ips[1])
		own++;
	assert_int_equal(n, n_expected - own);
	for (size_t i = 1; i < n; i++) /* the first are places in take_stack */
		assert_int_equal(ips[i], (uintptr_t)expected[own + i]);
}

static int copy_of(const char *path, off_t bytes)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("copy", MFD_CLOEXEC);
	char part[65536];
	ssize_t got;

	assert_true(from >= 0 && to >= 0);
	while ((got = read(from, part, sizeof(part))) > 0)
		assert_int_equal(write(to, part, (size_t)got), got);
	close(from);
	assert_int_equal(ftruncate(to, bytes), 0);
	return to;
}

/* Wherever it is cut, there is a rule that is right, or none. */
static void test_cut(void **state)
{
	int whole = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	off_t bytes = lseek(whole, 0, SEEK_END);
	struct frame_tables tables, of_cut;
	struct frame_rule rule, other;
	size_t known = 0;

	(void)state;
	frame_tables_read(&tables, whole);
	assert_true(tables.n > 10);
	for (int part = 0; part < 50; part++) {
		int cut = copy_of("/proc/self/exe", bytes * part / 50);

		frame_tables_read(&of_cut, cut);
		for (uint64_t at = 0; at < tables.base; at += 1001) {
			rule = frame_tables_rule(&tables, whole, at);
			other = frame_tables_rule(&of_cut, cut, at);
			known += rule.known;
			if (other.known)
				assert_memory_equal(&rule, &other, sizeof(rule));
		}
		close(cut);
	}
	assert_true(known > 0);
	close(whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_own_stack),
					    cmocka_unit_test(test_cut) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
