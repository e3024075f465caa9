/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading a run: shards merged, columns chosen, a run that grows, hosts with other clocks.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "moescope.h"
#include "table_rows.h"
#include "trace/drain.h"
#include "trace/ring.h"
#include "trace/rundir.h"

static char *directory;

static int set_up(void **state)
{
	(void)state;
	directory = temporary_directory();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_directory(directory);
	return 0;
}

struct shard {
	struct shard_writer *writer;
	struct encoder encoder;
	char *path;
};

static void open_shard(struct shard *shard, const char *name, uint32_t rank)
{
	shard->path = path_in(directory, name);
	encoder_init(&shard->encoder, 1, 1, 0);
	assert_int_equal(shard_create(shard->path, rank, 0, &shard->writer, NULL), 0);
}

static void flush(struct shard *shard)
{
	assert_int_equal(encoder_finish(&shard->encoder), 0);
	assert_int_equal(shard_write(shard->writer, &shard->encoder), 0);
}

static void close_shard(struct shard *shard)
{
	flush(shard);
	assert_int_equal(shard_close(shard->writer, &shard->encoder), 0);
	encoder_release(&shard->encoder);
	free(shard->path);
}

static void add_string(struct shard *shard, uint32_t id, const char *text)
{
	struct row_string row = { .id = id, .length = (uint32_t)strlen(text), .text = text };

	assert_int_equal(encoder_append(&shard->encoder, RECORD_STRING, &row), 0);
}

static void add_range(struct shard *shard, uint32_t name, int32_t layer, int64_t start_ns)
{
	struct row_site site = { .name = name, .layer = layer, .expert = -1 };
	struct row_range row = { .start_ns = start_ns, .duration_ns = 5 };

	row.site = encoder_site(&shard->encoder, &site);
	assert_int_equal(encoder_append(&shard->encoder, RECORD_RANGE, &row), 0);
}

/* The same names under other ids in each process: one id each in the run. */
static void test_shards_are_merged(void **state)
{
	struct row_launch launch = { .name = 2, .grid_x = 9 };
	struct row_kernel kernel = { .start_ns = 1 };
	struct shard a, b;
	struct run *run;

	(void)state;
	open_shard(&a, "0-1.mst", 0);
	open_shard(&b, "1-2.mst", 1);
	add_string(&a, 1, "alpha");
	add_string(&a, 2, "beta");
	add_string(&b, 1, "beta");
	add_string(&b, 2, "gamma");
	add_string(&b, 3, "alpha");
	add_range(&a, 1, 0, 100);
	add_range(&a, 2, 1, 200);
	add_range(&b, 2, 1, 300);
	add_range(&b, 1, 1, 400);
	add_range(&b, 3, 0, 500);
	kernel.launch = encoder_launch(&a.encoder, &launch);
	encoder_append(&a.encoder, RECORD_KERNEL, &kernel);
	launch.grid_x = 8;
	encoder_launch(&b.encoder, &launch);
	launch.grid_x = 9;
	launch.name = 1;
	kernel.launch = encoder_launch(&b.encoder, &launch);
	assert_int_equal(kernel.launch, 2);
	encoder_append(&b.encoder, RECORD_KERNEL, &kernel);
	close_shard(&a);
	close_shard(&b);
	run = load(directory);
	assert_int_equal(run->n_shards, 2);
	assert_int_equal(run->shards[1].rank, 1);
	assert_int_equal(run->range.n, 5);
	for (size_t i = 0; i < 5; i++) {
		static const char *const names[] = { "alpha", "beta", "gamma", "beta", "alpha" };

		assert_int_equal(run->range.shard[i], i >= 2);
		assert_int_equal(run->range.start_ns[i], 100 * (i + 1));
		assert_string_equal(run_string(run, run_site(run, run->range.site[i]).name),
				    names[i]);
	}
	assert_int_equal(run->range.site[0], run->range.site[4]);
	assert_int_equal(run->range.site[1], run->range.site[3]);
	assert_int_not_equal(run->range.site[1], run->range.site[2]);
	assert_int_equal(run->kernel.n, 2);
	assert_int_equal(run->kernel.launch[0], run->kernel.launch[1]); /* "beta" in both */
	assert_int_equal(run_launch(run, run->kernel.launch[0]).grid_x, 9);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

struct streamed {
	const struct expected *expected;
	unsigned int kind, chunks;
	size_t rows;
};

static int compare_streamed(struct run *run, void *context)
{
	struct streamed *streamed = context;

	for (size_t i = 0; i < table_n(run, streamed->kind); i++)
		assert_row(run, streamed->kind, i,
			   &streamed->expected->rows[streamed->kind][streamed->rows++]);
	streamed->chunks++;
	return streamed->chunks < 1000 ? 0 : -E2BIG;
}

static int stop_at_once(struct run *run, void *context)
{
	(void)run;
	(void)context;
	return -ECANCELED;
}

/* Chunk by chunk come the rows of the tables, of any columns and more than once. */
static void test_rows_are_streamed(void **state)
{
	struct run_want nothing = { .kinds = 0 };
	struct expected expected = { 0 };
	struct rng rng = { 7 };
	struct shard shard;
	struct run *run;

	(void)state;
	open_shard(&shard, "0-1.mst", 0);
	append_dictionaries(&shard.encoder, ROW_IDS);
	for (int flushes = 0; flushes < 3; flushes++) {
		append_every_kind(&shard.encoder, &expected, 100 + 50 * (size_t)flushes, &rng);
		flush(&shard);
	}
	close_shard(&shard);
	assert_int_equal(run_load(directory, &nothing, &run, NULL), 0);
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++)
		for (uint64_t columns = 0; columns < 3; columns++) {
			struct streamed streamed = { .expected = &expected, .kind = k };

			assert_int_equal(run_stream(run, k, columns, compare_streamed, &streamed),
					 0);
			assert_int_equal(streamed.rows, 450);
			assert_int_equal(streamed.chunks, 3);
			assert_int_equal(table_n(run, k), 0);
		}
	assert_int_equal(run_stream(run, RECORD_RANGE, 0, stop_at_once, NULL), -ECANCELED);
	assert_int_equal(table_n(run, RECORD_RANGE), 0);
	run_free(run);
	expected_release(&expected);
}

static void test_columns_are_chosen(void **state)
{
	struct run_want want = { .kinds = WANT(RANGE) | WANT(ROUTING) | WANT(STEP) };
	struct expected expected = { 0 };
	struct rng rng = { 5 };
	struct shard shard;
	struct run *run, *all;

	(void)state;
	open_shard(&shard, "0-1.mst", 0);
	append_dictionaries(&shard.encoder, ROW_IDS);
	append_every_kind(&shard.encoder, &expected, 300, &rng);
	close_shard(&shard);
	want.columns[RECORD_RANGE] = 1u << 1 | 1u << 2;	  /* start, duration */
	want.columns[RECORD_ROUTING] = UINT64_C(1) << 20; /* k_hist, without its counts */
	assert_int_equal(run_load(directory, &want, &run, NULL), 0);
	all = load(directory);
	assert_all_rows(all, &expected);
	assert_int_equal(run->range.n, 300);
	assert_non_null(run->range.start_ns);
	assert_non_null(run->range.duration_ns);
	assert_null(run->range.site);
	assert_null(run->range.thread);
	assert_non_null(run->routing.k_hist);
	assert_null(run->routing.load);
	assert_null(run->routing.load_first);
	assert_null(run->routing.experts);
	assert_non_null(run->step.probe); /* no choice: all of them */
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
		/* Rows of kinds that were not asked for are counted all the same. */
		assert_int_equal(run_rows(run, (enum record_kind)k), 300);
		assert_int_equal(table_n(run, k), want.kinds >> k & 1 ? 300 : 0);
		if (want.kinds >> k & 1)
			assert_rows_but(run, &expected, k, 0, 0);
	}
	run_free(run);
	run_free(all);
	expected_release(&expected);
}

/* A flush as the drain of a living process does it: with a checkpoint. */
static const struct drain_positions none;

static void flush_live(struct shard *shard)
{
	assert_int_equal(encoder_finish(&shard->encoder), 0);
	assert_int_equal(drain_checkpoint(&shard->encoder, &none), 0);
	assert_int_equal(shard_write(shard->writer, &shard->encoder), 0);
}

static void test_growing_run(void **state)
{
	char *const argv[] = { "prog" };
	struct rundir_meta meta = { .argc = 1, .argv = argv };
	struct rundir_end end = { .exited = true, .exit_status = 4 };
	struct expected expected = { 0 };
	struct rng rng = { 6 };
	struct shard shard, second;
	struct err err = { "" };
	struct run *run;
	uint64_t gained;
	char *path, *shard_path;

	(void)state;
	assert_int_equal(rundir_create(directory, &meta, &path, &err), 0);
	run = load(path);
	assert_int_equal(run->n_shards, 0); /* nothing yet */
	assert_string_equal(run->info.status, "running");
	run_free(run);
	/* A shard whose header is still to come. */
	shard_path = path_in(directory, "0-1.mst");
	file_write(shard_path, "", 0);
	run = load(path);
	assert_int_equal(run->n_shards, 1);
	assert_null(run->shards[0].reader);
	assert_int_equal(unlink(shard_path), 0);
	free(shard_path);
	open_shard(&shard, "0-1.mst", 0);
	append_dictionaries(&shard.encoder, ROW_IDS);
	/* A lock on a buffer file, as a living process has it. */
	{
		char *ring_path = path_in(directory, "0-1.ring");
		struct rings *rings;
		int why;

		assert_int_equal(rings_create(ring_path, 1, NULL, &rings, &why), 0);
		for (int i = 0; i < 30; i++) {
			append_every_kind(&shard.encoder, &expected, (size_t)i, &rng);
			flush_live(&shard);
			assert_int_equal(run_refresh(run, &gained, &err), 0);
			assert_int_equal(gained,
					 (uint64_t)i * (RECORD_KIND_LIMIT - 1 - RECORD_LAUNCH));
			assert_int_equal(run->n_shards, 1);
			assert_int_equal(run->shards[0].state, SHARD_LIVE);
			assert_all_rows(run, &expected);
			assert_int_equal(run_refresh(run, &gained, &err), 0);
			assert_int_equal(gained, 0);
		}
		/* Half a chunk is in the file: the next look finds the whole of it. */
		append_random(&shard.encoder, &expected, RECORD_MARK, 50, &rng);
		assert_int_equal(encoder_finish(&shard.encoder), 0);
		assert_int_equal(drain_checkpoint(&shard.encoder, &none), 0);
		assert_int_equal(pwrite(shard.writer->file.fd, shard.encoder.out.data, 100,
					(off_t)shard.writer->offset),
				 100);
		assert_int_equal(run_refresh(run, &gained, &err), 0);
		assert_int_equal(gained, 0);
		assert_int_equal(run->loss.cut_bytes, 0);
		assert_int_equal(shard_write(shard.writer, &shard.encoder), 0);
		assert_int_equal(run_refresh(run, &gained, &err), 0);
		assert_int_equal(gained, 50);
		rings_free(rings, true);
		free(ring_path);
	}
	close_shard(&shard);
	/* A second process appears, and the run ends. */
	open_shard(&second, "0-0.mst", 0);
	add_string(&second, 1, "late");
	add_range(&second, 1, 1, 77);
	close_shard(&second);
	assert_int_equal(rundir_finish(path, &end, &err), 0);
	assert_int_equal(run_refresh(run, &gained, &err), 0);
	assert_int_equal(gained, 1);
	assert_int_equal(run->n_shards, 2);
	assert_int_equal(run->range.start_ns[run->range.n - 1], 77);
	assert_string_equal(run_string(run, run_site(run, run->range.site[run->range.n - 1]).name),
			    "late");
	assert_string_equal(run->info.status, "exited");
	assert_int_equal(run->info.exit_status, 4);
	assert_int_equal(run->shards[0].state, SHARD_CLOSED);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
	expected_release(&expected);
	free(path);
}

enum {
	WINDOW_ROUNDS = 300,
	WINDOW_KERNELS = 1000, /* of a round, which is a step */
	KERNEL_NS = 10,
	ROUND_NS = 100000,
	PEAK_ROUND = 20,   /* with a block of PEAK_BYTES that is freed in it */
	KEPT_ROUND = 3,	   /* with one of KEPT_BYTES that is never freed */
	LOWEST_ROUND = 50, /* of a counter that falls from 1000 */
	WINDOW_EXPERTS = 4,
};
#define PEAK_BYTES 1000000
#define KEPT_BYTES 77

static void add_memory(struct shard *shard, int64_t time_ns, unsigned int event, uint64_t address,
		       uint64_t bytes)
{
	struct row_memory row = { .time_ns = time_ns,
				  .event = (uint8_t)event,
				  .address = address,
				  .bytes = bytes,
				  .device = -1 };

	assert_int_equal(encoder_append(&shard->encoder, RECORD_MEMORY, &row), 0);
}

static void add_round(struct shard *shard, int round)
{
	int64_t start_ns = (int64_t)(round + 1) * ROUND_NS;
	uint32_t load[WINDOW_EXPERTS] = { (uint32_t)round, 1, 2, (uint32_t)round + 3 };
	struct row_step step = { .step = round, .start_ns = start_ns, .duration_ns = ROUND_NS - 1 };
	struct row_gear gear = { .time_ns = start_ns, .gear = 3, .attached = 1, .device_bytes = 5 };
	struct row_counter counter = { .time_ns = start_ns,
				       .name = 1,
				       .value = round == LOWEST_ROUND ? -5 : 1000 - round };
	struct row_routing routing = {
		.time_ns = start_ns, .step = round, .experts = WINDOW_EXPERTS, .load = load
	};
	uint64_t bytes = round == PEAK_ROUND ? PEAK_BYTES : 1000;

	for (int i = 0; i < WINDOW_KERNELS; i++) {
		struct row_kernel kernel = { .launch = 1,
					     .start_ns = start_ns + i * KERNEL_NS,
					     .duration_ns = KERNEL_NS };

		assert_int_equal(encoder_append(&shard->encoder, RECORD_KERNEL, &kernel), 0);
	}
	if (!round)
		assert_int_equal(encoder_append(&shard->encoder, RECORD_GEAR, &gear), 0);
	if (round == KEPT_ROUND)
		add_memory(shard, start_ns, MOESCOPE_EVENT_ALLOC, 1, KEPT_BYTES);
	add_memory(shard, start_ns + 1, MOESCOPE_EVENT_ALLOC, 2, bytes);
	add_memory(shard, start_ns + 2, MOESCOPE_EVENT_FREE, 2, 0);
	assert_int_equal(encoder_append(&shard->encoder, RECORD_STEP, &step), 0);
	assert_int_equal(encoder_append(&shard->encoder, RECORD_COUNTER, &counter), 0);
	assert_int_equal(encoder_append(&shard->encoder, RECORD_ROUTING, &routing), 0);
}

/* Live bytes at the end, and the most that there were; rows come by time. */
static void replay_memory(const struct table_memory *t, uint64_t *ret_live, uint64_t *ret_peak)
{
	uint64_t of_address[3] = { 0 };

	*ret_live = *ret_peak = 0;
	for (size_t i = 0; i < t->n; i++) {
		uint64_t *bytes = &of_address[t->address[i]];

		*ret_live -= *bytes;
		*bytes = t->event[i] == MOESCOPE_EVENT_ALLOC ? t->bytes[i] : 0;
		*ret_live += *bytes;
		*ret_peak = *ret_live > *ret_peak ? *ret_live : *ret_peak;
	}
}

static void assert_window(const struct run *run)
{
	const struct run_gone *gone = &run->gone;
	uint64_t live, peak;
	double least = INFINITY;

	assert_true(gone->any);
	/* Sums are of the whole run. */
	assert_int_equal(run->kernel.n + gone->rows[RECORD_KERNEL], WINDOW_ROUNDS * WINDOW_KERNELS);
	assert_int_equal(gone->durations_ns[RECORD_KERNEL], gone->rows[RECORD_KERNEL] * KERNEL_NS);
	assert_int_equal(run_rows(run, RECORD_KERNEL), WINDOW_ROUNDS * WINDOW_KERNELS);
	assert_int_equal(run->step.n + gone->rows[RECORD_STEP], WINDOW_ROUNDS);
	assert_int_equal(run->start_ns, ROUND_NS);
	/* Rows begin with a step, and none is missing from there on. */
	assert_int_equal(gone->since_ns, run->step.start_ns[0]);
	assert_int_equal(run_since(run, 0), gone->since_ns);
	assert_int_equal(gone->last_step, run->step.step[0] - 1);
	assert_int_equal(run->kernel.n, run->step.n * WINDOW_KERNELS);
	assert_int_equal(run->kernel.start_ns[0], gone->since_ns);
	assert_int_equal(run->routing.n, run->step.n);
	for (size_t i = 0; i < run->routing.n; i++) {
		const uint32_t *load = run->routing.load + run->routing.load_first[i];

		assert_int_equal(run->routing.load_first[i], i * WINDOW_EXPERTS);
		assert_int_equal(run->routing.step[i], run->step.step[i]);
		assert_int_equal(load[0], run->step.step[i]);
		assert_int_equal(load[3], run->step.step[i] + 3);
	}
	/* State outlives its records. */
	replay_memory(&run->memory, &live, &peak);
	assert_int_equal(live, KEPT_BYTES);
	assert_int_equal(peak, PEAK_BYTES + KEPT_BYTES);
	assert_int_equal(run->memory.n, 1 + 2 + 2 * run->step.n);
	assert_int_equal(run->gear.n, 1);
	assert_int_equal(run->gear.time_ns[0], gone->since_ns);
	assert_int_equal(run->gear.device_bytes[0], 5);
	assert_true(run->counter.value[0] == 1000);
	for (size_t i = 0; i < run->counter.n; i++)
		least = fmin(least, run->counter.value[i]);
	assert_true(least == -5);
	assert_int_equal(loss_total(&run->loss), 0);
}

/* Whoever follows a run keeps a part of it, as large as was asked for, however long the run is. */
static void test_window(void **state)
{
	char *const argv[] = { "prog" };
	struct rundir_meta meta = { .argc = 1, .argv = argv };
	struct run_want want = { .kinds = WANT_ALL, .window_bytes = 1 << 20 };
	struct err err = { "" };
	struct rings *rings;
	struct shard shard;
	struct run *run, *late;
	size_t most = 0, chunks = 0;
	uint64_t gained;
	char *path, *ring_path;
	int why;

	(void)state;
	assert_int_equal(rundir_create(directory, &meta, &path, &err), 0);
	open_shard(&shard, "0-1.mst", 0);
	append_dictionaries(&shard.encoder, ROW_IDS);
	ring_path = path_in(directory, "0-1.ring");
	assert_int_equal(rings_create(ring_path, 1, NULL, &rings, &why), 0);
	flush_live(&shard);
	assert_int_equal(run_load(path, &want, &run, &err), 0);
	for (int round = 0; round < WINDOW_ROUNDS; round++) {
		add_round(&shard, round);
		flush_live(&shard);
		assert_int_equal(run_refresh(run, &gained, &err), 0);
		assert_true(gained >= WINDOW_KERNELS);
		most = run->kernel.n > most ? run->kernel.n : most;
		chunks += run->shards[0].reader->n_chunks;
	}
	/* A kernel takes some 50 bytes; 300,000 of them were read. */
	assert_true(most > 5000 && most < 40000);
	assert_int_equal(chunks, 0);
	assert_window(run);
	/* The same for whoever comes late. */
	assert_int_equal(run_load(path, &want, &late, &err), 0);
	assert_true(late->kernel.n < 40000);
	assert_window(late);
	run_free(late);
	rings_free(rings, true);
	close_shard(&shard);
	assert_int_equal(run_refresh(run, &gained, &err), 0);
	assert_int_equal(gained, 0);
	assert_int_equal(run->shards[0].state, SHARD_CLOSED);
	assert_window(run);
	run_free(run);
	/* Without a window nothing is let go. */
	run = load(path);
	assert_false(run->gone.any);
	assert_int_equal(run->kernel.n, WINDOW_ROUNDS * WINDOW_KERNELS);
	run_free(run);
	free(ring_path);
	free(path);
}

/* The clocks that a shard says it was recorded by; boot 0: it does not say which. */
struct clocks_of {
	const char *name;
	int64_t monotonic_ns, realtime_ns;
	char boot;
	int64_t boot_offset_ns;
};

static void set_clocks(const struct clocks_of *clocks)
{
	char *path = path_in(directory, clocks->name);
	struct bytes file = file_read(path);
	struct shard_header header;

	memcpy(&header, file.data, sizeof(header));
	header.monotonic_ns = clocks->monotonic_ns;
	header.realtime_ns = clocks->realtime_ns;
	header.live.alive_ns = clocks->monotonic_ns;
	header.crc = crc32c(0, &header, offsetof(struct shard_header, crc));
	memset(header.boot_id, clocks->boot, sizeof(header.boot_id));
	header.boot_offset_ns = clocks->boot_offset_ns;
	header.boot_crc = crc32c(0, (char *)&header + offsetof(struct shard_header, boot_id),
				 SHARD_BOOT_BYTES);
	memcpy(file.data, &header, sizeof(header));
	file_write(path, file.data, file.size);
	free(file.data);
	free(path);
}

/* One shard for each, with a range 10 ns behind its beginning. */
static struct run *run_of_clocks(const struct clocks_of *clocks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct shard shard;

		open_shard(&shard, clocks[i].name, (uint32_t)i);
		add_string(&shard, 1, "x");
		add_range(&shard, 1, 0, clocks[i].monotonic_ns + 10);
		close_shard(&shard);
		set_clocks(&clocks[i]);
	}
	return load(directory);
}

#define S INT64_C(1000000000)
#define Y2023 (1700000000 * S)

static void test_clocks_of_other_hosts(void **state)
{
	const struct clocks_of clocks[] = {
		{ "0-1.mst", 50 * S, Y2023 + 50 * S, 0, 0 },
		{ "1-2.mst", 50 * S, Y2023 + 50 * S + S / 100, 0, 0 }, /* error of measuring */
		{ "2-3.mst", 50 * S, Y2023 + 80 * S, 0, 0 },	       /* booted 30 s later */
	};
	struct run *run = run_of_clocks(clocks, 3);

	(void)state;
	assert_int_equal(run->range.start_ns[0], 50 * S + 10);
	assert_int_equal(run->range.start_ns[1], 50 * S + 10);
	assert_int_equal(run->range.start_ns[2], 80 * S + 10);
	assert_int_equal(run->range.duration_ns[2], 5);
	assert_int_equal(run->shards[2].start_ns, 80 * S);
	assert_int_equal(run->start_ns, 50 * S);
	assert_int_equal(run->end_ns, 80 * S + 15);
	/* All on the first's clock, and so is the way from there to the wall clock. */
	assert_int_equal(run->shards[2].realtime_offset_ns, Y2023);
	run_free(run);
}

/* The wall clock of a host was set 5 s forward between the starts of two ranks. */
static void test_wall_clock_steps(void **state)
{
	const struct clocks_of clocks[] = {
		{ "0-1.mst", 50 * S, Y2023 + 50 * S, 'a', 0 },
		{ "1-2.mst", 51 * S, Y2023 + 56 * S, 'a', 0 },
		/* Another host: as a whole by its first shard, however little that is. */
		{ "2-3.mst", 50 * S, Y2023 + 50 * S + S / 4, 'b', 0 },
		{ "3-4.mst", 52 * S, Y2023 + 99 * S, 'b', 0 },
	};
	struct run *run = run_of_clocks(clocks, 4);

	(void)state;
	assert_int_equal(run->range.start_ns[0], 50 * S + 10);
	assert_int_equal(run->range.start_ns[1], 51 * S + 10);
	assert_int_equal(run->range.start_ns[2], 50 * S + S / 4 + 10);
	assert_int_equal(run->range.start_ns[3], 52 * S + S / 4 + 10);
	run_free(run);
}

/* Containers may have a CLOCK_MONOTONIC of their own. */
static void test_time_namespaces(void **state)
{
	const struct clocks_of clocks[] = {
		{ "0-1.mst", 50 * S, Y2023 + 50 * S, 'a', -1000 * S },
		{ "1-2.mst", 1052 * S, Y2023 + 7 * S, 'a', 0 },
		{ "2-3.mst", 3053 * S, Y2023 + 80 * S, 'a', 2000 * S },
	};
	struct run *run = run_of_clocks(clocks, 3);

	(void)state;
	assert_int_equal(run->range.start_ns[0], 50 * S + 10);
	assert_int_equal(run->range.start_ns[1], 52 * S + 10);
	assert_int_equal(run->range.start_ns[2], 53 * S + 10);
	run_free(run);
}

/* Of this very boot. */
static void test_boot_is_written(void **state)
{
	struct shard shard;
	struct boot boot, read;
	struct run *run;

	(void)state;
	if (!boot_read(&boot))
		skip();
	open_shard(&shard, "0-1.mst", 0);
	close_shard(&shard);
	run = load(directory);
	read = shard_boot(&run->shards[0].reader->header);
	assert_memory_equal(read.id, boot.id, sizeof(boot.id));
	assert_int_equal(read.offset_ns, boot.offset_ns);
	run_free(run);
}

/* Rows that no clock can have given, with right checksums. */
static void test_impossible_times(void **state)
{
	static const struct {
		int64_t start_ns, duration_ns;
		bool sane;
	} rows[] = {
		{ SHARD_TIME_MAX, 0, true },
		{ -SHARD_TIME_MAX, 0, true },
		{ 0, SHARD_TIME_MAX, true },
		{ SHARD_TIME_MAX + 1, 0, false },
		{ -SHARD_TIME_MAX - 1, 0, false },
		{ INT64_MAX, 1, false },
		{ INT64_MIN, 1, false },
		{ 1, -1, false },
		{ 1, INT64_MIN, false },
		{ 1, INT64_MAX, false },
		{ 0, 1, false }, /* one more than all durations together may be */
		{ 0, 0, true },
	};
	size_t n = sizeof(rows) / sizeof(rows[0]), sane = 0;
	struct shard shard;
	struct run *run;

	(void)state;
	open_shard(&shard, "0-1.mst", 0);
	for (size_t i = 0; i < n; i++) {
		struct row_kernel kernel = { .start_ns = rows[i].start_ns,
					     .duration_ns = rows[i].duration_ns };

		assert_int_equal(encoder_append(&shard.encoder, RECORD_KERNEL, &kernel), 0);
		flush(&shard);
	}
	close_shard(&shard);
	run = load(directory);
	for (size_t i = 0; i < n; i++) {
		if (!rows[i].sane)
			continue;
		assert_int_equal(run->kernel.start_ns[sane], rows[i].start_ns);
		assert_int_equal(run->kernel.duration_ns[sane], rows[i].duration_ns);
		sane++;
	}
	assert_int_equal(run->kernel.n, sane);
	assert_int_equal(run->loss.corrupt_chunks, n - sane);
	assert_true(run->start_ns >= -SHARD_TIME_MAX);
	assert_true(run->end_ns <= SHARD_TIME_MAX);
	run_free(run);
}

/* A chunk is as bad as its worst row, and those around it stay. */
static void test_impossible_times_among_many(void **state)
{
	struct shard shard;
	struct run *run;

	(void)state;
	open_shard(&shard, "0-1.mst", 0);
	for (int i = 0; i < 3000; i++) {
		struct row_step step = { .step = i == 1500 ? INT64_MAX : i, .start_ns = i };

		assert_int_equal(encoder_append(&shard.encoder, RECORD_STEP, &step), 0);
		if (i % 1000 == 999)
			flush(&shard);
	}
	close_shard(&shard);
	run = load(directory);
	assert_int_equal(run->step.n, 2000);
	assert_int_equal(run->step.step[1000], 2000);
	assert_int_equal(run->loss.corrupt_chunks, 1);
	run_free(run);
}

static void test_impossible_clocks(void **state)
{
	const struct clocks_of good = { "0-1.mst", 50 * S, Y2023, 'a', 0 };
	const struct clocks_of bad[] = {
		{ "1-2.mst", INT64_MIN, Y2023, 'a', 0 },
		{ "1-2.mst", 50 * S, INT64_MAX, 'a', 0 },
	};

	(void)state;
	run_free(run_of_clocks(&good, 1));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char *path = path_in(directory, bad[i].name);
		struct shard shard;
		struct run *run;

		open_shard(&shard, bad[i].name, 1);
		close_shard(&shard);
		set_clocks(&bad[i]);
		run = load(directory);
		assert_int_equal(run->loss.unreadable_shards, 1);
		assert_non_null(strstr(run->shards[1].trouble.message, "impossible times"));
		run_free(run);
		assert_int_equal(unlink(path), 0);
		free(path);
	}
}

static void test_unreadable_shard_is_a_loss(void **state)
{
	char *bad = path_in(directory, "0-0.mst");
	struct err err = { "" };
	struct shard shard;
	struct run *run;

	(void)state;
	file_write(bad, "no shard", 8);
	assert_int_equal(run_load(directory, NULL, &run, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "not a moescope shard"));
	open_shard(&shard, "0-1.mst", 0);
	add_string(&shard, 1, "x");
	add_range(&shard, 1, 0, 1);
	close_shard(&shard);
	run = load(directory);
	assert_int_equal(run->range.n, 1);
	assert_int_equal(run->loss.unreadable_shards, 1);
	assert_true(run->shards[0].trouble.message[0]);
	run_free(run);
	free(bad);
}

static void test_not_a_run(void **state)
{
	struct err err = { "" };
	struct run *run;
	char *path = path_in(directory, "absent");

	(void)state;
	assert_int_equal(run_load(path, NULL, &run, &err), -ENOENT);
	assert_non_null(strstr(err.message, "no such run"));
	assert_int_equal(run_load(directory, NULL, &run, &err), -ENOENT);
	assert_non_null(strstr(err.message, "not a moescope run"));
	free(path);
	run_free(NULL);
}

/* Ids far beyond what the file can hold are damage, not a reason to take a gigabyte. */
static void test_absurd_ids(void **state)
{
	struct shard shard;
	struct run *run;

	(void)state;
	open_shard(&shard, "0-1.mst", 0);
	add_string(&shard, 200000000, "far");
	close_shard(&shard);
	run = load(directory);
	assert_int_equal(run->loss.corrupt_chunks, 1);
	run_free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* A byte in the payload of the chunk-th chunk of a kind. */
static void damage(const char *path, unsigned int kind, size_t chunk)
{
	struct shard_reader *reader;
	size_t seen = 0;

	assert_int_equal(shard_open(path, &reader, NULL), 0);
	for (size_t i = 0; i < reader->n_chunks; i++) {
		if (reader->chunks[i].header.kind == kind && seen++ == chunk) {
			FILE *file = fopen(path, "r+e");

			assert_non_null(file);
			assert_int_equal(fseek(file,
					       (long)(reader->chunks[i].offset +
						      sizeof(struct chunk_header) + 100),
					       SEEK_SET),
					 0);
			assert_int_not_equal(fputc(0x5a, file), EOF);
			assert_int_equal(fclose(file), 0);
		}
	}
	assert_true(seen > chunk);
	shard_reader_free(reader);
}

/* Enough rows for several threads and for arrays that come from the system as zeros. Row i of a
 * table without the damaged chunk is row i of it, or the one as many rows behind. */
static void test_damage_among_many(void **state)
{
	enum { ROWS = 1200000, CHUNK = ENCODER_CHUNK_ROWS, BAD = 3 };
	struct shard shard;
	struct run *run;
	struct err err;
	char *path;

	(void)state;
	open_shard(&shard, "0-1.mst", 0);
	for (int64_t i = 0; i < ROWS; i++) {
		struct row_kernel row = { .start_ns = 1000 + i * 10 + i % 3,
					  .duration_ns = 1 + i * 7 % 1000,
					  .correlation = (uint64_t)i,
					  .stream = 7,
					  .graph = i >= ROWS - CHUNK ? 9 : 0 };

		assert_int_equal(encoder_append(&shard.encoder, RECORD_KERNEL, &row), 0);
	}
	path = strdup(shard.path);
	close_shard(&shard);
	damage(path, RECORD_KERNEL, BAD);
	free(path);
	assert_int_equal(run_load(directory, NULL, &run, &err), 0);
	assert_int_equal(run->loss.corrupt_chunks, 1);
	assert_int_equal(run->kernel.n, ROWS - CHUNK);
	for (size_t i = 0; i < run->kernel.n; i++) {
		uint64_t row = i < BAD * CHUNK ? i : i + CHUNK;

		if (run->kernel.correlation[i] != row || run->kernel.stream[i] != 7 ||
		    run->kernel.start_ns[i] != (int64_t)(1000 + row * 10 + row % 3) ||
		    run->kernel.duration_ns[i] != (int64_t)(1 + row * 7 % 1000) ||
		    run->kernel.shard[i] != 0 || run->kernel.untimed[i] != 0 ||
		    run->kernel.graph[i] != (row >= ROWS - CHUNK ? 9 : 0))
			fail_msg("row %zu is not row %llu", i, (unsigned long long)row);
	}
	run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_shards_are_merged),
		TEST(test_columns_are_chosen),
		TEST(test_rows_are_streamed),
		TEST(test_growing_run),
		TEST(test_window),
		TEST(test_clocks_of_other_hosts),
		TEST(test_wall_clock_steps),
		TEST(test_time_namespaces),
		TEST(test_boot_is_written),
		TEST(test_impossible_times),
		TEST(test_impossible_times_among_many),
		TEST(test_impossible_clocks),
		TEST(test_unreadable_shard_is_a_loss),
		TEST(test_not_a_run),
		TEST(test_absurd_ids),
		TEST(test_damage_among_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
