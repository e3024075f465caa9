/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the live view that are pure: the pace of panels, their places, lines of styled text; and
 * that every panel has both faces for any run.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "documents/panels.h"
#include "fake_comm.h"
#include "fake_counters.h"
#include "fake_h200.h"
#include "fake_run.h"
#include "fake_slow.h"
#include "fake_windows.h"
#include "surfaces/text/page_text.h"
#include "surfaces/top/frame.h"
#include "surfaces/top/pace.h"
#include "surfaces/views/scene.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

static void test_pace(void **state)
{
	static const int64_t costs[] = { MS / 10, 200 * MS, 0, MS, 500 * MS };
	int64_t periods[5];
	double used = 0;

	(void)state;
	pace(costs, 5, SECOND, 0.006, periods);
	for (size_t i = 0; i < 5; i++) {
		assert_true(periods[i] >= SECOND);
		used += (double)costs[i] / (double)periods[i];
	}
	/* All of the share is used, and no more. */
	assert_true(used < 0.0060001 && used > 0.0059999);
	assert_int_equal(periods[0], SECOND);
	assert_int_equal(periods[2], SECOND);
	assert_int_equal(periods[3], SECOND);
	/* The dear ones share what is left: (0.006 - 0.0011) / 2 each. */
	assert_in_range(periods[1], 81 * SECOND, 82 * SECOND);
	assert_in_range(periods[4], 204 * SECOND, 205 * SECOND);
	/* Nothing is dear: all are made each time. */
	pace(costs, 1, SECOND, 0.006, periods);
	assert_int_equal(periods[0], SECOND);
}

/* In the room, none over another, and none cut below its least. */
static void check_places(const int *has, int columns, int lines)
{
	struct panel_place p[PANELS];

	panels_place(has, columns, lines, p);
	for (size_t i = 0; i < PANELS; i++) {
		int least = panels[i].least < has[i] ? panels[i].least : has[i];

		if (!p[i].lines)
			continue;
		assert_true(i == PANEL_HEAD || p[i].lines >= least);
		assert_true(p[i].lines <= has[i]);
		assert_true(p[i].line >= 0 && p[i].line + p[i].lines <= lines);
		assert_true(p[i].column >= 0 && p[i].column + p[i].columns <= columns);
		for (size_t j = 0; j < i; j++)
			assert_true(!p[j].lines || p[j].line + p[j].lines <= p[i].line ||
				    p[i].line + p[i].lines <= p[j].line ||
				    p[j].column + p[j].columns <= p[i].column ||
				    p[i].column + p[i].columns <= p[j].column);
	}
}

static void test_places(void **state)
{
	static const int usual[PANELS] = { 3, 2, 6, 5, 3, 12, 4, 2, 20 };
	static const int long_ones[PANELS] = { 3, 64, 6, 64, 90, 101, 30, 2, 101 };
	struct panel_place places[PANELS];

	(void)state;
	for (int columns = 1; columns <= 320; columns += columns < 150 ? 37 : 5) {
		for (int lines = 0; lines <= 130; lines++) {
			check_places(usual, columns, lines);
			check_places(long_ones, columns, lines);
		}
	}
	/* On the smallest screen that counts, everything but the operations has its place. */
	panels_place(usual, 80, 23, places);
	for (size_t i = 0; i + 1 < PANELS; i++)
		assert_true(places[i].lines > 0);
	assert_int_equal(places[PANELS - 1].lines, 0);
}

static void check_put(const char *text, int columns, const char *wanted)
{
	struct buf frame = { 0 };

	frame_put(&frame, text, strlen(text), columns);
	buf_append(&frame, "", 1);
	assert_string_equal(frame.data, wanted);
	buf_release(&frame);
}

static void test_styled_text(void **state)
{
	(void)state;
	check_put("abc", 5, "abc  ");
	check_put("abc", 2, "ab");
	check_put("abc", 0, "");
	check_put("abc", -3, "");
	check_put("a\033[31mbc\033[0md", 4, "a\033[31mbc\033[0md");
	check_put("a\033[31mbc\033[0md", 2, "a\033[31mb\033[0m");
	/* Wide characters are not halved, broken bytes and sequences do no harm. */
	check_put("\xe4\xb8\xad\xe4\xb8\xad", 3, "\xe4\xb8\xad ");
	check_put("\033[31", 2, "  ");
	check_put("\xe4", 2, "\xe4 ");
}

static void test_lines(void **state)
{
	struct lines lines;
	const char *text;

	(void)state;
	assert_int_equal(lines_take(&lines, strdup("one\n\nthree\n")), 0);
	assert_int_equal(lines.n, 3);
	assert_int_equal(lines_at(&lines, 0, &text), 3);
	assert_int_equal(lines_at(&lines, 1, &text), 0);
	assert_int_equal(lines_at(&lines, 2, &text), 5);
	assert_memory_equal(text, "three", 5);
	lines_release(&lines);
	assert_int_equal(lines_take(&lines, strdup("")), 0);
	assert_int_equal(lines.n, 0);
	lines_release(&lines);
}

static void check_face(const struct panel *panel, const struct panel_face *face,
		       const struct run *run, int layer)
{
	struct view_options options = {
		.width = 80, .question = { .sel = { INT64_MIN, INT64_MAX, layer, -1 } }
	};
	struct question question = options.question;
	struct asked asked = panel_asked(panel, face, run, &question);
	struct panel_view view = { panel->sorts ? panel->sorts[0] : NULL };
	struct text_layout layout = { .width = 80 };
	struct page page = { 0 };
	struct answers answers;
	struct scene scene;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(scene_compute(run, &options, &asked, 1, &answers, NULL), 0);
	scene = scene_of(run, &options, &answers);
	for (size_t i = 0; !i || (panel->sorts && panel->sorts[i]); i++) {
		view.sort = panel->sorts ? panel->sorts[i] : NULL;
		panel_page(face, &scene, &view, &page);
		assert_int_equal(page_print(&page, &layout, out), 0);
		page_release(&page);
	}
	fclose(out);
	assert_non_null(strchr(text, '\n'));
	free(text);
	answers_release(&answers);
}

static void test_panels_of_any_run(void **state)
{
	static struct run *(*const make[])(
		void) = { fake_training_run, fake_gpu_run,  fake_h200_run,     fake_windows_run,
			  fake_slow_run,     fake_comm_run, fake_counters_run, fake_limits_run };

	(void)state;
	for (size_t f = 0; f < sizeof(make) / sizeof(make[0]); f++) {
		struct run *run = make[f]();

		for (size_t i = 0; i < PANELS; i++) {
			check_face(&panels[i], &panels[i].brief, run, -1);
			if (i == PANEL_HEAD)
				continue;
			check_face(&panels[i], &panels[i].whole, run, -1);
			check_face(&panels[i], &panels[i].whole, run, panels_last_layer(run));
		}
		fake_run_free(run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pace),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_styled_text),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_panels_of_any_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
