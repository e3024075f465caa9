/* SPDX-License-Identifier: Apache-2.0
 *
 * Kineto traces as text into the importer, and what it makes of them as text (fake_intake.h).
 */
#ifndef KINETO_TEXT_H
#define KINETO_TEXT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_intake.h"
#include "ingest/importers.h"
#include "ingest/kineto/kineto.h"
#include "ingest/shared/json_scan.h"

#define ALL_KINDS (~UINT64_C(0))

/* Messages name the file; other descriptors may be open already. */
#define TEXT_FD 77
#define TEXT_PATH "/proc/self/fd/77"

/* The result of the read, and the lines, which the caller frees. */
static inline int read_bytes(const char *bytes, size_t size, bool gzip, uint64_t kinds,
			     const struct kineto_choices *choices, char **ret_lines,
			     struct err *err)
{
	struct intake *intake = fake_intake_new(kinds);
	int fd = memfd_create("trace", 0), r;
	struct ingest_file file = { .path = TEXT_PATH,
				    .bytes = size,
				    .gzip = gzip,
				    .head = bytes,
				    .head_bytes = size < INGEST_HEAD_BYTES ? size
									   : INGEST_HEAD_BYTES,
				    .rank_hint = 9 };

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || dup2(fd, TEXT_FD) != TEXT_FD)
		abort();
	close(fd);
	r = choices ? kineto_read(&file, intake, choices, err)
		    : kineto_importer.read(&file, intake, err);
	*ret_lines = fake_intake_text(intake);
	fake_intake_free(intake);
	close(TEXT_FD);
	return r;
}

static inline char *lines_of(const char *text, uint64_t kinds, const struct kineto_choices *choices)
{
	struct err err = { "" };
	char *lines;
	int r = read_bytes(text, strlen(text), false, kinds, choices, &lines, &err);

	if (r < 0) {
		fprintf(stderr, "%s\n", err.message);
		abort();
	}
	return lines;
}

#endif
