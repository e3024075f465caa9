/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies between the recording threads and the shard: one byte ring per thread and a log of
 * interned strings, all in one shared file mapping (RANK-PID.ring next to the shard). The kernel
 * keeps the mapping's pages when the process is killed, so a reader can salvage from them what had
 * not reached the shard.
 *
 * Threads: each ring has one producer, its thread, and one consumer, the drain; they share only
 * `head` and `tail`. A producer never waits: if there is no room, it counts a drop.
 *
 * Exactness after a kill: the drain writes all chunks of one flush, then a checkpoint chunk with
 * the ring positions they cover, and only then moves the tails. A reader that finds a ring file
 * ignores chunks after the last checkpoint and reads the rings from the checkpoint on.
 *
 * The owner of the file holds an exclusive flock on it: no lock means that the process is gone.
 */
#ifndef TRACE_RING_H
#define TRACE_RING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/files/held.h"
#include "base/wake.h"
#include "trace/format.h"
#include "trace/records.h"

#define RING_MAGIC "MSRING\r\n"
#define RING_VERSION 1
#define RING_REGIONS 1024
#define RING_MAX_DEPTH 64
#define RING_MIN_BYTES (64u << 10)
#define RING_MAX_BYTES (64u << 20)
#define STRINGS_BYTES (256u << 10)
#define STRING_MAX 4096 /* longer texts are cut */
#define RING_SPARES 8	/* rings kept ready, plus string logs */
#define STRINGS_SPARES 2

enum region_type { REGION_NONE, REGION_RING, REGION_STRINGS };

struct ring_region {
	_Atomic uint32_t type; /* set last */
	uint32_t bytes;	       /* of the data, after the control page */
	uint64_t offset;       /* of the control page */
};

struct open_step {
	_Atomic uint64_t open;
	_Atomic int64_t step;
	_Atomic uint64_t start_ticks;
	_Atomic uint64_t flags; /* bit 0 recorded, bits 8.. probe */
};

/* How far counting of launches is (run --counters of kernels). wanted 0: nothing is counted. */
struct ring_counting {
	_Atomic uint64_t counted, wanted;
	_Atomic uint32_t groups_seen, groups; /* of metrics; a launch has been counted with */
};

struct ring_header {
	char magic[8];
	uint32_t version, pid;
	uint32_t ticks_are_counter, reserved;
	_Atomic uint32_t n_regions, map_current;
	_Atomic uint64_t alive_ticks;
	struct open_step step;
	struct tick_map maps[2]; /* the drain writes the one that is not current */
	struct ring_region regions[RING_REGIONS];
	struct ring_counting counting;
};
#define RING_HEADER_BYTES (32u << 10)
_Static_assert(sizeof(struct ring_header) <= RING_HEADER_BYTES, "ring header fits");

/* An open range of a thread. Relaxed atomics: a plain move each, and readable by the drain. */
struct ring_frame {
	_Atomic uint64_t start_ticks;
	_Atomic uint64_t name_layer;   /* name | layer << 32 */
	_Atomic uint64_t expert_shape; /* expert | shape << 32 */
	_Atomic uint64_t bits;	       /* phase | FRAME_* */
};
#define FRAME_OP 0x100u
#define FRAME_SILENT 0x200u /* nests, but is not recorded at this level */

enum ring_state { RING_FREE, RING_USED, RING_RELEASED };

struct ring_control {
	_Atomic uint64_t head;
	char pad0[56];
	_Atomic uint64_t tail;
	char pad1[56];
	_Atomic uint32_t state, thread;
	_Atomic uint32_t depth, reserved;
	_Atomic uint64_t dropped[DROP_SLOTS];
	struct ring_frame frames[RING_MAX_DEPTH];
	/* Of a ring only in memory, so never in a file: the control page of the ring to continue
	 * in. */
	_Atomic(struct ring_control *) next;
};
#define RING_CONTROL_BYTES 4096
_Static_assert(sizeof(struct ring_control) <= RING_CONTROL_BYTES, "ring control fits its page");

struct strings_control {
	_Atomic uint64_t used;
};

/* Records in a ring: this header, then a struct row_KIND with its times in ticks, followed by its
 * lists (8-byte aligned), except for ranges and operations, which are hot and have their own. */
struct ring_record {
	uint16_t words; /* of 8 bytes, including the header */
	uint8_t kind;	/* 0: padding up to the end of the ring */
	uint8_t depth;	/* ranges and operations; in other kinds RING_TIMES_NS or 0 */
	uint32_t name;	/* ranges and operations */
};

#define RING_TIMES_NS 1 /* the row's times are already nanoseconds */
/* In the depth of an operation, likewise; its thread is then in the upper half of `shape`. */
#define RING_OP_TIMES_NS 0x80

struct ring_range {
	struct ring_record record;
	int32_t layer, expert;
	uint64_t start_ticks;
	uint64_t duration_phase; /* ticks << 8 | phase */
};

struct ring_op {
	struct ring_range range;
	uint64_t shape, flops, bytes;
};

struct ring_string {
	uint32_t id, length; /* then the bytes, padded to 8 */
};

/* ---- the recording side */

/* Space in the file, mapped and without a user yet. */
struct ring_spare {
	void *mapped;
	uint64_t offset;
	uint32_t bytes;
	bool populated; /* its pages are present */
};

/* Only the drain allocates and maps parts of the file: it has the descriptor, and a program's
 * thread must not wait for a disk. It keeps a few ready (rings_refill). A thread that finds none
 * starts in memory and continues in the file as soon as there is a place for it. */
struct rings {
	pthread_mutex_t lock; /* protects adding regions and handing out rings */
	struct ring_header *header;
	struct held_file file;	    /* fd -1: anonymous memory, nothing to salvage */
	struct held_file lock_file; /* has the lock; fd -1: `file` has it */
	struct wake *wake;	    /* of the drain; NULL: none */
	uint64_t file_bytes;
	char *path;
	uint32_t ring_bytes;
	/* What is mapped here, by region index. The header has a copy for readers, which is shared
	 * memory: nothing here relies on it. */
	_Atomic uint32_t n_regions;
	struct ring_region regions[RING_REGIONS];
	void *mapped[RING_REGIONS];
	uint64_t mapped_bytes[RING_REGIONS];
	struct ring_spare spares[RING_SPARES + STRINGS_SPARES];
	uint32_t n_spares;
};

/* The producer's end, one per thread. */
struct ring {
	struct ring_control *control;
	uint8_t *data;
	uint64_t head;	/* our own copy */
	uint64_t limit; /* up to here no need to check the tail */
	uint64_t size;
	uint32_t depth, epoch;
	uint32_t too_deep; /* open ranges beyond the stack */
	bool may_move;	   /* only in memory, and the drain is looking for a place in the file */
	struct wake *wake;
};

/* path NULL, or a file that cannot be created: anonymous memory instead, and *ret_why (an errno)
 * says why. Fails only without memory. */
int rings_create(const char *path, uint32_t ring_bytes, struct wake *wake, struct rings **ret_rings,
		 int *ret_why);
/* Unmaps; `remove_file` if everything in it has reached the shard. */
void rings_free(struct rings *rings, bool remove_file);
/* The same while threads may still be inside a call: the addresses stay, on empty memory. */
void rings_retire(struct rings *rings, bool remove_file);
/* In a forked child, where malloc may be locked forever: drops everything, frees nothing. */
void rings_forget(struct rings *rings);
/* Called by the drain now and then: replaces the space handed out, and gives rings in memory a
 * place in the file. */
void rings_refill(struct rings *rings);
/* Faults in the pages of the next rings to hand out, so that their threads need not. */
void rings_populate(struct rings *rings);
/* Whether the file is still ours (or -EBADF: the lock is gone too) and whole (or -ESTALE: then an
 * access to the mapping may raise SIGBUS, and rings_let_go maps empty memory there). */
int rings_check(const struct rings *rings);
void rings_let_go(struct rings *rings);

/* A ring for the calling thread, of the usual size or of at least `bytes`. NULL: no memory. */
struct ring *rings_attach(struct rings *rings, uint32_t thread);
struct ring *rings_attach_sized(struct rings *rings, uint32_t thread, uint32_t bytes);
/* Returns the ring when its thread ends; it is reused once drained. Frees `ring`. */
void ring_detach(struct ring *ring);

/* Appends to the string log; one caller at a time. 0 or -errno. */
int rings_log_string(struct rings *rings, uint32_t id, const char *text, uint32_t length);

/* Room for `bytes` (a multiple of 8) in the ring, or NULL with the drop counted. */
void *ring_reserve_slow(struct ring *ring, uint32_t bytes);

static inline void *ring_reserve(struct ring *ring, uint32_t bytes)
{
	uint64_t at = ring->head & (ring->size - 1);

	if (__builtin_expect(at + bytes > ring->size || ring->head + bytes > ring->limit, 0))
		return ring_reserve_slow(ring, bytes);
	return ring->data + at;
}

/* Whether the thread's next records are in the file, or never will be. */
bool ring_has_place(const struct ring *ring);

/* Whether ring_reserve would succeed; wakes the drain if it would not. */
bool ring_has_room(struct ring *ring, uint32_t bytes);

/* The drain last read the lines ahead on another core: prefetching hides their way back. */
#define RING_AHEAD_BYTES 512

static inline void ring_commit(struct ring *ring, uint32_t bytes)
{
	__builtin_prefetch(ring->data + ((ring->head + RING_AHEAD_BYTES) & (ring->size - 1)), 1);
	ring->head += bytes;
	atomic_store_explicit(&ring->control->head, ring->head, memory_order_release);
}

static inline uint32_t ring_thread(const struct ring *ring)
{
	return atomic_load_explicit(&ring->control->thread, memory_order_relaxed);
}

static inline void ring_drop(struct ring *ring, enum drop_reason reason)
{
	atomic_fetch_add_explicit(&ring->control->dropped[reason], 1, memory_order_relaxed);
}

/* ---- the other side: the drain, or a reader after the process is gone */

/* Opens the ring file of a process for salvage. -EBUSY: the process is alive. Untrusted input:
 * every region is checked here, every record by the drain. */
int rings_open(const char *path, struct rings **ret_rings, struct err *err);

static inline struct ring_control *rings_control(const struct rings *rings, uint32_t region)
{
	return rings->mapped[region];
}
static inline const uint8_t *rings_data(const struct rings *rings, uint32_t region)
{
	return (const uint8_t *)rings->mapped[region] + RING_CONTROL_BYTES;
}

#endif
