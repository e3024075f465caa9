/* SPDX-License-Identifier: Apache-2.0
 *
 * Device time of single ranges and operations, for ops.c.
 */
#ifndef SUBJECTS_OPS_GPU_H
#define SUBJECTS_OPS_GPU_H

#include "subjects/numbers/nesting.h"
#include "subjects/numbers/value.h"
#include "subjects/shared/attribution.h"
#include "subjects/shared/selection.h"

struct ops_gpu {
	bool known;
	const char *reason; /* when not known */
	/* By row of the two tables: device time launched inside, without and with children. */
	int64_t *range_self, *op_self;
	int64_t *range_total, *op_total;
	int64_t outside_ns, unplaced_ns;
};

/* Why the device time of operations is not known; NULL: it is. */
const char *ops_gpu_unknown(const struct run *run);
/* `at`: only its run is looked at when device time is not known. `list`: NESTING_LATEST_FIRST. Only
 * work of the selected steps counts. */
int ops_gpu_init(struct ops_gpu *gpu, const struct attribution *at, const struct selection *sel,
		 const struct nested *list, size_t n);
void ops_gpu_release(struct ops_gpu *gpu);

static inline int64_t ops_gpu_self(const struct ops_gpu *gpu, const struct nested *item)
{
	return !gpu->known ? 0 : item->is_op ? gpu->op_self[item->row] : gpu->range_self[item->row];
}

static inline int64_t ops_gpu_total(const struct ops_gpu *gpu, const struct nested *item)
{
	return !gpu->known   ? 0
	       : item->is_op ? gpu->op_total[item->row]
			     : gpu->range_total[item->row];
}

#endif
