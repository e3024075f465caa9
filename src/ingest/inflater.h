/* SPDX-License-Identifier: Apache-2.0
 *
 * The decompressor behind gunzip.h: of ISA-L where the build has it, which takes a third of zlib's time,
 * else of zlib. One thread at a time.
 */
#ifndef INGEST_INFLATER_H
#define INGEST_INFLATER_H

#include <stddef.h>
#include <stdint.h>

struct inflater;

enum inflated {
	INFLATED_SOME, /* all input is used up or there is no more room */
	INFLATED_ALL,  /* of the gzip member, and its checksum is right */
	INFLATED_DAMAGED,
};

/* NULL: no memory. */
struct inflater *inflater_new(void);
void inflater_free(struct inflater *inflater);

/* For the next member of the file. */
void inflater_reset(struct inflater *inflater);

/* Moves both ends on. Sizes below 2^31. -ENOMEM, or an enum inflated. */
int inflater_run(struct inflater *inflater, uint8_t **in, size_t *n_in, uint8_t **out,
		 size_t *n_out);

#endif
