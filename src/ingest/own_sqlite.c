/* SPDX-License-Identifier: Apache-2.0
 *
 * See own_sqlite.h.
 */
#include "ingest/own_sqlite.h"

#include <errno.h>

int own_sqlite_read(sqlite3 *db, struct intake *intake, struct err *err)
{
	(void)db;
	(void)intake;
	return err_set(err, -ENOSYS,
		       "an SQLite file that moescope exported cannot be read back "
		       "yet; use the run that it was made from.");
}
