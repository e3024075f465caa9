/* SPDX-License-Identifier: Apache-2.0
 *
 * Decompressors of one gzip member after the other, behind gunzip.h. One thread at a time.
 */
#ifndef INGEST_INFLATER_H
#define INGEST_INFLATER_H

#include <stddef.h>
#include <stdint.h>

enum inflated {
	INFLATED_SOME, /* all input is used up or there is no more room */
	INFLATED_ALL,  /* of the gzip member, and its checksum is right */
	INFLATED_DAMAGED,
};

struct inflater {
	/* Moves both ends on. Sizes below 2^31. -ENOMEM, or an enum inflated. */
	int (*run)(struct inflater *inflater, uint8_t **in, size_t *n_in, uint8_t **out,
		   size_t *n_out);
	void (*reset)(struct inflater *inflater); /* for the next member */
	void (*free)(struct inflater *inflater);
};

/* NULL: no memory. */
struct inflater *inflater_zlib(void);
/* Takes a third of the time, but is not exact about damage: it may find some where there is none, and
 * what it made just before is not to be trusted. In builds with HAVE_ISAL. */
struct inflater *inflater_isal(void);

#endif
