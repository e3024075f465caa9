/* SPDX-License-Identifier: Apache-2.0
 *
 * A document of a run: its answers and what it has made of them. One with files is a folder; the caller,
 * who knows where they go, writes them one by one. One thread at a time.
 */
#ifndef SURFACES_DOCUMENT_VIEW_H
#define SURFACES_DOCUMENT_VIEW_H

#include "documents/document.h"
#include "surfaces/views/views.h"

struct document_view {
	const struct document *document;
	struct answers answers[ASKED_MAX]; /* to its questions */
	struct scene scenes[ASKED_MAX];
	size_t n;
	void *own;
};

/* The view stays where it is: what the document makes points into it. 0 or -errno. */
int document_view_open(struct document_view *view, const struct document *document,
		       const struct run *run, const struct view_options *options, struct err *err);
void document_view_close(struct document_view *view);

size_t document_view_files(const struct document_view *view);
/* "kernel_stats_20260131_140307.csv": the time is the start of the run where this is read. */
void document_view_file_name(const struct document_view *view, size_t file, char *out, size_t size);
/* 0 or -errno. Write errors stay in ferror(out). */
int document_view_write(const struct document_view *view, size_t file, FILE *out, struct err *err);

#endif
