/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fuzz targets share: loading a run whole and touching every byte of it, so that a
 * sanitizer sees whatever is not there. One thread.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tables/tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Rows of each kind that were loaded, and a checksum over all their columns. */
struct fuzz_rows {
	uint64_t n[RECORD_KIND_LIMIT];
	uint32_t checksum;
};

/* Loads and touches; 0 or -errno. A failure without a sentence aborts. ret_rows may be NULL. */
int fuzz_load(const char *path, const struct run_want *want, struct fuzz_rows *ret_rows);

#endif
