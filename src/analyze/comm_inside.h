/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of the analysis of communication: comm.c goes over the devices, comm_names.c says
 * what a kernel is, comm_rows.c has the rows, comm_ranks.c compares ranks. One thread.
 */
#ifndef ANALYZE_COMM_INSIDE_H
#define ANALYZE_COMM_INSIDE_H

#include "analyze/comm.h"
#include "analyze/kernel_name.h"

#define COMM_NO_ROW UINT32_MAX
#define COMM_NONE COMM_TRANSPORTS /* not communication */

/* What is known of a launch. */
struct comm_launch {
	uint8_t looked_at;
	uint8_t transport; /* enum comm_transport, or COMM_NONE */
	uint32_t name;	   /* into names; when it is communication */
};

struct comm_names {
	const struct run *run;
	const struct kernel_classes *classes;
	struct demangler demangler;
	struct comm_launch *launches; /* by launch id */
	size_t launches_capacity;
	char **texts; /* each once */
	size_t n, capacity;
};

void comm_names_init(struct comm_names *names, const struct run *run,
		     const struct kernel_classes *classes);
void comm_names_release(struct comm_names *names);
int comm_names_launch(struct comm_names *names, uint32_t launch, struct comm_launch *ret_launch);

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
	uint32_t *slots; /* hash of rows: row + 1; 0: free */
	size_t n_slots;
	uint32_t *row_of; /* of each collective record, or COMM_NO_ROW */
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

/* Skew of the rows, and of all together. */
int comm_ranks_compare(struct comm_rows *rows, struct comm_skew *ret_all);

#endif
