/* SPDX-License-Identifier: Apache-2.0
 *
 * The step index; see selection.h. Pure, any thread. Steps of a shard do not overlap.
 */
#include "subjects/shared/selection.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cmp.h"
#include "subjects/numbers/order.h"

struct entry {
	int64_t start_ns;
	size_t row;
	uint16_t shard;
};

static int selected_steps_by_start(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->start_ns, y->start_ns) ?: CMP(x->row, y->row);
}

int step_index_init(struct step_index *index, const struct run *run)
{
	size_t n = run->step.n;
	struct entry *entries;

	*index = (struct step_index){ 0 };
	if (!n)
		return 0;
	entries = calloc(n, sizeof(*entries));
	index->rows = calloc(n, sizeof(*index->rows));
	if (!entries || !index->rows) {
		free(entries);
		step_index_release(index);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		entries[i] = (struct entry){ run->step.start_ns[i], i, run->step.shard[i] };
	qsort(entries, n, sizeof(*entries), selected_steps_by_start);
	for (size_t i = 0; i < n; i++)
		index->rows[i] = entries[i].row;
	index->n = n;
	free(entries);
	return 0;
}

void step_index_release(struct step_index *index)
{
	free(index->rows);
	*index = (struct step_index){ 0 };
}

static inline bool step_begins_by(const struct table_step *step, size_t row, uint16_t shard,
				  int64_t time_ns)
{
	return step->shard[row] < shard ||
	       (step->shard[row] == shard && step->start_ns[row] <= time_ns);
}

size_t step_index_find_near(const struct step_index *index, const struct run *run, uint16_t shard,
			    int64_t time_ns, size_t *hint)
{
	const struct table_step *step = &run->step;
	size_t low; /* one past the last entry that starts at or before the time */

	ORDER_FIND(low, index->n, *hint, step_begins_by(step, index->rows[probe], shard, time_ns));
	*hint = low;
	if (!low)
		return SIZE_MAX;
	low = index->rows[low - 1];
	if (step->shard[low] != shard || time_ns - step->start_ns[low] >= step->duration_ns[low])
		return SIZE_MAX;
	return low;
}

size_t step_index_find(const struct step_index *index, const struct run *run, uint16_t shard,
		       int64_t time_ns)
{
	size_t hint = index->n;

	return step_index_find_near(index, run, shard, time_ns, &hint);
}
