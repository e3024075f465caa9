/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory as the driver handed it out: its allocations and frees replayed in order of time, per
 * process, device and kind of memory; and what the device says is in use. A framework's own
 * allocator holds these bytes and gives them out in pieces, which are not seen here. Pure, any
 * thread.
 */
#ifndef SUBJECTS_DEVICE_MEMORY_H
#define SUBJECTS_DEVICE_MEMORY_H

#include "subjects/numbers/value.h"
#include "tables/tables.h"

struct driver_memory {
	uint16_t shard;
	uint32_t rank, device;
	const char *memory; /* "pinned" "device" "managed" … */
	uint64_t allocations, frees;
	uint64_t unmatched_frees; /* of addresses never seen allocated */
	uint64_t live_bytes, peak_bytes;
	int64_t peak_ns;
};

/* By NVML: the whole device, whoever uses it. */
struct device_used {
	uint16_t shard;
	uint32_t rank, device;
	uint64_t samples;
	double last_bytes, peak_bytes;
	int64_t peak_ns;
	struct value total_bytes;    /* that the device has */
	struct value headroom_bytes; /* total - peak */
	struct value peak_pct;	     /* of the total */
	/* At the peak: what the driver had handed out to this process as device memory, and the
	 * rest: contexts, libraries, the profiler, other processes. */
	struct value driver_at_peak_bytes, outside_bytes;
};

/* A memory pool of the driver (cudaMallocAsync and the like) as it last reported itself. */
struct memory_pool {
	uint16_t shard;
	uint32_t rank, device;
	uint64_t address;
	char name[24]; /* the address in hexadecimal */
	bool destroyed;
	uint64_t bytes, used_bytes; /* held from the device; handed out to the program */
	uint64_t peak_bytes, peak_used_bytes;
	uint64_t release_bytes; /* it keeps this much when it is trimmed */
	uint64_t trims;
};

struct device_memory {
	struct driver_memory *driver; /* by process, device, kind */
	size_t n_driver;
	struct device_used *used; /* by process, device */
	size_t n_used;
	struct memory_pool *pools; /* by process, device, peak, largest first */
	size_t n_pools;
};

#define DEVICE_USED_METRIC "memory_used_bytes"

int device_memory_analyze(const struct run *run, struct device_memory *ret_memory);
void device_memory_release(struct device_memory *memory);
/* The word for a kind of memory as CUPTI numbers them. */
const char *device_memory_name(unsigned int memory);

#endif
