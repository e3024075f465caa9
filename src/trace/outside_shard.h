/* SPDX-License-Identifier: Apache-2.0
 *
 * A shard that is written from outside of the program it is about: names become numbers, which are written before what
 * refers to them, and the first trouble is kept until the end. One thread.
 */
#ifndef TRACE_OUTSIDE_SHARD_H
#define TRACE_OUTSIDE_SHARD_H

#include "base/interned.h"
#include "trace/shard.h"

struct outside_shard {
	struct shard_writer *writer;
	struct encoder encoder;
	struct interned *names; /* the caller's */
	size_t written_names;
	int trouble; /* the first, -errno, or 0 */
};

/* path: of the file, which must not exist. What origin has not of the clocks and the boot is added. 0 or -errno. */
int outside_shard_open(struct outside_shard *s, const char *path, struct shard_origin origin,
		       struct interned *names);
/* 0: the empty name, or no memory. */
uint32_t outside_shard_name(struct outside_shard *s, const char *text);
void outside_shard_append(struct outside_shard *s, enum record_kind kind, const void *row);
void outside_shard_fact(struct outside_shard *s, const char *key, const char *value);
/* The new names: before rows that others refer to by them. */
void outside_shard_append_names(struct outside_shard *s);
/* To the file, names first. */
void outside_shard_write(struct outside_shard *s);
/* The same, and the end of it. 0, or -errno: the first trouble there was. */
int outside_shard_close(struct outside_shard *s);

#endif
