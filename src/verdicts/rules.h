/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules that turn findings into verdicts: one line each here, one function rule_NAME each in
 * rules_SUBJECT.c. A rule returns false when it has nothing to say; what is not known makes no
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

/* RULE("id", name) */
#define VERDICT_RULES(RULE)                                                                        \
	RULE("program-failed", program_failed)                                                     \
	RULE("self-check-failed", self_check_failed)                                               \
	RULE("records-lost", records_lost)                                                         \
	RULE("routing-invalid", routing_invalid)                                                   \
	RULE("router-collapsed", router_collapsed)                                                 \
	RULE("dead-experts", dead_experts)                                                         \
	RULE("routing-imbalance", routing_imbalance)                                               \
	RULE("capacity-drops", capacity_drops)                                                     \
	RULE("tile-waste", tile_waste)                                                             \
	RULE("gpu-starved-data", gpu_starved_data)                                                 \
	RULE("gpu-starved-host", gpu_starved_host)                                                 \
	RULE("gpu-starved-sync", gpu_starved_sync)                                                 \
	RULE("gpu-starved-launch", gpu_starved_launch)                                             \
	RULE("transfer-bound", transfer_bound)                                                     \
	RULE("comm-exposed", comm_exposed)                                                         \
	RULE("rank-late", rank_late)                                                               \
	RULE("clock-throttled", clock_throttled)                                                   \
	RULE("bandwidth-bound", bandwidth_bound)                                                   \
	RULE("gpu-idle", gpu_idle)                                                                 \
	RULE("gpu-busy", gpu_busy)                                                                 \
	RULE("data-loading", data_loading)                                                         \
	RULE("step-variation", step_variation)                                                     \
	RULE("memory-leak", memory_leak)                                                           \
	RULE("memory-pressure", memory_pressure)                                                   \
	RULE("fragmentation", fragmentation)                                                       \
	RULE("outside-allocator", outside_allocator)                                               \
	RULE("profiler-cost", profiler_cost)                                                       \
	RULE("optimizer-share", optimizer_share)                                                   \
	RULE("slow-start", slow_start)

#define RULE(id, name)                                                                             \
	bool rule_##name(const struct run *run, const struct findings *f, struct verdict *v);
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
