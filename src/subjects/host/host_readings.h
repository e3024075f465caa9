/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings of the machine by what they are of: a reading holds until the next one of the same. Pure, any thread.
 */
#ifndef SUBJECTS_HOST_READINGS_H
#define SUBJECTS_HOST_READINGS_H

#include "tables/tables.h"
#include "trace/host_metrics.h"

/* Rows of run->host_sample of one metric, by time. */
struct host_series {
	const uint32_t *rows;
	size_t n;
};

/* A processor, a disk, a process… of one machine. */
struct host_thing {
	uint16_t shard;
	uint8_t place;	/* enum host_place */
	uint32_t name;	/* string id; 0: the machine itself */
	bool from_zero; /* it began while the machine was watched: what it counts began with 0 */
	struct host_series series[HOST_METRIC_COUNT];
};

struct host_readings {
	const struct run *run;
	struct host_thing *things; /* in the order in which they were first seen */
	size_t n;
	uint32_t *rows; /* of the series */
};

/* 0 or -ENOMEM; release it in both cases. Places and metrics that are not known are left out. */
int host_readings_make(const struct run *run, struct host_readings *ret_readings);
void host_readings_release(struct host_readings *readings);

/* NULL: there is none. */
const struct host_thing *host_find(const struct host_readings *readings, uint16_t shard,
				   enum host_place place);
/* How many readings of a series are from that time or before. */
size_t host_readings_until(const struct host_readings *readings, struct host_series series,
			   int64_t time_ns);
/* As it was at a time: false before the first reading, or without one. */
bool host_at(const struct host_readings *readings, const struct host_thing *thing,
	     enum host_metric metric, int64_t time_ns, double *ret_value);
/* What a count grew by, from one time to another; false: there is no reading. Never below 0. */
bool host_grew(const struct host_readings *readings, const struct host_thing *thing,
	       enum host_metric metric, int64_t from_ns, int64_t to_ns, double *ret_value);

const char *host_place_name(unsigned int place); /* "disk"; "?" for one that is not known */
const char *host_metric_name(enum host_metric metric);
bool host_metric_grows(enum host_metric metric);

#endif
