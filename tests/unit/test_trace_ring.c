/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings, and what a killed process leaves in them: every record exactly once, whatever moment
 * the kill chose. A kill is a copy of both files, taken while the "process" stands still; the
 * copy has no lock, so readers see a dead process.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

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

static int set_up(void **state)
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
	assert_int_equal(rings_create(f->ring, 1, -1, &f->rings, &why), 0);
	assert_int_equal(why, 0);
	f->rings->header->maps[0] = f->map;
	*state = f;
	return 0;
}

static int tear_down(void **state)
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
static bool put_mark(struct ring *ring, uint32_t number)
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

static bool put_routed(struct ring *ring, uint32_t slots)
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

static void copy_file(const char *from, const char *to)
{
	struct bytes file = file_read(from);

	file_write(to, file.data, file.size);
	free(file.data);
}

static void kill_here(struct fixture *f)
{
	copy_file(f->shard, f->dead_shard);
	copy_file(f->ring, f->dead_ring);
}

enum moment { COLLECTED, WRITTEN, RELEASED };

/* One flush as the drain thread does it, up to a moment. */
static struct drain_result flush_to(struct fixture *f, enum moment moment, size_t cut_bytes)
{
	struct drain_result result;

	assert_int_equal(drain_collect(f->rings, &f->map, &f->done, &f->encoder, &result), 0);
	assert_int_equal(result.damaged, 0);
	assert_int_equal(encoder_finish(&f->encoder), 0);
	assert_int_equal(drain_checkpoint(&f->encoder, &result.to), 0);
	if (moment == COLLECTED) {
		/* A write that the kill stopped after so many bytes. */
		size_t bytes = f->encoder.out.size < cut_bytes ? f->encoder.out.size : cut_bytes;

		assert_int_equal(pwrite(f->writer->fd, f->encoder.out.data, bytes,
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

static void flush(struct fixture *f)
{
	flush_to(f, RELEASED, 0);
}

/* The marks 0..n-1, each once. */
static void assert_marks(const char *path, uint32_t n)
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
				assert_int_equal(run->routed.expert[run->routed.expert_first[r] + i],
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

/* Some flushes, then a kill at every moment of the next. */
static void test_kill_in_a_flush(void **state)
{
	struct fixture *f = *state;
	struct ring *a = rings_attach(f->rings, 1), *b = rings_attach(f->rings, 2);
	uint32_t n = 0;
	size_t whole;

	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 50; j++)
			put_mark(j % 3 ? a : b, n++);
		kill_here(f); /* nothing of it written */
		assert_marks(f->dead_shard, n);
		flush(f);
		kill_here(f); /* all of it written */
		assert_marks(f->dead_shard, n);
	}
	for (int j = 0; j < 50; j++)
		put_mark(j % 3 ? a : b, n++);
	/* Half written: every number of bytes. */
	flush_to(f, COLLECTED, 0);
	whole = f->encoder.out.size;
	encoder_rollback(&f->encoder);
	for (size_t bytes = 0; bytes <= whole; bytes++) {
		flush_to(f, COLLECTED, bytes);
		encoder_rollback(&f->encoder);
		kill_here(f);
		{
			struct run *run = load(f->dead_shard);

			assert_int_equal(run->mark.n, n);
			run_free(run);
		}
	}
	assert_int_equal(ftruncate(f->writer->fd, (off_t)f->writer->offset), 0);
	/* Written with its checkpoint, tails not moved, and more has come since. */
	{
		struct drain_result result = flush_to(f, WRITTEN, 0);

		kill_here(f);
		assert_marks(f->dead_shard, n);
		put_mark(a, n++);
		kill_here(f);
		assert_marks(f->dead_shard, n);
		f->done = result.to;
		drain_release(f->rings, &f->done);
	}
	kill_here(f);
	assert_marks(f->dead_shard, n);
	ring_detach(a);
	ring_detach(b);
}

static void open_frame(struct ring *ring, uint32_t depth, uint32_t name)
{
	struct ring_frame *frame = &ring->control->frames[depth];

	frame->start_ticks = clock_ticks();
	frame->name_layer = name | (uint64_t)4 << 32;
	frame->expert_shape = (uint32_t)-1;
	frame->bits = 1;
	atomic_store(&ring->control->depth, depth + 1);
}

static void test_seal_is_salvage(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 9);
	struct run *before, *after;
	struct err err = { "" };
	struct stat st;

	rings_log_string(f->rings, 1, "alpha", 5);
	for (uint32_t i = 0; i < 20; i++)
		put_mark(ring, i);
	flush(f);
	for (uint32_t i = 20; i < 30; i++)
		put_mark(ring, i);
	rings_log_string(f->rings, 2, "beta", 4);
	open_frame(ring, 0, 1);
	open_frame(ring, 1, 2);
	f->rings->header->step.step = 6;
	f->rings->header->step.start_ticks = clock_ticks();
	f->rings->header->step.flags = 1;
	f->rings->header->step.open = 1;
	f->rings->header->alive_ticks = clock_ticks();
	ring_drop(ring, DROP_RING_FULL);
	f->writer->header->live.dropped[DROP_NO_MEMORY] = 4; /* no ring knows of these */
	flush_to(f, COLLECTED, 100);			      /* half a chunk behind */
	kill_here(f);
	before = load(f->dead_shard);
	assert_int_equal(before->shards[0].state, SHARD_CRASHED);
	assert_int_equal(before->mark.n, 30);
	assert_int_equal(before->range.n, 2);
	assert_int_equal(before->step.n, 1);
	assert_int_equal(before->step.step[0], 6);
	assert_int_equal(before->step.unfinished[0], 1);
	assert_int_equal(before->loss.unfinished, 3);
	assert_int_equal(before->loss.salvaged, 10 + 1); /* a string is a record */
	assert_int_equal(before->loss.dropped_ring_full, 1);
	assert_int_equal(before->loss.dropped_no_memory, 4);
	for (size_t i = 0; i < 2; i++) {
		struct site site = run_site(before, before->range.site[i]);

		assert_string_equal(run_string(before, site.name), i ? "alpha" : "beta");
		assert_int_equal(site.layer, 4);
		assert_int_equal(before->range.unfinished[i], 1);
		assert_int_equal(before->range.depth[i], 1 - i);
		assert_int_equal(before->range.thread[i], 9);
		assert_true(before->range.duration_ns[i] >= 0);
	}
	/* Looking changed nothing on disk. */
	assert_int_equal(stat(f->dead_ring, &st), 0);
	assert_int_equal(shard_seal(f->dead_shard, &err), 1);
	assert_int_equal(stat(f->dead_ring, &st), -1);
	after = load(f->dead_shard);
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
		const struct kind_desc *desc = kind_desc(k);

		assert_int_equal(table_n(before, k), table_n(after, k));
		for (int c = 0; c < desc->n_columns; c++) {
			const uint64_t *first;
			const char *x = table_column(before, k, c, &first);
			const char *y = table_column(after, k, c, &first);

			if (desc->columns[c].count_column < 0 && table_n(before, k))
				assert_memory_equal(x, y,
						    table_n(before, k) *
							    column_type_size(desc->columns[c].type));
		}
	}
	assert_memory_equal(&before->loss, &after->loss, sizeof(before->loss));
	assert_int_equal(after->shards[0].state, SHARD_CRASHED);
	run_free(before);
	run_free(after);
	/* Again: nothing to do, nothing changed. */
	{
		struct bytes once = file_read(f->dead_shard), twice;

		assert_int_equal(shard_seal(f->dead_shard, &err), 0);
		twice = file_read(f->dead_shard);
		assert_int_equal(once.size, twice.size);
		assert_memory_equal(once.data, twice.data, once.size);
		free(once.data);
		free(twice.data);
	}
	ring_detach(ring);
}

/* A seal that was itself killed before it removed the buffers: still exact. */
static void test_seal_killed_half_way(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 9);
	struct err err = { "" };
	uint32_t n = 0;

	for (int i = 0; i < 100; i++) {
		put_mark(ring, n++);
		if (i % 40 == 0)
			flush(f);
	}
	kill_here(f);
	assert_int_equal(shard_seal(f->dead_shard, &err), 1);
	copy_file(f->ring, f->dead_ring);
	assert_marks(f->dead_shard, n);
	assert_int_equal(shard_seal(f->dead_shard, &err), 1);
	assert_marks(f->dead_shard, n);
	ring_detach(ring);
}

static void test_live_process_is_left_alone(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 9);
	struct err err = { "" };
	struct run *run;
	uint64_t gained;

	put_mark(ring, 0);
	flush(f);
	put_mark(ring, 1);
	run = load(f->shard);
	assert_int_equal(run->shards[0].state, SHARD_LIVE);
	assert_int_equal(run->mark.n, 1);
	assert_int_equal(shard_seal(f->shard, &err), 0);
	assert_int_equal(access(f->ring, F_OK), 0);
	/* It dies: the lock goes, and the rest is salvaged by the next look. */
	assert_int_equal(flock(f->rings->fd, LOCK_UN), 0);
	assert_int_equal(run_refresh(run, &gained, &err), 0);
	assert_int_equal(gained, 1);
	assert_int_equal(run->mark.n, 2);
	assert_int_equal(run->shards[0].state, SHARD_CRASHED);
	assert_int_equal(run_refresh(run, &gained, &err), 0);
	assert_int_equal(gained, 0);
	run_free(run);
	ring_detach(ring);
}

/* Kills of a real process that records as fast as it can. */
static void test_real_kills(void **state)
{
	struct fixture *f = *state;

	for (int kill_number = 0; kill_number < 12; kill_number++) {
		struct fixture child = { 0 };
		int pipe_fds[2], status;
		uint32_t told = 0, number;
		char name[32];
		pid_t pid;

		snprintf(name, sizeof(name), "%d.mst", kill_number);
		child.shard = path_in(f->directory, name);
		snprintf(name, sizeof(name), "%d.ring", kill_number);
		child.ring = path_in(f->directory, name);
		assert_int_equal(pipe(pipe_fds), 0);
		pid = fork();
		if (pid == 0) {
			struct ring *ring;
			int why;

			tick_map_init(&child.map);
			encoder_init(&child.encoder, 1, 1, 0);
			if (shard_create(child.shard, 0, 0, &child.writer, NULL) < 0 ||
			    rings_create(child.ring, 1, -1, &child.rings, &why) < 0 || why ||
			    !(ring = rings_attach(child.rings, 1)))
				_exit(1);
			child.rings->header->maps[0] = child.map;
			for (number = 1; put_mark(ring, number - 1); number++) {
				if (write(pipe_fds[1], &number, sizeof(number)) < 0)
					_exit(1);
				if (number % 97 == 0)
					flush(&child);
			}
			_exit(1);
		}
		close(pipe_fds[1]);
		/* The moment is that of a number arriving: different every time. */
		while (told < (uint32_t)(kill_number * 211 + 1) &&
		       read(pipe_fds[0], &number, sizeof(number)) == sizeof(number))
			told = number;
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		assert_true(WIFSIGNALED(status));
		while (read(pipe_fds[0], &number, sizeof(number)) == sizeof(number))
			told = number;
		close(pipe_fds[0]);
		{
			struct run *run = load(child.shard);

			/* All it told of, at most one more, in order, each once. */
			assert_true(run->mark.n == told || run->mark.n == told + 1);
			for (size_t i = 0; i < run->mark.n; i++)
				assert_int_equal(run->mark.thread[i], i);
			run_free(run);
		}
		free(child.shard);
		free(child.ring);
	}
}

/* Loads, and has seen a sentence when it could not. */
static void load_hostile(const char *path)
{
	struct err err = { "" };
	struct run *run;

	if (run_load(path, NULL, &run, &err) < 0)
		assert_true(err.message[0]);
	else
		run_free(run);
}

static void test_hostile_ring_files(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 9);
	struct rng rng = { 99 };
	struct bytes file;
	uint32_t n = 0;

	rings_log_string(f->rings, 1, "alpha", 5);
	for (int i = 0; i < 60; i++) {
		put_mark(ring, n++);
		put_routed(ring, (uint32_t)i);
		if (i % 25 == 0)
			flush(f);
	}
	open_frame(ring, 0, 1);
	kill_here(f);
	file = file_read(f->dead_ring);
	for (int i = 0; i < 1500; i++) {
		/* Where it matters: header, region table, control pages, the first data. */
		static const uint32_t places[] = { 0, offsetof(struct ring_header, maps),
						   offsetof(struct ring_header, regions),
						   RING_HEADER_BYTES, RING_HEADER_BYTES + 4096 };
		int flips = 1 + (int)rng_below(&rng, 3);
		struct {
			size_t at;
			char was;
		} undo[4];

		for (int j = 0; j < flips; j++) {
			size_t at = places[rng_below(&rng, 5)] + rng_below(&rng, 1 + (i % 7) * 100);

			undo[j].at = at;
			undo[j].was = file.data[at];
			file.data[at] ^= (char)(rng_below(&rng, 2) ? rng_next(&rng) : 0x80);
		}
		file_write(f->dead_ring, file.data, file.size);
		load_hostile(f->dead_shard);
		for (int j = flips; j-- > 0;)
			file.data[undo[j].at] = undo[j].was;
	}
	for (size_t size = 0; size < file.size; size += 1 + size / 20) {
		file_write(f->dead_ring, file.data, size);
		load_hostile(f->dead_shard);
	}
	/* Unharmed it still gives everything. */
	file_write(f->dead_ring, file.data, file.size);
	assert_marks(f->dead_shard, n);
	free(file.data);
	ring_detach(ring);
}

/* Damage in the last checkpoint: what is in the file is still there. */
static void test_damaged_checkpoint(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 9);
	struct shard_reader *reader;
	struct bytes file;
	struct run *run;

	for (uint32_t i = 0; i < 10; i++)
		put_mark(ring, i);
	flush(f);
	put_mark(ring, 10);
	kill_here(f);
	assert_int_equal(shard_open(f->dead_shard, &reader, NULL), 0);
	file = file_read(f->dead_shard);
	file.data[reader->checkpoint_offset + sizeof(struct chunk_header) + 8] ^= 1;
	shard_reader_free(reader);
	file_write(f->dead_shard, file.data, file.size);
	run = load(f->dead_shard);
	assert_int_equal(run->mark.n, 10);
	assert_true(run->loss.corrupt_chunks > 0);
	assert_non_null(strstr(run->shards[0].trouble.message, "checkpoint"));
	run_free(run);
	assert_int_equal(shard_seal(f->dead_shard, NULL), 0);
	assert_int_equal(access(f->dead_ring, F_OK), 0);
	free(file.data);
	ring_detach(ring);
}

/* The file lost its end, checkpoints included, and the rings have been used since: what is left
 * is shown, nothing twice and nothing made up, and the loss says so. */
static void test_cut_shard_beside_rings(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 9);
	uint64_t after_first;
	uint32_t n = 0, newest;
	struct run *run;

	for (int i = 0; i < 1000; i++)
		put_mark(ring, n++);
	flush(f);
	after_first = f->writer->offset;
	for (int round = 0; round < 5; round++) { /* once around and more */
		for (int i = 0; i < 1000; i++)
			put_mark(ring, n++);
		flush(f);
	}
	newest = n;
	for (int i = 0; i < 10; i++)
		put_mark(ring, n++);
	kill_here(f);
	assert_int_equal(truncate(f->dead_shard, (off_t)after_first), 0);
	run = load(f->dead_shard);
	assert_int_equal(run->mark.n, 1010);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(run->mark.thread[i], i);
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(run->mark.thread[1000 + i], newest + i);
	assert_int_equal(run->loss.cut_bytes, f->writer->offset - after_first);
	run_free(run);
	ring_detach(ring);
}

/* A site chunk is lost and the process was killed: salvaged sites must not take its ids. */
static void test_salvage_behind_a_lost_site_chunk(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 9);
	struct shard_reader *reader;
	struct bytes file;
	struct run *run;

	rings_log_string(f->rings, 1, "first", 5);
	rings_log_string(f->rings, 2, "second", 6);
	for (uint32_t name = 1; name <= 2; name++) {
		struct ring_range *record = ring_reserve(ring, sizeof(*record));

		*record = (struct ring_range){ .record = { .words = sizeof(*record) / 8,
							   .kind = RECORD_RANGE,
							   .name = name },
					       .start_ticks = clock_ticks() };
		ring_commit(ring, sizeof(*record));
		if (name == 1)
			flush(f);
	}
	kill_here(f);
	assert_int_equal(shard_open(f->dead_shard, &reader, NULL), 0);
	file = file_read(f->dead_shard);
	for (size_t i = 0; i < reader->n_chunks; i++)
		if (!reader->chunks[i].salvaged && reader->chunks[i].header.kind == RECORD_SITE)
			file.data[reader->chunks[i].offset] ^= 1;
	shard_reader_free(reader);
	file_write(f->dead_shard, file.data, file.size);
	run = load(f->dead_shard);
	assert_int_equal(run->range.n, 2);
	assert_int_equal(run->range.site[0], 0); /* unknown, not the other one's name */
	assert_string_equal(run_string(run, run_site(run, run->range.site[1]).name), "second");
	assert_int_equal(run->loss.bad_references, 1);
	assert_int_equal(run->loss.corrupt_chunks, 1);
	run_free(run);
	free(file.data);
	ring_detach(ring);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

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
		TEST(test_kill_in_a_flush),
		TEST(test_seal_is_salvage),
		TEST(test_seal_killed_half_way),
		TEST(test_live_process_is_left_alone),
		TEST(test_real_kills),
		TEST(test_hostile_ring_files),
		TEST(test_damaged_checkpoint),
		TEST(test_cut_shard_beside_rings),
		TEST(test_salvage_behind_a_lost_site_chunk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
