/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory and page faults of the program's processes by what they were doing: the outermost ranges, by name. Between
 * two readings a figure is taken to change evenly, so what is much shorter than they are apart shares what came
 * meanwhile with its neighbours. Pure, any thread.
 */
#ifndef SUBJECTS_HOST_PHASES_H
#define SUBJECTS_HOST_PHASES_H

#include "subjects/numbers/value.h"
#include "tables/tables.h"

struct host_phase {
	uint32_t name; /* string id */
	uint64_t count;
	int64_t time_ns;
	double grew_bytes, peak_bytes;
	struct value minor_faults, major_faults;
};

struct host_phases {
	struct host_phase *rows; /* by growth, largest first */
	size_t n;
};

/* 0 or -ENOMEM; release it in both cases. */
int host_phases_analyze(const struct run *run, struct host_phases *ret_phases);
void host_phases_release(struct host_phases *phases);

/* Its fields; see host_fields.c. */
struct field_set;
extern const struct field_set host_phases_fields, host_phases_total;

#endif
