/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernels (or ranges) are kept: those whose name matches the POSIX extended regular expression in an environment
 * variable, or all without it. Mangled names (_Z15expert_gemm_silu...) are matched anywhere: 'gemm' finds it, '^expert'
 * does not. Names of C functions are unmangled.
 *
 * One thread at a time, under the caller's lock; name_filter_skipped from any thread.
 */
#ifndef PROBE_CORE_NAME_FILTER_H
#define PROBE_CORE_NAME_FILTER_H

#include <regex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct name_filter {
	const char *variable, *what; /* "MOESCOPE_KERNEL", "kernel" */
	bool filtering;
	regex_t pattern;
	uint8_t *answers; /* two bits for each name id */
	uint32_t n_bytes;
	_Atomic uint64_t skipped;
};

#define KERNEL_FILTER                                                                              \
	{                                                                                          \
		.variable = "MOESCOPE_KERNEL", .what = "kernel"                                    \
	}
#define RANGE_FILTER                                                                               \
	{                                                                                          \
		.variable = "MOESCOPE_RANGE", .what = "range"                                      \
	}
extern struct name_filter kernel_filter; /* of the records of kernels; see cupti_records.c */

/* Reads the variable and resets the count. An invalid expression keeps all, and a fact of the run says so. Call it before
 * the first name of a session. */
void name_filter_start(struct name_filter *filter);

/* name_id: id of the interned name, which indexes the cached answer; 0: not interned. */
bool name_filter_keeps(struct name_filter *filter, uint32_t name_id, const char *name);

/* How often name_filter_keeps has said no since the start. */
uint64_t name_filter_skipped(const struct name_filter *filter);

#endif
