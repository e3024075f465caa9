/* SPDX-License-Identifier: Apache-2.0
 *
 * See run_timeline.h. Main thread.
 */
#include "cmd/runs/run_timeline.h"

#include "cmd/terminal/output.h"
#include "cmd/terminal/progress.h"
#include "tables/tables.h"
#include "timeline/lod.h"

#define QUICK 1000000 /* events that serve indexes in well under a second */

void run_index_timeline(const char *path, uint64_t most)
{
	struct run_want nothing = { .kinds = 0 };
	struct err err = { "" };
	struct lod *lod = NULL;
	struct run *run;
	uint64_t events;
	int r;

	/* What cannot be read is told by whoever reads it. */
	if (run_load(path, &nothing, &run, &err) < 0)
		return;
	events = lod_records(run);
	run_free(run);
	if (events <= QUICK || events > most)
		return;
	progress_begin("indexing the timeline");
	r = lod_make(path, NULL, &lod, &err);
	progress_end();
	lod_close(lod);
	if (r < 0)
		say("the timeline is not indexed; 'moescope serve' will do that: %s", err.message);
}
