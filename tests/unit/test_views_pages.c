/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of pages as text: what wraps, what is left out and how pictures fill their room at several
 * widths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_run.h"
#include "surfaces/text/page_text.h"
#include "surfaces/views/views.h"

/* Releases the page. */
static void check(struct page *page, struct text_layout layout, const char *expected)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(page_print(page, &layout, out), 0);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
	page_release(page);
}

static void test_lines(void **state)
{
	struct page page = { 0 };

	(void)state;
	page_line(&page, 2, "%d of", 3);
	page_put(&page, " %d", 4);
	page_empty_line(&page);
	page_words(&page, 2, 4, "one two three");
	page_put(&page, " four five");
	check(&page, (struct text_layout){ .width = 12 },
	      "  3 of 4\n"
	      "\n"
	      "  one two\n"
	      "    three\n"
	      "    four\n"
	      "    five\n");
}

static void test_tones(void **state)
{
	struct page page = { 0 };

	(void)state;
	page_title(&page, "Title");
	page_trouble(&page, "aa %s", "bb");
	check(&page, (struct text_layout){ .width = 5, .color = true },
	      "\n\033[1mTitle\033[0m\n\033[33m!\033[0m aa\n  bb\n");
}

static void parts(struct page *page, const char *instead, const char *remark)
{
	page_parts(page, 1);
	page_put_in(page, TONE_STRONG, "%-4s", "Use");
	page_part(page, "10%%");
	page_part(page, ", 20%%");
	page_part(page, ", 30%%");
	page_parts_end(page, instead, remark);
}

static void test_parts_that_do_not_fit(void **state)
{
	struct page page = { 0 };

	(void)state;
	parts(&page, NULL, NULL);
	check(&page, (struct text_layout){ .width = 19 }, " Use 10%, 20%, 30%\n");
	parts(&page, NULL, NULL);
	check(&page, (struct text_layout){ .width = 18 }, " Use 10%, 20%\n");
	parts(&page, " ...", NULL);
	check(&page, (struct text_layout){ .width = 22 }, " Use 10%, 20% ...\n");
	parts(&page, NULL, "why");
	check(&page, (struct text_layout){ .width = 40 }, " Use 10%, 20%, 30% (why)\n");
	parts(&page, NULL, "a reason that is much too long for it");
	check(&page, (struct text_layout){ .width = 40 },
	      " Use 10%, 20%, 30% (a reason that i...)\n");
}

static void test_long_names(void **state)
{
	static const char name[] = "/a/path/that/is/longer/than/its/line.py:12";
	struct page page = { 0 };

	(void)state;
	page_named(&page, 2, 4, "1 MB  ", name, "two words");
	check(&page, (struct text_layout){ .width = 60 },
	      "  1 MB  /a/path/that/is/longer/than/its/line.py:12, two\n    words\n");
	page_named(&page, 2, 4, "1 MB  ", name, "two words");
	check(&page, (struct text_layout){ .width = 40 },
	      "  1 MB  /a/path/that/is...its/line.py:12\n    two words\n");
}

static void sides(struct page *page, size_t n)
{
	page_sides(page, true, "a label of many letters");
	for (size_t i = 0; i < n; i++)
		page_side(page, i ? "other" : "base", i ? "two words" : "one");
}

static void test_sides(void **state)
{
	struct page page = { 0 };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	sides(&page, 2);
	check(&page, (struct text_layout){ .width = 40 },
	      "! a label...etters  one        two words\n");
	sides(&page, 2);
	check(&page, (struct text_layout){ .width = 39 },
	      "! a label of many letters\n"
	      "    base          one\n"
	      "    other         two words\n");
	sides(&page, 2);
	check(&page, (struct text_layout){ .width = 26 },
	      "! a label of many letters\n"
	      "    base          one\n"
	      "    other         two\n"
	      "                  words\n");
	/* More of them than the page has columns. */
	sides(&page, 100);
	assert_int_equal(page_print(&page, &(struct text_layout){ .width = 80 }, out), 0);
	fclose(out);
	assert_true(size < 100 * 80);
	free(text);
	page_release(&page);
}

/* A column is shown where the page is wide enough for it; the others go on in another piece. */
static void test_pieces(void **state)
{
	static const struct grid_column columns[] = {
		{ .title = "name" },
		{ .title = "a", .unit = UNIT_INT },
		{ .title = "b", .unit = UNIT_INT },
		{ .title = "c", .unit = UNIT_INT, .from_width = 30 }
	};
	struct grid whole, rest;
	const struct grid *const tables[] = { &whole, &rest, &rest };
	struct page page = { 0 };
	struct cell *cells;

	(void)state;
	grid_init(&whole, columns, 4);
	cells = grid_add(&whole, NULL);
	cells[0] = cell_text("x");
	for (int64_t i = 1; i < 4; i++)
		cells[i] = cell_int(i);
	grid_init(&rest, columns + 1, 1);
	grid_add(&rest, NULL)[0] = cell_int(7);
	for (int width = 20; width <= 30; width += 10) {
		struct block *block = page_table(&page, &whole, 0, NULL);

		block->pieces = (struct table_pieces){ tables, 3, 1, 10, 5 };
		check(&page, (struct text_layout){ .width = width },
		      width == 20 ? "  name  a  b\n  x     1  2\n\n  a\n  7\n"
				  : "  name  a  b  c\n  x     1  2  3\n");
	}
	grid_release(&whole);
	grid_release(&rest);
}

static size_t rising(const struct series *series, size_t columns, unsigned int top,
		     unsigned char *ret_heights)
{
	(void)series;
	for (size_t i = 0; i < columns; i++)
		ret_heights[i] = (unsigned char)(i < top ? i : top);
	return columns;
}

static void test_pictures(void **state)
{
	static const uint64_t loads[] = { 0, 5, 10, 20 };
	static const struct stack_part halves[] = {
		{ "first", 50, TONE_GOOD, "█", 'F' },
		{ "second", 50, TONE_COOL, "▓", 'S' },
	};
	struct page page = { 0 };

	(void)state;
	page_line(&page, 0, "bar   ");
	page_bar(&page, 0.5, TONE_PLAIN, 6);
	page_line(&page, 0, "stack ");
	page_stack(&page, (struct stack){ halves, 2 }, 6);
	page_legend(&page, 6, (struct stack){ halves, 2 });
	page_line(&page, 0, "time  ");
	page_series(&page, (struct series){ .heights = rising }, 6);
	page_line(&page, 0, "heat  ");
	page_heat(&page, (struct heat){ loads, 4, 10 }, 8, true);
	page_put(&page, " 4");
	check(&page, (struct text_layout){ .width = 14 },
	      "bar   ####\n"
	      "stack FFFFSSSS\n"
	      "      F first 50%\n"
	      "      S second 50%\n"
	      "time  _.,-=+*#\n"
	      "heat  _:=@   4\n");
}

static void test_no_memory_sticks(void **state)
{
	struct text_layout layout = { .width = 80 };
	struct page page = { .error = -ENOMEM };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	page_line(&page, 2, "nothing");
	page_put(&page, " more");
	page_bar(&page, 1, TONE_PLAIN, 0);
	assert_null(page_grid(&page));
	assert_null(page_table(&page, NULL, 0, NULL));
	assert_int_equal(page_print(&page, &layout, out), -ENOMEM);
	fclose(out);
	assert_string_equal(text, "");
	free(text);
	page_release(&page);
}

/* More samples and columns than a series has points. */
static void test_dashboard_on_a_wide_screen(void **state)
{
	struct view_options options = { .width = 1000, .question = QUESTION_ALL };
	struct run *run = fake_training_run();
	uint32_t loss = fake_string(run, "loss");
	struct err err = { "" };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	for (int i = 0; i < 400; i++)
		fake_add_counter(run, 0, &(struct row_counter){ .name = loss, .value = 400 - i });
	assert_int_equal(section_render(section_find("dashboard"), run, &options, out, &err), 0);
	fclose(out);
	assert_non_null(strstr(text, "Loss"));
	free(text);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_tones),
		cmocka_unit_test(test_parts_that_do_not_fit),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_sides),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_pictures),
		cmocka_unit_test(test_no_memory_sticks),
		cmocka_unit_test(test_dashboard_on_a_wide_screen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
