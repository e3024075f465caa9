/* SPDX-License-Identifier: Apache-2.0
 *
 * The SIGBUS handler; see bus_guard.h. Any thread of the program may be in it at any time, so the
 * data it reads is static and never freed.
 */
#include "trace/bus_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PARTS 2048

static struct {
	_Atomic uintptr_t at; /* 0: not used */
	_Atomic uint64_t bytes;
} parts[PARTS];
static _Atomic uint32_t n_parts;

static struct sigaction previous;
static bool installed, covered; /* covered: another handler was installed over ours, and may call
				 * it */

void bus_guard_add(void *at, uint64_t bytes)
{
	uint32_t n = atomic_load(&n_parts), i = 0;

	while (i < n && atomic_load(&parts[i].at))
		i++;
	if (i == PARTS)
		return;
	atomic_store(&parts[i].bytes, bytes);
	atomic_store(&parts[i].at, (uintptr_t)at);
	if (i == n)
		atomic_store(&n_parts, n + 1);
}

void bus_guard_remove(const void *at)
{
	uint32_t n = atomic_load(&n_parts);

	for (uint32_t i = 0; i < n; i++)
		if (atomic_load(&parts[i].at) == (uintptr_t)at)
			atomic_store(&parts[i].at, 0);
}

/* Maps memory over the part that contains the address. */
static bool replace_part(uintptr_t address)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
	uint32_t n = atomic_load(&n_parts);

	for (uint32_t i = 0; i < n; i++) {
		uintptr_t at = atomic_load(&parts[i].at);
		uint64_t bytes = atomic_load(&parts[i].bytes);

		if (at && address - at < bytes) {
			void *part = (void *)at; // NOLINT(performance-no-int-to-ptr)

			return mmap(part, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) !=
			       MAP_FAILED;
		}
	}
	return false;
}

/* What the kernel would have done. */
static void die(int number, siginfo_t *info)
{
	const struct sigaction standard = { .sa_handler = SIG_DFL };

	sigaction(number, &standard, NULL);
	/* Blocked until the handler returns, then delivered before the program's next
	 * instruction. */
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info) < 0)
		raise(number);
}

static void on_bus(int number, siginfo_t *info, void *context)
{
	const struct sigaction standard = { .sa_handler = SIG_DFL };
	int saved = errno;

	if (info->si_code > 0 && replace_part((uintptr_t)info->si_addr)) {
		errno = saved;
		return;
	}
	if (previous.sa_flags & (int)SA_RESETHAND)
		sigaction(number, &standard, NULL);
	errno = saved;
	if (previous.sa_flags & SA_SIGINFO)
		previous.sa_sigaction(number, info, context);
	else if (previous.sa_handler != SIG_DFL)
		previous.sa_handler(number);
	else
		die(number, info);
}

void bus_guard_install(void)
{
	struct sigaction ours;

	if (installed || covered || sigaction(SIGBUS, NULL, &previous) < 0)
		return;
	/* Without a handler, ignored signals interrupt nothing: leave it so. */
	if (!(previous.sa_flags & SA_SIGINFO) && previous.sa_handler == SIG_IGN)
		return;
	ours = previous;
	ours.sa_sigaction = on_bus;
	if (!(previous.sa_flags & SA_SIGINFO) && previous.sa_handler == SIG_DFL)
		ours.sa_flags = SA_ONSTACK | SA_RESTART;
	ours.sa_flags = (ours.sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
	installed = sigaction(SIGBUS, &ours, NULL) == 0;
}

void bus_guard_restore(void)
{
	struct sigaction now;

	if (!installed)
		return;
	installed = false;
	if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
	    now.sa_sigaction == on_bus)
		sigaction(SIGBUS, &previous, NULL);
	else
		covered = true;
}
