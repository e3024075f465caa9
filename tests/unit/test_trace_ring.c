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
	struct wake wake = { 0 };
	struct ring *ring;

	f->rings->wake = &wake;
	ring = rings_attach(f->rings, 5);
	assert_true(wake_wait(&wake, 0)); /* space was handed out */
	for (uint32_t i = 0; i < RING_MIN_BYTES / 2 / 24 - 1; i++)
		assert_true(put_mark(ring, i));
	assert_false(wake_wait(&wake, 0));
	for (uint32_t i = 0; i < RING_MIN_BYTES / 2 / 24; i++)
		put_mark(ring, i);
	assert_true(wake_wait(&wake, 0));
	assert_false(wake_wait(&wake, 0)); /* they do not queue up */
	ring_detach(ring);
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
	assert_int_equal(rings_create("/nonexistent/x.ring", 1, NULL, &rings, &why), 0);
	assert_int_equal(why, ENOENT);
	ring = rings_attach(rings, 1);
	for (uint32_t i = 0; i < 7; i++)
		assert_true(put_mark(ring, i));
	assert_int_equal(drain_unsalvageable(rings, &none), 7);
	ring_detach(ring);
	rings_free(rings, true);
}

static uint64_t random_bits(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Whatever a program has scribbled over a ring: counting and draining end, and say so. */
static void test_scribbled_rings(void **state)
{
	struct drain_positions none = { .n = 0 };
	uint64_t rng = 88172645463325252u, damaged = 0;
	struct encoder encoder;
	struct tick_map map;
	struct rings *rings;
	struct ring *ring;
	int why;

	(void)state;
	tick_map_init(&map);
	encoder_init(&encoder, 1, 1, 0);
	assert_int_equal(rings_create(NULL, 1, NULL, &rings, &why), 0);
	ring = rings_attach(rings, 1);
	for (int round = 0; round < 2000; round++) {
		struct drain_result result;
		uint64_t *words = (uint64_t *)ring->data;

		for (uint64_t i = 0; i < ring->size / 8; i++)
			words[i] = round % 3 ? random_bits(&rng) & 0xffff0000ffff07ff : 0;
		ring->control->head = round % 5 ? random_bits(&rng) % (ring->size + 99)
						: random_bits(&rng);
		drain_unsalvageable(rings, &none);
		assert_int_equal(drain_collect(rings, &map, &none, &encoder, &result), 0);
		damaged += result.damaged;
		encoder_rollback(&encoder);
		/* What was counted once is not counted again. */
		assert_int_equal(drain_collect(rings, &map, &result.to, &encoder, &result), 0);
		assert_int_equal(result.damaged, 0);
		encoder_rollback(&encoder);
	}
	assert_true(damaged > 1000);
	encoder_release(&encoder);
	ring_detach(ring);
	rings_free(rings, true);
}

/* A ring of zeros below its head, where no record can begin. */
static void test_unsalvageable_ends(void **state)
{
	struct drain_positions none = { .n = 0 };
	struct rings *rings;
	struct ring *ring;
	int why;

	(void)state;
	assert_int_equal(rings_create(NULL, 1, NULL, &rings, &why), 0);
	ring = rings_attach(rings, 1);
	for (uint32_t i = 0; i < 7; i++)
		assert_true(put_mark(ring, i));
	ring->control->head = ring->size / 2;
	assert_int_equal(drain_unsalvageable(rings, &none), 7);
	ring_detach(ring);
	rings_free(rings, true);
}

/* More threads at once than places are ready: they begin in memory, and go on in the file with
 * their open ranges as soon as the drain has made room. Nothing is lost, and the order is kept. */
static void test_more_threads_than_places(void **state)
{
	enum { N = RING_SPARES + 5 };
	struct fixture *f = *state;
	struct ring *rings[N];
	uint32_t n = 0, moved = 0;
	struct run *run;

	for (uint32_t i = 0; i < N; i++) {
		uint64_t bytes = f->rings->file_bytes;

		rings[i] = rings_attach(f->rings, 100 + i);
		assert_non_null(rings[i]);
		assert_int_equal(f->rings->file_bytes, bytes); /* that is the drain's */
		assert_int_equal(ring_has_place(rings[i]), i < RING_SPARES);
		put_mark(rings[i], n++);
		rings[i]->control->frames[0].start_ticks = 1000 + i;
		rings[i]->depth = 1;
		atomic_store(&rings[i]->control->depth, 1);
	}
	flush(f);
	for (uint32_t i = 0; i < N; i++) {
		struct ring_control *before = rings[i]->control;

		assert_true(ring_has_place(rings[i]));
		put_mark(rings[i], n++);
		moved += rings[i]->control != before;
		assert_int_equal(rings[i]->control->thread, 100 + i);
		assert_int_equal(rings[i]->control->depth, 1);
		assert_int_equal(rings[i]->control->frames[0].start_ticks, 1000 + i);
		if (rings[i]->control != before)
			assert_int_equal(before->depth, 0);
	}
	assert_int_equal(moved, N - RING_SPARES);
	/* Now a kill loses nothing. */
	kill_here(f);
	run = load(f->dead_shard);
	assert_int_equal(run->mark.n, n);
	run_free(run);
	flush(f);
	assert_marks(f->shard, n);
	for (uint32_t i = 0; i < N; i++)
		ring_detach(rings[i]);
}

/* A thread that ends before it has moved gives both places back. */
static void test_thread_ends_before_it_moves(void **state)
{
	struct fixture *f = *state;
	struct ring *ring[RING_SPARES + 1];
	uint32_t regions;

	for (int i = 0; i <= RING_SPARES; i++)
		ring[i] = rings_attach(f->rings, 1);
	assert_false(ring_has_place(ring[RING_SPARES]));
	rings_refill(f->rings);
	ring_detach(ring[RING_SPARES]);
	flush(f);
	regions = f->rings->n_regions;
	ring[RING_SPARES] = rings_attach(f->rings, 2);
	assert_int_equal(f->rings->n_regions, regions);
	assert_true(ring_has_place(ring[RING_SPARES]));
	for (int i = 0; i <= RING_SPARES; i++)
		ring_detach(ring[i]);
}

static _Atomic bool scribbled;

static void *scribble(void *arg)
{
	_Atomic uint64_t *header = arg;
	uint64_t real = atomic_load(header);

	while (!atomic_load(&scribbled)) {
		atomic_store(header, 0);
		atomic_store(header, real);
	}
	return NULL;
}

/* The file is cut, and zeros come under a record between a look at it and the next. */
static void test_changes_while_it_is_read(void **state)
{
	struct drain_positions none = { .n = 0 };
	struct drain_result result;
	struct encoder encoder;
	struct tick_map map;
	struct rings *rings;
	struct ring *ring;
	pthread_t other;
	uint64_t damaged = 0, whole = 0;
	int why;

	(void)state;
	tick_map_init(&map);
	encoder_init(&encoder, 1, 1, 0);
	assert_int_equal(rings_create(NULL, 1, NULL, &rings, &why), 0);
	ring = rings_attach(rings, 1);
	assert_true(put_mark(ring, 1));
	atomic_store(&scribbled, false);
	assert_int_equal(pthread_create(&other, NULL, scribble, ring->data), 0);
	for (int round = 0; round < 100000 || !damaged || !whole; round++) {
		assert_int_equal(drain_collect(rings, &map, &none, &encoder, &result), 0);
		assert_true(encoder.rows <= 1 && encoder.rows + result.damaged == 1);
		damaged += result.damaged;
		whole += encoder.rows;
		encoder_rollback(&encoder);
	}
	atomic_store(&scribbled, true);
	pthread_join(other, NULL);
	encoder_release(&encoder);
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
		TEST(test_more_threads_than_places),
		TEST(test_thread_ends_before_it_moves),
		cmocka_unit_test(test_anonymous_rings),
		cmocka_unit_test(test_scribbled_rings),
		cmocka_unit_test(test_changes_while_it_is_read),
		cmocka_unit_test(test_unsalvageable_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
