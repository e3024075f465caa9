/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers that CUPTI fills. Any thread of CUPTI's or the program's.
 *
 * CUPTI writes the begin of a call into a buffer and its end later, even if a forced flush has
 * delivered the buffer meanwhile: a buffer with an unfinished record must never become somebody
 * else's memory. Its pages are released, its addresses are kept forever.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "probe/gpu/cupti/cupti_inside.h"
#include "probe/core/locks.h"

#define BUFFER_BYTES (UINT64_C(1) << 20)
#define KEPT 32 /* for the next requests */

PROBE_LOCK(lock);
static uint8_t *kept[KEPT];
static unsigned int n_kept;

void CUPTIAPI cupti_buffer_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
	uint8_t *found = NULL;
	void *mapped;

	pthread_mutex_lock(&lock);
	if (n_kept)
		found = kept[--n_kept];
	pthread_mutex_unlock(&lock);
	if (!found) {
		mapped = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		found = mapped == MAP_FAILED ? NULL : mapped;
	}
	/* Without memory CUPTI drops the records and counts them. */
	*buffer = found;
	*size = found ? BUFFER_BYTES : 0;
	*max_records = 0;
}

void cupti_buffer_release(uint8_t *buffer, bool unfinished)
{
	if (!buffer)
		return;
	if (unfinished) {
		madvise(buffer, BUFFER_BYTES, MADV_DONTNEED);
		return;
	}
	pthread_mutex_lock(&lock);
	if (n_kept < KEPT) {
		kept[n_kept++] = buffer;
		buffer = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (buffer)
		munmap(buffer, BUFFER_BYTES);
}
