/* SPDX-License-Identifier: Apache-2.0
 *
 * Native stacks of threads that stand still, where frame pointers are missing: by the tables that compilers write for
 * exceptions (.eh_frame), from the registers that the kernel took when the thread left its CPU and its stack in
 * memory. On x86-64; elsewhere there are none. One thread.
 */
#ifndef HOST_STACKS_UNWIND_H
#define HOST_STACKS_UNWIND_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct symbols;
struct unwinder;

/* Registers as DWARF numbers them on x86-64; the last is the instruction pointer. */
#define UNWIND_REGISTERS 17
enum { UNWIND_SP = 7, UNWIND_IP = 16 };
/* Which ones the kernel is to take (PERF_SAMPLE_REGS_USER); 0: none, there is no unwinding. */
uint64_t unwind_kernel_mask(void);
/* In the order of the mask; into that of DWARF. */
void unwind_take(const uint64_t *taken, uint64_t registers[UNWIND_REGISTERS]);

/* Of a process, by the files in its symbols, which must live longer. NULL: no memory, or no unwinding. */
struct unwinder *unwinder_open(pid_t pid, struct symbols *symbols);
void unwinder_close(struct unwinder *unwinder);

/* Innermost first; all but the first are return addresses. Returns how many, at least the first. */
size_t unwind(struct unwinder *unwinder, const uint64_t registers[UNWIND_REGISTERS], uint64_t *ips,
	      size_t most);

#endif
