/* SPDX-License-Identifier: Apache-2.0
 *
 * What is read of the machine under a program: the one list of places and metrics of `host_sample` records,
 * for who writes them, who reads them and `docs/format.md`. Both only grow; names are on disk.
 */
#ifndef TRACE_HOST_METRICS_H
#define TRACE_HOST_METRICS_H

/* PLACE(number, NAME, "name") */
#define HOST_PLACES(PLACE)                                                                         \
	PLACE(0, MACHINE, "machine")	 /* all of it */                                           \
	PLACE(1, PROCESSOR, "processor") /* "0" */                                                 \
	PLACE(2, DISK, "disk")		 /* "nvme0n1" */                                           \
	PLACE(3, NETWORK, "network")	 /* "eth0" */                                              \
	PLACE(4, NODE, "node")		 /* of memory: "0" */                                      \
	PLACE(5, CGROUP, "cgroup")	 /* the tightest around the program */                     \
	PLACE(6, PROCESS, "process")	 /* of the program: its number */                          \
	PLACE(7, OTHER, "other")	 /* processes of others, by the name of their program */

enum host_place {
#define PLACE(number, NAME, name) HOST_##NAME = (number),
	HOST_PLACES(PLACE)
#undef PLACE
		HOST_PLACE_LIMIT /* one past the last known */
};

/* METRIC(NAME, "name", grows: a count since some beginning, whose differences matter; else a state). Times of
 * processors are sums over all of them. */
#define HOST_METRICS(METRIC)                                                                       \
	METRIC(LOOKS, "looks", true)                                                               \
	METRIC(OWN_NS, "own_ns", true)                                                             \
	METRIC(CPUS, "cpus", false)                                                                \
	METRIC(USER_NS, "user_ns", true)                                                           \
	METRIC(SYSTEM_NS, "system_ns", true)                                                       \
	METRIC(IOWAIT_NS, "iowait_ns", true)                                                       \
	METRIC(STEAL_NS, "steal_ns", true)                                                         \
	METRIC(IDLE_NS, "idle_ns", true)                                                           \
	METRIC(KHZ, "khz", false)                                                                  \
	METRIC(RUNNABLE, "runnable", false)                                                        \
	METRIC(BLOCKED, "blocked", false)                                                          \
	METRIC(CPU_PRESSURE_NS, "cpu_pressure_ns", true)                                           \
	METRIC(IO_PRESSURE_NS, "io_pressure_ns", true)                                             \
	METRIC(IO_FULL_NS, "io_full_ns", true)                                                     \
	METRIC(MEMORY_PRESSURE_NS, "memory_pressure_ns", true)                                     \
	METRIC(MEMORY_FULL_NS, "memory_full_ns", true)                                             \
	METRIC(MEMORY_BYTES, "memory_bytes", false)                                                \
	METRIC(AVAILABLE_BYTES, "available_bytes", false)                                          \
	METRIC(SWAP_USED_BYTES, "swap_used_bytes", false)                                          \
	METRIC(SWAP_IN_BYTES, "swap_in_bytes", true)                                               \
	METRIC(SWAP_OUT_BYTES, "swap_out_bytes", true)                                             \
	METRIC(MINOR_FAULTS, "minor_faults", true)                                                 \
	METRIC(MAJOR_FAULTS, "major_faults", true)                                                 \
	METRIC(READ_BYTES, "read_bytes", true)                                                     \
	METRIC(WRITTEN_BYTES, "written_bytes", true)                                               \
	METRIC(BUSY_NS, "busy_ns", true)                                                           \
	METRIC(RECEIVED_BYTES, "received_bytes", true)                                             \
	METRIC(SENT_BYTES, "sent_bytes", true)                                                     \
	METRIC(LINK_BYTES_PER_S, "link_bytes_per_s", false)                                        \
	METRIC(FREE_BYTES, "free_bytes", false)                                                    \
	METRIC(FOREIGN_PAGES, "foreign_pages", true)                                               \
	METRIC(QUOTA_MILLICPUS, "quota_millicpus", false)                                          \
	METRIC(PERIODS, "periods", true)                                                           \
	METRIC(THROTTLED_PERIODS, "throttled_periods", true)                                       \
	METRIC(THROTTLED_NS, "throttled_ns", true)                                                 \
	METRIC(LIMIT_BYTES, "limit_bytes", false)                                                  \
	METRIC(USED_BYTES, "used_bytes", false)                                                    \
	METRIC(LIMIT_HITS, "limit_hits", true)                                                     \
	METRIC(OOM_KILLS, "oom_kills", true)                                                       \
	METRIC(CPU_NS, "cpu_ns", true)                                                             \
	METRIC(READY_NS, "ready_ns", true)                                                         \
	METRIC(RESIDENT_BYTES, "resident_bytes", false)                                            \
	METRIC(SWAPPED_BYTES, "swapped_bytes", false)                                              \
	METRIC(THREADS, "threads", false)                                                          \
	METRIC(ACTIVE_THREADS, "active_threads", false)                                            \
	METRIC(THREAD_LOOKS, "thread_looks", true)                                                 \
	METRIC(BLOCKED_LOOKS, "blocked_looks", true)                                               \
	METRIC(VOLUNTARY_SWITCHES, "voluntary_switches", true)                                     \
	METRIC(INVOLUNTARY_SWITCHES, "involuntary_switches", true)                                 \
	METRIC(ALLOWED_CPUS, "allowed_cpus", false)                                                \
	METRIC(CPU_NODES, "cpu_nodes", false)                                                      \
	METRIC(MEMORY_NODES, "memory_nodes", false)                                                \
	METRIC(PYTHON, "python", false)

enum host_metric {
#define METRIC(NAME, name, grows) HOST_##NAME,
	HOST_METRICS(METRIC)
#undef METRIC
		HOST_METRIC_COUNT
};

#endif
