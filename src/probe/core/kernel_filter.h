/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernels are kept: those whose name matches the POSIX extended regular expression in
 * MOESCOPE_KERNEL, or all without it. Mangled names (_Z15expert_gemm_silu...) are matched anywhere:
 * 'gemm' finds it, '^expert' does not. Names of C functions are unmangled.
 *
 * One thread at a time, under the caller's lock; kernel_filter_skipped from any thread.
 */
#ifndef PROBE_CORE_KERNEL_FILTER_H
#define PROBE_CORE_KERNEL_FILTER_H

#include <stdbool.h>
#include <stdint.h>

/* Reads MOESCOPE_KERNEL and resets the count. An invalid expression keeps all kernels, and a fact
 * of the run says so. Call it before the first kernel of a session. */
void kernel_filter_start(void);

/* name_id: id of the interned name, which indexes the cached answer; 0: not interned. */
bool kernel_filter_keeps(uint32_t name_id, const char *name);

/* How often kernel_filter_keeps has said no since the start. */
uint64_t kernel_filter_skipped(void);

#endif
