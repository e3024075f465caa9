/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what a killed process left in its buffers as if it had been written. Part of the shard
 * reader; see ring.h for why this is exact.
 */
#ifndef TRACE_SALVAGE_H
#define TRACE_SALVAGE_H

#include "trace/ring.h"
#include "trace/shard.h"

/* Whether the shard's process lives: -EBUSY yes; 0 no, and its buffers are in *ret_rings; -ENOENT
 * there are no buffers (closed, or already taken in). Other failures fill `trouble` and count as
 * -ENOENT. */
int salvage_state(const char *shard_path, struct rings **ret_rings, struct err *trouble);
void salvage_close(struct rings *rings);

/* Fills reader->salvage with chunks of what the last checkpoint does not cover. Damage in the
 * buffers goes to `trouble`; -EBADMSG if the checkpoint itself is damaged. */
int salvage(struct shard_reader *reader, struct rings *rings, struct err *trouble);

#endif
