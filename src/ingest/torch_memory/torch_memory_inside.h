/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the importer of PyTorch's memory snapshots share; see torch_memory.c.
 */
#ifndef INGEST_TORCH_MEMORY_INSIDE_H
#define INGEST_TORCH_MEMORY_INSIDE_H

#include "ingest/shared/intake.h"
#include "ingest/torch_memory/pickle.h"

/* Threads are not told: annotations and events are put on one, so that events lie in ranges by their
 * time. What was there before the history is on another: when it came is not known. */
#define TORCH_THREAD 1
#define TORCH_THREAD_BEFORE 0

/* What the allocator did; the first four are the events of memory records. */
enum torch_action {
	TORCH_ALLOC,
	TORCH_FREE,
	TORCH_RESERVE,
	TORCH_RELEASE,
	TORCH_OOM,
	TORCH_SNAPSHOT,
};

struct torch_event {
	int64_t time_ns;
	uint64_t address, bytes;
	uint32_t site;	/* string id; of OOM and SNAPSHOT their text */
	uint8_t action; /* enum torch_action */
	bool mapped;	/* a part of a segment that can grow and shrink */
};

/* Something that the allocator holds at the end. */
struct torch_held {
	uint64_t address, bytes;
	uint32_t site;
	bool mapped;
};

struct torch_device {
	int32_t device;
	struct torch_held *segments, *blocks;
	size_t n_segments, segments_capacity, n_blocks, blocks_capacity;
	struct torch_event *events; /* in their order */
	size_t n_events, events_capacity;
	uint64_t reserved_bytes, allocated_bytes; /* at the end; with what was rounded up */
};

struct torch_reading {
	struct intake *intake;
	struct intake_part *part;
	struct torch_device *devices;
	size_t n_devices, devices_capacity;
	uint64_t n_events, n_timed, n_backwards;
	uint64_t n_repeated;	   /* things that stand at more than one place */
	int64_t first_ns, last_ns; /* first_ns: of events with times */
	bool cut;		   /* the history does not go on until the end */
	bool no_memory;
};

/* Fills devices and what is counted. Damage goes to the part. */
void torch_content_read(struct torch_reading *reading, struct pickle_value segments,
			struct pickle_value traces);

/* The rows of a device: what it held at from_ns, when its history begins, and what happened then.
 * whole: the history goes on until the snapshot, so that what is held at the end and has no event
 * was there at the beginning. *ret_differing: blocks that are held at the end, or not, against what
 * their last event says. 0 or -ENOMEM. */
int torch_device_replay(const struct torch_device *device, int64_t from_ns, bool whole,
			struct intake_part *part, uint64_t *ret_differing);

/* The addresses that the allocator holds from the driver, as pieces of which none overlap. */
struct torch_pieces {
	struct torch_held *all; /* by address */
	size_t n, capacity;
	/* Each piece that comes or goes; NULL: nobody is told. */
	void (*tell)(void *context, enum torch_action action, uint64_t address, uint64_t bytes);
	void *context;
};

/* Mapped pieces that touch become one. What was there of the range is replaced. 0 or -ENOMEM. */
int torch_pieces_add(struct torch_pieces *pieces, uint64_t address, uint64_t bytes, bool mapped);
/* What is cut keeps its rest. Likewise. */
int torch_pieces_remove(struct torch_pieces *pieces, uint64_t address, uint64_t bytes);
void torch_pieces_release(struct torch_pieces *pieces);

/* Ranges and steps from a snapshot's annotations, unfinished ones until last_ns. */
int torch_annotations_read(struct pickle_value annotations, int64_t last_ns,
			   struct intake_part *part);
/* *ret_last_ns: the time of the last annotation; untouched when there is none. */
void torch_annotations_last(struct pickle_value annotations, int64_t *ret_last_ns);
/* Microseconds since 1970. false: no such number. */
bool torch_time(struct pickle_value time_us, int64_t *ret_ns);

#endif
