/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings: wrapping around, filling up, changing hands, and the log of strings beside them.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ring_fixture.h"

static void test_wrap_around(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 5);
	uint32_t n = 0;

	assert_non_null(ring);
	assert_int_equal(ring->size, RING_MIN_BYTES);
	/* Sizes that do not divide the ring, many times around. */
	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < 300; i++)
			assert_true(put_mark(ring, n++));
		assert_true(put_routed(ring, (uint32_t)round * 97 % 1000));
		flush(f);
	}
	assert_true(ring->head > 5 * ring->size);
	assert_marks(f->shard, n);
	{
		struct run *run = load(f->shard);

		assert_int_equal(run->routed.n, 40);
		for (size_t r = 0; r < 40; r++) {
			uint32_t slots = (uint32_t)r * 97 % 1000;

			assert_int_equal(run->routed.slots[r], slots);
			for (uint32_t i = 0; i < slots; i++)
				assert_int_equal(
					run->routed.expert[run->routed.expert_first[r] + i],
					slots * 1000 + i);
		}
		run_free(run);
	}
	ring_detach(ring);
}

static void test_full_ring_counts_drops(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 5);
	uint32_t kept = 0;

	while (put_mark(ring, kept))
		kept++;
	assert_int_equal(kept, RING_MIN_BYTES / 24);
	for (int i = 0; i < 9; i++)
		assert_false(put_mark(ring, 0));
	assert_int_equal(ring->control->dropped[DROP_RING_FULL], 10);
	flush(f);
	assert_true(put_mark(ring, kept));
	flush(f);
	assert_marks(f->shard, kept + 1);
	assert_int_equal(ring->control->dropped[DROP_RING_FULL], 10);
	/* What a dead process's rings have counted reaches the loss. */
	kill_here(f);
	{
		struct run *run = load(f->dead_shard);

		assert_int_equal(run->loss.dropped_ring_full, 10);
		run_free(run);
	}
	ring_detach(ring);
}

static void test_too_large(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 5);

	assert_false(put_routed(ring, RING_MIN_BYTES / 4));
	assert_int_equal(ring->control->dropped[DROP_TOO_LARGE], 1);
	assert_int_equal(ring->control->dropped[DROP_RING_FULL], 0);
	assert_true(put_routed(ring, RING_MIN_BYTES / 16 - 20));
	ring_detach(ring);
}

static void test_wakes_when_half_full(void **state)
{
	struct fixture *f = *state;
	int pipe_fds[2], woken = 0;
	struct ring *ring;
	uint64_t word;

	assert_int_equal(pipe2(pipe_fds, O_NONBLOCK), 0);
	f->rings->wake_fd = pipe_fds[1];
	ring = rings_attach(f->rings, 5);
	for (uint32_t i = 0; i < RING_MIN_BYTES / 2 / 24 - 1; i++)
		assert_true(put_mark(ring, i));
	assert_int_equal(read(pipe_fds[0], &word, sizeof(word)), -1);
	for (uint32_t i = 0; i < RING_MIN_BYTES / 2 / 24; i++)
		put_mark(ring, i);
	while (read(pipe_fds[0], &word, sizeof(word)) == sizeof(word))
		woken++;
	assert_true(woken >= 1 && woken <= 8);
	ring_detach(ring);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static void test_reuse_after_detach_and_drain(void **state)
{
	struct fixture *f = *state;
	struct ring *first = rings_attach(f->rings, 1), *second;
	struct ring_control *control = first->control;
	uint32_t n = 0;

	put_mark(first, n++);
	ring_detach(first);
	/* Not drained yet: a new thread must not write over it. */
	second = rings_attach(f->rings, 2);
	assert_ptr_not_equal(second->control, control);
	put_mark(second, n++);
	flush(f);
	first = rings_attach(f->rings, 3);
	assert_ptr_equal(first->control, control);
	assert_int_equal(f->rings->header->n_regions, 2);
	put_mark(first, n++);
	flush(f);
	assert_marks(f->shard, n);
	ring_detach(first);
	ring_detach(second);
}

/* A thread that ends inside ranges: they are counted, and its ring starts afresh. */
static void test_detach_counts_open_ranges(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 1);
	struct ring_control *control = ring->control;

	ring->depth = 3;
	atomic_store(&control->depth, 3);
	ring_detach(ring);
	assert_int_equal(control->dropped[DROP_UNBALANCED], 3);
	assert_int_equal(control->depth, 0);
}

static void test_string_log_grows(void **state)
{
	struct fixture *f = *state;
	uint32_t n = 0, regions;
	char text[STRING_MAX];
	struct run *run;

	memset(text, 'x', sizeof(text));
	for (; n < 200; n++) { /* 200 * 4 KiB: four log regions */
		memcpy(text, &n, sizeof(n));
		text[0] |= 1;
		text[1] = (char)('a' + n / 16);
		text[2] = (char)('a' + n % 16);
		text[3] = 'y';
		assert_int_equal(rings_log_string(f->rings, n + 1, text, STRING_MAX - n % 9), 0);
		if (n % 70 == 0)
			flush(f);
	}
	regions = f->rings->header->n_regions;
	assert_true(regions >= 3);
	kill_here(f);
	flush(f);
	for (int dead = 0; dead < 2; dead++) {
		run = load(dead ? f->dead_shard : f->shard);
		for (uint32_t i = 0; i < n; i++) {
			const char *string = run_string(run, i + 1);

			assert_int_equal(strlen(string), STRING_MAX - i % 9);
			assert_int_equal(string[1], 'a' + i / 16);
			assert_int_equal(string[2], 'a' + i % 16);
		}
		assert_int_equal(loss_total(&run->loss), 0);
		run_free(run);
	}
}

/* No file to be had: memory alone, and what is in it is counted as lost with the process. */
static void test_anonymous_rings(void **state)
{
	struct drain_positions none = { .n = 0 };
	struct rings *rings;
	struct ring *ring;
	int why;

	(void)state;
	assert_int_equal(rings_create("/nonexistent/x.ring", 1, -1, &rings, &why), 0);
	assert_int_equal(why, ENOENT);
	ring = rings_attach(rings, 1);
	for (uint32_t i = 0; i < 7; i++)
		assert_true(put_mark(ring, i));
	assert_int_equal(drain_unsalvageable(rings, &none), 7);
	ring_detach(ring);
	rings_free(rings, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_wrap_around),
		TEST(test_full_ring_counts_drops),
		TEST(test_too_large),
		TEST(test_wakes_when_half_full),
		TEST(test_reuse_after_detach_and_drain),
		TEST(test_detach_counts_open_ranges),
		TEST(test_string_log_grows),
		cmocka_unit_test(test_anonymous_rings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
