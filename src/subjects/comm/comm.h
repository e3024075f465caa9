/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication between devices and ranks: how long, beside what, and who waits for whom.
 *
 * transport  what moves the data, by the name of the kernel: nccl (its name holds "nccl"), expert
 *            (expert parallelism: DeepEP and the like, classes dispatch, combine and notify of
 *            kernel_class.h), nvshmem, other (class collective, or a collective record), host
 *            (collectives of processors, such as gloo's: they have rows, and no part in anything of a
 *            device)
 * compute    every kernel that is no communication
 * time       of a set of kernels: length of their union on a device
 * overlap    length of (communication and compute at once); of one transport: with all kernels
 *            that are not of it
 * exposed    time - overlap: communication and no compute
 * busy       union of all kernels, copies and sets; non-compute: busy - compute
 * window     from the first to the last record of the device; with a schedule of windows of records,
 *            what of it they cover (coverage.h); idle: window - busy
 *
 * With chosen steps these are over what was launched in them. Rows are by collective records
 * (name, group, its size, element type), and by name for kernels that have none:
 *
 * bytes       elements * size of the type; elements: the larger of what goes in and comes out
 * algorithm   bytes / time of the kernels, which includes waiting for the others
 * bus         algorithm * 2 (n - 1) / n for an all-reduce, (n - 1) / n for all-gather,
 *             reduce-scatter, all-to-all, gather and scatter, 1 for others: as NCCL's tests have it
 * skew        of one collective on all its ranks (same name, group and sequence number): last start -
 *             first start
 * wait        of a rank: last start - own start, at most what its own kernel takes longer than the
 *             shortest one: so that clocks that differ make nobody wait
 * late        the rank that starts last, if it is one alone and others wait
 * Ranks are compared by their clocks: how well those agree is up to the recording.
 *
 * Untimed kernels count and have no time. Pure, any thread; linear in kernels, no list of them.
 */
#ifndef SUBJECTS_COMM_H
#define SUBJECTS_COMM_H

#include "subjects/numbers/intervals.h"
#include "subjects/numbers/value.h"
#include "subjects/shared/selection.h"

struct attribution;
struct device_lanes;
struct kernel_classes;

enum comm_transport {
	COMM_NCCL,
	COMM_EXPERT,
	COMM_NVSHMEM,
	COMM_OTHER,
	COMM_HOST,
	COMM_TRANSPORTS
};

const char *comm_transport_name(enum comm_transport transport); /* "nccl" "expert" … */

/* Kernels of a transport, or of all, on one device. */
struct comm_part {
	uint64_t count, untimed;
	int64_t sum_ns;		    /* of their durations */
	int64_t time_ns, others_ns; /* unions: of these, of all other kernels */
	int64_t overlap_ns, exposed_ns;
	struct value overlap_pct; /* of time_ns */
};

struct comm_device {
	uint16_t shard;
	uint32_t rank, device;
	struct comm_part all;  /* its others_ns is compute */
	struct span_list when; /* its communication, for pictures */
	struct comm_part of[COMM_TRANSPORTS];
	int64_t busy_ns, non_compute_ns;
	struct value window_ns, idle_ns;
	/* Of the time from the begin of the first step to the end of the last one; without steps, of
	 * the window. */
	int64_t step_window_ns, step_exposed_ns;
	bool of_steps;
	struct value exposed_pct;
	struct value exposed_window_pct; /* exposed_ns of window_ns */
};

struct comm_skew {
	uint64_t matched; /* collectives that more than one rank recorded */
	struct value mean_ns, max_ns;
	struct value wait_ns;		  /* sum over the ranks */
	struct value late_rank, late_pct; /* who was late most often; of matched */
	/* The collective in which ranks waited the longest, and who was last; end_ns 0: nobody waited. */
	struct span worst;
	uint32_t worst_rank;
};

struct comm_row {
	enum comm_transport transport;
	char *name;
	bool recorded;	      /* by a collective record */
	uint32_t group, type; /* string ids; 0: not told */
	uint32_t group_size;  /* 0: not told */
	uint64_t count, untimed;
	int64_t sum_ns, max_ns;
	double share_pct; /* of the sum of all rows of devices, or of those of the host */
	struct value mean_ns, bytes, algorithm_bytes_per_s, bus_bytes_per_s;
	struct comm_skew skew;
};

struct comm {
	struct comm_row *rows; /* by time, largest first */
	size_t n;
	struct comm_device *devices; /* by process, then device; also those without communication */
	size_t n_devices;
	struct comm_part all; /* sums over the devices */
	struct comm_part of[COMM_TRANSPORTS];
	int64_t busy_ns, non_compute_ns;
	struct value window_ns, idle_ns;
	struct value exposed_pct; /* mean over the devices, weighted by their windows */
	bool of_steps;		  /* exposed_pct is that of the steps */
	uint64_t host_count;	  /* collectives of processors */
	int64_t host_ns;	  /* the sum of their times */
	uint64_t records;	  /* collective records that count */
	uint64_t without_kernel;  /* of them: in the rows, in no union */
	uint64_t without_call; /* left out: a part of the run was chosen, and no call says which */
	struct comm_skew skew; /* over all rows */
	struct value wait_pct; /* of the time of exposed_pct */
};

/* classes NULL: the built-in ones. */
int comm_analyze(const struct run *run, const struct selection *sel,
		 const struct kernel_classes *classes, struct comm *ret_comm);
/* With what is there already. */
int comm_analyze_at(const struct attribution *at, const struct device_lanes *lanes,
		    const struct selection *sel, const struct kernel_classes *classes,
		    struct comm *ret_comm);
void comm_release(struct comm *comm);

/* Its fields; see comm_fields.c. */
struct field_set;
extern const struct field_set comm_fields, comm_devices_fields, comm_transports_fields, comm_total;

#endif
