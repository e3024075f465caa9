/* SPDX-License-Identifier: Apache-2.0
 *
 * The live view of a recorded run, without a terminal.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "documents/panels.h"
#include "surfaces/top/top.h"

#define SECOND INT64_C(1000000000)

/* Every key in every state, on screens of all sizes: there is always a frame of the right size. */
static void test_keys_and_sizes(void **state)
{
	static const int keys[] = { 's',
				    'l',
				    TOP_KEY_TAB,
				    TOP_KEY_END,
				    'r',
				    TOP_KEY_PAGE_UP,
				    '?',
				    ' ',
				    TOP_KEY_DOWN,
				    'L',
				    TOP_KEY_BACK_TAB,
				    'R',
				    '?',
				    'p',
				    TOP_KEY_ESCAPE,
				    TOP_KEY_HOME,
				    'x',
				    0 };
	static const int sizes[][2] = { { 80, 24 }, { 200, 60 }, { 20, 5 }, { 1, 1 }, { 160, 3 } };
	struct top_options options = {
		.view = { .width = 80, .question = QUESTION_ALL, .color = true, .utf8 = true },
		.rows = 24,
		.interval_ns = SECOND,
		.hint = "A hint."
	};
	size_t n_keys = sizeof(keys) / sizeof(keys[0]);
	struct err err = { "" };
	struct top *top;
	int64_t now = SECOND;

	(void)state;
	assert_int_equal(top_open(MOESCOPE_DATA_DIR "/h200-windows", &options, &top, &err), 0);
	for (size_t i = 0; i < 3 * n_keys + 2 * PANELS; i++) {
		const int *size = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
		struct lines frame;

		top_resize(top, size[0], size[1]);
		assert_int_equal(top_update(top, now += SECOND, &err), 0);
		assert_int_equal(top_frame(top, &frame), 0);
		assert_int_equal(frame.n, size[1]);
		lines_release(&frame);
		assert_true(
			top_key(top, i < 3 * n_keys ? keys[i % n_keys] : '0' + (int)(i % PANELS)));
	}
	assert_true(top_ended(top));
	assert_false(top_key(top, 'q'));
	top_free(top);
	assert_int_equal(top_open("/no/such/run", &options, &top, &err), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_keys_and_sizes) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
