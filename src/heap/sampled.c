/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled addresses; see sampled.h.
 */
#include "heap/sampled.h"

#include "trace/heap_file.h"

#define CHANGING 1 /* no address of an allocation */

_Static_assert(SAMPLED_BUCKETS *SAMPLED_WAYS == HEAP_LIVE_MOST, "readers keep as many");

uint64_t sampled_take(struct sampled *s, const void *address)
{
	uint32_t bucket = sampled_bucket(address);

	for (unsigned int way = 0; way < SAMPLED_WAYS; way++) {
		_Atomic uint64_t *slot = &s->addresses[bucket][way];
		uint64_t is = (uintptr_t)address, sample;

		if (atomic_load_explicit(slot, memory_order_relaxed) != is ||
		    !atomic_compare_exchange_strong_explicit(
			    slot, &is, CHANGING, memory_order_acquire, memory_order_relaxed))
			continue;
		sample = atomic_load_explicit(&s->samples[bucket][way], memory_order_relaxed);
		atomic_store_explicit(slot, 0, memory_order_release);
		atomic_fetch_sub_explicit(&s->counts[bucket], 1, memory_order_relaxed);
		return sample;
	}
	return 0;
}

bool sampled_put(struct sampled *s, const void *address, uint64_t sample, uint64_t *ret_before)
{
	uint32_t bucket = sampled_bucket(address);

	*ret_before = sampled_maybe(s, address) ? sampled_take(s, address) : 0;
	/* First: as long as an address is here, the count is not 0. */
	atomic_fetch_add_explicit(&s->counts[bucket], 1, memory_order_relaxed);
	for (unsigned int way = 0; way < SAMPLED_WAYS; way++) {
		_Atomic uint64_t *slot = &s->addresses[bucket][way];
		uint64_t none = 0;

		if (!atomic_compare_exchange_strong_explicit(
			    slot, &none, CHANGING, memory_order_acquire, memory_order_relaxed))
			continue;
		atomic_store_explicit(&s->samples[bucket][way], sample, memory_order_relaxed);
		atomic_store_explicit(slot, (uintptr_t)address, memory_order_release);
		return true;
	}
	atomic_fetch_sub_explicit(&s->counts[bucket], 1, memory_order_relaxed);
	return false;
}
