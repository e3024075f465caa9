/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of subjects: a new one is a folder and a line here. Each is a `const struct subject
 * subject_NAME` whose answer is a `struct NAME`.
 */
#ifndef SUBJECTS_SUBJECTS_H
#define SUBJECTS_SUBJECTS_H

/* SUBJECT(name) */
#define SUBJECTS(SUBJECT)                                                                          \
	SUBJECT(api_calls)                                                                         \
	SUBJECT(comm)                                                                              \
	SUBJECT(coverage)                                                                          \
	SUBJECT(device_memory)                                                                     \
	SUBJECT(device_phases)                                                                     \
	SUBJECT(device_states)                                                                     \
	SUBJECT(device_use)                                                                        \
	SUBJECT(efficiency)                                                                        \
	SUBJECT(imbalance_tax)                                                                     \
	SUBJECT(inference)                                                                         \
	SUBJECT(kernels)                                                                           \
	SUBJECT(launch_metrics)                                                                    \
	SUBJECT(launches)                                                                          \
	SUBJECT(memory)                                                                            \
	SUBJECT(moe_lens)                                                                          \
	SUBJECT(named_spans)                                                                       \
	SUBJECT(ops)                                                                               \
	SUBJECT(overhead)                                                                          \
	SUBJECT(routing)                                                                           \
	SUBJECT(slow_steps)                                                                        \
	SUBJECT(steps)                                                                             \
	SUBJECT(timeline)                                                                          \
	SUBJECT(transfers)

#define SUBJECT(name)                                                                              \
	struct name;                                                                               \
	extern const struct subject subject_##name;
SUBJECTS(SUBJECT)
#undef SUBJECT

extern const struct subject *const subjects_all[]; /* up to NULL */

#endif
