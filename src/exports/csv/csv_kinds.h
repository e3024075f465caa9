/* SPDX-License-Identifier: Apache-2.0
 *
 * A run as a folder of CSV files: one for each table of SQL that has rows, with its columns, and
 * columns.csv, which says what they are. Needs every kind of record.
 */
#ifndef EXPORTS_CSV_KINDS_H
#define EXPORTS_CSV_KINDS_H

#include "base/err.h"
#include "tables/tables.h"

/* Makes the directory, which must not exist or be empty; it appears when it is complete. */
int csv_kinds_write(const struct run *run, const char *path, struct err *err);

#endif
