/* SPDX-License-Identifier: Apache-2.0
 *
 * From the rings into an encoder: the one place that reads ring records, used by the drain thread
 * while the program runs, and by readers and `run` after it was killed. One thread.
 */
#ifndef TRACE_DRAIN_H
#define TRACE_DRAIN_H

#include "trace/encoder.h"
#include "trace/ring.h"

/* Up to where each region has been taken: bytes, counted from its start forever. */
struct drain_positions {
	uint64_t at[RING_REGIONS];
	uint32_t n;
};

struct drain_result {
	struct drain_positions to;
	uint64_t damaged;    /* regions whose records made no sense from some point on */
	uint64_t last_ticks; /* the latest time in any record; 0: none */
};

/* Appends every record after `from`. 0 or -ENOMEM, after which the encoder needs a rollback. */
int drain_collect(const struct rings *rings, const struct tick_map *map,
		  const struct drain_positions *from, struct encoder *encoder,
		  struct drain_result *ret_result);

/* Appends the ranges and the step that are still open, as unfinished, ending at end_ticks. */
int drain_unfinished(const struct rings *rings, const struct tick_map *map, uint64_t end_ticks,
		     struct encoder *encoder);

int drain_checkpoint(struct encoder *encoder, const struct drain_positions *positions);
/* Records after `from` in rings that are only in memory: gone with the process. */
uint64_t drain_unsalvageable(const struct rings *rings, const struct drain_positions *from);
/* Bytes of records after `from`. */
uint64_t drain_pending(const struct rings *rings, const struct drain_positions *from);
/* Returns the space to the producers, and rings of ended threads to new ones. */
void drain_release(struct rings *rings, const struct drain_positions *positions);

#endif
