/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings of the machine on their way into a shard: of each the last value is kept, and only what has changed
 * is written. One thread.
 */
#ifndef HOST_MACHINE_READINGS_H
#define HOST_MACHINE_READINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "trace/host_metrics.h"

struct readings;

/* The shard of the machine under a program: it is this process's, which makes it. 0 or -errno with a sentence. */
int readings_open(struct readings **ret_readings, const char *run, pid_t program, struct err *err);
/* The moment that what follows was read at. */
void readings_at(struct readings *r, int64_t now_ns);
/* name: "" for the machine. */
void readings_put(struct readings *r, enum host_place place, const char *name,
		  enum host_metric metric, int64_t value);
/* The last value, which still held at that time: for what is read often and changes at once after long. */
void readings_held(struct readings *r, enum host_place place, const char *name,
		   enum host_metric metric, int64_t value, int64_t until_ns);
/* What cannot be read, and what things are called: said once for the same key and value. */
void readings_fact(struct readings *r, const char *key, const char *value);
/* To the file. The first trouble is kept for readings_close. */
void readings_write(struct readings *r);
/* 0, or -errno with the first trouble there was. NULL is fine. */
int readings_close(struct readings *r, struct err *err);

#endif
