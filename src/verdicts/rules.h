/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules that turn answers into verdicts: one line each here with what it reads, one function
 * rule_NAME each in rules_SUBJECT.c. A rule returns false when it has nothing to say; what is not known makes no
 * verdict. Rules are pure: a live view may ask them on a growing run. Any thread.
 *
 * Thresholds come from what users of step profilers go by (data loading under 10% of the step,
 * variation under 10%, optimizer under 15%, GPU busy over 80%) and from chance.
 *
 * What a rule's advice would gain, as a share of the time of the steps, gives its severity. No gain
 * is larger than the time that the rule is about, and no idle moment of a device is in two gains.
 * Verdicts are about the steady part of a run (steady.h); slow-start says what that leaves out.
 */
#ifndef VERDICTS_RULES_H
#define VERDICTS_RULES_H

#include "verdicts/verdicts.h"

/* RULE("id", name, "TABLE.KEY" or NULL, "what it is about", the subjects that it reads or NULL). The
 * evidence is in the rows of that table that are the largest by that key. */
#define VERDICT_RULES(RULE)                                                                        \
	RULE("program-failed", program_failed, NULL,                                               \
	     "the program did not end well, or nobody saw its end", NULL)                          \
	RULE("self-check-failed", self_check_failed, "routing.assignments",                        \
	     "routing counts do not add up", &subject_routing)                                     \
	RULE("records-lost", records_lost, NULL, "records are missing, so sums are too small",     \
	     NULL)                                                                                 \
	RULE("routing-invalid", routing_invalid, "routing.assignments",                            \
	     "routing slots without a valid expert", &subject_routing)                             \
	RULE("router-collapsed", router_collapsed, "routing.imbalance",                            \
	     "a layer sends nearly all tokens to few experts", &subject_routing,                   \
	     &subject_imbalance_tax)                                                               \
	RULE("dead-experts", dead_experts, "routing.dead", "experts that no token reached",        \
	     &subject_routing)                                                                     \
	RULE("routing-imbalance", routing_imbalance, "routing.cv_excess",                          \
	     "experts are used more unevenly than chance explains", &subject_routing,              \
	     &subject_imbalance_tax)                                                               \
	RULE("capacity-drops", capacity_drops, "routing.dropped", "full experts dropped tokens",   \
	     &subject_routing)                                                                     \
	RULE("tile-waste", tile_waste, "routing.tile_waste",                                       \
	     "experts get too few tokens to fill a GEMM tile", &subject_routing,                   \
	     &subject_imbalance_tax)                                                               \
	RULE("gpu-starved-data", gpu_starved_data, "steps.time_ns",                                \
	     "the device waits for the data loader", &subject_device_use)                          \
	RULE("gpu-starved-host", gpu_starved_host, "ops.self_cpu_ns",                              \
	     "the device waits for host code", &subject_device_use)                                \
	RULE("gpu-starved-sync", gpu_starved_sync, "api.time_ns",                                  \
	     "the device runs dry after synchronisations", &subject_device_use,                    \
	     &subject_api_calls)                                                                   \
	RULE("gpu-starved-launch", gpu_starved_launch, "api.count",                                \
	     "the device waits for the next launch", &subject_device_use, &subject_api_calls,      \
	     &subject_kernels)                                                                     \
	RULE("transfer-bound", transfer_bound, "transfers.time_ns", "copies hold up the device",   \
	     &subject_device_use, &subject_transfers)                                              \
	RULE("comm-exposed", comm_exposed, "comm.time_ns",                                         \
	     "communication that no computation hides", &subject_comm, &subject_steps)             \
	RULE("rank-late", rank_late, "comm.wait_ns", "one rank makes the others wait",             \
	     &subject_comm)                                                                        \
	RULE("clock-throttled", clock_throttled, "kernels.time_ns",                                \
	     "the clocks are lower than the device allows", &subject_device_use)                   \
	RULE("bandwidth-bound", bandwidth_bound, "kernels.time_ns",                                \
	     "memory bandwidth limits the kernels", &subject_device_use)                           \
	RULE("kernel-latency", kernel_latency, "counters-kernels.share_pct",                       \
	     "a heavy kernel waits, and uses no part of the GPU well", &subject_kernel_limits,     \
	     &subject_device_use)                                                                  \
	RULE("kernel-small-grid", kernel_small_grid, "counters-kernels.share_pct",                 \
	     "a heavy kernel has too few blocks to fill the GPU", &subject_kernel_limits,          \
	     &subject_device_use)                                                                  \
	RULE("kernel-memory-bound", kernel_memory_bound, "counters-kernels.share_pct",             \
	     "memory bandwidth bounds a heavy kernel", &subject_kernel_limits,                     \
	     &subject_device_use)                                                                  \
	RULE("gpu-idle", gpu_idle, "kernels.time_ns", "the device idles for an unknown reason",    \
	     &subject_device_use)                                                                  \
	RULE("gpu-busy", gpu_busy, "kernels.time_ns",                                              \
	     "the device is busy: its kernels take the time", &subject_device_use, &subject_comm)  \
	RULE("data-loading", data_loading, "steps.time_ns",                                        \
	     "data loading takes much of the steps", &subject_steps, &subject_device_use)          \
	RULE("step-variation", step_variation, "steps.time_ns", "steps vary in length",            \
	     &subject_steps, &subject_device_use)                                                  \
	RULE("memory-leak", memory_leak, "memory.allocated_bytes", "memory grows with every step", \
	     &subject_memory, &subject_device_memory)                                              \
	RULE("memory-pressure", memory_pressure, "memory.peak_allocated_bytes",                    \
	     "a device was nearly full", &subject_device_memory)                                   \
	RULE("fragmentation", fragmentation, "memory.fragmentation_pct",                           \
	     "free memory is in pieces", &subject_memory)                                          \
	RULE("outside-allocator", outside_allocator, "memory.peak_allocated_bytes",                \
	     "much memory is used outside the allocator", &subject_device_memory)                  \
	RULE("profiler-cost", profiler_cost, NULL, "what profiling itself costs",                  \
	     &subject_overhead, &subject_coverage)                                                 \
	RULE("host-throttled", host_throttled, "host.user_ns",                                     \
	     "its cgroup holds the program back", &subject_host)                                   \
	RULE("host-pinned", host_pinned, "host.ready_ns",                                          \
	     "threads wait for the few processors that they are pinned to", &subject_host)         \
	RULE("host-neighbours", host_neighbours, "host-parts.busy_pct",                            \
	     "other programs take the processors", &subject_host)                                  \
	RULE("host-oversubscribed", host_oversubscribed, "host.ready_ns",                          \
	     "more threads want to run than there are processors", &subject_host)                  \
	RULE("host-stolen", host_stolen, "host-parts.steal_pct",                                   \
	     "the hypervisor gives the processors to others", &subject_host)                       \
	RULE("host-swapping", host_swapping, "host.major_faults", "the machine swaps",             \
	     &subject_host)                                                                        \
	RULE("host-disk-bound", host_disk_bound, "host.blocked_threads",                           \
	     "the program waits for a disk", &subject_host)                                        \
	RULE("host-memory-limit", host_memory_limit, "host.peak_resident_bytes",                   \
	     "memory is at the limit of a cgroup", &subject_host)                                  \
	RULE("host-leak", host_leak, "host.growth_bytes_per_s",                                    \
	     "the memory of a process grows steadily", &subject_host)                              \
	RULE("heap-leak", heap_leak, "heap.growth_bytes_per_s",                                    \
	     "a stack keeps allocating host memory that is never freed", &subject_heap_use)        \
	RULE("host-one-at-a-time", host_one_at_a_time, "host.turns_pct",                           \
	     "several threads work, but one at a time: Python's lock or another", &subject_host)   \
	RULE("host-network-bound", host_network_bound, "host-parts.in_bytes_per_s",                \
	     "a network is full", &subject_host)                                                   \
	RULE("host-wrong-node", host_wrong_node, "host.cpu_nodes",                                 \
	     "a process runs on another node than its memory or its GPU", &subject_host)           \
	RULE("host-one-processor", host_one_processor, "host.cpus",                                \
	     "the program computes on one processor", &subject_host)                               \
	RULE("host-waiting", host_waiting, "host.life_ns",                                         \
	     "the program sleeps, for no reason that the machine shows", &subject_host)            \
	RULE("optimizer-share", optimizer_share, "steps.time_ns",                                  \
	     "the optimizer takes much of the steps", &subject_steps, &subject_device_phases,      \
	     &subject_device_use)                                                                  \
	RULE("slow-start", slow_start, "steps.time_ns",                                            \
	     "the first steps, or starting up, take longer than the rest", &subject_steps,         \
	     &subject_device_use)

#define RULE(id, name, ...)                                                                        \
	bool rule_##name(const struct run *run, const struct answers *a, struct verdict *v);
VERDICT_RULES(RULE)
#undef RULE

#define TITLE(v, ...) rule_words((v)->title, sizeof((v)->title), __VA_ARGS__)
#define ADVICE(v, ...) rule_words((v)->advice, sizeof((v)->advice), __VA_ARGS__)

void rule_words(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* >= 20% critical, >= 5% warning, else note. */
enum severity rule_severity_of_gain(double gain_pct);
/* The gain and the severity that it makes. assumption: "it happens if …". */
void rule_gain(struct verdict *v, double gain_pct, const char *assumption);
/* Where on a timeline it shows: a step; a span of a device, if it is one. */
struct step_row;
struct span;
void rule_when_step(struct verdict *v, const char *what, const struct step_row *step);
void rule_when_span(const struct run *run, struct verdict *v, const char *what, const char *lane,
		    const struct span *span);
void rule_evidence(struct verdict *v, const char *key, enum evidence_unit unit, double value);

#endif
