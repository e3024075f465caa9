/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine under the program: who used its processors, what it waited for, what held it back; the processes
 * of the program; the parts of the machine; and all of that over time. Pure, any thread.
 *
 * With several machines in one run the figures of the machine are those of the first.
 */
#ifndef SUBJECTS_HOST_H
#define SUBJECTS_HOST_H

#include "subjects/host/host_readings.h"
#include "subjects/numbers/value.h"

struct host_process {
	uint32_t pid;
	const char *name;
	int64_t life_ns; /* from the first to the last look that saw it */
	double user_ns, system_ns;
	double cpus; /* processors that it used, on average */
	struct value ready_ns, minor_faults, major_faults, voluntary, involuntary, read_bytes,
		written_bytes;
	struct value resident_bytes, peak_resident_bytes, grew_bytes,
		swapped_bytes;		 /* grew: see below */
	struct value growth_bytes_per_s; /* of a process that grows steadily; else absent */
	struct value threads, allowed_cpus;
	struct value blocked_threads; /* on average: that wait for a disk */
	struct value turns_pct;	      /* of its life: several threads work, but one at a time */
	uint64_t cpu_nodes, memory_nodes;
	bool python;
};

/* A processor, disk, network, node, or program of others. */
struct host_part {
	const char *kind, *name;
	uint8_t place;
	struct value busy_pct; /* of its time; of others: of one processor */
	struct value steal_pct, mhz;
	struct value in_bytes, out_bytes, in_bytes_per_s, out_bytes_per_s, link_bytes_per_s;
	struct value memory_bytes, free_bytes;
};

/* A stretch of time. */
struct host_time {
	int64_t start_ns, duration_ns;
	struct value user_pct, system_pct, iowait_pct, steal_pct; /* of all processors */
	struct value program_cpus, ready_cpus, resident_bytes, available_bytes, runnable;
	struct value read_bytes_per_s, written_bytes_per_s, received_bytes_per_s, sent_bytes_per_s;
	struct value throttled_pct, major_faults;
};

struct host {
	struct host_process *processes; /* by time on a processor, largest first */
	size_t n_processes;
	struct host_part *parts; /* by kind, busiest first */
	size_t n_parts;
	struct host_time *times;
	size_t n_times;
	size_t machines;
	const char *missing; /* why there is nothing; NULL: there is */
	/* Of the machine. */
	int64_t start_ns, elapsed_ns;
	uint64_t looks;
	struct value own_pct; /* what looking took, of one processor */
	struct value cpus, user_pct, system_pct, iowait_pct, steal_pct, idle_pct, mhz;
	struct value runnable, cpu_pressure_pct, io_pressure_pct, io_full_pct, memory_pressure_pct;
	struct value memory_bytes, least_available_bytes, swap_in_bytes, swap_out_bytes;
	struct value disk_read_bytes, disk_written_bytes, received_bytes, sent_bytes;
	/* Of the control groups around the program. */
	struct value quota_cpus, throttled_pct, throttled_ns, limit_bytes, peak_used_bytes,
		limit_hits, oom_kills;
	/* Of the program: sums over its processes. */
	double program_cpu_ns;
	struct value program_cpus, ready_cpus, allowed_cpus, peak_resident_bytes,
		program_read_bytes, program_written_bytes, program_major_faults, program_system_pct;
	/* Of others, those that were seen. */
	struct value others_cpus;
};

/* 0 or -ENOMEM; release it in both cases. */
int host_analyze(const struct run *run, struct host *ret_host);
void host_release(struct host *host);

/* Its fields; see host_fields.c. */
struct field_set;
extern const struct field_set host_fields, host_parts_fields, host_times_fields, host_total;

#endif
