/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory by the program's allocator and by the driver, as subjects; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/memory/device_memory.h"
#include "subjects/memory/memory.h"

static int compute_device_memory(const struct material *m, void *answer)
{
	return device_memory_analyze(m->run, answer);
}

SUBJECT_RELEASE(device_memory)

const struct subject subject_device_memory = {
	.id = SUBJECT_ID_device_memory,
	.name = "device_memory",
	.size = sizeof(struct device_memory),
	.length = 28,
	.kinds = WANT(DEVICE_MEMORY) | WANT(POOL) | WANT(SAMPLE) | WANT(DEVICE),
	.compute = compute_device_memory,
	.release = release_device_memory,
};

static int compute_memory(const struct material *m, void *answer)
{
	int r = memory_analyze_at(m->run, 0, m->question->at, answer);

	if (r >= 0)
		memory_join(answer, answer_device_memory(&m->answers));
	return r;
}

SUBJECT_RELEASE(memory)

const struct subject subject_memory = {
	.id = SUBJECT_ID_memory,
	.name = "memory",
	.size = sizeof(struct memory),
	.length = 29,
	.kinds = WANT(MEMORY) | WANT(STEP) | WANT(RANGE) | WANT(OP) | WANT(COUNTER) | WANT(SAMPLE) |
		 WANT(DEVICE_MEMORY),
	.reads = READS(&subject_device_memory),
	.compute = compute_memory,
	.release = release_memory,
};
