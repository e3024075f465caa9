/* SPDX-License-Identifier: Apache-2.0
 *
 * The timeline of a run for whoever draws it: lanes of events that never overlap, and answers about a
 * part of them whose cost follows the pixels asked for, not the events of the run. They come from an
 * index (lod_format.h), the file timeline.lod of the run, which is made once and mapped.
 *
 * Times are nanoseconds since the earliest start of any event. An open timeline is read-only: any
 * number of threads may ask.
 */
#ifndef LOD_H
#define LOD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define LOD_FILE "timeline.lod"
#define LOD_TIME_MAX (INT64_C(1) << 62) /* of `from` and `to` */

enum lod_kind { LOD_STEPS, LOD_KERNELS, LOD_COPIES, LOD_RANGES, LOD_API, LOD_KINDS };

/* Where the steps of a timeline come from: records, or else, of kernels, repetition (iterations.h). */
enum lod_steps { LOD_STEPS_TOLD, LOD_STEPS_FOUND, LOD_STEPS_NOT_FOUND, LOD_STEPS_NOT_SOUGHT };

struct lod;

/* Maps the index of a run. -ENOENT: there is none; -ESTALE: the run has changed since; -EBADMSG: it is
 * damaged. All three say: make it. */
int lod_open(const char *run_path, struct lod **ret_lod, struct err *err);
/* Makes the index from the shards and opens it. It becomes a file of the run, or of no directory where
 * the run's cannot be written. Memory follows the names and lanes, not the
 * events, but for steps that are sought by repetition, in at most a few million records. stop: whoever sets it
 * ends the making, with -ECANCELED; NULL: nobody. */
int lod_make(const char *run_path, const _Atomic bool *stop, struct lod **ret_lod, struct err *err);
/* Records of a run that its timeline has, loaded or not. */
struct run;
uint64_t lod_records(const struct run *run);
/* Whether the run is as it was when the index was made. */
bool lod_is_fresh(const struct lod *lod, const char *run_path);
/* Pages of the index that were read no longer count as this process's memory. */
void lod_rest(const struct lod *lod);
/* NULL is fine. */
void lod_close(struct lod *lod);

struct lod_facts {
	int64_t origin_ns;	/* on the run's clock */
	int64_t since_start_ns; /* the origin, since the start of the run */
	uint64_t end_ns;	/* of the latest event */
	uint64_t events;	/* in all lanes */
	uint64_t left_out;	/* events without times, or too many at a time */
	size_t lanes, names;
	enum lod_steps steps;
};
struct lod_facts lod_facts(const struct lod *lod);

/* Not terminated. */
struct lod_text {
	const char *text;
	size_t length;
};

struct lod_lane {
	uint32_t rank, depth;
	enum lod_kind kind;
	struct lod_text group, title;
	uint64_t events;
};
struct lod_lane lod_lane(const struct lod *lod, size_t lane);
const char *lod_kind_name(enum lod_kind kind);
/* Of a name's number; empty for one that does not exist. */
struct lod_text lod_name(const struct lod *lod, uint32_t name);

/* What is asked: a part of the time. */
struct lod_part {
	int64_t from, to; /* from < to */
};

struct lod_box {
	int64_t start;	   /* since `from` */
	uint64_t duration; /* from the start of the first to the end of the last event */
	uint64_t merged;   /* events */
	uint32_t name;	   /* of the longest */
};

struct lod_boxes {
	struct lod_box *of;
	size_t n, capacity;
};

/* Appends the boxes of a lane, `width` columns wide: neighbours that are inside one column are one box,
 * so at most two boxes begin in a column. 0 or -ENOMEM. */
int lod_boxes(const struct lod *lod, size_t lane, const struct lod_part *part, uint32_t width,
	      struct lod_boxes *boxes);

struct lod_sum {
	uint64_t events, busy; /* the time that is inside the part */
};
struct lod_sum lod_sum(const struct lod *lod, size_t lane, const struct lod_part *part);

struct lod_name_sum {
	uint32_t name;
	struct lod_sum sum;
};

/* Sums by name over lanes, the largest first, at most `most`. -E2BIG: there are more events than are
 * added up one by one. The caller frees *ret_sums. */
int lod_sum_names(const struct lod *lod, const size_t *lanes, size_t n_lanes,
		  const struct lod_part *part, size_t most, struct lod_name_sum **ret_sums,
		  size_t *ret_n);

struct lod_event {
	size_t lane;
	uint64_t start, duration;
};

struct lod_found {
	uint32_t name;
	struct lod_sum sum; /* over the run */
	struct lod_event first;
};

/* Names that contain the text, ASCII letters in either case, the busiest first, at most `most`. The
 * caller frees *ret_found. */
int lod_search(const struct lod *lod, const char *text, size_t most, struct lod_found **ret_found,
	       size_t *ret_n);

/* The number of exactly that name; UINT32_MAX: there is none. */
uint32_t lod_name_id(const struct lod *lod, const char *name);
/* The next event of a name that starts after a moment; behind the last comes the first. False: there is
 * none. */
bool lod_find(const struct lod *lod, uint32_t name, int64_t after, struct lod_event *ret_event);

#endif
