/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls into the operating system and into libraries that work on the device, by name and, if asked, by their sizes.
 * Calls that were only counted (they were short) are in the counts and times, but in no percentile. Pure, any thread.
 */
#ifndef SUBJECTS_LIBRARY_CALLS_H
#define SUBJECTS_LIBRARY_CALLS_H

#include "subjects/numbers/stats.h"
#include "subjects/numbers/value.h"
#include "tables/tables.h"

struct attribution;

/* What the rows of one table line have in common. Sizes are 0 unless they were asked for. */
struct call_key {
	uint32_t name, library; /* string ids; library 0: the operating system */
	uint32_t type;
	uint32_t file; /* enum call_file */
	uint64_t m, n, k, batch, elements;
};

struct call_row {
	struct call_key key;
	char sizes[96];	   /* "4096 x 4096 x 1024 bf16"; "": none, or not asked for */
	uint64_t recorded; /* calls with a record of their own */
	uint64_t counted;  /* others */
	uint64_t count;	   /* all */
	uint64_t errors;   /* calls into libraries that returned another status than 0 */
	uint64_t not_told; /* whose status is not known */
	int64_t time_ns, counted_ns;
	double share_pct;	      /* of the time of all */
	struct stats_summary summary; /* of those recorded, ns */
	struct value p50_ns, p95_ns, max_ns;
	struct value bytes;
	/* Kernels that were launched inside, and products of the calls that launched any. */
	struct value device_ns, flops_per_s;
};

struct library_calls {
	struct call_row *rows; /* by time, longest first */
	size_t n;
	uint64_t count, recorded;
	int64_t time_ns;
};

/* by_size: rows of the same name but of other sizes or kinds of file are apart. */
int library_calls_analyze(const struct attribution *at, bool by_size,
			  struct library_calls *ret_calls);
void library_calls_release(struct library_calls *calls);

/* Its fields; see calls_fields.c. Forms: by name or by size, without or with work on the device. */
enum { CALLS_BY_NAME = 1, CALLS_BY_SIZE = 2, CALLS_DEVICE_BY_NAME = 4, CALLS_DEVICE_BY_SIZE = 8 };
struct field_set;
extern const struct field_set calls_fields, calls_total;

#endif
