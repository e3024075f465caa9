/* SPDX-License-Identifier: Apache-2.0
 *
 * A run as an SQLite file. Needs every kind of record.
 */
#ifndef EXPORTS_SQLITE_WRITE_H
#define EXPORTS_SQLITE_WRITE_H

#include "base/err.h"
#include "tables/tables.h"

/* The file appears when it is complete, in place of one that is there. */
int sqlite_write(const struct run *run, const char *path, struct err *err);

#endif
