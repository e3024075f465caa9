/* SPDX-License-Identifier: Apache-2.0
 *
 * A training run on disk: configuration, step, random state, parameters and optimizer moments.
 *
 * The file is a header of CHECKPOINT_HEADER_BYTES (little-endian; magic, version, size of a value,
 * the fields of struct config, step, random state, number of parameters, checksum of the header
 * before it), then three arrays (parameters, first and second moments) of raw little-endian
 * values, then the checksum of the whole file before it. Checksums are 64-bit FNV-1a. Files are
 * untrusted: sizes are checked before anything is allocated.
 */
#ifndef TINYMOE_CHECKPOINT_H
#define TINYMOE_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tinymoe/parameters/config.h"
#include "tinymoe/system/real.h"
#include "tinymoe/system/rng.h"

struct failure;

enum { CHECKPOINT_VERSION = 1, CHECKPOINT_HEADER_BYTES = 192 };

/* What a header says. */
struct checkpoint {
	struct config config;
	int64_t step; /* steps completed: the number of the next one */
	struct rng batches;
	uint64_t parameters;
};

/* The three arrays have checkpoint->parameters values each. */
int checkpoint_write(const char *path, const struct checkpoint *checkpoint, const real *params,
		     const real *mean, const real *square, struct failure *failure);

struct checkpoint_reader {
	FILE *stream;
	char *path;
	uint64_t sum;
	struct checkpoint header;
};

/* Reads and checks the header and the length of the file. */
int checkpoint_open(struct checkpoint_reader *reader, const char *path, struct failure *failure);

/* Reads the arrays; the moments may be NULL (both). On failure the arrays are unusable. */
int checkpoint_read(struct checkpoint_reader *reader, real *params, real *mean, real *square,
		    struct failure *failure);
void checkpoint_close(struct checkpoint_reader *reader);

#endif
