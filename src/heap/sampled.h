/* SPDX-License-Identifier: Apache-2.0
 *
 * Which addresses were sampled. Any thread, also in a signal handler: nothing waits and nothing is allocated.
 *
 * An address has one bucket of a few places. A count for each bucket tells a free of anything else, which is nearly
 * every one, with one load that there is nothing to look for. A free comes after its allocation by the
 * program's own order, so that it sees what that has put here.
 */
#ifndef HEAP_SAMPLED_H
#define HEAP_SAMPLED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SAMPLED_BITS 16
#define SAMPLED_BUCKETS (1u << SAMPLED_BITS)
#define SAMPLED_WAYS 8u

struct sampled {
	_Atomic uint8_t counts[SAMPLED_BUCKETS];
	_Atomic uint64_t addresses[SAMPLED_BUCKETS][SAMPLED_WAYS] __attribute__((aligned(64)));
	_Atomic uint64_t samples[SAMPLED_BUCKETS][SAMPLED_WAYS];
};

static inline uint32_t sampled_bucket(const void *address)
{
	return (uint32_t)(((uintptr_t)address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >>
			  (64 - SAMPLED_BITS));
}

/* False: it is certainly not there. */
static inline bool sampled_maybe(const struct sampled *s, const void *address)
{
	return atomic_load_explicit(&s->counts[sampled_bucket(address)], memory_order_relaxed) != 0;
}

/* sample: not 0. False: no place. *ret_before: the sample that had the address, whose end nobody saw; 0: none. */
bool sampled_put(struct sampled *s, const void *address, uint64_t sample, uint64_t *ret_before);
/* Takes it out: the sample; 0: it is not there. */
uint64_t sampled_take(struct sampled *s, const void *address);

#endif
