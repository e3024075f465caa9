/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the profiled process: what the files of src/probe share.
 *
 * Threads: the program's own threads run the API calls; one drain thread encodes and writes.
 * The gate is the only thing an API call looks at when nothing is recorded.
 *
 * Phases: off -> started -> off. Starting and stopping hold session_lock; the hot path takes no
 * lock. Rings outlive their session as addresses (rings_retire), so a call that has passed the
 * gate when the session stops writes into memory that nobody reads.
 */
#ifndef PROBE_CORE_PROBE_H
#define PROBE_CORE_PROBE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Here the functions themselves are defined. */
#define MOESCOPE_NO_INLINE
#include "base/clock.h"
#include "moescope.h"
#include "probe/core/life.h"
#include "probe/core/locks.h"
#include "trace/drain.h"
#include "trace/ring.h"
#include "trace/shard.h"

/* moescope_gate, one word: bits 0-7 the level recorded now (0 when paused or outside the
 * schedule), bits 8-15 the level of the session whatever the schedule says, bits 16-31 a count of
 * switches. */
#define GATE_NOW(gate) ((gate)&0xff)
#define GATE_SESSION(gate) ((gate) >> 8 & 0xff)
#define GATE_EPOCH(gate) ((gate) >> 16)

static inline uint32_t gate_load(void)
{
	return __atomic_load_n(&moescope_gate, __ATOMIC_RELAXED);
}

/* The calling thread's ring, or NULL with the drop counted. For reading, and before reading a
 * clock: a thread that cannot read the counter gets no ring. */
extern __thread struct ring *thread_ring __attribute__((tls_model("initial-exec")));
extern __thread uint32_t thread_session __attribute__((tls_model("initial-exec")));
extern __thread bool thread_clockless __attribute__((tls_model("initial-exec")));
struct ring *probe_attach(void);

static inline struct ring *probe_ring(void)
{
	if (__builtin_expect(thread_ring &&
				     thread_session == atomic_load_explicit(&probe_session,
									    memory_order_relaxed),
			     1))
		return thread_ring;
	return probe_attach();
}

/* The ring to write to, until probe_give; NULL with the drop counted. In between, a signal handler
 * gets none (life.h). */
struct ring *probe_take_slow(void);

static inline struct ring *probe_take(void)
{
	if (__builtin_expect(thread_ring &&
				     thread_session == atomic_load_explicit(&probe_session,
									    memory_order_relaxed) &&
				     !thread_busy,
			     1)) {
		thread_busy = true;
		atomic_signal_fence(memory_order_seq_cst);
		return thread_ring;
	}
	return probe_take_slow();
}

static inline void probe_give(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	thread_busy = false;
}

/* Records the name of the calling thread; of several the last one counts. */
void probe_announce_thread(uint32_t thread);

/* A structure from the program, of any version of moescope.h: copies the fields we know, zeroes the
 * rest. False: none, or without its size. */
static inline bool probe_given(void *to, size_t size, const void *from)
{
	size_t given;

	if (!from)
		return false;
	memcpy(&given, from, sizeof(given));
	if (given < sizeof(given))
		return false;
	memset(to, 0, size);
	memcpy(to, from, given < size ? given : size);
	return true;
}

/* Writes a row of a kind into the ring, followed by its lists (in column order). */
struct probe_list {
	const void *data;
	size_t bytes;
};
void probe_push(enum record_kind kind, const void *row, size_t row_size,
		const struct probe_list *lists, int n_lists);
/* The same for a row whose times are nanoseconds of CLOCK_MONOTONIC. `wait`: wait for the drain if
 * the ring is full; not in a call on a program's hot path. */
void probe_push_ns(enum record_kind kind, const void *row, size_t row_size,
		   const struct probe_list *lists, int n_lists, bool wait);
/* Room for a record of `bytes` in total, its header written; NULL with the drop counted. */
struct ring_record *probe_reserve(struct ring *ring, enum record_kind kind, uint8_t depth,
				  size_t bytes);
/* How much of a long list to put into one record: little enough that a full ring loses little. */
#define PROBE_PIECE_BYTES (64u << 10)
static inline uint32_t probe_piece_bytes(const struct ring *ring)
{
	return ring->size / 16 < PROBE_PIECE_BYTES ? (uint32_t)(ring->size / 16)
						   : PROBE_PIECE_BYTES;
}

/* The phase and layer of the innermost open range of this thread. */
uint32_t probe_phase(const struct ring *ring);

/* Ranges of a caller that knows which one it closes (ranges.c). A place is the frame's height in
 * the thread's stack, from 1, below the epoch; 0: nothing was recorded. Closing one below the top
 * moves those above it down by one and returns true. */
#define PLACE_TOO_DEEP 0xffffu
uint32_t probe_range_open(moescope_name name, uint64_t *ret_start_ticks);
bool probe_range_close(uint32_t place);

/* names.c: interned for the process; logged into the session's string log. */
int names_log_all(struct rings *rings);	 /* when a session starts; holds the names lock */
void names_set_log(struct rings *rings); /* NULL: no session */
uint64_t names_dropped(void);
void names_before_fork(void);
void names_after_fork(void);
void names_forget(void); /* the parent's log, in a child */

/* steps.c: which steps are recorded. */
/* by_program: it requested the session, so its first step begins here. */
void steps_start(enum moescope_level level, struct rings *rings, bool by_program);
/* The program has requested a session that the library had started. */
void steps_begin_first(void);
/* Writes what was waiting for a call of moescope_step: it is now a step as it is. */
void steps_write_kept(void);
void steps_stop(void);
void steps_before_fork(void);
void steps_after_fork(void);
void steps_forget(void);
int64_t steps_current(void);
int schedule_parse(const char *text, struct moescope_schedule *ret_schedule);
void steps_set_overhead_check(uint32_t pairs);

/* session.c: in a child, forgets its parent's session. Frees nothing: another thread may have been
 * inside malloc. */
void session_forget(void);
/* A child that uses a device has a session of its own, as if the library had been loaded only now: its parent had it
 * for other reasons (run --calls). */
void session_begin_in_child(void);
/* The state of a session's files. */
enum recorder_files {
	FILES_WHOLE,
	FILES_BUFFERS_CUT, /* somebody truncated the buffer file: its content is gone */
	FILES_GONE,	   /* a descriptor is no longer ours, or the shard was truncated */
};

/* drain_thread.c */
struct recorder {
	const char *path; /* of the run; while it starts */
	char *shard;
	struct moescope_options options;
	struct rings *rings;
	struct shard_writer *writer;
	struct encoder encoder;
	struct tick_map map;
	struct drain_positions done;
	pthread_t thread;
	struct wake *wake;
	struct wake opened;
	int open_result;
	enum recorder_files files;
	uint32_t flush_ms;
	uint32_t patience;   /* waits that few records may be left in the rings */
	uint32_t open_spans; /* when it stops: set before that */
	_Atomic bool stopping;
	bool all_written; /* after the thread ended: the rings are empty and on disk */
	int64_t cpu_ns;	  /* of the thread, and bytes written, at the last cost row */
	uint64_t bytes_told;
	uint64_t damaged;		 /* rings that made no sense */
	uint64_t ring_drops[DROP_SLOTS]; /* counted by the rings while their file was whole */
	_Atomic uint64_t recorded, written_bytes;
};
/* Starts the thread and waits until it has its files. */
int recorder_start(struct recorder *recorder);
void recorder_stop(struct recorder *recorder);
/* session.c, on the drain thread: the files at the start and end of a session. Its descriptor table
 * is private (base/files/held.h). */
int session_open(struct recorder *made);
void session_close(struct recorder *old);
void session_look(void);
/* joined.c: a look at whether it is still wanted, on the same thread; and in a forked child. */
void joined_look(const char *run_dir);
void joined_forget(void);
/* Waits until the drain has made room, but not forever. Not in a call on a program's hot path. */
void probe_wait_for_room(struct ring *ring, uint32_t bytes);
/* Waits until what was recorded is in the shard; 0, or -ETIMEDOUT. */
int probe_flush(void);
/* What others see of the session before it is in the shard; NULL: none. Any thread, without a lock. */
struct ring_header *probe_shared(void);
extern struct wake probe_drain_wake; /* for the life of the process: late calls may still use it */
/* Likewise, until the drain has found a place for the ring in the buffer file. */
void probe_wait_for_place(const struct ring *ring);
/* Drops without a ring to count them in; drops because of the clock. */
extern _Atomic uint64_t probe_dropped_no_ring, probe_dropped_no_clock;

#endif
