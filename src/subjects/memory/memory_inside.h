/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the memory analysis share; see memory.h. Pure, any thread.
 */
#ifndef SUBJECTS_MEMORY_INSIDE_H
#define SUBJECTS_MEMORY_INSIDE_H

#include "subjects/memory/memory.h"

struct memory_event {
	int64_t time_ns;
	size_t row; /* of run->memory */
	int32_t device;
	uint16_t shard;
};

/* Where in the program an allocation was made: the innermost range around it that names one. */
struct memory_place {
	int32_t layer, expert; /* -1: none */
	uint8_t phase;	       /* 0: none */
};

/* Records mostly come in order: looking costs less than sorting. */
void memory_sort(void *items, size_t n, size_t size, int (*order)(const void *, const void *));

/* By row of run->memory. *ret_places: free() it. */
int memory_places_find(const struct run *run, struct memory_place **ret_places);

/* events[0..n): those of one shard and device, by time; events[peak] reached the peak. */
int memory_sites_fill(const struct run *run, const struct memory_place *places,
		      const struct memory_event *events, size_t n, size_t peak,
		      struct memory_device *device);

/* The uses, sites and blocks of device->then, which are those after the first n events. */
int memory_then_fill(const struct run *run, const struct memory_place *places,
		     const struct memory_event *events, size_t n, struct memory_device *device);

/* What the allocator holds from the driver, and how its free bytes are cut up. Likewise. */
int memory_held_fill(const struct run *run, const struct memory_event *events, size_t n,
		     size_t peak, struct memory_device *device);

/* What the allocator told of itself together with its events. */
struct memory_readings {
	struct memory_reading {
		int64_t time_ns;
		size_t row; /* of run->sample */
		double bytes;
	} * list; /* by time */
	size_t n, next;
};
int memory_readings_find(const struct run *run, const struct memory_device *device,
			 const char *metric, struct memory_readings *ret_readings);
/* Of the event at this moment, which comes no earlier than those asked for before: each reading is of
 * one event. false: none. */
bool memory_readings_take(struct memory_readings *readings, int64_t time_ns, double *ret_bytes);
/* The last one up to that moment; likewise in order, but of any number of moments. */
struct value memory_readings_at(struct memory_readings *readings, int64_t time_ns);

/* What the program's allocator says of itself. */
void memory_account_fill(const struct run *run, struct memory_device *device);

#endif
