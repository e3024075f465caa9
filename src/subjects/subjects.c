/* SPDX-License-Identifier: Apache-2.0
 *
 * The subjects by their findings; see subjects.h.
 */
#include "subjects/answers.h"

#define SUBJECT(name, find) const struct subject subject_##name = { #name, find };
SUBJECT(api_calls, FIND_API)
SUBJECT(comm, FIND_COMM)
SUBJECT(coverage, 0)
SUBJECT(device_memory, FIND_MEMORY)
SUBJECT(device_phases, FIND_DEVICE_PHASES | FIND_STEPS)
SUBJECT(device_states, FIND_MEMORY)
SUBJECT(device_use, FIND_TIMELINE)
SUBJECT(efficiency, FIND_EFFICIENCY | FIND_OPS | FIND_ROUTING)
SUBJECT(imbalance_tax, FIND_TAX | FIND_STEPS | FIND_ROUTING)
SUBJECT(inference, FIND_INFERENCE)
SUBJECT(kernels, FIND_KERNELS)
SUBJECT(launch_metrics, FIND_COUNTERS)
SUBJECT(launches, FIND_LAUNCHES)
SUBJECT(memory, FIND_MEMORY)
SUBJECT(moe_lens, FIND_MOE)
SUBJECT(named_spans, FIND_SPANS)
SUBJECT(ops, FIND_OPS)
SUBJECT(overhead, FIND_OVERHEAD)
SUBJECT(routing, FIND_ROUTING)
SUBJECT(slow_steps, FIND_SLOW | FIND_STEPS)
SUBJECT(steps, FIND_STEPS)
SUBJECT(timeline, FIND_TIMELINE)
SUBJECT(transfers, FIND_TRANSFERS)

unsigned int subjects_find(const struct subject *const *reads)
{
	unsigned int find = 0;

	while (*reads)
		find |= (*reads++)->find;
	return find;
}
