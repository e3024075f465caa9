/* SPDX-License-Identifier: Apache-2.0
 *
 * The device recorder in a build without the CUDA headers: it says so.
 */
#include <errno.h>

#include "moescope.h"

int moescope_recorder_open(const struct moescope_recorder_options *options,
			   struct moescope_recorder **ret_recorder)
{
	(void)options;
	(void)ret_recorder;
	return -ENOTSUP;
}

int moescope_recorder_route(struct moescope_recorder *recorder,
			    const struct moescope_device_routing *routing)
{
	(void)recorder;
	(void)routing;
	return -ENOTSUP;
}

int moescope_recorder_routes(struct moescope_recorder *recorder,
			     const struct moescope_device_routing *routings, size_t n)
{
	(void)recorder;
	(void)routings;
	(void)n;
	return -ENOTSUP;
}

void moescope_recorder_lost(struct moescope_recorder *recorder, uint64_t calls)
{
	(void)recorder;
	(void)calls;
}

int moescope_recorder_step(struct moescope_recorder *recorder, int64_t step, void *stream)
{
	(void)recorder;
	(void)step;
	(void)stream;
	return -ENOTSUP;
}

int moescope_recorder_gate(struct moescope_recorder *recorder, int on, void *stream)
{
	(void)recorder;
	(void)on;
	(void)stream;
	return -ENOTSUP;
}

int moescope_recorder_flush(struct moescope_recorder *recorder)
{
	(void)recorder;
	return -ENOTSUP;
}

void moescope_recorder_close(struct moescope_recorder *recorder)
{
	(void)recorder;
}

const char *moescope_recorder_words(void)
{
	return "this libmoescope was built without the CUDA headers: build it with the toolkit, or "
	       "with the headers that 'make' fetches";
}
