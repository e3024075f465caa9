/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of csv_files.h: what a book holds, and how a file of it is described.
 */
#ifndef PRESENT_CSV_BOOK_H
#define PRESENT_CSV_BOOK_H

#include "present/book/csv_files.h"
#include "present/frame/scene.h"
#include "subjects/memory/memory_history.h"
#include "subjects/overview/overview.h"

/* The questions of a book: one for all, and kernels by something else. */
enum { BOOK, BOOK_BY_CLASS, BOOK_BY_EXPERT, BOOK_ASKED };

struct csv_book {
	const struct run *run;
	struct present_options options;
	struct answers answers[BOOK_ASKED];
	struct scene scene;
	struct verdicts verdicts;
	struct memory_history memory;
	struct overview overview;
	char stamp[24];
};

/* A column (or key of a JSON file) and where its figure comes from. */
struct csv_column {
	const char *key, *how;
};

struct csv_file {
	const char *name;		  /* "%s": the time of the run; a section has its own */
	const struct csv_column *columns; /* up to one without a key */
	const struct section *section;	  /* its table; else `write` makes the file */
	int (*write)(const struct csv_book *book, const struct csv_file *file, FILE *out);
};

/* The columns' keys as the first line. */
void csv_header(const struct csv_column *columns, FILE *out);
/* "1769868187.123456789" of nanoseconds since 1970. */
struct cell csv_timestamp(int64_t realtime_ns, char *text, size_t size);

extern const struct csv_column csv_memory_stats[], csv_kernel_stats[], csv_expert_routing[],
	csv_nsys_summary[], csv_api_summary[], csv_verdicts[], csv_timeline[],
	csv_profiler_report[], csv_nsys_metrics[];

/* The cells of a row of verdicts.csv and timeline.csv; how many there are, at most CSV_CELLS_MAX. The
 * text of the evidence is lent by the caller. */
#define CSV_CELLS_MAX 24
#define CSV_EVIDENCE_SIZE (VERDICT_EVIDENCE * 96)
size_t csv_verdict_cells(const struct verdict *verdict, char *evidence, size_t size,
			 struct cell *cells);
size_t csv_timeline_cells(const struct timeline_device *device, struct cell *cells);

int csv_write_memory_stats(const struct csv_book *, const struct csv_file *, FILE *);
int csv_write_kernel_stats(const struct csv_book *, const struct csv_file *, FILE *);
int csv_write_expert_routing(const struct csv_book *, const struct csv_file *, FILE *);
int csv_write_nsys_summary(const struct csv_book *, const struct csv_file *, FILE *);
int csv_write_api_summary(const struct csv_book *, const struct csv_file *, FILE *);
int csv_write_verdicts(const struct csv_book *, const struct csv_file *, FILE *);
int csv_write_timeline(const struct csv_book *, const struct csv_file *, FILE *);
int csv_write_profiler_report(const struct csv_book *, const struct csv_file *, FILE *);
int csv_write_nsys_metrics(const struct csv_book *, const struct csv_file *, FILE *);

#endif
