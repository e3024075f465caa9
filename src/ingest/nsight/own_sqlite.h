/* SPDX-License-Identifier: Apache-2.0
 *
 * SQLite files that moescope has exported itself: told by their table MOESCOPE_RUN.
 */
#ifndef INGEST_OWN_SQLITE_H
#define INGEST_OWN_SQLITE_H

#include <sqlite3.h>

#include "base/err.h"
#include "ingest/shared/intake.h"

int own_sqlite_read(sqlite3 *db, struct intake *intake, struct err *err);

#endif
