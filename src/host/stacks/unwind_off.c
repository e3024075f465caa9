/* SPDX-License-Identifier: Apache-2.0
 *
 * A machine without unwinding; see unwind.h.
 */
#include "host/stacks/unwind.h"

uint64_t unwind_kernel_mask(void)
{
	return 0;
}

void unwind_take(const uint64_t *taken, uint64_t registers[UNWIND_REGISTERS])
{
	(void)taken;
	(void)registers;
}

struct unwinder *unwinder_open(pid_t pid, struct symbols *symbols)
{
	(void)pid;
	(void)symbols;
	return NULL;
}

void unwinder_close(struct unwinder *unwinder)
{
	(void)unwinder;
}

size_t unwind(struct unwinder *unwinder, const uint64_t registers[UNWIND_REGISTERS], uint64_t *ips,
	      size_t most)
{
	(void)unwinder;
	(void)registers;
	(void)ips;
	(void)most;
	return 0;
}
