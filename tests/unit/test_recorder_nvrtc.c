/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder's kernel text through a real libnvrtc, for each architecture that it knows from this
 * list. Skipped where there is none: set MOESCOPE_NVRTC to its path when the loader does not find it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe/routing/recorder_inside.h"

static bool has(const char *image, size_t bytes, const char *text)
{
	return memmem(image, bytes, text, strlen(text)) != NULL;
}

static void test_compiles(void **state)
{
	static const int capabilities[] = { 70, 75, 80, 86, 90, 100, 120, 999 };
	size_t compiled = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++) {
		struct err err = { "" };
		size_t bytes = 0;
		char *image = NULL;
		int r = recorder_kernel_compile(capabilities[i], &image, &bytes, &err);

		if (r == -ENOTSUP && strstr(err.message, "needs libnvrtc")) {
			print_message("no libnvrtc here: %s\n", err.message);
			skip();
		}
		/* Too old for this compiler: said in words. */
		if (r == -ENOTSUP && strstr(err.message, "does not support compute capability"))
			continue;
		if (r != 0)
			fail_msg("capability %d: %s", capabilities[i], err.message);
		assert_true(has(image, bytes, "moescope_route"));
		assert_true(has(image, bytes, "moescope_routes"));
		assert_true(has(image, bytes, "moescope_step"));
		/* Of a device that is newer than the compiler there is PTX, for the driver. */
		assert_int_equal(has(image, bytes, ".target sm_"), capabilities[i] == 999);
		free(image);
		compiled++;
	}
	assert_true(compiled >= 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
