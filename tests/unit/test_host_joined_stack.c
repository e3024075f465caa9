/* SPDX-License-Identifier: Apache-2.0
 *
 * Python and native functions in one stack, from stacks made by hand: letters are Python functions, big ones
 * those that C has called; '=' is the interpreter's function that runs them, '-' is glue, '_' is of the C
 * library, digits are others.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/stacks/joined_stack.h"

#define MOST 32

/* All innermost first. */
static void joins(const char *python, const char *native, bool whole, const char *expected)
{
	struct python_function functions[MOST];
	struct join_native chain[MOST];
	uint32_t names[2 * MOST];
	size_t n_python = strlen(python), n_native = strlen(native), n = 0;

	for (size_t i = 0; i < n_python; i++)
		functions[i] = (struct python_function){ (uint32_t)python[i],
							 isupper((unsigned char)python[i]) };
	for (size_t i = 0; i < n_native; i++)
		chain[i] = (struct join_native){ (uint32_t)native[i], native[i] == '='	 ? JOIN_EVAL
								      : native[i] == '-' ? JOIN_GLUE
								      : native[i] == '_'
									      ? JOIN_BASE
									      : JOIN_OTHER };
	assert_int_equal(join_stacks(functions, n_python, chain, n_native, names, &n), whole);
	assert_int_equal(n, strlen(expected));
	for (size_t i = 0; i < n; i++)
		assert_int_equal(names[i], expected[i]);
}

static void whole(void **state)
{
	(void)state;
	joins("A", "=", true, "A");
	joins("A", "1=", true, "1A");
	joins("abC", "12-=--", true, "12abC");
	joins("aBcD", "1-=-2-=-3", true, "1aB2cD3");
	joins("ABC", "=-=-=", true, "ABC"); /* up to 3.10 each has its own */
	joins("AbC", "==", true, "AbC");
	joins("aB", "_1=_2", true, "_1aB2");
}

/* The counts differ: frames are missing, or it is not the same moment. */
static void innermost_alone(void **state)
{
	(void)state;
	joins("aBcD", "123", false, "1aBcD");
	joins("aBcD", "1=2", false, "1aBcD");
	joins("aB", "1=2=3", false, "1aB");
	joins("aB", "=2=3", false, "aB");
	joins("aB", "-2", false, "aB");
	joins("aB", "", false, "aB");
	joins("ab", "1", false, "1ab"); /* no outermost one is known */
	joins("aBc", "1=", false, "1aBc");
	joins("", "12", false, "1");
}

static void kinds(void **state)
{
	static const struct {
		const char *label;
		enum join_kind kind;
	} labels[] = {
		{ "_PyEval_EvalFrameDefault (python3.12)", JOIN_EVAL },
		{ "_PyEval_EvalFrameDefault.cold (libpython3.13.so.1.0)", JOIN_EVAL },
		{ "_TAIL_CALL_LOAD_FAST (python3.14)", JOIN_EVAL },
		{ "_PyEval_Vector (python3.12)", JOIN_GLUE },
		{ "PyObject_Vectorcall (python3.12)", JOIN_GLUE },
		{ "PyObject_GetIter (python3.12)", JOIN_OTHER },
		{ "list_sort_impl (python3.12)", JOIN_OTHER },
		{ "main (python3.12)", JOIN_GLUE },
		{ "main (server)", JOIN_OTHER },
		{ "at::native::add (libtorch_cpu.so)", JOIN_OTHER },
		{ "0x1234 (libfoo.so)", JOIN_OTHER },
		{ "0x1234 (libpython3.12.so.1.0)", JOIN_GLUE },
		{ "0x27249 (libc.so.6)", JOIN_BASE },
		{ "[unknown]", JOIN_GLUE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
		assert_int_equal(join_kind_of(labels[i].label), labels[i].kind);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole),
		cmocka_unit_test(innermost_alone),
		cmocka_unit_test(kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
