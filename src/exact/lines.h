/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the source of kernels: cubins that have line information are copied when the driver loads them, and asked
 * for instructions later. Any thread; no lock of this is held while CUPTI is called.
 */
#ifndef EXACT_LINES_H
#define EXACT_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "moescope.h"

struct source_line {
	moescope_name file; /* 0: not known */
	uint32_t line;
};

/* A cubin that is being loaded. Copied if it has line information and there is room. */
void lines_keep(const void *cubin, size_t size);
/* module: CUPTI's checksum of the cubin. name: of the kernel, interned. One caller at a time. */
struct source_line lines_of(uint64_t module, const char *kernel, moescope_name name,
			    uint64_t offset);
/* Cubins with line information for which there was no room. */
uint64_t lines_left_out(void);

#endif
