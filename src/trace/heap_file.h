/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies between a program whose allocations are sampled and moescope: PID.heap in the run directory, a
 * file that the library maps (src/heap) and that `moescope run` reads and empties (host/heap.h). The kernel keeps
 * its pages when the program is killed. Its name is gone as soon as both have it open.
 *
 *   header page | events | nodes | texts | maps
 *
 * Events are a ring: any thread reserves the next place by `head`, fills it and then sets its `turn`; the reader
 * moves `tail`. A place whose turn has not come is being filled, or its thread has gone. Nobody waits: without a place, an event is
 * counted and left out. The program may write anything here, so that a reader checks what it uses.
 */
#ifndef TRACE_HEAP_FILE_H
#define TRACE_HEAP_FILE_H

#include <stdint.h>

#define HEAP_SUFFIX ".heap"
#define HEAP_MAGIC "MSHEAP1\n"
#define HEAP_HEADER_BYTES 4096u
#define HEAP_EVENTS (1u << 14)
#define HEAP_NODES (1u << 17)
#define HEAP_TEXT_BYTES (512u << 10)
#define HEAP_MAPS_BYTES (128u << 10)
#define HEAP_TEXT_MOST 1000u /* bytes of one text */
#define HEAP_LIVE_MOST                                                                             \
	(1u << 19) /* samples at a time that are not freed: the library knows no more */
#define HEAP_DISTANCE (512u << 10) /* bytes from sample to sample, on average */
#define HEAP_DISTANCE_MOST (UINT64_C(1) << 40)

/* In the order of the file; a word each, aligned. */
struct heap_header {
	char magic[8];
	uint32_t pid, reserved;
	int64_t monotonic_ns, realtime_ns; /* one moment on both clocks, at start */
	_Atomic uint64_t distance;	   /* of samples from now on; the reader may change it */
	_Atomic uint64_t closed;	   /* the reader has gone: sample no more */
	_Atomic uint64_t tail;
	_Atomic uint64_t head __attribute__((aligned(64)));
	_Atomic uint64_t texts_used;	/* bytes */
	_Atomic uint64_t dropped;	/* samples without a place in the ring or the table */
	_Atomic uint64_t dropped_frees; /* frees of samples, likewise: these seem to live on */
	_Atomic uint64_t
		shortened; /* stacks that lack their innermost functions: no place for them */
	_Atomic uint64_t no_python; /* samples whose Python functions were not readable */
	_Atomic uint64_t children;  /* forked children that allocated: they are not sampled */
};
_Static_assert(sizeof(struct heap_header) <= HEAP_HEADER_BYTES, "header fits its page");

enum heap_event_kind { HEAP_TAKEN = 1, HEAP_FREED = 2 };

struct heap_event {
	_Atomic uint64_t turn; /* number of the event + 1, once it is complete */
	int64_t time_ns;
	uint64_t sample; /* its number, from 1 */
	uint64_t size, distance;
	uint32_t kind, thread;
	uint32_t node, reserved;
};
_Static_assert(sizeof(struct heap_event) == 56, "events are words");

/* A function on a stack: a node is the stack up to there. */
struct heap_node {
	_Atomic uint32_t state; /* 0: free, 1: being filled, 2: complete */
	uint32_t parent;	/* its place + 1; 0: outermost */
	uint64_t function;	/* see below */
};
/* Either an address behind a call, or, with this bit, where its name is in the texts: 16 bits of length and as many
 * bytes. */
#define HEAP_TEXT_BIT (UINT64_C(1) << 63)

#define HEAP_EVENTS_AT ((uint64_t)HEAP_HEADER_BYTES)
#define HEAP_NODES_AT (HEAP_EVENTS_AT + (uint64_t)HEAP_EVENTS * sizeof(struct heap_event))
#define HEAP_TEXTS_AT (HEAP_NODES_AT + (uint64_t)HEAP_NODES * sizeof(struct heap_node))
#define HEAP_MAPS_AT (HEAP_TEXTS_AT + HEAP_TEXT_BYTES)
#define HEAP_FILE_BYTES (HEAP_MAPS_AT + HEAP_MAPS_BYTES)

#endif
