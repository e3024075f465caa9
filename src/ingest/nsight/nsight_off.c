/* SPDX-License-Identifier: Apache-2.0
 *
 * SQLite files in a build without SQLite: they are recognised, and refused with a reason.
 */
#include <errno.h>
#include <string.h>

#include "ingest/importers.h"

static bool recognise_nsight(const struct ingest_file *file)
{
	return file->head_bytes >= 16 && !memcmp(file->head, "SQLite format 3", 16);
}

static int refuse_nsight_file(const struct ingest_file *file, struct intake *intake,
			      struct err *err)
{
	(void)intake;
	return err_set(err, -ENOSYS,
		       "%s is an SQLite file, and this moescope was built without SQLite "
		       "(libsqlite3-dev).",
		       file->path);
}

const struct importer nsight_importer = {
	.name = "nsight",
	.title = "Nsight Systems SQLite export",
	.recognise = recognise_nsight,
	.read = refuse_nsight_file,
};
