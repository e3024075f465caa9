/* SPDX-License-Identifier: Apache-2.0
 *
 * The file timeline.lod of a run: what its timeline shows, so that an answer costs by pixels and not by
 * events. docs/format.md has the layout. Everything in it can be made again from the shards.
 *
 * The events of a lane never overlap and are in the order of time. Over them lies a tree in which a
 * node stands for LOD_FANOUT neighbours of the level below; the nodes of a lane are level by level, the
 * lowest first, up to a level of at most LOD_FANOUT.
 */
#ifndef LOD_FORMAT_H
#define LOD_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define LOD_MAGIC UINT64_C(0x31444f4c4c54534d) /* "MSTLLOD1" */
#define LOD_VERSION 2
#define LOD_FANOUT 16	    /* 4 bits: the queries shift */
#define LOD_LEVELS 15	    /* more than 2^60 events are in no file */
#define LOD_BLOCK 4096	    /* events of a block, for finding names */
#define LOD_LONG UINT32_MAX /* a duration that is in the section of long ones */
#define LOD_ROWS_MOST 1024  /* rows of a track; what needs more is left out and counted */

enum lod_section {
	LOD_STARTS,    /* u64, since the origin */
	LOD_DURATIONS, /* u32; LOD_LONG: see LOD_LONGS */
	LOD_NAME_IDS,  /* u32, from 0 */
	LOD_NODES,     /* struct lod_file_node */
	LOD_LONGS,     /* struct lod_file_long, by event */
	LOD_POSTS,     /* u32: blocks in which a name is, by name, ascending */
	LOD_LANES,     /* struct lod_file_lane */
	LOD_NAMES,     /* struct lod_file_name */
	LOD_TEXTS,     /* bytes */
	LOD_SECTIONS
};

struct lod_file_header {
	uint64_t magic;
	uint32_t version;
	uint32_t crc; /* of the header with 0 here */
	uint64_t file_bytes;
	uint64_t fingerprint; /* of the shards that it was made from */
	int64_t start_ns;     /* of the run, on its clock */
	int64_t origin_ns;    /* earliest start of an event, likewise */
	uint64_t end_ns;      /* latest end, since the origin */
	uint64_t n_events;
	uint64_t left_out; /* events without times, or beyond the rows of a track */
	struct {
		uint64_t offset, n; /* elements */
	} sections[LOD_SECTIONS];
	uint32_t tables_crc; /* of the sections LOD_LANES, LOD_NAMES and LOD_TEXTS */
	uint32_t steps;	     /* enum lod_steps */
};

struct lod_file_text {
	uint64_t offset; /* in LOD_TEXTS */
	uint32_t length;
	uint32_t reserved;
};

struct lod_file_lane {
	uint64_t first, n; /* events */
	uint64_t nodes;	   /* its first node */
	struct lod_file_text group, title;
	uint32_t rank;
	uint32_t depth;
	uint32_t kind; /* enum lod_kind */
	uint32_t reserved;
};

struct lod_file_node {
	uint64_t start, end; /* of the first and of the last */
	uint64_t busy;
	uint32_t longest; /* duration, at most UINT32_MAX */
	uint32_t name;	  /* of the longest */
};

struct lod_file_long {
	uint64_t event, duration;
};

struct lod_file_name {
	struct lod_file_text text;
	uint64_t events, busy;
	uint64_t first; /* the earliest event */
	uint64_t posts, n_posts;
};

_Static_assert(sizeof(struct lod_file_header) == 72 + 16 * LOD_SECTIONS + 8,
	       "no padding in the header");
_Static_assert(sizeof(struct lod_file_lane) == 72, "no padding in a lane");
_Static_assert(sizeof(struct lod_file_node) == 32, "no padding in a node");
_Static_assert(sizeof(struct lod_file_name) == 56, "no padding in a name");

/* Bytes of an element of a section. */
extern const size_t lod_sizes[LOD_SECTIONS];

/* Elements of a level above n of the one below. */
static inline uint64_t lod_above(uint64_t n)
{
	return n / LOD_FANOUT + (n % LOD_FANOUT != 0);
}

/* Nodes of a lane of n events. */
static inline uint64_t lod_nodes(uint64_t n)
{
	uint64_t sum = 0;

	while (n > LOD_FANOUT) {
		n = lod_above(n);
		sum += n;
	}
	return sum;
}

#endif
