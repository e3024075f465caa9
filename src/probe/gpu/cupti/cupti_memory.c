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
 * The same, what CUPTI frees or unmaps soon after, until it is attached again: part of its end may
 * come when the call returns in whose callback it was finalised. And what the driver frees inside
 * cuptiFinalize: its side of the same lists.
 *
 * Late, everything else, in case that there is more of this kind: after many later frees.
 *
 * Any thread.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "probe/gpu/clients/imports.h"
#include "probe/gpu/cupti/cupti_inside.h"

#define LATER_MOST 32768
#define SLOTS_MOST 4 /* of one function in one library */

#define KEEP_NS INT64_C(2000000000) /* after cuptiFinalize: until its thread is out for sure */

static _Atomic int64_t keep_until_ns; /* 0: nothing is kept */
static _Atomic uint32_t finalizing;   /* the thread that is inside cuptiFinalize, 0: none */
static _Atomic uint64_t kept_bytes;
static _Atomic bool redirected, sizes_known;
/* The buffer that CUPTI has just handed over on this thread. */
static __thread const uint8_t *handed_over;

/* By size, so that they are some tens of megabytes together. */
static struct later {
	size_t less_than; /* bytes */
	unsigned int n;
	_Atomic unsigned int next;
	void *_Atomic memory[LATER_MOST];
} later[] = { { .less_than = 1024, .n = LATER_MOST },
	      { .less_than = 65536, .n = 512 },
	      { .less_than = SIZE_MAX, .n = 16 } };

static void free_later(void *memory, size_t bytes)
{
	struct later *list = later;

	while (bytes >= list->less_than && list->less_than < SIZE_MAX)
		list++;
	free(atomic_exchange(&list->memory[atomic_fetch_add(&list->next, 1) % list->n], memory));
}

static bool keeps(void)
{
	int64_t until_ns = atomic_load(&keep_until_ns);

	return until_ns && clock_monotonic_ns() < until_ns;
}

static size_t bytes_of(void *memory)
{
	return sizes_known ? malloc_usable_size(memory) : SIZE_MAX;
}

static void keep_or_free(void *memory)
{
	if (!memory)
		return;
	if (keeps())
		atomic_fetch_add(&kept_bytes, bytes_of(memory));
	else if (handed_over && *(const uint8_t *const *)memory == handed_over)
		handed_over = NULL;
	else
		free_later(memory, bytes_of(memory));
}

/* realloc frees, too. */
static void *move(void *memory, size_t bytes)
{
	size_t before = memory && sizes_known ? malloc_usable_size(memory) : 0;
	void *moved;

	if (!memory || !sizes_known || !bytes)
		return realloc(memory, bytes);
	moved = malloc(bytes);
	if (moved) {
		memcpy(moved, memory, before < bytes ? before : bytes);
		keep_or_free(memory);
	}
	return moved;
}

static int keep_or_unmap(void *memory, size_t bytes)
{
	if (!keeps())
		return munmap(memory, bytes);
	atomic_fetch_add(&kept_bytes, bytes);
	return 0;
}

static void free_of_driver(void *memory)
{
	if (!memory)
		return;
	if (atomic_load(&finalizing) && atomic_load(&finalizing) == cupti_thread_id())
		atomic_fetch_add(&kept_bytes, malloc_usable_size(memory));
	else
		free(memory);
}

void cupti_handed_over(const uint8_t *buffer)
{
	handed_over = buffer;
}

/* Returns the function that was called so far, NULL if none was found. Not by the address that `free` has
 * here: in a program at a fixed address, as many builds of Python are, that may be the program's stub. */
static void *redirect(const void *inside, const char *symbol, void *replacement)
{
	struct import import = { .symbol = symbol, .replacement = replacement };
	void *first = NULL;

	for (int i = 0; i < SLOTS_MOST; i++) {
		import.original = imports_bound_in(inside, symbol, replacement);
		if (!import.original || imports_redirect_in(inside, &import) <= 0)
			break;
		first = first ? first : import.original;
	}
	return first;
}

/* An allocator of the program's own may have its free, but leave this to the C library. */
static bool are_of_one_module(void *a, void *b)
{
	Dl_info of_a, of_b;

	return dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

/* Without it CUPTI is finalised all the same: what it frees itself is what was seen in use. */
static void keep_memory_of_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *inside = driver ? dlsym(driver, "cuInit") : NULL;

	if (inside)
		redirect(inside, "free", (void *)free_of_driver);
	if (driver)
		dlclose(driver);
}

/* What is kept for cuptiFinalize alone is redirected only where it may come, and looked for each time:
 * a slot may not be bound before CUPTI has called the function. */
void cupti_prepare_keeping(bool detaches)
{
	static const struct {
		const char *symbol;
		void *replacement;
	} imports[] = {
		{ "free", (void *)keep_or_free },
		{ "realloc", (void *)move },
		{ "munmap", (void *)keep_or_unmap },
	};
	static bool driver_too;

	if (!cupti_api.cuptiFinalize || (!detaches && atomic_load(&redirected)))
		return;
	for (size_t i = 0; i < (detaches ? COUNT(imports) : 1); i++) {
		void *was = redirect((void *)cupti_api.cuptiFinalize, imports[i].symbol,
				     imports[i].replacement);

		if (!was || i > 0)
			continue;
		atomic_store(&sizes_known, are_of_one_module(was, (void *)malloc_usable_size));
		atomic_store(&redirected, true);
	}
	if (detaches && sizes_known && !driver_too)
		keep_memory_of_driver();
	driver_too |= detaches;
}

/* How much is kept has to be known. */
bool cupti_can_keep_memory(void)
{
	return atomic_load(&redirected) && sizes_known;
}

void cupti_finalize_begins(void)
{
	atomic_store(&keep_until_ns, INT64_MAX);
	atomic_store(&finalizing, cupti_thread_id());
}

void cupti_finalize_ended(void)
{
	atomic_store(&finalizing, 0);
	atomic_store(&keep_until_ns, clock_monotonic_ns() + KEEP_NS);
}

void cupti_attaching(void)
{
	atomic_store(&keep_until_ns, 0);
}

uint64_t cupti_kept_bytes(void)
{
	return atomic_load(&kept_bytes);
}
