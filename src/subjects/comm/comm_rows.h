/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of communication while they are made: comm.c adds kernels and records, comm_ranks.c compares
 * ranks. One thread.
 */
#ifndef SUBJECTS_COMM_ROWS_H
#define SUBJECTS_COMM_ROWS_H

#include "base/hash_map.h"
#include "subjects/comm/comm_names.h"

#define COMM_NO_ROW UINT32_MAX

/* What a row sums up. */
struct comm_sums {
	uint64_t bytes, unsized; /* of timed ones; records whose size is not known */
	const char *no_bytes;	 /* why */
};

struct comm_rows {
	const struct run *run;
	struct comm_names names;
	struct comm_row *rows; /* name is NULL until comm_rows_finish */
	uint32_t *name;	       /* of each row: a string id when recorded, else into names */
	struct comm_sums *sums;
	size_t n, rows_capacity, name_capacity, sums_capacity;
	struct hash_map map; /* row + 1, by what makes it one */
	uint32_t *row_of;    /* of each collective record, or COMM_NO_ROW */
};

int comm_rows_init(struct comm_rows *rows, const struct run *run,
		   const struct kernel_classes *classes);
void comm_rows_release(struct comm_rows *rows);
/* A kernel without a record of its own. */
int comm_rows_kernel(struct comm_rows *rows, const struct comm_launch *launch, size_t kernel);
/* Row `record` of run->collective. */
int comm_rows_record(struct comm_rows *rows, enum comm_transport transport, size_t record,
		     bool untimed);
/* Names, shares and bandwidths. */
int comm_rows_finish(struct comm_rows *rows);

/* comm_ranks.c: skew of the rows, and of all together. */
int comm_ranks_compare(struct comm_rows *rows, struct comm_skew *ret_all);

#endif
