/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test drives the scripted CUPTI with: records go in as CUPTI's own structures, and the
 * probe gets them as it would from the real library. A test reaches the same library by dlopen of
 * the path in MOESCOPE_CUPTI and takes the symbol `fake_cupti` from it.
 */
#ifndef FAKE_CUPTI_H
#define FAKE_CUPTI_H

#include <cuda.h>
#include <cupti.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FAKE_WORKERS 2 /* threads of the library's own that hand buffers over */

struct fake_record {
	union {
		CUpti_Activity any;
		CUpti_ActivityKernel10 kernel;
		CUpti_ActivityMemcpy6 copy;
		CUpti_ActivityMemcpyPtoP4 peer_copy;
		CUpti_ActivityMemset4 set;
		CUpti_ActivityAPI call;
		CUpti_ActivitySynchronization2 sync;
		CUpti_ActivityDevice5 device;
		CUpti_ActivityMemory4 memory;
		CUpti_ActivityMemoryPool3 pool;
		CUpti_ActivityOverhead3 overhead;
	};
	bool uninvited; /* comes although its kind is not enabled */
};

/* Calls that can be made to fail. */
enum fake_call {
	FAKE_REGISTER,
	FAKE_ENABLE,
	FAKE_FLUSH_ALL,
	FAKE_TIMESTAMP,
	FAKE_VERSION,
	FAKE_CALLS,
};

#define FAKE_SWITCHES 256
/* Of every call that comes with callbacks. */
#define FAKE_CONTEXT 71
#define FAKE_STREAM 7

struct fake_state {
	unsigned int registered; /* times the callbacks were registered */
	unsigned int kinds;	 /* enabled now */
	unsigned int flushes, forced_flushes;
	unsigned int flushed_off; /* the first after kernel records went off */
	unsigned int buffers_requested, buffers_completed;
	uint64_t not_enabled; /* records that nobody gets because their kind is off */
	unsigned int graph_launches;
	/* cuptiFinalize; in a callback, with records on. */
	unsigned int finalized, finalized_in_callback, finalized_with_records;
	unsigned int subscribed, unsubscribed, subscribed_at_first_finalize; /* times */
	pid_t finalized_by;
	unsigned int finalized_in_wait; /* in a callback of a wait for the device */
	uint64_t forgotten;		/* records that it found undelivered */
	size_t device_buffers;		/* the limit that was set */
	bool system_thread_ids;
	unsigned int held_up; /* threads, by hold_leaver and hold_comer */
	/* When kernel records went on, off, on...: CLOCK_MONOTONIC. */
	int64_t switched_ns[FAKE_SWITCHES];
	unsigned int n_switches;
};

struct fake_cupti {
	/* Into buffers of at most per_buffer records (0: as many as fit), handed over on a thread of
	 * the library's own; returns when the probe has them. */
	void (*deliver)(unsigned int worker, const struct fake_record *records, size_t n,
			size_t per_buffer);
	/* The same buffers wait, and the next flush hands them over on its thread. */
	void (*hold)(const struct fake_record *records, size_t n, size_t per_buffer);
	/* Reverses the order of the waiting buffers. */
	void (*reverse_held)(void);
	/* A buffer with no record in it, on worker 0. */
	void (*deliver_empty)(void);
	/* Reported with the next buffer. */
	void (*drop)(size_t n);
	/* on_kind: of FAKE_ENABLE, the kind that fails; 0: the first. */
	void (*refuse)(enum fake_call call, CUptiResult result, CUpti_ActivityKind on_kind);
	/* CUPTI's clock is CLOCK_REALTIME plus this. */
	void (*set_clock)(int64_t offset_ns);
	uint64_t (*now)(void);
	struct fake_state (*state)(void);
	/* Returns when there have been n flushes; false after 100 seconds. */
	bool (*wait_flushes)(unsigned int n);
	/* Returns when the state is as wanted; false after 100 seconds. */
	bool (*wait_state)(bool (*reached)(const struct fake_state *state));

	void (*set_version)(uint32_t version);
	/* A client that nobody sees coming has the subscription; NULL: it goes. */
	void (*hold_subscription)(const char *name);
	/* What the calling thread does with CUDA, with the subscriber's callbacks around it. */
	void (*call)(CUpti_CallbackDomain domain, CUpti_CallbackId id);
	/* The two halves of a call. */
	void (*enter)(CUpti_CallbackDomain domain, CUpti_CallbackId id);
	void (*leave)(CUpti_CallbackDomain domain, CUpti_CallbackId id);
	/* In each of the next n subscriptions no callback tells the end of the first call. */
	void (*lose_ends)(unsigned int n);
	/* From now on a record is written into each buffer that was just handed over. */
	void (*write_records_late)(void);
	/* So much memory is unmapped in each cuptiFinalize to come. */
	void (*finalize_unmaps)(size_t bytes);
	/* Called on the thread that switches a kind off, before it is. Once. */
	void (*at_next_disable)(void (*call)(void));
	void (*launch_graph)(void);
	void (*wait_device)(void);
	/* source: the node that it is a copy of, or 0. */
	void (*make_node)(uint32_t graph, uint64_t node, uint64_t source);
	/* The next thread that finalises in a callback leaves its call when it can read a byte. */
	void (*hold_leaver)(int fd);
	/* The next thread that is about to call back does so when it can read a byte. */
	void (*hold_comer)(int fd);
	/* Threads stay in cuptiGetGraphNodeId; returns when one does, false after 100 seconds. */
	void (*hold_nodes)(bool hold);
	bool (*wait_held_node)(void);
};

#endif
