/* SPDX-License-Identifier: Apache-2.0
 *
 * See inflater.h. Of ISA-L 2.30: a header with a checksum of its own is taken for damaged when it lies
 * across the ends of two inputs; of data that is damaged, less is made when there is less room.
 */
#include <isa-l.h>
#include <stdlib.h>

#include "ingest/shared/inflater.h"

struct by_isal {
	struct inflater inflater; /* first */
	struct inflate_state state;
};

static int isal_run(struct inflater *inflater, uint8_t **in, size_t *n_in, uint8_t **out,
		    size_t *n_out)
{
	struct inflate_state *state = &((struct by_isal *)inflater)->state;
	int r;

	state->next_in = *in;
	state->avail_in = (uint32_t)*n_in;
	state->next_out = *out;
	state->avail_out = (uint32_t)*n_out;
	r = isal_inflate(state);
	*in = state->next_in;
	*n_in = state->avail_in;
	*out = state->next_out;
	*n_out = state->avail_out;
	if (r < 0)
		return INFLATED_DAMAGED;
	return state->block_state == ISAL_BLOCK_FINISH ? INFLATED_ALL : INFLATED_SOME;
}

static void isal_reset(struct inflater *inflater)
{
	struct inflate_state *state = &((struct by_isal *)inflater)->state;

	isal_inflate_reset(state);
	state->crc_flag = ISAL_GZIP;
}

static void isal_release(struct inflater *inflater)
{
	free(inflater);
}

struct inflater *inflater_isal(void)
{
	/* Zeros: damaged codes leave parts of its tables as they were. */
	struct by_isal *isal = calloc(1, sizeof(*isal));

	if (!isal)
		return NULL;
	isal->inflater = (struct inflater){ isal_run, isal_reset, isal_release };
	isal_inflate_init(&isal->state);
	isal->state.crc_flag = ISAL_GZIP;
	return &isal->inflater;
}
