/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of the analysis of communication: comm.c puts it together, comm_device.c goes
 * over the records of a device, comm_names.c says what a kernel is, comm_rows.c has the rows,
 * comm_ranks.c compares ranks. One thread.
 */
#ifndef SUBJECTS_COMM_INSIDE_H
#define SUBJECTS_COMM_INSIDE_H

#include "base/hash_map.h"
#include "device/sheets/kernel_name.h"
#include "subjects/comm/comm.h"
#include "subjects/shared/attribution.h"
#include "subjects/shared/coverage.h"
#include "subjects/shared/lanes.h"

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

/* Skew of the rows, and of all together. */
int comm_ranks_compare(struct comm_rows *rows, struct comm_skew *ret_all);

/* The union of intervals that come by their start, as far as it lies in the windows of records. */
struct comm_stretch {
	int64_t start_ns, end_ns; /* the last one, which may still grow; empty: none */
	int64_t length_ns, in_steps_ns;
	size_t window; /* where the last one was found */
};

/* Unions of a device. Those of COMM_OTHERS are of all kernels that are not of the transport. */
enum {
	COMM_ALL_WORK,
	COMM_ALL_KERNELS,
	COMM_COMPUTE,
	COMM_COMMUNICATION,
	COMM_OF_TRANSPORT,
	COMM_OTHERS = COMM_OF_TRANSPORT + COMM_TRANSPORTS,
	COMM_UNIONS = COMM_OTHERS + COMM_TRANSPORTS,
};

struct comm_sweep {
	const struct run *run;
	const struct selection *sel;
	const struct attribution *at; /* NULL: everything is selected */
	const struct device_lanes *lanes;
	const struct kernel_classes *classes;
	unsigned int transports; /* bit of each that any kernel may be of */
	struct attribution_cursor cursor;
	struct coverage coverage;
	struct lane_order records; /* collective records by device and start */
	struct comm_rows rows;
	struct comm comm;
	/* Of the device at hand. */
	bool governed; /* only what the windows cover counts */
	const struct span *windows;
	size_t n_windows;
	struct span steps; /* empty: none */
	struct comm_stretch unions[COMM_UNIONS];
	int64_t first_ns, last_ns;  /* of its selected records */
	size_t record, records_end; /* the next of them that a kernel may have */
};

/* All figures of a device whose shard and number are set; its kernels into the rows. */
int comm_device_measure(struct comm_sweep *s, struct comm_device *d);

static inline struct value comm_share(int64_t part, int64_t whole, const char *reason)
{
	return whole > 0 ? value_of(100.0 * (double)part / (double)whole) : value_absent(reason);
}

#endif
