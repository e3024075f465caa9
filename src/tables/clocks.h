/* SPDX-License-Identifier: Apache-2.0
 *
 * The shards of a run on one clock, that of the first.
 *
 * CLOCK_MONOTONIC is one clock for all processes of a boot, whatever becomes of the wall clock, so
 * shards of one boot are never moved by the latter. Other boots are moved as a whole by the wall
 * clock of their first shard. Shards that do not tell their boot (those of imports and of format 1.0)
 * are taken for the same host unless the clocks differ by more than any measuring error.
 */
#ifndef TABLES_CLOCKS_H
#define TABLES_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/interned.h"

struct shard_header;

struct clocks {
	struct interned boots;
	int64_t *boot_offsets; /* wall clock minus the machine's, of each boot's first shard */
	size_t capacity;
	bool begun;
	uint32_t first_boot; /* 0: not known */
	int64_t first_offset_ns, first_namespace_ns;
};

void clocks_release(struct clocks *clocks);
/* What is to be added to the times of a shard, in the order in which they are found; *ret_sane false:
 * the shard's clocks are impossible, and it is not moved. 0 or -ENOMEM. */
int clocks_shift(struct clocks *clocks, const struct shard_header *header, int64_t *ret_ns,
		 bool *ret_sane);

#endif
