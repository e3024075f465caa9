/* SPDX-License-Identifier: Apache-2.0
 *
 * Records through a Chrome trace and back: rows of every kind that Kineto has no event for, column by
 * column; the arguments of those that it has one for; and damage.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exports/exports.h"
#include "ingest/kineto/kineto_record.h"
#include "table_rows.h"
#include "trace/shard.h"

/* Kinds whose every row is a record of the trace: the others have events of Kineto's, but for rows
 * without times. */
#define RECORDS                                                                                    \
	(~(WANT(STRING) | WANT(SITE) | WANT(LAUNCH) | WANT(RANGE) | WANT(OP) | WANT(STEP) |        \
	   WANT(THREAD) | WANT(API) | WANT(SYNC) | WANT(FRAME) | WANT(COLLECTIVE) | WANT(DEVICE)))

struct fixture {
	char *directory, *path;
	struct intake *intake;
	struct intake_process *process;
	struct intake_part *part;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->directory = temporary_directory();
	f->path = path_in(f->directory, "again.mscope");
	assert_int_equal(intake_new(WANT_ALL, &f->intake), 0);
	f->process = intake_process(f->intake, 0, 7);
	assert_non_null(f->process);
	f->part = intake_part(f->process);
	assert_non_null(f->part);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	intake_free(f->intake);
	free(f->path);
	remove_directory(f->directory);
	free(f);
	return 0;
}

static struct run *write_and_load(struct fixture *f)
{
	struct err err = { "" };

	if (intake_write(f->intake, "trace.json", f->path, &err) < 0)
		fail_msg("%s", err.message);
	return load(f->path);
}

/* Such that no kernel, copy, set or allocation has an event of Kineto's. */
static void make_records(struct expected *expected)
{
	for (size_t i = 0; i < expected->n[RECORD_KERNEL]; i++)
		expected->rows[RECORD_KERNEL][i].row.kernel.untimed = 1;
	for (size_t i = 0; i < expected->n[RECORD_COPY]; i++)
		expected->rows[RECORD_COPY][i].row.copy.untimed = 1;
	for (size_t i = 0; i < expected->n[RECORD_SET]; i++)
		expected->rows[RECORD_SET][i].row.set.untimed = 1;
	for (size_t i = 0; i < expected->n[RECORD_MEMORY]; i++)
		expected->rows[RECORD_MEMORY][i].row.memory.event = (uint8_t)(2 + i % 2);
}

static void write_run(const char *path, size_t n)
{
	struct rng rng = { 6 };
	struct expected expected = { 0 };
	struct encoder rows, encoder;
	struct shard_writer *writer;

	encoder_init(&rows, 1, 1, 0);
	append_every_kind(&rows, &expected, n, &rng);
	encoder_release(&rows);
	make_records(&expected);
	encoder_init(&encoder, 1, 1, 0);
	assert_int_equal(shard_create(path, 0, 0, &writer, NULL), 0);
	assert_int_equal(append_dictionaries(&encoder, ROW_IDS), 0);
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++)
		for (size_t i = 0; i < expected.n[k]; i++)
			assert_int_equal(encoder_append(&encoder, k, &expected.rows[k][i].row), 0);
	assert_int_equal(encoder_finish(&encoder), 0);
	assert_int_equal(shard_write(writer, &encoder), 0);
	assert_int_equal(shard_close(writer, &encoder), 0);
	encoder_release(&encoder);
	expected_release(&expected);
}

/* Every event stands on a line of its own. */
static void take_records(struct intake_part *part, char *text)
{
	char *next;

	for (char *line = text; line; line = next) {
		size_t length;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		length = strlen(line);
		if (length && line[length - 1] == ',')
			length--;
		if (strstr(line, "\"cat\":\"moescope\"") && line[0] == '{')
			assert_int_equal(kineto_record(part, line, length), 0);
	}
}

static bool same_reference(const struct run *a, uint32_t i, const struct run *b, uint32_t j,
			   unsigned int kind)
{
	struct row_launch x, y;

	if (kind == RECORD_STRING)
		return !strcmp(run_string(a, i), run_string(b, j));
	if (kind == RECORD_SITE)
		return run_site(a, i).layer == run_site(b, j).layer &&
		       run_site(a, i).expert == run_site(b, j).expert &&
		       run_site(a, i).phase == run_site(b, j).phase &&
		       !strcmp(run_string(a, run_site(a, i).name),
			       run_string(b, run_site(b, j).name));
	x = run_launch(a, i);
	y = run_launch(b, j);
	return !strcmp(run_string(a, x.name), run_string(b, y.name)) && x.grid_x == y.grid_x &&
	       x.block_x == y.block_x;
}

static bool same_value(unsigned int type, const char *a, const char *b)
{
	double x, y;

	if (type == COLUMN_F64) {
		memcpy(&x, a, sizeof(x));
		memcpy(&y, b, sizeof(y));
		return x == y || (isnan(x) && isnan(y));
	}
	return !memcmp(a, b, column_type_size(type));
}

static void compare_row(const struct run *a, const struct run *b, unsigned int kind, size_t row,
			int64_t moved)
{
	const struct kind_desc *desc = kind_desc(kind);

	for (int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		size_t size = column_type_size(column->type), n = 1, at = row, of = row;
		const uint64_t *first, *of_first;
		const char *x = table_column(a, kind, c, &first);
		const char *y = table_column(b, kind, c, &of_first);
		bool same = true;

		if (c == desc->time_column) {
			same = ((const int64_t *)x)[row] + moved == ((const int64_t *)y)[row];
			n = 0;
		} else if (column->refers) {
			same = same_reference(a, ((const uint32_t *)x)[row], b,
					      ((const uint32_t *)y)[row], column->refers);
			n = 0;
		} else if (column->count_column >= 0) {
			n = first[row + 1] - first[row];
			same = n == of_first[row + 1] - of_first[row];
			at = first[row];
			of = of_first[row];
		}
		for (size_t i = 0; same && i < n; i++)
			same = same_value(column->type, x + (at + i) * size, y + (of + i) * size);
		if (!same)
			fail_msg("%s.%s of row %zu differs", desc->name, column->name, row);
	}
}

static void test_every_kind(void **state)
{
	struct fixture *f = *state;
	char *path = path_in(f->directory, "0-7.mst"), *text;
	struct err err = { "" };
	struct run *a, *b;
	int64_t moved = 0;
	size_t size, kinds = 0;
	FILE *out;

	write_run(path, 40);
	a = load(path);
	out = open_memstream(&text, &size);
	assert_int_equal(export_chrome(a, out, &err), 0);
	fclose(out);
	take_records(f->part, text);
	assert_int_equal(part_failed(f->part), 0);
	b = write_and_load(f);
	moved = b->mark.time_ns[0] - a->mark.time_ns[0];
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
		if (!(RECORDS >> k & 1))
			continue;
		if (table_n(b, k) != 40)
			fail_msg("%zu rows of %s", table_n(b, k), kind_desc(k)->name);
		for (size_t i = 0; i < 40; i++)
			compare_row(a, b, k, i, moved);
		kinds++;
	}
	assert_true(kinds >= 21);
	run_free(a);
	run_free(b);
	free(text);
	free(path);
}

static int take(struct fixture *f, const char *event)
{
	return kineto_record(f->part, event, strlen(event));
}

static void test_damage(void **state)
{
	static const char *const bad[] = {
		"{\"args\":{\"record\":\"mark\"}}", /* no time */
		"{\"ts\":1,\"args\":{\"record\":\"mark\",\"thread\":-1}}",
		"{\"ts\":1,\"args\":{\"record\":\"mark\",\"thread\":4294967296}}",
		"{\"ts\":1,\"args\":{\"record\":\"mark\",\"thread\":1.5}}",
		"{\"ts\":1,\"args\":{\"record\":\"mark\",\"text\":7}}",
		"{\"ts\":99999999999999999999,\"args\":{\"record\":\"mark\"}}",
		"{\"ts\":1e3,\"args\":{\"record\":\"mark\"}}",
		"{\"ts\":1,\"dur\":-1,\"args\":{\"record\":\"span\"}}",
		"{\"ts\":1,\"args\":{\"record\":\"span\",\"duration_ns\":-1}}",
		"{\"ts\":1,\"args\":{\"record\":\"routing\",\"load\":7}}",
		"{\"ts\":1,\"args\":{\"record\":\"routing\",\"load\":[1,\"2\"]}}",
		"{\"ts\":1,\"args\":{\"record\":\"kernel\",\"launch\":5}}",
		"{\"ts\":1,\"record\":\"sample\",\"name\":\"a\",\"args\":{\"value\":1}}",
		"{\"ts\":1,\"record\":\"counter\",\"name\":\"a\",\"args\":{\"value\":null}}",
		"{\"ts\":1,\"args\":{\"record\":\"mark\"}",
		"",
	};
	struct fixture *f = *state;
	struct run *run;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (take(f, bad[i]) != -EBADMSG)
			fail_msg("taken: %s", bad[i]);
	/* What names no record is nothing; what a later version may have is counted. */
	assert_int_equal(take(f, "{\"ph\":\"C\",\"ts\":1,\"args\":{\"value\":1}}"), 0);
	assert_int_equal(take(f, "[1]"), 0);
	assert_int_equal(take(f, "{\"ts\":1,\"args\":{\"record\":\"string\"}}"), 0);
	assert_int_equal(take(f, "{\"ts\":1,\"args\":{\"record\":\"wormhole\",\"width\":3}}"), 0);
	assert_int_equal(take(f, "{\"ts\":-2.5,\"args\":{\"record\":\"mark\",\"text\":\"x\","
				 "\"later\":[{}]}}"),
			 0);
	/* The length of a list that is not there is no length. */
	assert_int_equal(take(f, "{\"ts\":1,\"args\":{\"record\":\"routed\",\"slots\":99999}}"), 0);
	run = write_and_load(f);
	assert_int_equal(run->routed.n, 1);
	assert_int_equal(run->routed.slots[0], 0);
	assert_int_equal(run->mark.n, 1);
	assert_string_equal(run_string(run, run->mark.text[0]), "x");
	assert_int_equal(run->counter.n + run->sample.n + run->span.n + run->routing.n, 0);
	assert_int_equal(run->loss.unknown_events, 2);
	run_free(run);
}

static void test_extra(void **state)
{
	static const char object[] = "{\"layer\":3,\"phase\":2,\"bytes\":4096,\"unknown\":0,"
				     "\"start_ns\":-9,\"shape\":\"[2]\",\"nothing\":{}}";
	struct fixture *f = *state;
	struct row_op op = { .start_ns = 5, .duration_ns = 6, .unknown = 3, .flops = 7 };
	struct row_launch launch = { .registers = 9 };
	struct run *run;

	assert_int_equal(kineto_extra(f->part, RECORD_OP, &op, object, sizeof(object) - 1), 0);
	assert_int_equal(op.bytes, 4096);
	assert_int_equal(op.unknown, 0);
	assert_int_equal(op.flops, 7);
	assert_int_equal(op.start_ns, 5); /* times are the event's */
	op.site = kineto_site(f->part, part_text(f->part, "aten::mm"), object, sizeof(object) - 1);
	assert_int_equal(part_add(f->part, RECORD_OP, &op), 0);
	assert_int_equal(
		kineto_extra(f->part, RECORD_LAUNCH, &launch, "{\"static_shared_bytes\":48}", 26),
		0);
	assert_int_equal(launch.static_shared_bytes, 48);
	assert_int_equal(launch.registers, 9);
	assert_int_equal(kineto_extra(f->part, RECORD_OP, &op, "{\"bytes\":\"x\"}", 13), -EBADMSG);
	assert_int_equal(kineto_extra(f->part, RECORD_OP, &op, "{", 1), -EBADMSG);
	assert_int_equal(kineto_site(f->part, 1, "{\"layer\":\"x\"}", 13), 0);
	run = write_and_load(f);
	assert_int_equal(run->op.n, 1);
	assert_int_equal(run_site(run, run->op.site[0]).layer, 3);
	assert_int_equal(run_site(run, run->op.site[0]).expert, -1);
	assert_int_equal(run_site(run, run->op.site[0]).phase, 2);
	assert_string_equal(run_string(run, run->op.shape[0]), "[2]");
	run_free(run);
}

static void test_about(void **state)
{
	static const char one[] =
		"{\"command\":\"python3 train.py\",\"host\":\"h\",\"status\":\"exited\","
		"\"exit_status\":3,\"cpus\":16,\"duration_ns\":5,\"budget_pct\":1.5,"
		"\"processes\":[{\"rank\":2,\"pid\":423,\"start_ns\":-100,\"end_ns\":9000,"
		"\"loss\":{\"dropped_device\":4,\"unfinished\":2}}]}";
	static const char two[] = "{\"processes\":[{\"start_ns\":-999,\"end_ns\":0},{}]}";
	struct fixture *f = *state;
	struct run *run;

	assert_int_equal(kineto_about(f->intake, &f->process, 1, one, sizeof(one) - 1), 0);
	/* Of others: whose is not known. */
	assert_int_equal(kineto_about(f->intake, &f->process, 1, two, sizeof(two) - 1), 0);
	assert_int_equal(kineto_about(f->intake, &f->process, 1, "[", 1), -EBADMSG);
	assert_int_equal(take(f, "{\"ts\":1,\"args\":{\"record\":\"mark\"}}"), 0);
	run = write_and_load(f);
	assert_string_equal(run->info.command, "python3 train.py");
	assert_string_equal(run->info.host, "h");
	assert_int_equal(run->info.exit_status, 3);
	assert_int_equal(run->info.cpus, 16);
	assert_int_equal(run->info.duration_ns, 5);
	assert_int_equal(run->shards[0].rank, 2);
	assert_int_equal(run->shards[0].pid, 423);
	assert_true(run->info.budget_known && run->info.budget_pct == 1.5);
	assert_int_equal(run->mark.time_ns[0] - run->start_ns, 1100);
	assert_int_equal(run->end_ns - run->start_ns, 9100);
	assert_int_equal(run->loss.dropped_device, 4);
	assert_int_equal(run->loss.unfinished, 2);
	run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_kind, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_extra, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_about, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
