/* SPDX-License-Identifier: Apache-2.0
 *
 * What importers give in any order, as the tables of a run: depths, stacks, turns, clocks, names,
 * and what was not read.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/parallel.h"
#include "ingest/shared/intake.h"
#include "moescope.h"
#include "table_rows.h"
#include "tables/tables.h"

struct fixture {
	char *directory, *path;
	struct intake *intake;
	struct run *run;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->directory = temporary_directory();
	f->path = path_in(f->directory, "a.mscope");
	assert_int_equal(intake_new(WANT_ALL, &f->intake), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	run_free(f->run);
	intake_free(f->intake);
	remove_directory(f->path);
	remove_directory(f->directory);

	free(f);
	return 0;
}

static void write_and_load(struct fixture *f)
{
	struct err err = { "" };

	if (intake_write(f->intake, "trace.json", f->path, &err) < 0)
		fail_msg("%s", err.message);
	if (run_load(f->path, NULL, &f->run, &err) < 0)
		fail_msg("%s", err.message);
}

static struct intake_part *one_part(struct fixture *f)
{
	struct intake_process *process = intake_process(f->intake, 0, 7);
	struct intake_part *part;

	assert_non_null(process);
	part = intake_part(process);
	assert_non_null(part);
	return part;
}

static void add_op(struct intake_part *part, const char *name, int64_t start, int64_t end,
		   uint32_t thread)
{
	assert_int_equal(part_add(part, RECORD_OP,
				  &(struct row_op){ .site = part_site(part, part_text(part, name)),
						    .start_ns = start,
						    .duration_ns = end - start,
						    .thread = thread }),
			 0);
}

static void add_range(struct intake_part *part, const char *name, int64_t start, int64_t end)
{
	assert_int_equal(
		part_add(part, RECORD_RANGE,
			 &(struct row_range){ .site = part_site(part, part_text(part, name)),
					      .start_ns = start,
					      .duration_ns = end - start,
					      .thread = 1 }),
		0);
}

static void add_frame(struct intake_part *part, const char *name, int64_t start, int64_t end)
{
	assert_int_equal(part_add(part, RECORD_FRAME,
				  &(struct row_frame){ .name = part_text(part, name),
						       .start_ns = start,
						       .duration_ns = end - start,
						       .thread = 1 }),
			 0);
}

static const char *op_name(const struct run *run, size_t i)
{
	return run_string(run, run_site(run, run->op.site[i]).name);
}

/* "range" 0-100 has "outer" 10-90, which has "inner" 20-30 and "next" 30-40; thread 2 has its own. */
static void test_depth_and_order(void **state)
{
	struct fixture *f = *state;
	struct intake_part *part = one_part(f);
	const char *const names[] = { "inner", "next", "outer", "other" };
	const uint8_t depths[] = { 2, 2, 1, 0 };

	add_op(part, "next", 30, 40, 1);
	add_op(part, "outer", 10, 90, 1);
	add_op(part, "other", 15, 95, 2);
	add_op(part, "inner", 20, 30, 1);
	add_range(part, "range", 0, 100);
	write_and_load(f);
	assert_int_equal(f->run->op.n, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_string_equal(op_name(f->run, i), names[i]);
		assert_int_equal(f->run->op.depth[i], depths[i]);
	}
	assert_int_equal(f->run->range.depth[0], 0);
	assert_int_equal(f->run->start_ns, 0);
	assert_int_equal(f->run->end_ns, 100);
}

/* The child ends a microsecond after its parent, as rounding makes it. */
static void test_overlap_is_nested_by_start(void **state)
{
	struct fixture *f = *state;
	struct intake_part *part = one_part(f);

	add_op(part, "parent", 0, 100, 1);
	add_op(part, "child", 50, 101, 1);
	add_op(part, "instant", 100, 100, 1);
	write_and_load(f);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(f->run->op.depth[i], !strcmp(op_name(f->run, i), "parent")  ? 0
						      : !strcmp(op_name(f->run, i), "child") ? 1
											     : 2);
}

static void test_stacks_from_frames(void **state)
{
	struct fixture *f = *state;
	struct intake_part *part = one_part(f);
	const char *const stacks[] = { "main.py(1): main;model.py(9): a,b", "main.py(1): main",
				       "own", "" };

	add_frame(part, "model.py(9): a;b", 10, 50);
	add_frame(part, "main.py(1): main", 0, 100);
	add_op(part, "first", 20, 30, 1);
	add_op(part, "second", 60, 70, 1);
	assert_int_equal(
		part_add(part, RECORD_OP,
			 &(struct row_op){ .site = part_site(part, part_text(part, "third")),
					   .start_ns = 80,
					   .duration_ns = 5,
					   .thread = 1,
					   .stack = part_text(part, "own") }),
		0);
	add_op(part, "fourth", 200, 210, 1);
	write_and_load(f);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(run_string(f->run, f->run->op.stack[i]), stacks[i]);
	assert_int_equal(f->run->frame.n, 2);
	assert_int_equal(f->run->frame.depth[0], 1);
	assert_int_equal(f->run->frame.depth[1], 0);
}

static void add_mark(struct intake_part *part, const char *text, int64_t time)
{
	assert_int_equal(
		part_add(part, RECORD_MARK,
			 &(struct row_mark){ .time_ns = time, .text = part_text(part, text) }),
		0);
}

/* Two threads took the blocks 0, 2 and 1, 3; block 2 was begun twice. */
static void test_turns(void **state)
{
	struct fixture *f = *state;
	struct intake_process *process = intake_process(f->intake, 0, 7);
	struct intake_part *a = intake_part(process), *b = intake_part(process);
	const char *const order[] = { "0", "1", "2", "3" };

	assert_int_equal(part_turn(b, 1), 0);
	add_mark(b, "1", 10);
	assert_int_equal(part_turn(a, 0), 0);
	add_mark(a, "0", 20);
	assert_int_equal(part_turn(b, 3), 0);
	add_mark(b, "3", 5);
	assert_int_equal(part_turn(a, 2), 0);
	add_mark(a, "wrong", 7);
	add_op(a, "wrong", 0, 10, 1);
	part_damaged(a, 3, "nothing");
	part_unknown(a, "odd", 3, 2);
	part_discard(a);
	add_mark(a, "2", 7);
	write_and_load(f);
	assert_int_equal(f->run->mark.n, 4);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(run_string(f->run, f->run->mark.text[i]), order[i]);
	assert_int_equal(f->run->op.n, 0);
	assert_int_equal(loss_total(&f->run->loss), 0);
	assert_string_equal(f->run->info.notes, "");
}

#define BLOCKS 64
#define BLOCK_ROWS 200

struct threads {
	struct fixture *fixture;
	struct intake_part *parts[4];
};

/* A block of rows whose names, launches and processes all threads share. */
static int add_block(void *context, size_t block, unsigned int worker)
{
	struct threads *threads = context;
	struct intake_part *part = threads->parts[worker];
	int r = part_turn(part, block);

	for (int64_t i = 0; r == 0 && i < BLOCK_ROWS; i++) {
		struct row_launch launch = { .grid_x = (uint32_t)i % 50 };
		struct row_kernel row = { .start_ns = (int64_t)block * BLOCK_ROWS + i };
		char name[32];

		snprintf(name, sizeof(name), "kernel %d", (int)(block * 7 + (size_t)i) % 150);
		launch.name = part_text(part, name);
		row.launch = part_launch(part, &launch);
		r = part_add(part, RECORD_KERNEL, &row);
	}
	part_damaged(part, block, "damage");
	part_unknown(part, "odd", 3, 1);
	intake_note(threads->fixture->intake, "block");
	return r < 0 || intake_process(threads->fixture->intake, 0, 7) ? r : -ENOMEM;
}

static void test_threads(void **state)
{
	struct fixture *f = *state;
	struct threads threads = { .fixture = f };

	for (int i = 0; i < 4; i++)
		threads.parts[i] = one_part(f);
	assert_int_equal(parallel_run(BLOCKS, 4, add_block, &threads), 0);
	write_and_load(f);
	assert_int_equal(f->run->n_shards, 1);
	assert_int_equal(f->run->kernel.n, BLOCKS * BLOCK_ROWS);
	for (size_t i = 0; i < f->run->kernel.n; i++) {
		struct row_launch launch = run_launch(f->run, f->run->kernel.launch[i]);
		char name[32];

		snprintf(name, sizeof(name), "kernel %d",
			 (int)(i / BLOCK_ROWS * 7 + i % BLOCK_ROWS) % 150);
		assert_int_equal(f->run->kernel.start_ns[i], i);
		assert_string_equal(run_string(f->run, launch.name), name);
		assert_int_equal(launch.grid_x, i % BLOCK_ROWS % 50);
	}
	assert_int_equal(f->run->loss.damaged_events, BLOCKS);
	assert_int_equal(f->run->loss.unknown_events, BLOCKS);
}

static void test_losses(void **state)
{
	struct fixture *f = *state;
	struct intake_part *part = one_part(f);

	for (uint64_t i = 0; i < 7; i++)
		part_damaged(part, 100 + i, "no number where the duration should be");
	part_unknown(part, "mtia_op", 7, 3);
	part_unknown(part, "xpu_op", 6, 4);
	part_unknown(part, "mtia_op", 7, 2);
	write_and_load(f);
	assert_int_equal(f->run->loss.damaged_events, 7);
	assert_int_equal(f->run->loss.unknown_events, 9);
	assert_string_equal(f->run->info.notes,
			    "at 100: no number where the duration should be; not read.\n"
			    "at 101: no number where the duration should be; not read.\n"
			    "at 102: no number where the duration should be; not read.\n"
			    "at 103: no number where the duration should be; not read.\n"
			    "at 104: no number where the duration should be; not read.\n"
			    "2 more events could not be read.\n"
			    "events in categories that are not read: mtia_op (5), "
			    "xpu_op (4).");
	assert_string_equal(f->run->info.status, "imported");
	assert_string_equal(f->run->info.source, "trace.json");
}

/* Notes go to terminals. */
static void test_unknown_kinds_are_cleaned(void **state)
{
	struct fixture *f = *state;
	struct intake_part *part = one_part(f);

	part_unknown(part, "red\x1b[31m\x7f", 9, 2);
	part_unknown(part, "red [31m ", 9, 1);
	write_and_load(f);
	assert_string_equal(f->run->info.notes,
			    "events in categories that are not read: red [31m  (3).");
}

static void test_names_are_cleaned(void **state)
{
	struct fixture *f = *state;
	struct intake_part *part = one_part(f);

	add_mark(part, "tab\there", 1);
	add_mark(part, "broken \xff\xc3", 2);
	add_mark(part, "gr\xc3\xbc\xc3\x9f", 3);
	assert_int_equal(part_string(part, "", 0), 0);
	write_and_load(f);
	assert_string_equal(run_string(f->run, f->run->mark.text[0]), "tab here");
	assert_string_equal(run_string(f->run, f->run->mark.text[1]),
			    "broken \xef\xbf\xbd\xef\xbf\xbd");
	assert_string_equal(run_string(f->run, f->run->mark.text[2]), "gr\xc3\xbc\xc3\x9f");
}

/* Depth is one byte: what lies deeper is counted and left out. */
static void test_nested_too_deeply(void **state)
{
	struct fixture *f = *state;
	struct intake_part *part = one_part(f);

	for (int64_t i = 0; i < 300; i++)
		add_range(part, "r", i, 1000 - i);
	add_range(part, "after", 1000, 1001);
	write_and_load(f);
	assert_int_equal(f->run->range.n, 257);
	assert_int_equal(f->run->loss.dropped_too_deep, 44);
	assert_int_equal(f->run->range.depth[0], 255);
	assert_int_equal(f->run->range.start_ns[0], 255);
	assert_int_equal(f->run->range.depth[255], 0);
	assert_int_equal(f->run->range.depth[256], 0);
}

/* Each begins in the one before, and never are more than two open. */
static void test_a_chain_is_not_deep(void **state)
{
	struct fixture *f = *state;
	struct intake_part *part = one_part(f);

	for (int64_t i = 0; i < 1000; i++)
		add_range(part, "r", 10 * i, 10 * i + 15);
	write_and_load(f);
	assert_int_equal(f->run->range.n, 1000);
	assert_int_equal(f->run->loss.dropped_too_deep, 0);
}

static void add_step(struct intake_part *part, int64_t step, int64_t start, int64_t end)
{
	assert_int_equal(part_add(part, RECORD_STEP,
				  &(struct row_step){ .step = step,
						      .start_ns = start,
						      .duration_ns = end - start,
						      .recorded = 1 }),
			 0);
}

/* Two threads tell the steps 5 and 6; the step 5 comes again later. */
static void test_steps_of_several_threads(void **state)
{
	struct fixture *f = *state;
	struct intake_part *part = one_part(f);

	add_step(part, 6, 100, 200);
	add_step(part, 5, 1, 90);
	add_step(part, 5, 0, 100);
	add_step(part, 6, 99, 190);
	add_step(part, 5, 300, 400);
	write_and_load(f);
	assert_int_equal(f->run->step.n, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(f->run->step.step[i], i == 1 ? 6 : 5);
		assert_int_equal(f->run->step.duration_ns[i], 100);
	}
	assert_string_equal(f->run->info.notes,
			    "rank 0: 2 steps that another thread tells, too, and for longer, are "
			    "left out.");
}

static void add_collective_of(struct intake_part *part, const char *group, uint64_t sequence,
			      int64_t end)
{
	assert_int_equal(part_add(part, RECORD_COLLECTIVE,
				  &(struct row_collective){ .name = part_text(part, "allreduce"),
							    .start_ns = end - 10,
							    .duration_ns = 10,
							    .group = part_text(part, group),
							    .sequence = sequence,
							    .sequence_known = 1 }),
			 0);
}

static void add_collective(struct intake_part *part, uint64_t sequence, int64_t end)
{
	add_collective_of(part, "world", sequence, end);
}

/* Rank 1 is 1000 ns ahead; one of four meetings is 50 ns off. */
static void test_clocks(void **state)
{
	struct fixture *f = *state;
	const int64_t ends[] = { 1100, 1200, 1350, 1400 };
	struct intake_process *first, *second;
	struct intake_part *a, *b;

	first = intake_process(f->intake, 0, 7);
	a = intake_part(first);
	assert_int_equal(intake_next_file(f->intake, "second.json"), 0);
	second = intake_process(f->intake, 1, 7);
	assert_ptr_not_equal(first, second);
	b = intake_part(second);
	first->shift_ns = 10000;
	second->shift_ns = 10000;
	for (uint64_t i = 0; i < 4; i++) {
		add_collective(a, i, 100 * (int64_t)(i + 1));
		add_collective(b, i, ends[i]);
	}
	write_and_load(f);
	assert_int_equal(f->run->n_shards, 2);
	assert_int_equal(f->run->collective.start_ns[0], 10090);
	assert_int_equal(f->run->collective.start_ns[4], 10090);
	assert_int_equal(f->run->collective.start_ns[6], 10340);
	assert_string_equal(f->run->info.notes,
			    "rank 1: moved by -1000 ns onto the clock of rank 0, by the ends of 4 "
			    "collectives; half of them then fit to 0 ns.");
}

/* Ranks that never meet the first one are moved by those that do. Rank r is r * 1000 ns ahead; ranks 4
 * and 5 meet nobody but each other, and rank 6 is in the file of rank 5. */
static void test_clocks_of_neighbours(void **state)
{
	static const struct {
		const char *group;
		uint32_t ranks[2];
	} groups[] = { { "rows 0", { 0, 1 } },
		       { "rows 1", { 2, 3 } },
		       { "columns 1", { 1, 3 } },
		       { "alone", { 4, 5 } } };
	struct fixture *f = *state;
	struct intake_part *parts[7];

	for (uint32_t rank = 0; rank < 7; rank++) {
		struct intake_process *process;

		if (rank != 6)
			assert_int_equal(intake_next_file(f->intake, "a.json"), 0);
		process = intake_process(f->intake, rank, 7);
		process->wall_clock = true;
		parts[rank] = intake_part(process);
	}
	for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++)
		for (int k = 0; k < 2; k++)
			for (uint64_t i = 0; i < 4; i++)
				add_collective_of(parts[groups[g].ranks[k]], groups[g].group, i,
						  1000 * (int64_t)groups[g].ranks[k] +
							  100 * (int64_t)(i + 1));
	add_collective_of(parts[6], "nobody else", 0, 5100);
	write_and_load(f);
	for (size_t i = 0; i < f->run->collective.n; i++) {
		uint32_t rank = f->run->shards[f->run->collective.shard[i]].rank;
		int64_t end = f->run->collective.start_ns[i] + 10;

		assert_int_equal(end, (rank < 4 ? 0 : 4000) +
					      100 * (int64_t)(f->run->collective.sequence[i] + 1));
	}
	assert_string_equal(
		f->run->info.notes,
		"rank 1: moved by -1000 ns onto the clock of rank 0, by the ends of 4 "
		"collectives; half of them then fit to 0 ns.\n"
		"rank 3: moved by -3000 ns onto the clock of rank 0, by the ends of 4 "
		"collectives with rank 1; half of them then fit to 0 ns.\n"
		"rank 2: moved by -2000 ns onto the clock of rank 0, by the ends of 4 "
		"collectives with rank 3; half of them then fit to 0 ns.\n"
		"rank 4: no collective with rank 0 could be matched, so its times are those of "
		"its own host's clock.\n"
		"rank 5: moved by -1000 ns onto the clock of rank 4, by the ends of 4 "
		"collectives; half of them then fit to 0 ns.\n"
		"rank 6: moved with rank 5, which is in the same file.");
}

/* Whole names tell a phase; parts of names do not. */
static void test_phases_by_name(void **state)
{
	static const struct {
		const char *name;
		uint8_t phase;
	} names[] = { { "forward", MOESCOPE_FORWARD },
		      { "## Backward ##", MOESCOPE_BACKWARD },
		      { "Optimizer.step#AdamW.step", MOESCOPE_OPTIMIZER },
		      { "flash_attn_backward", MOESCOPE_PHASE_NONE },
		      { "##", MOESCOPE_PHASE_NONE } };
	struct fixture *f = *state;
	struct intake_part *part = one_part(f);

	for (int64_t i = 0; i < 5; i++)
		add_range(part, names[i].name, 10 * i, 10 * i + 5);
	write_and_load(f);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(run_site(f->run, f->run->range.site[i]).phase, names[i].phase);
}

static void test_one_file_one_process(void **state)
{
	struct fixture *f = *state;

	assert_ptr_equal(intake_process(f->intake, 3, 9), intake_process(f->intake, 3, 9));
	assert_ptr_not_equal(intake_process(f->intake, 3, 9), intake_process(f->intake, 3, 10));
}

static void test_unwanted_kinds(void **state)
{
	struct fixture *f = *state;
	struct intake_part *part;

	intake_free(f->intake);
	assert_int_equal(intake_new(WANT(KERNEL), &f->intake), 0);
	part = one_part(f);
	assert_true(intake_wants(f->intake, RECORD_KERNEL));
	assert_false(intake_wants(f->intake, RECORD_OP));
	add_op(part, "op", 0, 10, 1);
	assert_int_equal(
		part_add(part, RECORD_KERNEL,
			 &(struct row_kernel){
				 .launch = part_launch(
					 part, &(struct row_launch){ .name = part_text(part, "k"),
								     .grid_x = 3 }),
				 .start_ns = 5,
				 .duration_ns = 2 }),
		0);
	write_and_load(f);
	assert_int_equal(f->run->op.n, 0);
	assert_int_equal(f->run->kernel.n, 1);
	assert_int_equal(run_launch(f->run, f->run->kernel.launch[0]).grid_x, 3);
	assert_string_equal(run_string(f->run, run_launch(f->run, f->run->kernel.launch[0]).name),
			    "k");
}

static void test_no_process(void **state)
{
	struct fixture *f = *state;

	write_and_load(f);
	assert_int_equal(f->run->n_shards, 0);
}

static void test_target_exists(void **state)
{
	struct fixture *f = *state;
	struct err err = { "" };

	one_part(f);
	write_and_load(f);
	assert_int_equal(intake_write(f->intake, "trace.json", f->path, &err), -EEXIST);
	assert_non_null(strstr(err.message, "choose another name"));
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_depth_and_order),
		TEST(test_overlap_is_nested_by_start),
		TEST(test_stacks_from_frames),
		TEST(test_turns),
		TEST(test_threads),
		TEST(test_losses),
		TEST(test_unknown_kinds_are_cleaned),
		TEST(test_names_are_cleaned),
		TEST(test_nested_too_deeply),
		TEST(test_a_chain_is_not_deep),
		TEST(test_steps_of_several_threads),
		TEST(test_clocks),
		TEST(test_clocks_of_neighbours),
		TEST(test_phases_by_name),
		TEST(test_one_file_one_process),
		TEST(test_unwanted_kinds),
		TEST(test_no_process),
		TEST(test_target_exists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
