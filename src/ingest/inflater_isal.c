/* SPDX-License-Identifier: Apache-2.0
 *
 * See inflater.h. ISA-L 2.30 takes a header with a checksum of its own (which nobody writes) for damaged
 * when it lies across the ends of two inputs.
 */
#include <isa-l.h>
#include <stdlib.h>

#include "ingest/inflater.h"

struct inflater {
	struct inflate_state state;
};

struct inflater *inflater_new(void)
{
	struct inflater *inflater = malloc(sizeof(*inflater));

	if (inflater) {
		isal_inflate_init(&inflater->state);
		inflater->state.crc_flag = ISAL_GZIP;
	}
	return inflater;
}

void inflater_free(struct inflater *inflater)
{
	free(inflater);
}

void inflater_reset(struct inflater *inflater)
{
	isal_inflate_reset(&inflater->state);
	inflater->state.crc_flag = ISAL_GZIP;
}

int inflater_run(struct inflater *inflater, uint8_t **in, size_t *n_in, uint8_t **out,
		 size_t *n_out)
{
	struct inflate_state *state = &inflater->state;
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
