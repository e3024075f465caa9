/* SPDX-License-Identifier: Apache-2.0
 *
 * What a killed process leaves in its rings: every record exactly once, whatever moment the kill
 * chose, and hostile buffer files harm nobody.
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

#include "ring_fixture.h"

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
	assert_int_equal(ftruncate(f->writer->file.fd, (off_t)f->writer->offset), 0);
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

/* Steps as an older version put them into its rings, before the row had its last column; marks beside
 * them, so that a record which stops the walk is seen. */
static void put_short_step(struct ring *ring, int64_t step, size_t row_bytes)
{
	struct row_step row = { .step = step,
				.start_ns = (int64_t)clock_ticks(),
				.tokens = 5,
				.tokens_known = 1,
				.recorded = 1,
				.batch = 3,
				.first = 77 };
	uint32_t bytes = (uint32_t)(sizeof(struct ring_record) + row_bytes);
	struct ring_record *record = ring_reserve(ring, bytes);

	assert_non_null(record);
	*record = (struct ring_record){ .words = (uint16_t)(bytes / 8), .kind = RECORD_STEP };
	memcpy(record + 1, &row, row_bytes);
	ring_commit(ring, bytes);
}

static void test_rows_of_an_older_version(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 9);
	struct run *run;

	assert_int_equal(offsetof(struct row_step, first), 40);
	for (int i = 0; i < 4; i++) {
		put_short_step(ring, i, i < 3 ? 40 : sizeof(struct row_step));
		put_mark(ring, (uint32_t)i);
	}
	kill_here(f);
	run = load(f->dead_shard);
	assert_int_equal(run->step.n, 4);
	assert_int_equal(run->mark.n, 4);
	assert_int_equal(run->loss.corrupt_chunks, 0);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(run->step.step[i], i);
		assert_int_equal(run->step.tokens[i], 5);
		assert_int_equal(run->step.batch[i], 3);
		assert_int_equal(run->step.first[i], i < 3 ? 0 : 77);
	}
	run_free(run);
	/* Not even its times: damage, and said. */
	put_short_step(ring, 4, 16);
	put_mark(ring, 4);
	kill_here(f);
	run = load(f->dead_shard);
	assert_int_equal(run->step.n, 4);
	assert_int_equal(run->loss.corrupt_chunks, 1);
	run_free(run);
	ring_detach(ring);
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
	f->writer->header.live.dropped[DROP_NO_MEMORY] = 4; /* no ring knows of these */
	assert_int_equal(shard_publish(f->writer), 0);
	flush_to(f, COLLECTED, 100); /* half a chunk behind */
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
				assert_memory_equal(
					x, y,
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
	assert_int_equal(flock(f->rings->file.fd, LOCK_UN), 0);
	assert_int_equal(run_refresh(run, &gained, &err), 0);
	assert_int_equal(gained, 1);
	assert_int_equal(run->mark.n, 2);
	assert_int_equal(run->shards[0].state, SHARD_CRASHED);
	assert_int_equal(run_refresh(run, &gained, &err), 0);
	assert_int_equal(gained, 0);
	run_free(run);
	ring_detach(ring);
}

static void assert_followed(struct run *run, uint32_t n);

/* Followed from before its buffers are there, and while nobody holds them yet. */
static void test_followed_from_the_first_moment(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 9);
	char *away = path_in(f->directory, "away");
	struct run *run;
	int fd;

	assert_int_equal(rename(f->ring, away), 0);
	run = load(f->shard);
	assert_followed(run, 0);
	fd = open(f->ring, O_CREAT | O_EXCL | O_WRONLY, 0644);
	assert_true(fd >= 0 && close(fd) == 0);
	assert_followed(run, 0);
	assert_int_equal(rename(away, f->ring), 0);
	put_mark(ring, 0);
	flush(f);
	assert_followed(run, 1);
	assert_int_equal(run->shards[0].state, SHARD_LIVE);
	assert_string_equal(run->shards[0].trouble.message, "");
	run_free(run);
	free(away);
	ring_detach(ring);
}

/* The marks of a run that is being followed: 0..n-1, each once. */
static void assert_followed(struct run *run, uint32_t n)
{
	uint64_t gained;
	uint8_t *seen = calloc(n + 1, 1);
	struct err err = { "" };

	assert_non_null(seen);
	assert_int_equal(run_refresh(run, &gained, &err), 0);
	assert_int_equal(run->mark.n, n);
	for (size_t i = 0; i < run->mark.n; i++)
		assert_int_equal(seen[run->mark.thread[i]]++, 0);
	assert_int_equal(run->loss.corrupt_chunks, 0);
	assert_int_equal(run->loss.cut_bytes, 0);
	free(seen);
}

/* Writes the chunks of a flush without the checkpoint that ends it. */
static void flush_without_checkpoint(struct fixture *f)
{
	struct chunk_header header;
	size_t at = 0, last = 0;

	flush_to(f, COLLECTED, 0);
	for (; at < f->encoder.out.size; at += sizeof(header) + header.payload_bytes) {
		memcpy(&header, f->encoder.out.data + at, sizeof(header));
		last = at;
	}
	encoder_rollback(&f->encoder);
	flush_to(f, COLLECTED, last);
	encoder_rollback(&f->encoder);
}

/* A reader looks while a flush is half written, and then the process is killed: its rings have the
 * same rows, behind other chunks. `seal`: the reader finds them in the file. */
static void follow_into_a_kill(struct fixture *f, bool seal)
{
	struct ring *ring = rings_attach(f->rings, 9);
	struct err err = { "" };
	struct run *run;
	uint64_t gained;
	uint32_t n = 0;

	put_mark(ring, n++);
	flush(f);
	run = load(f->shard);
	assert_int_equal(run->mark.n, 1);
	for (int i = 0; i < 100; i++)
		assert_true(put_mark(ring, n++));
	assert_true(put_routed(ring, 3));
	flush_without_checkpoint(f);
	assert_int_equal(run_refresh(run, &gained, &err), 0);
	for (int i = 0; i < 100; i++)
		assert_true(put_mark(ring, n++));
	open_frame(ring, 0, 1);
	ring->control->depth = 1;
	assert_int_equal(flock(f->rings->file.fd, LOCK_UN), 0);
	if (seal)
		assert_int_equal(shard_seal(f->shard, &err), 1);
	assert_followed(run, n);
	assert_int_equal(run->routed.n, 1);
	assert_int_equal(run->range.n, 1);
	assert_followed(run, n);
	run_free(run);
	ring_detach(ring);
}

static void test_kill_while_followed(void **state)
{
	follow_into_a_kill(*state, false);
}

static void test_kill_and_seal_while_followed(void **state)
{
	follow_into_a_kill(*state, true);
}

/* A flush that failed half way was taken back, and another one lies in its place. */
static void test_failed_flush_while_followed(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 9);
	struct err err = { "" };
	struct run *run;
	uint64_t gained;
	uint32_t n = 0;

	put_mark(ring, n++);
	flush(f);
	run = load(f->shard);
	put_mark(ring, n++);
	flush_without_checkpoint(f);
	assert_int_equal(run_refresh(run, &gained, &err), 0);
	assert_int_equal(held_truncate(&f->writer->file, f->writer->offset), 0);
	assert_int_equal(run_refresh(run, &gained, &err), 0);
	for (int i = 0; i < 100; i++)
		assert_true(put_mark(ring, n++));
	flush(f);
	assert_followed(run, n);
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
			    rings_create(child.ring, 1, NULL, &child.rings, &why) < 0 || why ||
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

/* Positions that cannot be: the buffer is refused whole, not walked round and round. */
static void test_impossible_positions(void **state)
{
	static const struct {
		uint64_t head, tail;
	} cases[] = {
		{ 24 * 10 + RING_MIN_BYTES, 0 }, /* more than a ring holds */
		{ UINT64_C(1) << 50, 0 },
		{ UINT64_MAX & ~UINT64_C(7), 8 }, /* and the tail is no way out */
		{ 24 * 10, 24 * 11 },		  /* a tail before the head */
		{ 24 * 10, 25 },		  /* between two words */
	};
	struct fixture *f = *state;
	struct ring *ring = rings_attach(f->rings, 9);
	struct bytes file;

	for (uint32_t i = 0; i < 10; i++)
		put_mark(ring, i);
	kill_here(f);
	file = file_read(f->dead_ring);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ring_control *control =
			(struct ring_control *)(file.data + f->rings->header->regions[0].offset);
		struct run *run;

		control->head = cases[i].head;
		control->tail = cases[i].tail;
		file_write(f->dead_ring, file.data, file.size);
		run = load(f->dead_shard);
		assert_int_equal(run->mark.n, 0);
		assert_int_equal(run->loss.corrupt_chunks, 1);
		assert_non_null(strstr(run->shards[0].trouble.message, "damaged"));
		run_free(run);
	}
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_kill_in_a_flush),
		TEST(test_rows_of_an_older_version),
		TEST(test_seal_is_salvage),
		TEST(test_seal_killed_half_way),
		TEST(test_live_process_is_left_alone),
		TEST(test_followed_from_the_first_moment),
		TEST(test_kill_while_followed),
		TEST(test_kill_and_seal_while_followed),
		TEST(test_failed_flush_while_followed),
		TEST(test_real_kills),
		TEST(test_hostile_ring_files),
		TEST(test_impossible_positions),
		TEST(test_damaged_checkpoint),
		TEST(test_cut_shard_beside_rings),
		TEST(test_salvage_behind_a_lost_site_chunk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
