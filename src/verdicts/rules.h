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

/* RULE("id", name, the subjects that it reads or NULL) */
#define VERDICT_RULES(RULE)                                                                        \
	RULE("program-failed", program_failed, NULL)                                               \
	RULE("self-check-failed", self_check_failed, &subject_routing)                             \
	RULE("records-lost", records_lost, NULL)                                                   \
	RULE("routing-invalid", routing_invalid, &subject_routing)                                 \
	RULE("router-collapsed", router_collapsed, &subject_routing, &subject_imbalance_tax)       \
	RULE("dead-experts", dead_experts, &subject_routing)                                       \
	RULE("routing-imbalance", routing_imbalance, &subject_routing, &subject_imbalance_tax)     \
	RULE("capacity-drops", capacity_drops, &subject_routing)                                   \
	RULE("tile-waste", tile_waste, &subject_routing, &subject_imbalance_tax)                   \
	RULE("gpu-starved-data", gpu_starved_data, &subject_device_use)                            \
	RULE("gpu-starved-host", gpu_starved_host, &subject_device_use)                            \
	RULE("gpu-starved-sync", gpu_starved_sync, &subject_device_use, &subject_api_calls)        \
	RULE("gpu-starved-launch", gpu_starved_launch, &subject_device_use, &subject_api_calls,    \
	     &subject_kernels)                                                                     \
	RULE("transfer-bound", transfer_bound, &subject_device_use, &subject_transfers)            \
	RULE("comm-exposed", comm_exposed, &subject_comm, &subject_steps)                          \
	RULE("rank-late", rank_late, &subject_comm)                                                \
	RULE("clock-throttled", clock_throttled, &subject_device_use)                              \
	RULE("bandwidth-bound", bandwidth_bound, &subject_device_use)                              \
	RULE("gpu-idle", gpu_idle, &subject_device_use)                                            \
	RULE("gpu-busy", gpu_busy, &subject_device_use, &subject_comm)                             \
	RULE("data-loading", data_loading, &subject_steps, &subject_device_use)                    \
	RULE("step-variation", step_variation, &subject_steps, &subject_device_use)                \
	RULE("memory-leak", memory_leak, &subject_memory, &subject_device_memory)                  \
	RULE("memory-pressure", memory_pressure, &subject_device_memory)                           \
	RULE("fragmentation", fragmentation, &subject_memory)                                      \
	RULE("outside-allocator", outside_allocator, &subject_device_memory)                       \
	RULE("profiler-cost", profiler_cost, &subject_overhead, &subject_coverage)                 \
	RULE("optimizer-share", optimizer_share, &subject_steps, &subject_device_phases,           \
	     &subject_device_use)                                                                  \
	RULE("slow-start", slow_start, &subject_steps, &subject_device_use)

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
void rule_evidence(struct verdict *v, const char *key, enum evidence_unit unit, double value);

#endif
