/* SPDX-License-Identifier: Apache-2.0
 *
 * All rows of a table of an SQLite file, once, in any number of threads: for tables of many
 * gigabytes of which every row is needed.
 *
 * SQLite itself reads the schema, small tables, and whatever is unusual (views, tables without
 * rowids, computed columns, texts in UTF-16, a journal beside the file). Ordinary tables are read
 * from their pages directly: a row of twenty columns costs SQLite's interpreter several times what
 * its own count of rows does, and that is what the import is measured against. Both ways give the
 * same rows (the tests compare them). Pages are untrusted: what does not fit is counted and left out.
 */
#ifndef INGEST_NSIGHT_SCAN_H
#define INGEST_NSIGHT_SCAN_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SCAN_COLUMNS_MAX 32

struct scan_file {
	sqlite3 *db;	      /* serialised: any thread */
	int fd;		      /* -1: its pages are in memory */
	const uint8_t *bytes; /* then */
	size_t size;
	uint32_t page_bytes, usable_bytes; /* 0: SQLite reads everything */
	uint32_t n_pages;
	bool damaged; /* cut off, or otherwise not as it says */
	/* Instructions of SQLite's machine that are left, in thousands. A view, or pages that refer to
	 * each other, may give rows without end; a table of a file of that size cannot. */
	uint64_t budget;
	bool endless; /* it was spent, and nothing more can be read */
};

enum scan_type { SCAN_NULL, SCAN_INT, SCAN_REAL, SCAN_TEXT };

/* Until the next row. */
struct scan_value {
	enum scan_type type;
	uint32_t length; /* of a text */
	union {
		int64_t i;
		double d;
		const char *text; /* not NUL-terminated */
	};
};

struct scan_table {
	const struct scan_file *file;
	const char *name;
	const char *const *columns; /* that are wanted */
	size_t n;
	bool has[SCAN_COLUMNS_MAX]; /* whether the table has it; its values are NULL otherwise */
	uint32_t *leaves;	    /* pages with rows, in order; NULL: SQLite reads the table */
	size_t n_leaves;
	uint64_t damaged_pages; /* found on the way to the leaves */
	int16_t *slot;		/* of each column of the file's rows: of values, or -1 */
	size_t n_slots;		/* up to the last wanted */
	int rowid;		/* value that is the row's id when it is NULL; -1: none */
};

/* Opens read-only, and changes nothing. The structure must stay where it is until it is closed. 0 or -errno with a sentence. */
int scan_file_open(struct scan_file *file, const char *path, struct err *err);
/* The bytes must outlive it. */
int scan_file_open_bytes(struct scan_file *file, const void *bytes, size_t size, struct err *err);
void scan_file_close(struct scan_file *file);

bool scan_has_table(const struct scan_file *file, const char *name);
/* 1: there is such a table; 0: there is none; -errno. */
int scan_table_open(const struct scan_file *file, const char *name, const char *const *columns,
		    size_t n, struct scan_table *ret_table);
void scan_table_close(struct scan_table *table);

/* Parts that can be read at once: of SCAN_CHUNK_BYTES, or the whole table. */
#define SCAN_CHUNK_BYTES ((size_t)4 << 20)
size_t scan_chunks(const struct scan_table *table);

/* What rows are given to; a negative result ends the scan and is its result. */
typedef int (*scan_row)(void *context, int64_t rowid, const struct scan_value *values);
/* All rows of a chunk. *damaged grows by the rows and pages that cannot be read. */
int scan_chunk(const struct scan_table *table, size_t chunk, scan_row row, void *context,
	       uint64_t *damaged);

/* As numbers: false when there is none. Texts that are numbers are. */
bool scan_int(const struct scan_value *value, int64_t *ret);
bool scan_real(const struct scan_value *value, double *ret);

/* nsight_pages.c */
bool scan_pages_prepare(struct scan_file *file);
int scan_pages_leaves(struct scan_table *table, uint32_t root);
int scan_pages_chunk(const struct scan_table *table, size_t chunk, scan_row row, void *context,
		     uint64_t *damaged);

#endif
