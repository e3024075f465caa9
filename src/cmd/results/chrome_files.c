/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a Chrome trace; see chrome_files.h.
 */
#include "cmd/results/chrome_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/whole_file.h"
#include "cmd/options/command.h"
#include "cmd/terminal/output.h"
#include "cmd/terminal/progress.h"
#include "exports/exports.h"

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), of_end = strlen(end);

	return length >= of_end && !strcmp(text + length - of_end, end);
}

bool chrome_packs(const char *output, bool packed)
{
	return output ? ends_with(output, ".gz") : packed && export_chrome_packs();
}

static int write_rank(const struct run *run, uint32_t rank, const char *path, bool packed)
{
	struct err err = { "" };
	struct whole_file whole;
	int r = whole_file_open(&whole, path);

	if (r < 0)
		return fail("cannot write '%s': %s; choose another place with --output.", path,
			    strerror(-r));
	r = whole_file_close(&whole, export_chrome_rank(run, rank, packed, whole.file, &err), &err);
	return r < 0 ? fail("%s", err.message[0] ? err.message : strerror(-r)) : EXIT_OK;
}

/* Whether a process before this one has the same rank. */
static bool rank_before(const struct run *run, size_t shard)
{
	for (size_t i = 0; i < shard; i++)
		if (run->shards[i].rank == run->shards[shard].rank)
			return true;
	return false;
}

int chrome_write_ranks(const struct run *run, const char *directory, bool packed)
{
	size_t n = 0;

	packed = packed && export_chrome_packs();
	if (directory && mkdir(directory, 0777) < 0 && errno != EEXIST)
		return fail("cannot create the directory '%s': %s.", directory, strerror(errno));
	for (size_t i = 0; i < run->n_shards; i++) {
		char *path;
		int r;

		if (rank_before(run, i))
			continue;
		if (asprintf(&path, "%s%s%s-rank%u.pt.trace.json%s", directory ? directory : "",
			     directory ? "/" : "", run->info.name, run->shards[i].rank,
			     packed ? ".gz" : "") < 0)
			return fail("no memory.");
		progress_begin("writing the trace");
		r = write_rank(run, run->shards[i].rank, path, packed);
		progress_end();
		if (r == EXIT_OK)
			say("wrote %s.", path);
		free(path);
		if (r != EXIT_OK)
			return r;
		n++;
	}
	return n ? EXIT_OK : fail("the run has no readable process.");
}
