/* SPDX-License-Identifier: Apache-2.0
 *
 * When requests are sent. Gaps are gamma distributed with the shape `burstiness` (1: Poisson; a
 * constant arrival has no spread), and rescaled so that the last of n requests is due n / rate
 * after the start, as in vLLM's bench. In a ramp each request has its own rate, and nothing is
 * rescaled.
 *
 * A trace is a file with one arrival per line: a number of seconds, or an object as in Mooncake's
 * traces {"timestamp": 27482, "input_length": 6955, "output_length": 52}, the lengths optional.
 * Timestamps in objects are milliseconds if all are whole numbers, otherwise seconds. The first
 * arrival is the start.
 */
#ifndef LAB_ARRIVALS_H
#define LAB_ARRIVALS_H

#include <stddef.h>
#include <stdint.h>

#include "lab/shared/experiment.h"

struct arrivals {
	size_t n;
	int64_t *due_ns;	/* after the start, ascending; NULL: each when a slot is free */
	int64_t *prompt_tokens; /* of a trace, -1: unknown; NULL: no trace */
	int64_t *output_tokens;
};

int arrivals_make(const struct experiment *experiment, struct arrivals *ret_arrivals,
		  struct err *err);
void arrivals_release(struct arrivals *arrivals);

#endif
