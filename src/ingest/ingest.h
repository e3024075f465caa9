/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of other profilers into runs. What a file is, is told by its content, never by its name.
 */
#ifndef INGEST_INGEST_H
#define INGEST_INGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct intake;

/* What importers are told of a file before they read it. */
struct ingest_file {
	const char *path;
	uint64_t bytes;	    /* of the file as it lies there */
	bool gzip;	    /* compressed; `head` is not */
	const char *head;   /* the first bytes, decompressed; NUL-terminated, but may hold NULs */
	size_t head_bytes;  /* at most INGEST_HEAD_BYTES */
	uint32_t rank_hint; /* for files that do not tell their rank: from the name, or the place
			      * in the directory */
};
#define INGEST_HEAD_BYTES 65536

struct importer {
	const char *name;  /* "kineto" */
	const char *title; /* "PyTorch (Kineto) trace" */
	bool (*recognise)(const struct ingest_file *file);
	/* What can be read goes into the intake, what cannot is counted there. Fails only when
	 * nothing can be read, or for want of memory. */
	int (*read)(const struct ingest_file *file, struct intake *intake, struct err *err);
};

/* Ends with NULL. */
extern const struct importer *const ingest_importers[];

/* Which importer reads a file, or any file of a directory. 1: *ret_importer; 0: none does (then it may
 * be a run, or anything else); -errno when the path cannot be read. */
int ingest_recognise(const char *path, const struct importer **ret_importer, struct err *err);

/* A file, or all files of a directory that are of one kind (ranks of one program, clocks aligned),
 * into a new run directory. kinds: bit of each record kind that is needed, as in struct run_want;
 * others are left out. On failure nothing is left behind. */
int ingest_run(const char *path, uint64_t kinds, const char *run_path, struct err *err);

#endif
