/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled stacks for exports; see samples.h.
 */
#include "exports/stacks/samples.h"

#include <errno.h>
#include <stdlib.h>

#include "subjects/stacks/sampled_stacks.h"

static int init(struct samples *s, const struct run *run, uint32_t *rows)
{
	*s = (struct samples){ .run = run, .rows = rows, .parents = stack_parents(run) };
	return s->rows && s->parents ? 0 : -ENOMEM;
}

int samples_init(struct samples *s, const struct run *run)
{
	return init(s, run, stack_rows_of_samples(run));
}

int samples_init_heap(struct samples *s, const struct run *run)
{
	return init(s, run, stack_rows_of_heap(run));
}

void samples_release(struct samples *s)
{
	free(s->rows);
	free(s->parents);
}

void samples_walk(struct samples *s, size_t i)
{
	s->depth = 0;
	for (uint32_t at = s->rows[i]; at != UINT32_MAX && s->depth < SAMPLE_DEPTH;
	     at = s->parents[at])
		s->path[s->depth++] = run_string(s->run, s->run->stack.name[at]);
}

size_t sample_parts(const struct run *run, size_t i, struct sample_part parts[SAMPLE_PARTS])
{
	static const char *const causes[] = {
#define CAUSE(id, NAME, name, words) [WAIT_##NAME] = "(waiting: " #name ")",
		WAIT_CAUSES(CAUSE)
#undef CAUSE
	};
	struct stack_times times = stack_sample_times(run, i);
	unsigned int cause = stack_times_cause(&times);
	size_t n = 0;

	if (times.cpu_ns)
		parts[n++] = (struct sample_part){ times.cpu_ns, NULL };
	if (times.ready_ns)
		parts[n++] = (struct sample_part){ times.ready_ns, "(waiting: processor)" };
	if (times.wait_ns)
		parts[n++] = (struct sample_part){ times.wait_ns, causes[cause] };
	return n;
}
