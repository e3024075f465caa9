/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the trace and the tables: expected rows of any kind, written through an encoder,
 * compared with the columns of a loaded run, whatever the kind. One thread; a failure fails the
 * cmocka test. Include after cmocka.h.
 */
#ifndef TESTS_TABLE_ROWS_H
#define TESTS_TABLE_ROWS_H

#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

#include "tables/load.h"
#include "tables/tables.h"
#include "trace/shard.h"
#include "trace_rows.h"

#define ROW_IDS 8 /* strings, sites and launches of a test shard: distinct, none empty */

/* Rows of every kind in the order in which they were appended. */
struct expected {
	struct random_row *rows[RECORD_KIND_LIMIT];
	size_t n[RECORD_KIND_LIMIT], capacity[RECORD_KIND_LIMIT];
};

static inline void expected_release(struct expected *expected)
{
	for (int k = 0; k < RECORD_KIND_LIMIT; k++)
		free(expected->rows[k]);
	memset(expected, 0, sizeof(*expected));
}

/* Appends `n` random rows of a kind to the encoder and to what is expected. */
static inline void append_random(struct encoder *encoder, struct expected *expected,
				 unsigned int kind, size_t n, struct rng *rng)
{
	assert_int_equal(array_grow(&expected->rows[kind], &expected->capacity[kind],
				    expected->n[kind] + n, sizeof(struct random_row)),
			 0);
	for (size_t i = 0; i < n; i++) {
		struct random_row *row = &expected->rows[kind][expected->n[kind]++];

		random_row(rng, kind, ROW_IDS, row);
		assert_int_equal(encoder_append(encoder, (enum record_kind)kind, &row->row), 0);
	}
}

static inline void append_every_kind(struct encoder *encoder, struct expected *expected, size_t n,
				     struct rng *rng)
{
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++)
		append_random(encoder, expected, k, n, rng);
}

static inline const char *table_of(const struct run *run, unsigned int kind)
{
	static const size_t offsets[RECORD_KIND_LIMIT] = {
#define KIND(id, NAME, name) [id] = offsetof(struct run, name),
		RECORD_KINDS(KIND)
#undef KIND
	};

	return (const char *)run + offsets[kind];
}

static inline size_t table_n(const struct run *run, unsigned int kind)
{
	size_t n;

	memcpy(&n, table_of(run, kind), sizeof(n));
	return n;
}

/* The array of column c, or NULL; of a list also its _first array. */
static inline const char *table_column(const struct run *run, unsigned int kind, int column,
				       const uint64_t **ret_first)
{
	const struct kind_desc *desc = kind_desc(kind);
	const char *slot = table_of(run, kind) + 16, *array;

	for (int c = 0; c < column; c++)
		slot += desc->columns[c].count_column >= 0 ? 16 : 8;
	memcpy(&array, slot, sizeof(array));
	memcpy(ret_first, slot + 8, sizeof(*ret_first));
	return array;
}

/* Row `at` of the table is `want`. */
static inline void assert_row(const struct run *run, unsigned int kind, size_t at,
			      const struct random_row *want)
{
	const struct kind_desc *desc = kind_desc(kind);
	const char *row = (const char *)&want->row;
	int list = 0;

	for (int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		size_t size = column_type_size(column->type);
		const uint64_t *first;
		const char *array = table_column(run, kind, c, &first);

		if (column->count_column < 0) {
			if (array && memcmp(array + at * size, row + column->row_offset, size) != 0)
				fail_msg("%s.%s of row %zu differs", desc->name, column->name, at);
		} else if (first) {
			uint64_t n;

			column_gather(desc->columns[column->count_column].type,
				      row + desc->columns[column->count_column].row_offset, 0, 1,
				      &n);
			assert_int_equal(first[at + 1] - first[at], n);
			if (n && memcmp(array + first[at] * size, want->lists[list], n * size) != 0)
				fail_msg("%s.%s of row %zu differs", desc->name, column->name, at);
		}
		list += column->count_column >= 0;
	}
}

/* The table holds the expected rows but for [skip_from, skip_to). */
static inline void assert_rows_but(const struct run *run, const struct expected *expected,
				   unsigned int kind, size_t skip_from, size_t skip_to)
{
	size_t at = 0;

	assert_int_equal(table_n(run, kind), expected->n[kind] - (skip_to - skip_from));
	for (size_t i = 0; i < expected->n[kind]; i++)
		if (i < skip_from || i >= skip_to)
			assert_row(run, kind, at++, &expected->rows[kind][i]);
}

static inline void assert_all_rows(const struct run *run, const struct expected *expected)
{
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++)
		assert_rows_but(run, expected, k, 0, 0);
}

static inline struct run *load(const char *path)
{
	struct err err = { "" };
	struct run *run = NULL;

	if (run_load(path, NULL, &run, &err) < 0)
		fail_msg("%s", err.message);
	return run;
}

/* A directory of its own for a test. */
static inline char *temporary_directory(void)
{
	char *path = strdup("/tmp/moescope-test-XXXXXX");

	assert_non_null(path);
	assert_non_null(mkdtemp(path));
	return path;
}

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void remove_directory(char *path)
{
	nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	free(path);
}

static inline char *path_in(const char *directory, const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s", directory, name) > 0);
	return path;
}

/* A whole file in memory, and back. */
struct bytes {
	char *data;
	size_t size;
};

static inline struct bytes file_read(const char *path)
{
	struct bytes bytes = { 0 };
	FILE *f = fopen(path, "rb");
	long size;

	assert_non_null(f);
	fseek(f, 0, SEEK_END);
	size = ftell(f);
	rewind(f);
	bytes.data = malloc((size_t)size + 1);
	assert_non_null(bytes.data);
	bytes.size = fread(bytes.data, 1, (size_t)size, f);
	assert_int_equal(bytes.size, size);
	fclose(f);
	return bytes;
}

static inline void file_write(const char *path, const void *data, size_t size)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, size, f), size);
	assert_int_equal(fclose(f), 0);
}

#endif
