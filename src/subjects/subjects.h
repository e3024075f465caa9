/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of subjects and of their sections: a new folder is a line here. A subject is a `const struct subject
 * subject_NAME` whose answer is a `struct NAME`; a section, `const struct section section_NAME`, is a table of
 * it, for people and SQL, and a command if it has the words for one.
 */
#ifndef SUBJECTS_SUBJECTS_H
#define SUBJECTS_SUBJECTS_H

/* A line for each folder: SUBJECT(name) and SECTION(name). In the order in which SQL lists its tables. */
/* clang-format off */
#define SUBJECTS_AND_SECTIONS(SUBJECT, SECTION) \
	SUBJECT(kernels) SUBJECT(launches) SECTION(kernels) \
	SUBJECT(ops) SECTION(ops) \
	SUBJECT(api_calls) SECTION(api) \
	SUBJECT(library_calls) SECTION(calls) \
	SUBJECT(sampled_stacks) SECTION(stacks) \
	SUBJECT(heap_use) SECTION(heap) \
	SUBJECT(host) SUBJECT(host_phases) SECTION(host) SECTION(host_parts) SECTION(host_times) SECTION(host_phases) \
	SUBJECT(transfers) SECTION(transfers) \
	SUBJECT(comm) SECTION(comm) \
	SUBJECT(moe_lens) SECTION(moe) \
	SUBJECT(steps) SUBJECT(slow_steps) SUBJECT(device_phases) SECTION(steps) \
	SUBJECT(inference) SECTION(requests) \
	SUBJECT(routing) SUBJECT(imbalance_tax) SECTION(routing) SECTION(routing_steps) SECTION(routing_experts) \
	SECTION(routing_pairs) SECTION(routing_k) \
	SUBJECT(memory) SUBJECT(device_memory) SECTION(memory) \
	SUBJECT(efficiency) SECTION(efficiency) \
	SUBJECT(launch_metrics) SUBJECT(kernel_limits) SUBJECT(counted_places) SUBJECT(stalls) \
	SUBJECT(device_counters) SECTION(counters) SECTION(counters_kernels) SECTION(counters_ranges) \
	SECTION(counters_layers) SECTION(counters_experts) SECTION(counters_stalls) SECTION(counters_lines) \
	SECTION(hardware) \
	SUBJECT(coverage) \
	SUBJECT(device_states) SUBJECT(device_use) SUBJECT(timeline) \
	SUBJECT(named_spans) \
	SUBJECT(overhead)
/* clang-format on */

#define NOT_LISTED(name)
#define SUBJECTS(SUBJECT) SUBJECTS_AND_SECTIONS(SUBJECT, NOT_LISTED)
#define SECTIONS(SECTION) SUBJECTS_AND_SECTIONS(NOT_LISTED, SECTION)

#define SUBJECT(name)                                                                              \
	struct name;                                                                               \
	extern const struct subject subject_##name;
#define SECTION(name) extern const struct section section_##name;
SUBJECTS_AND_SECTIONS(SUBJECT, SECTION)
#undef SUBJECT
#undef SECTION

extern const struct subject *const subjects_all[]; /* up to NULL */

#endif
