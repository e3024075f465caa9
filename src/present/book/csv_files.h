/* SPDX-License-Identifier: Apache-2.0
 *
 * A run as a folder of tables: those that users of other profilers read, with their names and
 * columns, and every table of moescope's own. What is not known is an empty cell.
 *
 * A book is a run with everything analysed; its files are written one by one by the caller, who
 * knows where. One thread at a time per book.
 */
#ifndef PRESENT_CSV_FILES_H
#define PRESENT_CSV_FILES_H

#include "present/frame/present.h"

struct csv_book;

int csv_book_new(const struct run *run, const struct present_options *options,
		 struct csv_book **ret_book, struct err *err);
void csv_book_free(struct csv_book *book);

size_t csv_book_files(void);
/* "kernel_stats_20260131_140307.csv": the time is the start of the run where this is read. */
void csv_book_name(const struct csv_book *book, size_t file, char *out, size_t size);
/* 0 or -errno. Write errors stay in ferror(out). */
int csv_book_write(const struct csv_book *book, size_t file, FILE *out, struct err *err);

/* Kernels of several runs side by side. */
#define CSV_COMPARISON_FILE "kernel_comparison.csv"
struct csv_comparison;
struct csv_comparison *csv_comparison_new(void); /* NULL: no memory */
void csv_comparison_free(struct csv_comparison *comparison);
/* Takes what it needs from the book; the label is in its columns' titles. 0 or -ENOMEM. */
int csv_comparison_add(struct csv_comparison *comparison, const char *label,
		       const struct csv_book *book);
void csv_comparison_write(const struct csv_comparison *comparison, FILE *out);

#endif
