/* SPDX-License-Identifier: Apache-2.0
 *
 * Letting go of the old rows of a run that is followed, so that its tables stay about as large as
 * run_want.window_bytes says, however long the run is. One moment holds for all kinds, the beginning of a step
 * where there are steps: what is left is a run that began then. run_gone has the sums of the rest, and rows that
 * are still the state of something stay (see struct run_gone). One thread.
 */
#ifndef TABLES_WINDOW_H
#define TABLES_WINDOW_H

#include "base/hash_map.h"
#include "tables/load.h"

/* Adds the columns that the rules need, if there is a window. */
void window_want(struct run_want *want);
/* Lets go of old rows, if the tables have outgrown the window. 0 or -ENOMEM. */
int window_trim(struct run *run);

/* ---- between the files of the window */

/* Numbers, from 0, for the things that rows are about. All zero: none. */
struct window_key {
	uint64_t shard, a, b;
};
struct window_keys {
	struct hash_map map;
	struct window_key *items;
	size_t n, capacity;
};
/* -ENOMEM; *ret_number is n - 1 for a new one. */
int window_number(struct window_keys *keys, struct window_key key, size_t *ret_number);
void window_keys_release(struct window_keys *keys);

/* Marks of allocations and frees, and of the driver's, what is live at since_ns or was at the peak of its
 * device, with its free. keep: already true for what is not older. */
int window_keep_blocks(const struct table_memory *table, int64_t since_ns, bool *keep);
int window_keep_device_blocks(const struct table_device_memory *table, int64_t since_ns,
			      bool *keep);

#endif
