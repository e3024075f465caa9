/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernels are kept: those whose name matches the POSIX extended regular expression in
 * MOESCOPE_KERNEL, all of them without it. Names are matched as the compiler wrote them
 * (_Z15expert_gemm_silu...), anywhere in the name: 'gemm' finds it, '^expert' does not. Names of C
 * functions are what they are.
 *
 * One thread at a time, under a lock of the caller's; kernel_filter_skipped from any thread.
 */
#ifndef PROBE_CORE_KERNEL_FILTER_H
#define PROBE_CORE_KERNEL_FILTER_H

#include <stdbool.h>
#include <stdint.h>

/* Reads MOESCOPE_KERNEL and sets the count to 0. An expression that makes no sense keeps all
 * kernels, and a fact of the run says so. Before the first kernel of a session. */
void kernel_filter_start(void);

/* name_id: of the interned name, by which the answer is remembered; 0: not interned. */
bool kernel_filter_keeps(uint32_t name_id, const char *name);

/* Times that kernel_filter_keeps said no since the start. */
uint64_t kernel_filter_skipped(void);

#endif
