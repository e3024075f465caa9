/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges and operations share one stack per thread but are two tables: here they are one list
 * again. Pure, any thread.
 */
#ifndef SUBJECTS_NESTING_H
#define SUBJECTS_NESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tables/tables.h"

struct nested {
	int64_t start_ns, end_ns;
	size_t row; /* into run->op or run->range */
	uint32_t thread;
	uint16_t shard;
	uint8_t depth;
	bool is_op;
};

enum nesting_order {
	NESTING_LATEST_FIRST, /* per thread by end, latest first, outer before inner */
	NESTING_BY_START,     /* per thread by start, outer before inner */
};

/* All ranges and operations of the run, thread after thread. *ret_list: free() it; NULL when
 * there are none. */
int nesting_collect(const struct run *run, enum nesting_order order, struct nested **ret_list,
		    size_t *ret_n);

#endif
