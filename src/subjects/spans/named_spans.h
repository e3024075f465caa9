/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges that may end on another thread than they began on (NVTX start and end), by name and
 * domain. They do not nest: times are sums of wall time and may overlap. Pure, any thread.
 */
#ifndef SUBJECTS_NAMED_SPANS_H
#define SUBJECTS_NAMED_SPANS_H

#include "tables/tables.h"

struct named_span {
	uint32_t name, domain; /* string ids; domain 0: the default one */
	uint64_t count, unfinished;
	uint64_t moved; /* ended on another thread */
	int64_t time_ns, max_ns;
};

struct named_spans {
	struct named_span *rows; /* by time, largest first */
	size_t n;
};

int named_spans_analyze(const struct run *run, struct named_spans *ret_spans);
void named_spans_release(struct named_spans *spans);

/* Its fields; see named_spans_fields.c. */
struct field_set;
extern const struct field_set named_spans_fields; /* "spans" */

#endif
