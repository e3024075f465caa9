/* SPDX-License-Identifier: Apache-2.0
 *
 * Detects when a server gets more requests than it can serve: over the later half of the time so
 * far both the requests in flight and the times to first token grow linearly, with 95% confidence
 * and by much. GuideLLM's idea; the thresholds are ours. One thread.
 */
#ifndef LAB_SATURATION_H
#define LAB_SATURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SATURATION_SECONDS 5  /* not reported before */
#define SATURATION_SAMPLES 30 /* nor from fewer, of each kind */
#define SATURATION_GROWTH 1.5 /* the line's end over its start */

struct saturation_series {
	double *at_s, *value;
	size_t n, at_capacity, value_capacity;
	size_t first; /* of the later half */
};

struct saturation {
	struct saturation_series under_way, ttft;
	double shortest_s; /* successful request; 0: none yet */
	double next_test_s;
};

void saturation_release(struct saturation *saturation);
/* Times are seconds after the start, ascending. 0 or -ENOMEM. */
int saturation_sent(struct saturation *saturation, double at_s, size_t under_way);
int saturation_first_token(struct saturation *saturation, double at_s, double ttft_s);
void saturation_ended(struct saturation *saturation, double latency_s);
bool saturation_test(struct saturation *saturation, double now_s);

#endif
