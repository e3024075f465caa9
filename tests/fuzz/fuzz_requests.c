/* SPDX-License-Identifier: Apache-2.0
 *
 * requests_read on an arbitrary file: what is read can be computed with in every dialect, and no
 * figure is infinite or negative.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "lab/serving/serving.h"

static void check_distribution(const struct distribution *d)
{
	const double values[] = { d->mean, d->std, d->min, d->p50, d->p90, d->p95, d->p99, d->max };

	if (!d->n && !d->reason)
		abort();
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (!isfinite(values[i]) || values[i] < 0)
			abort();
	/* Interpolation may be off by its last digit. */
	for (size_t i = 3; i + 1 < sizeof(values) / sizeof(values[0]); i++)
		if (values[i] > values[i + 1] * (1 + 1e-12))
			abort();
}

static void check(const struct requests *requests)
{
	const struct goodput_limit limit = { 100, 10, 1000 };

	for (int i = 0; i < DIALECTS; i++) {
		struct serving serving;

		if (serving_compute(requests, (enum dialect)i, &limit, &serving) < 0)
			abort();
		for (int k = 0; k < SERVING_METRICS; k++)
			check_distribution(&serving.metrics[k]);
		for (int k = 0; k < SERVING_RATES; k++) {
			double rate = serving_rate(&serving, (enum serving_rate)k);

			if (isinf(rate) || rate < 0 || (isnan(rate) && !serving.rate_reasons[k]))
				abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("requests", MFD_CLOEXEC);
	struct requests requests;
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (requests_read(path, &requests, NULL) == 0) {
		check(&requests);
		requests_release(&requests);
	}
	close(fd);
	return 0;
}
