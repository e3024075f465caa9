/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of one device at fixed intervals, whoever works on it: PM sampling. Nothing runs in the program that is
 * looked at, and clocks stay as they are. One thread.
 */
#ifndef COUNTERS_PM_SAMPLER_H
#define COUNTERS_PM_SAMPLER_H

#include <stdbool.h>

#include "counters/sets.h"

struct pm_sampler;

/* device: CUDA's number. 0, or -errno with a sentence. It samples from then on. */
int pm_sampler_open(struct pm_sampler **ret_sampler, int device, int64_t interval_ns,
		    struct err *err);
const struct timed_counter *pm_sampler_counters(const struct pm_sampler *sampler, size_t *ret_n);
/* Ends sampling. NULL is fine. */
void pm_sampler_close(struct pm_sampler *sampler);

/* What has come since: values in the order of the counters, NaN for one that was not counted. Times are of the
 * device's clock. */
struct pm_sample {
	int64_t start_ns, end_ns;
	const double *values;
};
typedef void pm_sample_fn(void *context, const struct pm_sample *sample);
/* 0, or -errno with a sentence. *ret_lost: the device had no room for some. */
int pm_sampler_drain(struct pm_sampler *sampler, pm_sample_fn *fn, void *context, bool *ret_lost,
		     struct err *err);

/* The device's clock is not the host's, and there is no call for both without a context. No sample has ended
 * before sampling was asked for, and none is read before it ended: what is to be added to the device's times to have
 * CLOCK_MONOTONIC is between these bounds. Their middle is told, and *ret_error_ns is how far it can be off. */
int64_t pm_sampler_offset(const struct pm_sampler *sampler, int64_t *ret_error_ns);

#endif
