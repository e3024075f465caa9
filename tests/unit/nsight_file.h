/* SPDX-License-Identifier: Apache-2.0
 *
 * SQLite files made in tests. Any failure fails the cmocka test. Include after imported.h.
 */
#ifndef TESTS_NSIGHT_FILE_H
#define TESTS_NSIGHT_FILE_H

#include <sqlite3.h>

struct nsight_file {
	char *directory, *path;
	sqlite3 *db; /* NULL: closed */
};

static inline struct nsight_file nsight_file_new(void)
{
	struct nsight_file file = { .directory = temporary_directory() };

	file.path = path_in(file.directory, "trace.sqlite");
	assert_int_equal(sqlite3_open(file.path, &file.db), SQLITE_OK);
	return file;
}

static inline void nsight_run(struct nsight_file *file, const char *sql)
{
	char *message = NULL;

	if (sqlite3_exec(file->db, sql, NULL, NULL, &message) != SQLITE_OK)
		fail_msg("%s", message);
}

__attribute__((format(printf, 2, 3))) static inline void nsight_runf(struct nsight_file *file,
								     const char *format, ...)
{
	va_list args;
	char *sql;

	va_start(args, format);
	assert_true(vasprintf(&sql, format, args) > 0);
	va_end(args);
	nsight_run(file, sql);
	free(sql);
}

static inline void nsight_file_close(struct nsight_file *file)
{
	assert_int_equal(sqlite3_close(file->db), SQLITE_OK);
	file->db = NULL;
}

static inline off_t nsight_file_bytes(const struct nsight_file *file)
{
	struct stat st;

	assert_int_equal(stat(file->path, &st), 0);
	return st.st_size;
}

static inline struct imported nsight_import(struct nsight_file *file, uint64_t kinds)
{
	nsight_file_close(file);
	return import_path(file->path, kinds);
}

static inline void nsight_file_release(struct nsight_file *file)
{
	sqlite3_close(file->db);
	remove_directory(file->directory);
	free(file->path);
}

#endif
