/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory snapshots of PyTorch: the pieces that segments are followed with, what is told of the time
 * before the history, and failing allocations. Whole snapshots are in tests/cli/test_import_memory.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <errno.h>

#include "failing_alloc.h"
#include "ingest/importers.h"
#include "ingest/torch_memory/torch_memory_inside.h"

static char told[1024];

static void tell(void *context, enum torch_action action, uint64_t address, uint64_t bytes)
{
	size_t n = strlen(told);

	(void)context;
	snprintf(told + n, sizeof(told) - n, "%c%llu+%llu ", action == TORCH_RESERVE ? '+' : '-',
		 (unsigned long long)address, (unsigned long long)bytes);
}

static void expect_told(const char *words)
{
	assert_string_equal(told, words);
	told[0] = '\0';
}

static void pieces_that_grow_join(void **state)
{
	struct torch_pieces pieces = { .tell = tell };

	torch_pieces_add(&pieces, 100, 10, true);
	torch_pieces_add(&pieces, 120, 10, true);
	expect_told("+100+10 +120+10 ");
	torch_pieces_add(&pieces, 110, 10, true);
	expect_told("-120+10 -100+10 +100+30 ");
	/* Others are what the driver gave at once: they stay apart. */
	torch_pieces_add(&pieces, 130, 10, false);
	torch_pieces_add(&pieces, 140, 10, false);
	expect_told("+130+10 +140+10 ");
	assert_int_equal(pieces.n, 3);
	torch_pieces_release(&pieces);
	(void)state;
}

static void pieces_that_shrink_keep_their_rest(void **state)
{
	struct torch_pieces pieces = { .tell = tell };

	torch_pieces_add(&pieces, 100, 30, true);
	told[0] = '\0';
	torch_pieces_remove(&pieces, 110, 10);
	expect_told("-100+30 +100+10 +120+10 ");
	/* Over both ends, and where nothing is. */
	torch_pieces_remove(&pieces, 105, 20);
	expect_told("-100+10 +100+5 -120+10 +125+5 ");
	torch_pieces_remove(&pieces, 105, 20);
	torch_pieces_remove(&pieces, 102, 0);
	expect_told("");
	torch_pieces_remove(&pieces, 0, UINT64_MAX);
	expect_told("-100+5 -125+5 ");
	assert_int_equal(pieces.n, 0);
	/* What was not seen going goes when something else comes there. */
	torch_pieces_add(&pieces, 100, 30, false);
	told[0] = '\0';
	torch_pieces_add(&pieces, 120, 30, false);
	expect_told("-100+30 +100+20 +120+30 ");
	torch_pieces_add(&pieces, 500, 0, true);
	expect_told("");
	torch_pieces_release(&pieces);
	(void)state;
}

/* How many blocks the history and the list at its end differ in. */
static uint64_t differing(struct torch_event *events, size_t n_events, struct torch_held *blocks,
			  size_t n_blocks, bool whole)
{
	struct torch_device device = {
		.events = events, .n_events = n_events, .blocks = blocks, .n_blocks = n_blocks
	};
	struct intake *intake;
	struct intake_process *process;
	uint64_t n = 99;

	assert_int_equal(intake_new(UINT64_MAX, &intake), 0);
	process = intake_process(intake, 0, 0);
	assert_non_null(process);
	assert_int_equal(torch_device_replay(&device, 0, whole, intake_part(process), &n), 0);
	intake_free(intake);
	return n;
}

static void histories_that_differ_from_the_end(void **state)
{
	struct torch_event alloc[] = { { .address = 8, .bytes = 4, .action = TORCH_ALLOC } };
	struct torch_event both[] = { { .address = 8, .bytes = 4, .action = TORCH_FREE },
				      { .address = 8, .bytes = 4, .action = TORCH_ALLOC } };
	struct torch_event freed[] = { { .address = 8, .bytes = 4, .action = TORCH_ALLOC },
				       { .address = 8, .bytes = 4, .action = TORCH_FREE } };
	struct torch_held block[] = { { .address = 8, .bytes = 4 } };

	assert_int_equal(differing(alloc, 1, block, 1, true), 0);
	assert_int_equal(differing(both, 2, block, 1, true), 0);
	assert_int_equal(differing(freed, 2, NULL, 0, true), 0);
	assert_int_equal(differing(NULL, 0, block, 1, true), 0);
	assert_int_equal(differing(alloc, 1, NULL, 0, true), 1);
	assert_int_equal(differing(freed, 2, block, 1, true), 1);
	/* The end of a history that is cut is not known. */
	assert_int_equal(differing(freed, 2, block, 1, false), 0);
	(void)state;
}

/* Of the importer alone: what writes the run is tested elsewhere. */
static void failing_allocations(void **state)
{
	static const char *const seeds[] = { "snapshot-0", "snapshot-4", "expandable",
					     "segments-alone" };

	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		char path[4096];
		struct ingest_file file = { .path = path };
		bool all_done = false;
		long failures = 0;

		snprintf(path, sizeof(path), "%s/../fuzz/corpus/pickle/%s", MOESCOPE_GOLDEN_DIR,
			 seeds[i]);
		for (long n = 0; !all_done; n++) {
			struct intake *intake;
			struct err err = { "" };
			int r;

			assert_int_equal(intake_new(UINT64_MAX, &intake), 0);
			countdown = n;
			r = torch_memory_importer.read(&file, intake, &err);
			all_done = countdown >= 0;
			countdown = -1;
			if (all_done)
				assert_int_equal(r, 0);
			if (r < 0) {
				assert_int_equal(r, -ENOMEM);
				assert_non_null(strstr(err.message, "no memory"));
				failures++;
			}
			intake_free(intake);
		}
		assert_true(failures >= 8);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_that_grow_join),
		cmocka_unit_test(pieces_that_shrink_keep_their_rest),
		cmocka_unit_test(histories_that_differ_from_the_end),
		cmocka_unit_test(failing_allocations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
