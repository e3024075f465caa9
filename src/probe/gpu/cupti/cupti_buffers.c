/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers that CUPTI fills. Any thread of CUPTI's or the program's.
 *
 * CUPTI writes the begin of a call into a buffer and its end later, even if a forced flush has
 * delivered the buffer meanwhile: a buffer must never become somebody else's memory. So its
 * addresses are kept forever; only pages are released. It is used again unless a record is unfinished
 * or it came back empty, and not at once: a thread of the program may be about to write into it
 * (cupti_memory.c).
 */
#include <pthread.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "probe/gpu/cupti/cupti_inside.h"
#include "probe/core/locks.h"

#define BUFFER_BYTES (UINT64_C(1) << 20)
#define KEPT 4096     /* for the next requests; more are never in use */
#define KEPT_PAGES 32 /* of which these keep their pages */

PROBE_LOCK(lock);
#define REUSE_NS INT64_C(100000000)

static struct {
	uint8_t *buffer;
	int64_t since_ns;
} kept[KEPT]; /* a ring, oldest first */
static unsigned int first, n_kept;

void CUPTIAPI cupti_buffer_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
	uint8_t *found = NULL;
	void *mapped;

	pthread_mutex_lock(&lock);
	if (n_kept && clock_monotonic_ns() - kept[first].since_ns >= REUSE_NS) {
		found = kept[first].buffer;
		first = (first + 1) % KEPT;
		n_kept--;
	}
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
	pthread_mutex_lock(&lock);
	if (unfinished || n_kept >= KEPT_PAGES)
		madvise(buffer, BUFFER_BYTES, MADV_DONTNEED);
	if (!unfinished && n_kept < KEPT) {
		kept[(first + n_kept) % KEPT].buffer = buffer;
		kept[(first + n_kept++) % KEPT].since_ns = clock_monotonic_ns();
	}
	pthread_mutex_unlock(&lock);
}
