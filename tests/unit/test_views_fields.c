/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields: how members are read, which forms have them, rows in rows, and groups as JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "fake_run.h"
#include "subjects/pages/grid.h"
#include "surfaces/csv/grid_csv.h"
#include "surfaces/json/fields_json.h"
#include "surfaces/text/grid_text.h"

struct leaf {
	bool yes;
	uint8_t u8;
	uint16_t u16;
	uint32_t u32, string;
	uint64_t u64;
	int32_t i32;
	int64_t i64, time_ns;
	double real;
	struct value value, whole;
	const char *text;
	char inside[8];
	int64_t parts[3];
};

struct branch {
	int64_t number;
	struct leaf *leaves;
	size_t n;
};

struct tree {
	struct branch branches[2];
	uint32_t n;
};

enum { SHORT_FORM = 1 << 0, LONG_FORM = 1 << 1 };

#define OF(member) MEMBER(struct leaf, member)

static struct cell index_of(const struct field_row *at)
{
	return cell_uint(at->index);
}

static const char *odd(const struct field_row *at)
{
	return at->index % 2 ? "it is odd" : NULL;
}

static const void *part_at(const struct field_row *in, size_t i)
{
	const int64_t *part = (const int64_t *)in->item + i;

	return *part ? part : NULL;
}

static size_t part_count(const struct field_row *in)
{
	(void)in;
	return 3;
}

static const char *part_key(const struct field_row *at, char *room, size_t size)
{
	snprintf(room, size, "part %zu", at->index);
	return room;
}

static const struct field part_field = { .type = FIELD_I64 };
static const struct field_group part_map = { FIELD_MAP, .fields = &part_field,
					     .items = { .item = part_at, .count = part_count },
					     .name = part_key };
static const struct field_group parts_beside = {
	FIELD_BESIDE, .fields = &part_field,
	.items = { .inside = true, .size = sizeof(int64_t), .most = 2 }, .name = part_key
};
static const struct field_group part_array = {
	FIELD_ARRAY, .fields = &part_field,
	.items = { .inside = true, .size = sizeof(int64_t), .most = 3 }
};

static const struct field leaf_fields[] = {
	{ "branch", "branch", UNIT_INT, MEMBER(struct branch, number), .up = 1 },
	{ "index", "index", UNIT_INT, .read = index_of },
	{ "i64", "i64", UNIT_NS, OF(i64), .titled = LONG_FORM },
	{ "u64", NULL, UNIT_INT, OF(u64), .forms = LONG_FORM },
	{ "real", NULL, UNIT_RATIO, OF(real), .absent = odd },
	{ "u8", NULL, UNIT_INT, OF(u8), .optional = true, .none = "it is 0" },
	{ "map", .offset = offsetof(struct leaf, parts), .of = &part_map },
	{ "PART", .offset = offsetof(struct leaf, parts), .of = &parts_beside, .forms = LONG_FORM },
	{ "array", .offset = offsetof(struct leaf, parts), .of = &part_array, .absent = odd },
	{ "last", NULL, UNIT_INT, OF(i32), .detail = true },
};

static const struct field_set leaves = {
	FIELDS(leaf_fields),
	.rows = { { ITEMS_INSIDE(struct tree, branches, n) }, { ITEMS(struct branch, leaves, n) } },
	.levels = 2,
};

static struct leaf first[2] = { { .i64 = 5, .u64 = 6, .real = 0.5, .u8 = 1, .parts = { 1, 0, 3 } },
				{ .i64 = 7, .i32 = -1 } };
static struct leaf second[1] = { { .i64 = 9 } };
static const struct tree tree = { { { -1, first, 2 }, { -2, second, 1 } }, 2 };

static void test_members(void **state)
{
	struct run *run = fake_run_new();
	struct leaf leaf = { .yes = true,
			     .u8 = 8,
			     .u16 = 16,
			     .u32 = 32,
			     .u64 = UINT64_MAX,
			     .i32 = -32,
			     .i64 = INT64_MIN,
			     .real = 0.25,
			     .value = value_absent("why"),
			     .whole = value_of(3),
			     .text = NULL,
			     .inside = "inside" };
	struct field_row at = { .run = run, .item = &leaf };
	const struct {
		struct field field;
		struct cell expected;
	} cases[] = {
		{ { OF(yes) }, cell_bool(true) },
		{ { OF(u8) }, cell_uint(8) },
		{ { OF(u16) }, cell_uint(16) },
		{ { OF(u32) }, cell_uint(32) },
		{ { OF(u64) }, cell_uint(UINT64_MAX) },
		{ { OF(i32) }, cell_int(-32) },
		{ { OF(i64) }, cell_int(INT64_MIN) },
		{ { OF(real) }, cell_real(0.25) },
		{ { OF(value) }, cell_absent("why") },
		{ { MEMBER_AS(FIELD_WHOLE, struct leaf, whole) }, cell_int(3) },
		{ { MEMBER_AS(FIELD_WHOLE, struct leaf, value) }, cell_absent("why") },
		{ { OF(text), .none = "none" }, cell_absent("none") },
		{ { MEMBER_AS(FIELD_STRING, struct leaf, string), .none = "none" },
		  cell_absent("none") },
		{ { OF(time_ns), .none = "zero" }, cell_absent("zero") },
		{ { OF(time_ns) }, cell_int(0) },
		{ { MEMBER_AS(FIELD_TIME, struct leaf, time_ns) }, cell_int(-1000) },
	};

	(void)state;
	run->start_ns = 1000;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cell cell = field_read(&cases[i].field, &at);

		assert_int_equal(cell.kind, cases[i].expected.kind);
		if (cell.kind == CELL_ABSENT)
			assert_string_equal(cell.reason, cases[i].expected.reason);
		else
			assert_int_equal(cell.u, cases[i].expected.u);
	}
	leaf.string = fake_string(run, "named");
	assert_string_equal(field_read(&cases[12].field, &at).s, "named");
	assert_string_equal(
		field_read(&(struct field){ MEMBER_AS(FIELD_TEXT_INSIDE, struct leaf, inside) },
			   &at)
			.s,
		"inside");
	fake_run_free(run);
}

static char *csv_of(unsigned int form)
{
	struct field_row from = { .item = &tree, .form = form };
	struct grid grid;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(grid_fill(&grid, &leaves, &from), 0);
	grid_csv(&grid, 0, out);
	grid_release(&grid);
	fclose(out);
	return text;
}

static void test_forms_and_levels(void **state)
{
	char *text = csv_of(SHORT_FORM);

	(void)state;
	assert_string_equal(text, "branch,index,i64,real,u8\n"
				  "-1,0,5,0.5,1\n"
				  "-1,1,7,,\n"
				  "-2,0,9,0,\n");
	free(text);
	text = csv_of(LONG_FORM);
	assert_string_equal(text, "branch,index,i64,u64,real,u8\n"
				  "-1,0,5,6,0.5,1\n"
				  "-1,1,7,0,,\n"
				  "-2,0,9,0,0,\n");
	free(text);
}

static void test_titles(void **state)
{
	struct text_layout layout = { .width = 80 };
	struct field_row from = { .item = &tree };

	(void)state;
	for (from.form = SHORT_FORM; from.form <= LONG_FORM; from.form <<= 1) {
		struct grid grid;
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		assert_int_equal(grid_fill(&grid, &leaves, &from), 0);
		assert_int_equal(grid_print(&grid, 0, NULL, &layout, out), 0);
		grid_release(&grid);
		fclose(out);
		assert_non_null(strstr(text, "branch"));
		assert_null(strstr(text, "u64"));
		assert_int_equal(strstr(text, "i64") != NULL, from.form == LONG_FORM);
		free(text);
	}
}

/* The fields of one leaf, as an object on one line. */
static void check_json(const struct leaf *leaf, size_t index, unsigned int form,
		       const char *expected)
{
	struct branch branch = { .number = 4 };
	struct field_row in = { .item = &branch };
	struct field_row at = { .item = leaf, .in = &in, .index = index, .form = form };
	struct json json;
	char *text = NULL;

	json_init_buffer(&json, 0);
	json_object(&json);
	fields_json(&json, leaf_fields, sizeof(leaf_fields) / sizeof(leaf_fields[0]), &at);
	json_object_end(&json);
	assert_int_equal(json_finish(&json, &text), 0);
	assert_string_equal(text, expected);
	free(text);
}

static void test_groups(void **state)
{
	(void)state;
	check_json(&first[0], 0, SHORT_FORM,
		   "{\"branch\":4,\"index\":0,\"i64\":5,\"real\":0.5,\"u8\":1,"
		   "\"map\":{\"part 0\":1,\"part 2\":3},\"array\":[1,0,3],\"last\":0}");
	check_json(&first[0], 0, LONG_FORM,
		   "{\"branch\":4,\"index\":0,\"i64\":5,\"u64\":6,\"real\":0.5,\"u8\":1,"
		   "\"map\":{\"part 0\":1,\"part 2\":3},\"part 0\":1,\"part 1\":0,"
		   "\"array\":[1,0,3],\"last\":0}");
	check_json(&first[1], 1, SHORT_FORM,
		   "{\"branch\":4,\"index\":1,\"i64\":7,\"real\":null,"
		   "\"real_reason\":\"it is odd\",\"map\":{},\"array\":null,"
		   "\"array_reason\":\"it is odd\",\"last\":-1}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_forms_and_levels),
		cmocka_unit_test(test_titles),
		cmocka_unit_test(test_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
