/* SPDX-License-Identifier: Apache-2.0
 *
 * What cuptiFinalize frees is kept, because CUPTI goes on using it.
 *
 * For records of kernels CUPTI has the driver call it at every call of the CUDA runtime. For each of
 * them it counts who wants that, plus the calls under way, in memory of its own. When it wants it no
 * more beside a call, also the one in whose callback it is finalised, or has begun to want it at the
 * moment when a call began, the driver is never told to stop: it goes on counting in memory that
 * cuptiFinalize has freed. So what that frees, on its thread and until it returns, is not freed: some
 * megabytes in a run. The counting then costs a little, and changes nothing of the program's.
 *
 * Any thread.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "probe/gpu/clients/imports.h"
#include "probe/gpu/cupti/cupti_inside.h"

static _Atomic bool keeping;
static pthread_t keeper; /* while keeping */
static _Atomic uint64_t kept_bytes;
static _Atomic bool redirected;

static void keep_or_free(void *memory)
{
	if (atomic_load(&keeping) && pthread_equal(keeper, pthread_self()))
		atomic_fetch_add(&kept_bytes, malloc_usable_size(memory));
	else
		free(memory);
}

/* The slot may not be bound before CUPTI has freed something. */
void cupti_prepare_keeping(void)
{
	static const struct import import = { "free", (void *)free, (void *)keep_or_free };

	if (!atomic_load(&redirected) && cupti_api.cuptiFinalize)
		atomic_store(&redirected,
			     imports_redirect_in((void *)cupti_api.cuptiFinalize, &import) > 0);
}

bool cupti_can_keep_memory(void)
{
	return atomic_load(&redirected);
}

void cupti_keep_memory(bool keep)
{
	if (keep)
		keeper = pthread_self();
	atomic_store(&keeping, keep);
}

uint64_t cupti_kept_bytes(void)
{
	return atomic_load(&kept_bytes);
}
