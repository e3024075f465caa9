/* SPDX-License-Identifier: Apache-2.0
 *
 * Wake-ups by futex; see wake.h.
 */
#include "base/wake.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { IDLE, WOKEN, ASLEEP };

void wake_up(struct wake *wake)
{
	int saved = errno;

	if (atomic_exchange(&wake->state, WOKEN) == ASLEEP)
		syscall(SYS_futex, &wake->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}

bool wake_wait(struct wake *wake, int ms)
{
	int64_t until_ns = clock_monotonic_ns() + (int64_t)ms * 1000000;
	uint32_t idle = IDLE;

	if (!atomic_compare_exchange_strong(&wake->state, &idle, ASLEEP))
		return atomic_exchange(&wake->state, IDLE) == WOKEN;
	while (atomic_load(&wake->state) == ASLEEP) {
		int64_t left_ns = until_ns - clock_monotonic_ns();
		struct timespec left = { left_ns / 1000000000, left_ns % 1000000000 };

		if (ms >= 0 && left_ns <= 0)
			break;
		syscall(SYS_futex, &wake->state, FUTEX_WAIT_PRIVATE, ASLEEP, ms < 0 ? NULL : &left,
			NULL, 0);
	}
	return atomic_exchange(&wake->state, IDLE) == WOKEN;
}
