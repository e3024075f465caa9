/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of rings and salvage: a recording process that stands still when told to. A kill is a
 * copy of its files; the copy has no lock, so readers see a dead process. Include after cmocka.h,
 * once per program.
 */
#ifndef TESTS_RING_FIXTURE_H
#define TESTS_RING_FIXTURE_H

#include "table_rows.h"
#include "trace/drain.h"
#include "trace/ring.h"

/* A recording process: its files, and the copies that a kill leaves. */
struct fixture {
	char *directory, *shard, *ring, *dead_shard, *dead_ring;
	struct shard_writer *writer;
	struct rings *rings;
	struct encoder encoder;
	struct tick_map map;
	struct drain_positions done;
};

static inline int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int why;

	assert_non_null(f);
	clock_init();
	f->directory = temporary_directory();
	f->shard = path_in(f->directory, "0-1.mst");
	f->ring = path_in(f->directory, "0-1.ring");
	f->dead_shard = path_in(f->directory, "0-2.mst");
	f->dead_ring = path_in(f->directory, "0-2.ring");
	tick_map_init(&f->map);
	encoder_init(&f->encoder, 1, 1, 0);
	assert_int_equal(shard_create(f->shard, 0, 0, &f->writer, NULL), 0);
	assert_int_equal(rings_create(f->ring, 1, NULL, &f->rings, &why), 0);
	assert_int_equal(why, 0);
	f->rings->header->maps[0] = f->map;
	*state = f;
	return 0;
}

static inline int tear_down(void **state)
{
	struct fixture *f = *state;

	shard_abandon(f->writer);
	rings_free(f->rings, true);
	encoder_release(&f->encoder);
	remove_directory(f->directory);
	free(f->shard);
	free(f->ring);
	free(f->dead_shard);
	free(f->dead_ring);
	free(f);
	return 0;
}

/* A mark with a sequence number in place of its text id, in `extra` more words. */
static inline bool put_mark(struct ring *ring, uint32_t number)
{
	struct row_mark row = { .time_ns = (int64_t)clock_ticks(), .thread = number };
	uint32_t bytes = sizeof(struct ring_record) + sizeof(row);
	struct ring_record *record = ring_reserve(ring, bytes);

	if (!record)
		return false;
	*record = (struct ring_record){ .words = (uint16_t)(bytes / 8), .kind = RECORD_MARK };
	memcpy(record + 1, &row, sizeof(row));
	ring_commit(ring, bytes);
	return true;
}

static inline bool put_routed(struct ring *ring, uint32_t slots)
{
	struct row_routed row = { .slots = slots, .k = 1 };
	uint32_t lists = (slots * 4 + 7) & ~7u;
	uint32_t bytes = (uint32_t)(sizeof(struct ring_record) + sizeof(row)) + lists;
	struct ring_record *record = ring_reserve(ring, bytes);
	int32_t *list;

	if (!record)
		return false;
	*record = (struct ring_record){ .words = (uint16_t)(bytes / 8), .kind = RECORD_ROUTED };
	memcpy(record + 1, &row, sizeof(row));
	list = (int32_t *)((char *)(record + 1) + sizeof(row));
	memset(list, 0, lists);
	for (uint32_t i = 0; i < slots; i++)
		list[i] = (int32_t)(slots * 1000 + i);
	ring_commit(ring, bytes);
	return true;
}

static inline void copy_file(const char *from, const char *to)
{
	struct bytes file = file_read(from);

	file_write(to, file.data, file.size);
	free(file.data);
}

static inline void kill_here(struct fixture *f)
{
	copy_file(f->shard, f->dead_shard);
	copy_file(f->ring, f->dead_ring);
}

enum moment { COLLECTED, WRITTEN, RELEASED };

/* One flush as the drain thread does it, up to a moment. */
static inline struct drain_result flush_to(struct fixture *f, enum moment moment, size_t cut_bytes)
{
	struct drain_result result;

	rings_refill(f->rings);
	assert_int_equal(drain_collect(f->rings, &f->map, &f->done, &f->encoder, &result), 0);
	assert_int_equal(result.damaged, 0);
	assert_int_equal(encoder_finish(&f->encoder), 0);
	assert_int_equal(drain_checkpoint(&f->encoder, &result.to), 0);
	if (moment == COLLECTED) {
		/* A write that the kill stopped after so many bytes. */
		size_t bytes = f->encoder.out.size < cut_bytes ? f->encoder.out.size : cut_bytes;

		assert_int_equal(pwrite(f->writer->file.fd, f->encoder.out.data, bytes,
					(off_t)f->writer->offset),
				 bytes);
		return result;
	}
	assert_int_equal(shard_write(f->writer, &f->encoder), 0);
	if (moment == RELEASED) {
		f->done = result.to;
		drain_release(f->rings, &f->done);
	}
	return result;
}

static inline void flush(struct fixture *f)
{
	flush_to(f, RELEASED, 0);
}

/* The marks 0..n-1, each once. */
static inline void assert_marks(const char *path, uint32_t n)
{
	struct run *run = load(path);
	uint8_t *seen = calloc(n + 1, 1);

	assert_non_null(seen);
	assert_int_equal(run->mark.n, n);
	for (size_t i = 0; i < run->mark.n; i++) {
		assert_true(run->mark.thread[i] < n);
		assert_int_equal(seen[run->mark.thread[i]]++, 0);
	}
	assert_int_equal(run->loss.corrupt_chunks, 0);
	assert_int_equal(run->loss.cut_bytes, 0);
	free(seen);
	run_free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
