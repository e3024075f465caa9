/* SPDX-License-Identifier: Apache-2.0
 *
 * An index as the queries see it, and what making and opening it share.
 */
#ifndef LOD_INDEX_H
#define LOD_INDEX_H

#include "timeline/lod_format.h"
#include "timeline/lod.h"

struct lod {
	const char *map;
	size_t bytes;
	struct lod_file_header header;
	const uint64_t *starts;
	const uint32_t *durations, *name_ids;
	const struct lod_file_node *nodes;
	const struct lod_file_long *longs;
	const uint32_t *posts;
	const struct lod_file_lane *lanes;
	const struct lod_file_name *names;
	const char *texts;
	size_t n_lanes, n_names;
};

/* Checks and maps an open file, which is closed. fingerprint NULL: of any state of the run. path: for
 * messages. */
int index_map(int fd, const char *path, const uint64_t *fingerprint, struct lod **ret_lod,
	      struct err *err);

/* Of what the events of a run are in: the same as long as none is added. 0 or -errno. */
int index_fingerprint(const char *run_path, uint64_t *ret_fingerprint, struct err *err);

/* Duration of an event that has LOD_LONG. */
uint64_t index_long_duration(const struct lod *lod, uint64_t event);

/* Files may hold anything: an end is never before its start. */
static inline uint64_t index_duration(const struct lod *lod, uint64_t event)
{
	uint32_t duration = lod->durations[event];

	return duration == LOD_LONG ? index_long_duration(lod, event) : duration;
}

static inline uint64_t index_end(const struct lod *lod, uint64_t event)
{
	uint64_t end;

	return __builtin_add_overflow(lod->starts[event], index_duration(lod, event), &end)
		       ? UINT64_MAX
		       : end;
}

#endif
