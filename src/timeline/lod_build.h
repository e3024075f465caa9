/* SPDX-License-Identifier: Apache-2.0
 *
 * Making an index, in three parts: index_build.c reads the records of a run into tracks, index_rows.c
 * puts the events of a track in order and into rows that have no overlaps, index_write.c writes the file.
 * One thread.
 */
#ifndef LOD_BUILD_H
#define LOD_BUILD_H

#include <stdatomic.h>

#include "base/buf.h"
#include "exports/stacks/stacks.h"
#include "timeline/lod_index.h"

/* An event before it has a lane. */
struct raw_event {
	int64_t start, duration;
	uint32_t name; /* label */
	uint32_t row;  /* of its track */
};

/* A part of a file in memory. */
struct area {
	char *data; /* NULL: none */
	size_t bytes;
};

/* Allocates and maps; a store to space that is not there would be a SIGBUS. offset: of a page. */
int area_open(struct area *area, int fd, uint64_t offset, uint64_t bytes);
void area_close(struct area *area);
/* Its pages stay in the file, but no longer count as this process's memory. */
void area_rest(const struct area *area);

/* What becomes a row or several of the picture. */
struct track {
	/* In the order of the screen. */
	uint32_t rank;
	uint16_t shard;
	uint8_t place; /* of its family in a process */
	uint32_t device, id;
	uint8_t part; /* of its family */
	uint32_t depth;
	/* Which is not a part of the order. */
	uint64_t n;	       /* events counted */
	uint64_t first, taken; /* in the scratch file */
	bool unsorted;
};

struct builder {
	struct run *run;
	const _Atomic bool *stop;
	struct stack_labels labels;
	struct track *tracks;
	size_t n_tracks, tracks_capacity;
	struct hash_map by_track;
	int scratch_fd;
	struct area scratch; /* struct raw_event */
	uint64_t n;	     /* events that have room there */
	int64_t origin_ns;
	bool has_origin;
	enum lod_steps steps;
	uint64_t left_out;
	size_t touched; /* bytes of areas since they rested */
	/* The file. */
	int fd;
	uint64_t bytes;
	struct lod_file_header header;
	struct area areas[LOD_SECTIONS];
	const struct track *last; /* of the last lane */
	struct lod_file_lane *lanes;
	size_t n_lanes, lanes_capacity;
	struct lod_file_long *longs;
	size_t n_longs, longs_capacity;
	struct lod_file_name *names;
	struct buf texts;
};

/* The words for a track. */
void track_words(const struct builder *b, const struct track *track, char *group, char *title,
		 size_t size);
enum lod_kind track_kind(const struct track *track);
/* Called after writing so many bytes of areas. -ECANCELED: whoever waits has gone. */
int builder_rests(struct builder *b, size_t bytes);

/* Earlier, or of two that start together the longer one; moments before both. */
bool raw_comes_before(const struct raw_event *a, const struct raw_event *b);
/* Sorts the events of a track and gives each the first row where it overlaps with none; LOD_ROWS_MOST: none
 * is free. *ret_counts: events of each row, then those without one; the caller frees it. */
int rows_assign(struct builder *b, const struct track *track, uint64_t **ret_counts,
		size_t *ret_rows);

/* Writes everything from the tracks in the scratch file to the header, into b->fd. */
int index_write(struct builder *b, uint64_t fingerprint);

#endif
