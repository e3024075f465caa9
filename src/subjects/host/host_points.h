/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings of the machine as curves, for traces: a state as it was read, and of what grows how fast it grew since
 * the reading before. Pure, any thread.
 */
#ifndef SUBJECTS_HOST_POINTS_H
#define SUBJECTS_HOST_POINTS_H

#include "tables/tables.h"

struct host_point {
	uint16_t shard;
	const char *of;	  /* "machine", "disk vda" */
	const char *what; /* "user, processors", "read_bytes a second", "resident_bytes" */
	uint32_t curve;	  /* which one, from 0: the same for all its points */
	int64_t time_ns;
	double value;
};

/* Every reading in the order of the records. 0, -ENOMEM or what the visit returned that is not 0. */
int host_points_each(const struct run *run, int (*visit)(void *arg, const struct host_point *point),
		     void *arg);

#endif
