/* SPDX-License-Identifier: Apache-2.0
 *
 * Theoretical occupancy: the share of a multiprocessor's warps that blocks of a launch can fill,
 * from its registers, shared memory and block size and the device's limits. It says what could be
 * resident, not what was: that takes hardware counters. Pure, any thread.
 *
 * Assumed, since launches do not record it: the largest part of the L1 cache that can be shared
 * memory is, and blocks are not launched in clusters.
 */
#ifndef SUBJECTS_OCCUPANCY_H
#define SUBJECTS_OCCUPANCY_H

#include "subjects/numbers/value.h"
#include "tables/tables.h"

/* What keeps a further block out; of several that do, the first here. */
enum occupancy_limiter {
	OCCUPANCY_THREADS, /* the block size: all warps are taken, or the rest is too small */
	OCCUPANCY_BLOCKS,
	OCCUPANCY_REGISTERS,
	OCCUPANCY_SHARED,
	OCCUPANCY_LIMITERS
};

struct occupancy {
	struct value pct;
	enum occupancy_limiter limiter; /* when known, as what follows */
	uint32_t blocks, warps;		/* of a multiprocessor */
};

/* Limits that the device does not tell (0) are those of its compute capability. */
struct occupancy occupancy_of(const struct row_launch *launch, const struct row_device *given);

/* The same for kernels of a run, each launch computed once for each kind of device. */
struct occupancy_lookup {
	const struct run *run;
	struct row_device *kinds; /* devices with different limits */
	size_t n_kinds;
	size_t *kind_of;	 /* by row of run->device */
	struct occupancy *found; /* [kind * n_launches + launch] */
	bool *is_found;
	size_t n_launches, last; /* last: the row of run->device found last */
};

int occupancy_lookup_init(struct occupancy_lookup *lookup, const struct run *run);
void occupancy_lookup_release(struct occupancy_lookup *lookup);
/* Valid until the next call. */
const struct occupancy *occupancy_lookup_kernel(struct occupancy_lookup *lookup, size_t kernel);

/* The occupancy of several kernels, weighted by their time. Zero-initialised: of none. */
struct occupancy_mean {
	double pct_ns;
	int64_t time_ns, by_limiter_ns[OCCUPANCY_LIMITERS];
	const char *reason; /* why one of them has none */
};

void occupancy_mean_add(struct occupancy_mean *mean, const struct occupancy *one, int64_t time_ns);
struct value occupancy_mean_pct(const struct occupancy_mean *mean);
/* What limits most of the time; NULL when none is known. */
const char *occupancy_mean_limiter(const struct occupancy_mean *mean);

#endif
