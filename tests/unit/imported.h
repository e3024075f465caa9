/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of importers: a file into a run in a temporary directory, and the run loaded. Include
 * after cmocka.h. MOESCOPE_GOLDEN_DIR leads to the real files, which may be absent.
 */
#ifndef TESTS_IMPORTED_H
#define TESTS_IMPORTED_H

#include "base/text/json_read.h"
#include "ingest/ingest.h"
#include "table_rows.h"

#define FIXTURES MOESCOPE_GOLDEN_DIR "/../../../shared/fixtures/"

struct imported {
	char *directory, *path;
	struct run *run;
	struct err err; /* of an import that failed; run is then NULL */
};

static inline struct imported import_path(const char *file, uint64_t kinds)
{
	struct imported in = { .directory = temporary_directory() };

	in.path = path_in(in.directory, "a.mscope");
	if (ingest_run(file, kinds, in.path, &in.err) < 0) {
		assert_string_not_equal(in.err.message, "");
		return in;
	}
	if (run_load(in.path, NULL, &in.run, &in.err) < 0)
		fail_msg("%s", in.err.message);
	return in;
}

/* Of text that is written to a file first. */
static inline struct imported import_text(const char *text, size_t length)
{
	char *directory = temporary_directory(), *file = path_in(directory, "file");
	FILE *f = fopen(file, "wb");
	struct imported in;

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, length, f), length);
	assert_int_equal(fclose(f), 0);
	in = import_path(file, WANT_ALL);
	free(file);
	remove_directory(directory);
	return in;
}

static inline void imported_release(struct imported *in)
{
	run_free(in->run);
	remove_directory(in->path);
	remove_directory(in->directory);
}

/* The figures of a real file; NULL: the files are not there, and the test has nothing to do. */
static inline struct json_node *fixture_figures(void)
{
	struct json_node *root;
	struct err err;
	char *text = NULL;
	size_t size, got;
	FILE *f = fopen(FIXTURES "expected.json", "rb"), *memory;
	char buffer[4096];

	if (!f)
		return NULL;
	memory = open_memstream(&text, &size);
	assert_non_null(memory);
	while ((got = fread(buffer, 1, sizeof(buffer), f)))
		fwrite(buffer, 1, got, memory);
	fclose(f);
	fclose(memory);
	assert_int_equal(json_parse("expected.json", text, size, &root, &err), 0);
	free(text);
	return root;
}

#endif
