/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls into the CUDA runtime and driver, by name, and how long after them the device began.
 */
#ifndef SUBJECTS_API_CALLS_H
#define SUBJECTS_API_CALLS_H

#include "subjects/numbers/stats.h"
#include "subjects/numbers/value.h"
#include "subjects/shared/selection.h"

struct attribution;

struct api_row {
	uint32_t name; /* string id */
	bool driver;
	uint64_t count, errors; /* errors: calls whose status is not 0 */
	uint64_t not_told;	/* calls whose status is not known */
	int64_t time_ns;
	struct stats_summary summary; /* of the calls, ns */
	double share_pct;
	/* Median of device start - call start, of the first timed record of each call. */
	struct value latency_ns;
	uint64_t launches; /* calls that the median is over */
};

struct api_calls {
	struct api_row *rows; /* by time, largest first */
	size_t n;
	uint64_t count, errors, not_told;
	int64_t time_ns;
	struct value latency_ns; /* over all calls */
	uint64_t launches;
};

int api_calls_analyze(const struct run *run, const struct selection *sel,
		      struct api_calls *ret_calls);
/* With an attribution of the run that is there already; of its calls at least. */
int api_calls_analyze_at(const struct attribution *at, const struct selection *sel,
			 struct api_calls *ret_calls);
void api_calls_release(struct api_calls *calls);

/* Its fields; see api_fields.c. */
struct field_set;
extern const struct field_set api_fields, api_total;

#endif
