/* SPDX-License-Identifier: Apache-2.0
 *
 * What CUPTI frees is freed late or never, because CUPTI goes on using it.
 *
 * Never, what cuptiFinalize frees. For records of kernels CUPTI has the driver call it at every call
 * of the CUDA runtime. For each of them it counts who wants that, plus the calls under way, in memory
 * of its own. When it wants it no more beside a call, also the one in whose callback it is finalised,
 * or has begun to want it at the moment when a call began, the driver is never told to stop: it goes
 * on counting in memory that cuptiFinalize has freed. That is some megabytes in a run. The counting
 * then costs a little, and changes nothing of the program's.
 *
 * Never, the few bytes that say where a buffer is. A thread of the program reserves its record in a
 * buffer and then asks there for the buffer's address, without a lock. Meanwhile CUPTI's worker may
 * find all records of that buffer complete, a new one's because there are none, hand it over and free
 * those bytes: the record would be written wherever they now point, as a rule into the program's
 * heap. Kept, they point to the buffer, which remains ours (cupti_buffers.c).
 *
 * Late, everything else, in case that there is more of this kind: after many later frees.
 *
 * Any thread.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

#include "probe/gpu/clients/imports.h"
#include "probe/gpu/cupti/cupti_inside.h"

#define LATER_SMALL 32768
#define LATER_LARGE 16
#define LARGE_BYTES 1024

static _Atomic bool keeping;
static _Atomic uint64_t kept_bytes;
static _Atomic bool redirected;
static bool sizes_known; /* set before that */
/* The buffer that CUPTI has just handed over on this thread. */
static __thread const uint8_t *handed_over;

struct later {
	_Atomic unsigned int next;
	unsigned int n;
	void *_Atomic *memory;
};

static void *_Atomic small_memory[LATER_SMALL], *_Atomic large_memory[LATER_LARGE];
static struct later later_small = { .n = LATER_SMALL, .memory = small_memory },
		    later_large = { .n = LATER_LARGE, .memory = large_memory };

static void free_later(struct later *later, void *memory)
{
	free(atomic_exchange(&later->memory[atomic_fetch_add(&later->next, 1) % later->n], memory));
}

/* An allocator of the program's own may have its free, but leave this to the C library. */
static bool are_of_one_module(void *a, void *b)
{
	Dl_info of_a, of_b;

	return dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

static void keep_or_free(void *memory)
{
	size_t bytes = memory && sizes_known ? malloc_usable_size(memory) : LARGE_BYTES;

	if (!memory)
		return;
	if (atomic_load(&keeping)) {
		atomic_fetch_add(&kept_bytes, bytes);
	} else if (handed_over && *(const uint8_t *const *)memory == handed_over) {
		handed_over = NULL;
	} else {
		free_later(bytes < LARGE_BYTES ? &later_small : &later_large, memory);
	}
}

void cupti_handed_over(const uint8_t *buffer)
{
	handed_over = buffer;
}

/* The slot may not be bound before CUPTI has freed something. */
void cupti_prepare_keeping(void)
{
	static const struct import import = { "free", (void *)free, (void *)keep_or_free };

	if (atomic_load(&redirected) || !cupti_api.cuptiFinalize)
		return;
	sizes_known = are_of_one_module((void *)free, (void *)malloc_usable_size);
	atomic_store(&redirected,
		     imports_redirect_in((void *)cupti_api.cuptiFinalize, &import) > 0);
}

/* How much is kept has to be known. */
bool cupti_can_keep_memory(void)
{
	return atomic_load(&redirected) && sizes_known;
}

void cupti_keep_memory(bool keep)
{
	atomic_store(&keeping, keep);
}

uint64_t cupti_kept_bytes(void)
{
	return atomic_load(&kept_bytes);
}
