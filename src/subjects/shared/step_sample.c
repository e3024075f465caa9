/* SPDX-License-Identifier: Apache-2.0
 *
 * See step_sample.h.
 */
#include "subjects/shared/step_sample.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cmp.h"

static int number_order(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return CMP(x, y);
}

/* A step that can be looked at: finished, recorded, and nothing of it missed. */
static bool usable(const struct run *run, const struct coverage *coverage,
		   const struct step_row *row)
{
	return row->timed && row->recorded &&
	       (!run->kernel.n || coverage_has_step(coverage, run, row->row));
}

/* The numbers of the steps to look at, ascending; numbers: room for all of them. */
static size_t choose_steps(const struct run *run, const struct steps *steps,
			   const struct coverage *coverage, size_t most, int64_t *numbers)
{
	size_t n = 0, distinct = 0;

	for (size_t i = 0; i < steps->n; i++)
		if (usable(run, coverage, &steps->rows[i]))
			numbers[n++] = steps->rows[i].step;
	if (n)
		qsort(numbers, n, sizeof(*numbers), number_order);
	for (size_t i = 0; i < n; i++)
		if (!distinct || numbers[i] != numbers[distinct - 1])
			numbers[distinct++] = numbers[i];
	if (distinct <= most)
		return distinct;
	for (size_t i = 0; i < most; i++)
		numbers[i] = numbers[i * distinct / most];
	return most;
}

int step_sample_init(struct run *slice, const struct run *run, const struct steps *steps,
		     const struct coverage *coverage, size_t most, size_t *ret_n)
{
	int64_t *numbers = calloc(steps->n + 1, sizeof(*numbers));
	struct stretch *stretches = calloc(steps->n + 1, sizeof(*stretches));
	size_t n_numbers = 0, n = 0;
	int r = numbers && stretches ? 0 : -ENOMEM;

	if (r >= 0)
		n_numbers = choose_steps(run, steps, coverage, most, numbers);
	for (size_t i = 0; r >= 0 && i < steps->n; i++) {
		const struct step_row *row = &steps->rows[i];

		if (usable(run, coverage, row) &&
		    bsearch(&row->step, numbers, n_numbers, sizeof(*numbers), number_order))
			stretches[n++] = (struct stretch){ row->start_ns,
							   row->start_ns + row->duration_ns,
							   run->step.shard[row->row] };
	}
	if (r >= 0)
		r = run_slice_init(slice, run, stretches, n, run_slice_calls_before(run));
	free(numbers);
	free(stretches);
	*ret_n = n_numbers;
	return r;
}
