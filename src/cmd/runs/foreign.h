/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of other profilers where a run is expected.
 */
#ifndef CMD_FOREIGN_H
#define CMD_FOREIGN_H

#include "base/err.h"
#include "tables/tables.h"

/* Whether a path that is not a run directory is one of these: 1, or 0, or -errno when it cannot be read.
 * With 0 err says so, but for a shard, which is one of ours. */
int foreign_is(const char *path, struct err *err);
/* Reads it into a run; of its records, the wanted kinds alone. */
int foreign_load(const char *path, const struct run_want *want, struct run **ret_run,
		 struct err *err);
/* Why a path that no importer recognises is not read: what it is, and what to do about it, where that
 * can be told. */
void foreign_refuse(const char *path, struct err *err);

#endif
