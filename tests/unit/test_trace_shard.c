/* SPDX-License-Identifier: Apache-2.0
 *
 * A shard file, written and read: every kind, several flushes, damage at every byte, cuts at
 * every byte, and files of other versions.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "table_rows.h"

/* Damage and cuts at every byte; under TSan, which is there for the threads of loading, at some. */
#ifdef __SANITIZE_THREAD__
#define BYTES 11
#else
#define BYTES 1
#endif

struct fixture {
	char *directory, *path;
	struct shard_writer *writer;
	struct encoder encoder;
	struct expected expected;
	struct rng rng;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->directory = temporary_directory();
	f->path = path_in(f->directory, "0-1.mst");
	f->rng.state = 11;
	encoder_init(&f->encoder, 1, 1, 0);
	assert_int_equal(shard_create(f->path, 3, 0, &f->writer, NULL), 0);
	assert_int_equal(append_dictionaries(&f->encoder, ROW_IDS), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	if (f->writer)
		shard_abandon(f->writer);
	encoder_release(&f->encoder);
	expected_release(&f->expected);
	remove_directory(f->directory);
	free(f->path);
	free(f);
	return 0;
}

static void flush(struct fixture *f)
{
	assert_int_equal(encoder_finish(&f->encoder), 0);
	assert_int_equal(shard_write(f->writer, &f->encoder), 0);
}

static void close_shard(struct fixture *f)
{
	assert_int_equal(shard_close(f->writer, &f->encoder), 0);
	f->writer = NULL;
}

static void abandon(struct fixture *f)
{
	shard_abandon(f->writer);
	f->writer = NULL;
}

static void test_every_kind(void **state)
{
	struct fixture *f = *state;
	struct run *run;

	for (int i = 0; i < 4; i++) {
		append_every_kind(&f->encoder, &f->expected, (size_t[]){ 1, 200, 0, 1000 }[i],
				  &f->rng);
		flush(f);
	}
	close_shard(f);
	run = load(f->path);
	assert_all_rows(run, &f->expected);
	assert_int_equal(loss_total(&run->loss), 0);
	assert_int_equal(run->n_shards, 1);
	assert_int_equal(run->shards[0].rank, 3);
	assert_int_equal(run->shards[0].state, SHARD_CLOSED);
	for (uint32_t i = 1; i <= ROW_IDS; i++) {
		struct site site = run_site(run, i);

		assert_int_equal(strlen(run_string(run, i)), i % 11);
		assert_int_equal(site.name, i);
		assert_int_equal(site.layer, (int32_t)i - 2);
		assert_int_equal(site.expert, -1);
		assert_int_equal(site.phase, i % 4);
		assert_int_equal(run_launch(run, i).grid_x, i);
		assert_int_equal(run_launch(run, i).id, i);
	}
	assert_string_equal(run_string(run, 0), "");
	assert_string_equal(run_string(run, 99999), "");
	run_free(run);
}

/* More rows than a chunk takes, in one flush. */
static void test_many_chunks(void **state)
{
	struct fixture *f = *state;
	struct shard_reader *reader;
	struct run *run;

	append_random(&f->encoder, &f->expected, RECORD_RANGE, 3 * ENCODER_CHUNK_ROWS + 5, &f->rng);
	append_random(&f->encoder, &f->expected, RECORD_ROUTING, ENCODER_CHUNK_ROWS + 1, &f->rng);
	flush(f);
	abandon(f);
	run = load(f->path);
	assert_all_rows(run, &f->expected);
	assert_int_equal(run->shards[0].state, SHARD_CRASHED);
	run_free(run);
	assert_int_equal(shard_open(f->path, &reader, NULL), 0);
	for (size_t i = 0; i < reader->n_chunks; i++) {
		assert_true(reader->chunks[i].header.n_records <= CHUNK_MAX_RECORDS);
		assert_int_equal(reader->chunks[i].header.sequence, i);
	}
	assert_true(reader->n_chunks >= 3 + 4 + 2);
	shard_reader_free(reader);
}

/* Chunk headers tell the times of their rows. */
static void test_time_spans(void **state)
{
	struct fixture *f = *state;
	struct shard_reader *reader;
	size_t seen = 0;

	append_random(&f->encoder, &f->expected, RECORD_OP, 50, &f->rng);
	flush(f);
	abandon(f);
	assert_int_equal(shard_open(f->path, &reader, NULL), 0);
	for (size_t i = 0; i < reader->n_chunks; i++) {
		const struct chunk_header *header = &reader->chunks[i].header;
		int64_t min = INT64_MAX, max = INT64_MIN;

		if (header->kind != RECORD_OP) {
			assert_int_equal(header->time_min_ns, 0);
			assert_int_equal(header->time_max_ns, 0);
			continue;
		}
		for (size_t r = 0; r < 50; r++) {
			const struct row_op *op = &f->expected.rows[RECORD_OP][r].row.op;

			min = op->start_ns < min ? op->start_ns : min;
			max = op->start_ns + op->duration_ns > max ? op->start_ns + op->duration_ns
								   : max;
		}
		assert_int_equal(header->time_min_ns, min);
		assert_int_equal(header->time_max_ns, max);
		seen++;
	}
	assert_int_equal(seen, 1);
	shard_reader_free(reader);
}

static void test_dictionaries_over_flushes(void **state)
{
	struct fixture *f = *state;
	struct row_site again = { .name = 2, .layer = 0, .expert = -1, .phase = 2 };
	struct run *run;

	flush(f);
	assert_int_equal(encoder_site(&f->encoder, &again), 2);
	for (uint32_t i = 0; i < 1000; i++) {
		struct row_site site = { .name = 1, .layer = (int32_t)i, .expert = 7 };
		struct row_range range = { .start_ns = i };

		range.site = encoder_site(&f->encoder, &site);
		assert_int_equal(range.site, ROW_IDS + 1 + i);
		assert_int_equal(encoder_append(&f->encoder, RECORD_RANGE, &range), 0);
		if (i % 300 == 0)
			flush(f);
		/* Rows that were rolled back keep their sites. */
		if (i % 300 == 150) {
			encoder_rollback(&f->encoder);
			for (uint32_t j = i / 300 * 300 + 1; j <= i; j++) {
				site.layer = (int32_t)j;
				range.start_ns = j;
				range.site = encoder_site(&f->encoder, &site);
				assert_int_equal(range.site, ROW_IDS + 1 + j);
				encoder_append(&f->encoder, RECORD_RANGE, &range);
			}
		}
	}
	flush(f);
	close_shard(f);
	run = load(f->path);
	assert_int_equal(run->range.n, 1000);
	for (size_t i = 0; i < 1000; i++) {
		assert_int_equal(run->range.start_ns[i], i);
		assert_int_equal(run_site(run, run->range.site[i]).layer, i);
		assert_int_equal(run_site(run, run->range.site[i]).expert, 7);
	}
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

/* A write that fails leaves the file as it was; the same rows can be written later. */
static void test_failed_write(void **state)
{
	struct fixture *f = *state;
	struct rlimit before, small;
	struct stat st;
	struct run *run;

	append_random(&f->encoder, &f->expected, RECORD_MARK, 10, &f->rng);
	flush(f);
	assert_int_equal(stat(f->path, &st), 0);
	for (size_t i = 0; i < 5000; i++) {
		struct random_row row;

		random_row(&f->rng, RECORD_OP, ROW_IDS, &row);
		encoder_append(&f->encoder, RECORD_OP, &row.row);
	}
	assert_int_equal(encoder_finish(&f->encoder), 0);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	small = before;
	small.rlim_cur = (rlim_t)st.st_size + 1000; /* in the middle of the flush */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(shard_write(f->writer, &f->encoder), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(f->encoder.rows, 0);
	append_random(&f->encoder, &f->expected, RECORD_OP, 10, &f->rng);
	run = load(f->path);
	assert_int_equal(run->mark.n, 10);
	assert_int_equal(run->op.n, 0);
	assert_int_equal(run->loss.cut_bytes, 0);
	assert_int_equal(run->loss.corrupt_chunks, 0);
	assert_int_equal(run->loss.write_errors, 1);
	run_free(run);
	flush(f);
	close_shard(f);
	run = load(f->path);
	assert_all_rows(run, &f->expected);
	run_free(run);
}

/* Three flushes of every kind, not closed. */
static void three_flushes(struct fixture *f, size_t rows)
{
	for (int i = 0; i < 3; i++) {
		append_every_kind(&f->encoder, &f->expected, rows, &f->rng);
		flush(f);
	}
}

static void test_index(void **state)
{
	struct fixture *f = *state;
	struct shard_trailer trailer;
	struct bytes file;
	struct run *run;

	three_flushes(f, 6);
	close_shard(f);
	file = file_read(f->path);
	memcpy(&trailer, file.data + file.size - sizeof(trailer), sizeof(trailer));
	assert_int_equal(trailer.magic, TRAILER_MAGIC);
	/* Removed: nothing but the index is missing. */
	file_write(f->path, file.data, trailer.index_offset);
	run = load(f->path);
	assert_all_rows(run, &f->expected);
	assert_int_equal(run->loss.cut_bytes, file.size - trailer.index_offset);
	run_free(run);
	/* Damaged anywhere: the same rows. */
	for (size_t at = trailer.index_offset; at < file.size; at += BYTES) {
		file.data[at] ^= 0x41;
		file_write(f->path, file.data, file.size);
		run = load(f->path);
		for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++)
			assert_int_equal(table_n(run, k), f->expected.n[k]);
		run_free(run);
		file.data[at] ^= 0x41;
	}
	free(file.data);
}

/* A chunk made by hand: `columns` column entries and planes in entries and data. */
static void put_chunk(struct fixture *f, uint16_t kind, uint16_t columns, struct buf *entries,
		      const struct buf *data, uint32_t rows)
{
	struct chunk_header header;
	size_t at = f->encoder.out.size;

	buf_append(entries, data->data, data->size);
	assert_int_equal(encoder_raw_chunk(&f->encoder, kind, entries->data, entries->size, rows),
			 0);
	memcpy(&header, f->encoder.out.data + at, sizeof(header));
	header.n_columns = columns;
	header.header_crc = crc32c(0, &header, offsetof(struct chunk_header, header_crc));
	memcpy(f->encoder.out.data + at, &header, sizeof(header));
}

static void test_unknown_kind_and_column(void **state)
{
	struct fixture *f = *state;
	struct column_desc columns[] = { { .id = 1, .coding = CODING_DELTA, .count_column = -1 },
					 { .id = 77, .coding = CODING_PLAIN, .count_column = -1 },
					 { .id = 3, .coding = CODING_PLAIN, .count_column = -1 } };
	struct buf entries = { 0 }, data = { 0 };
	struct codec codec = { 0 };
	struct run *run;

	append_random(&f->encoder, &f->expected, RECORD_STEP, 5, &f->rng);
	assert_int_equal(encoder_finish(&f->encoder), 0);
	assert_int_equal(encoder_raw_chunk(&f->encoder, 200, "later", 5, 9), 0);
	assert_int_equal(encoder_raw_chunk(&f->encoder, 0xfff7, "", 0, 100000), 0);
	for (int c = 0; c < 3; c++) {
		uint64_t values[4] = { 10, 20, 30, 40 };

		assert_int_equal(
			codec_encode(&codec, &columns[c], values, NULL, 4, &entries, &data), 0);
	}
	put_chunk(f, RECORD_MARK, 3, &entries, &data, 4);
	assert_int_equal(shard_write(f->writer, &f->encoder), 0);
	append_random(&f->encoder, &f->expected, RECORD_STEP, 5, &f->rng);
	flush(f);
	abandon(f);
	run = load(f->path);
	assert_rows_but(run, &f->expected, RECORD_STEP, 0, 0);
	assert_int_equal(run->loss.unknown_kinds, 2);
	assert_int_equal(run->loss.unknown_columns, 1);
	assert_int_equal(run->loss.corrupt_chunks, 0);
	/* Known columns as they are, the absent one its default. */
	assert_int_equal(run->mark.n, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(run->mark.time_ns[i], 10 * (i + 1));
		assert_int_equal(run->mark.text[i], 0);
		assert_int_equal(run->mark.thread[i], 10 * (i + 1));
	}
	run_free(run);
	codec_release(&codec);
	buf_release(&entries);
	buf_release(&data);
}

static void test_missing_reference(void **state)
{
	struct fixture *f = *state;
	struct row_mark mark = { .time_ns = 1, .text = 4000 };
	struct run *run;

	encoder_append(&f->encoder, RECORD_MARK, &mark);
	flush(f);
	abandon(f);
	run = load(f->path);
	assert_int_equal(run->mark.n, 1);
	assert_int_equal(run->mark.text[0], 0);
	assert_int_equal(run->loss.bad_references, 1);
	run_free(run);
}

static void set_version(const char *path, uint16_t major, uint16_t minor)
{
	struct bytes file = file_read(path);
	struct shard_header header;

	memcpy(&header, file.data, sizeof(header));
	header.major = major;
	header.minor = minor;
	header.crc = crc32c(0, &header, offsetof(struct shard_header, crc));
	memcpy(file.data, &header, sizeof(header));
	file_write(path, file.data, file.size);
	free(file.data);
}

static void assert_refused(const char *path, int code, const char *words)
{
	struct shard_reader *reader = NULL;
	struct run *run = NULL;
	struct err err = { "" };

	assert_int_equal(shard_open(path, &reader, &err), code);
	assert_null(reader);
	assert_non_null(strstr(err.message, words));
	assert_non_null(strstr(err.message, path));
	err.message[0] = 0;
	assert_true(run_load(path, NULL, &run, &err) < 0);
	assert_null(run);
	assert_non_null(strstr(err.message, words));
}

static void test_versions(void **state)
{
	struct fixture *f = *state;
	struct run *run;

	three_flushes(f, 2);
	close_shard(f);
	set_version(f->path, SHARD_MAJOR, SHARD_MINOR + 1);
	run = load(f->path);
	assert_all_rows(run, &f->expected);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
	set_version(f->path, SHARD_MAJOR + 1, 0);
	assert_refused(f->path, -EPROTONOSUPPORT, "is newer than this moescope reads");
}

static void test_foreign_files(void **state)
{
	struct fixture *f = *state;
	char noise[9000];

	abandon(f);
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (char)rng_next(&f->rng);
	file_write(f->path, "", 0);
	assert_refused(f->path, -EBADMSG, "not a moescope shard");
	file_write(f->path, "hello\n", 6);
	assert_refused(f->path, -EBADMSG, "not a moescope shard");
	file_write(f->path, noise, sizeof(noise));
	assert_refused(f->path, -EBADMSG, "not a moescope shard");
	unlink(f->path);
	assert_refused(f->path, -ENOENT, "o such"); /* "No such file" here, "no such run" there */
}

static void test_header_damage(void **state)
{
	struct fixture *f = *state;
	struct bytes file;

	flush(f);
	close_shard(f);
	file = file_read(f->path);
	for (size_t at = 0; at < 64; at++) {
		struct shard_reader *reader;
		struct err err = { "" };
		int r;

		file.data[at] ^= 0x10;
		file_write(f->path, file.data, file.size);
		r = shard_open(f->path, &reader, &err);
		assert_true(r == -EBADMSG || r == -EPROTONOSUPPORT);
		assert_non_null(strstr(err.message, f->path));
		file.data[at] ^= 0x10;
	}
	/* The counters behind may hold anything. */
	memset(file.data + 64, 0xff, SHARD_HEADER_BYTES - 64);
	file_write(f->path, file.data, file.size);
	run_free(load(f->path));
	free(file.data);
}

/* Every byte of the second range chunk in turn: all else loads, and the loss says so. */
static void damage_every_byte(struct fixture *f, bool closed)
{
	struct shard_reader *reader;
	struct bytes file;
	struct chunk chunk = { 0 };
	size_t seen = 0;

	three_flushes(f, 6);
	if (closed)
		close_shard(f);
	else
		abandon(f);
	file = file_read(f->path);
	assert_int_equal(shard_open(f->path, &reader, NULL), 0);
	for (size_t i = 0; i < reader->n_chunks; i++)
		if (reader->chunks[i].header.kind == RECORD_RANGE && seen++ == 1)
			chunk = reader->chunks[i];
	shard_reader_free(reader);
	assert_int_equal(seen, 3);
	memcpy(&chunk.header, file.data + chunk.offset, sizeof(chunk.header));
	for (size_t i = 0; i < sizeof(chunk.header) + chunk.header.payload_bytes; i += BYTES) {
		struct run *run;

		file.data[chunk.offset + i] ^= (char)(1 + i % 255);
		file_write(f->path, file.data, file.size);
		run = load(f->path);
		for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
			if (k == RECORD_RANGE)
				assert_rows_but(run, &f->expected, k, 6, 12);
			else
				assert_int_equal(table_n(run, k), f->expected.n[k]);
		}
		assert_int_equal(run->loss.corrupt_chunks, 1);
		assert_int_equal(loss_total(&run->loss), 1);
		run_free(run);
		file.data[chunk.offset + i] ^= (char)(1 + i % 255);
	}
	free(file.data);
}

static void test_damaged_chunk_of_a_closed_shard(void **state)
{
	damage_every_byte(*state, true);
}

static void test_damaged_chunk_of_an_open_shard(void **state)
{
	damage_every_byte(*state, false);
}

/* From the whole file down to nothing, byte by byte. */
static void cut_every_byte(struct fixture *f, bool closed)
{
	uint64_t before[RECORD_KIND_LIMIT];
	struct bytes file;

	for (int i = 0; i < 3; i++) {
		append_random(&f->encoder, &f->expected, RECORD_RANGE, 4, &f->rng);
		append_random(&f->encoder, &f->expected, RECORD_ROUTING, 2, &f->rng);
		append_random(&f->encoder, &f->expected, RECORD_MARK, 1, &f->rng);
		flush(f);
	}
	if (closed)
		close_shard(f);
	else
		abandon(f);
	for (int k = 0; k < RECORD_KIND_LIMIT; k++)
		before[k] = f->expected.n[k];
	file = file_read(f->path);
	for (size_t size = file.size + 1; size-- > 0;) {
		struct err err = { "" };
		struct run *run;

		if (size < file.size && size % BYTES)
			continue;
		assert_int_equal(truncate(f->path, (off_t)size), 0);
		if (run_load(f->path, NULL, &run, &err) < 0) {
			/* No run without its header. */
			assert_true(size < SHARD_HEADER_BYTES);
			assert_non_null(strstr(err.message, "not a moescope shard"));
			memset(before, 0, sizeof(before));
			continue;
		}
		for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
			size_t n = table_n(run, k);

			assert_true(n <= before[k]);
			if (n < before[k] || size == file.size)
				for (size_t i = 0; i < n; i++)
					assert_row(run, k, i, &f->expected.rows[k][i]);
			before[k] = n;
		}
		assert_int_equal(run->loss.corrupt_chunks, 0);
		if (size < file.size)
			assert_true(run->loss.cut_bytes >= file.size - size);
		else
			assert_int_equal(loss_total(&run->loss), 0);
		run_free(run);
	}
	for (int k = 0; k < RECORD_KIND_LIMIT; k++)
		assert_int_equal(before[k], 0);
	free(file.data);
}

static void test_cut_of_a_closed_shard(void **state)
{
	cut_every_byte(*state, true);
}

static void test_cut_of_an_open_shard(void **state)
{
	cut_every_byte(*state, false);
}

static void test_create_refuses_existing(void **state)
{
	struct fixture *f = *state;
	struct shard_writer *writer = NULL;
	struct err err = { "" };

	assert_int_equal(shard_create(f->path, 0, 0, &writer, &err), -EEXIST);
	assert_null(writer);
	assert_non_null(strstr(err.message, f->path));
	assert_int_equal(shard_seal(f->path, &err), 0);
}

/* A chunk without rows, of a kind with lists: nothing is there, and nothing is lost. */
static void test_chunk_without_rows(void **state)
{
	struct fixture *f = *state;
	struct run *run;

	for (uint16_t k = 1; k < RECORD_KIND_LIMIT; k++)
		assert_int_equal(encoder_raw_chunk(&f->encoder, k, "", 0, 0), 0);
	append_random(&f->encoder, &f->expected, RECORD_ROUTING, 3, &f->rng);
	flush(f);
	abandon(f);
	run = load(f->path);
	assert_all_rows(run, &f->expected);
	run_free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_every_kind),
		TEST(test_many_chunks),
		TEST(test_time_spans),
		TEST(test_dictionaries_over_flushes),
		TEST(test_failed_write),
		TEST(test_index),
		TEST(test_unknown_kind_and_column),
		TEST(test_missing_reference),
		TEST(test_versions),
		TEST(test_foreign_files),
		TEST(test_header_damage),
		TEST(test_damaged_chunk_of_a_closed_shard),
		TEST(test_damaged_chunk_of_an_open_shard),
		TEST(test_cut_of_a_closed_shard),
		TEST(test_cut_of_an_open_shard),
		TEST(test_create_refuses_existing),
		TEST(test_chunk_without_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
