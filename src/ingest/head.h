/* SPDX-License-Identifier: Apache-2.0
 *
 * The first bytes of a file, decompressed if need be: what formats are told by.
 */
#ifndef INGEST_HEAD_H
#define INGEST_HEAD_H

#include "ingest/ingest.h"

struct ingest_head {
	struct ingest_file file; /* its path is the caller's */
	char *bytes;
};

int head_read(const char *path, struct ingest_head *ret_head, struct err *err);
void head_release(struct ingest_head *head);

#endif
