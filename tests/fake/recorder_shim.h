/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder's kernels as C: a launch runs block after block, and in a block the threads one after
 * the other between two barriers. One thread launches at a time.
 */
#ifndef FAKE_RECORDER_SHIM_H
#define FAKE_RECORDER_SHIM_H

#include <math.h>
#include <string.h>
#include <time.h>

#define ON_DEVICE static inline
#define ADD(to, n) (*(to) += (n))
#define TAKE_TICKET(to) ((*(to))++)
#define FENCE()
#define PREFETCH(from) (void)(from)
#define READ_SHARED(from) __atomic_load_n(from, __ATOMIC_ACQUIRE)
#define PUBLISH(to, value) __atomic_store_n(to, value, __ATOMIC_RELEASE)

static inline float bits_as_float(unsigned int bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* A device's timer has an epoch of its own. */
static inline unsigned long long device_time_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec +
	       12345678901234567ULL;
}

#include "probe/routing/recorder.cu"

/* As the kernel moescope_route. The places of the barriers are the ends of the loops. */
static inline void shim_route(const struct recorder_call *call, unsigned int blocks,
			      unsigned int threads)
{
	unsigned long long block_words[(BLOCK_WORDS + 1) / 2];
	unsigned int *block = (unsigned int *)block_words;

	for (unsigned int b = 0; b < blocks; b++) {
		struct recorder_layer *to = layer_of(call);
		unsigned int base = to->rows;

		for (unsigned int t = 0; t < threads; t++)
			route_prefetch(call, b * threads + t);
		if (!route_opens(call, b == 0))
			return;
		memset(block_words, 0xa5, sizeof(block_words)); /* nobody clears it for a kernel */
		if (call->rows <= RECORDER_DIRECT_ROWS) {
			for (unsigned int t = 0; t < threads; t++)
				route_rows(call, t, threads, to, k_hist_of(to) + call->max_k + 1,
					   base);
		} else {
			unsigned int *load = block + RECORDER_LAYER_WORDS + call->max_k + 1;

			for (unsigned int t = 0; t < threads; t++)
				block_clear(call, block, t);
			for (unsigned int t = 0; t < threads; t++)
				route_rows(call, b * threads + t, blocks * threads,
					   (struct recorder_layer *)block,
					   load + t / 32 % call->copies * call->experts, base);
			for (unsigned int t = 0; t < threads; t++)
				block_merge(call, block, t, to);
		}
		route_ends(call, to, blocks);
	}
}

/* As the kernel moescope_routes: blocks in an order that nobody has promised. */
static inline void shim_routes(const struct recorder_calls *calls, unsigned int blocks,
			       unsigned int threads)
{
	for (unsigned int b = blocks; b-- > 0;) {
		struct recorder_call call = one_of(calls, b);

		shim_route(&call, 1, threads);
	}
}

#endif
