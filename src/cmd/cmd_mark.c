/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope mark: an instant with a text in a run that is being recorded, from outside.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/boot.h"
#include "base/clock.h"
#include "cmd/options/common_options.h"
#include "cmd/runs/run_find.h"
#include "cmd/runs/run_of_process.h"
#include "cmd/terminal/output.h"
#include "trace/encoder.h"
#include "trace/run_lock.h"
#include "trace/rundir.h"
#include "trace/shard.h"

#define TEXT_MOST 1024

static const struct option_group groups[] = { { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope mark 4711 'new batch size'", "In the run of a process." },
	{ "moescope mark slow.mscope 'the loss jumps here'", "In a run by its name." },
	{ NULL, NULL },
};

enum owner { NOBODY, WATCHER, PROGRAM }; /* WATCHER: who watches the machine */

/* Whose shard that is, by its name. One of an earlier mark says nothing: it may be on the watcher's line. */
static enum owner owner_of(const char *shard, struct shard_origin *ret_origin)
{
	const char *name = strrchr(shard, '/') + 1;
	uint32_t rank, pid;

	if (strstr(name, RUNDIR_MARK))
		return NOBODY;
	if (sscanf(name, "%" SCNu32 "-%" SCNu32, &rank, &pid) == 2) {
		ret_origin->rank = rank;
		ret_origin->pid = pid;
		return PROGRAM;
	}
	return sscanf(name, RUNDIR_HOST "%" SCNu32, &ret_origin->pid) == 1 ? WATCHER : NOBODY;
}

/* The process whose line it is on: the one that was given, or the first of the run. Its shard has its name before there is
 * anything in it. */
static int find_process(const char *given, const char *path, struct shard_origin *origin,
			struct err *err)
{
	size_t n = 0;
	char **shards = NULL;
	enum owner best = NOBODY;
	int r;

	if (is_process_number(given)) {
		origin->pid = (uint32_t)strtoul(given, NULL, 10);
		origin->rank = rundir_rank_of((pid_t)origin->pid);
		return 0;
	}
	r = rundir_shards(path, &shards, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct shard_origin found = *origin;
		enum owner owner = owner_of(shards[i], &found);

		if (owner > best) {
			best = owner;
			*origin = found;
		}
		free(shards[i]);
	}
	free(shards);
	if (r == 0 && best == NOBODY)
		r = err_set(err, -ENOENT,
			    "%s: no process has recorded anything yet; try again in a moment",
			    path);
	return r;
}

/* A shard of its own: nobody else writes to it, and whoever reads the run finds it. */
static int write_mark(const char *run, const struct shard_origin *origin, const char *text,
		      struct err *err)
{
	struct row_string string = { .id = 1, .length = (uint32_t)strlen(text), .text = text };
	struct row_mark mark = { .time_ns = origin->monotonic_ns,
				 .text = 1,
				 .thread = origin->pid };
	struct shard_writer *writer = NULL;
	struct encoder encoder;
	char *path = NULL;
	int r;

	if (asprintf(&path, "%s/%u-%u" RUNDIR_MARK "%lld.mst", run, origin->rank, origin->pid,
		     (long long)mark.time_ns) < 0)
		return err_sys(err, -ENOMEM, "cannot mark");
	encoder_init(&encoder, 1, 1, 0);
	r = shard_create_from(path, origin, &writer, err);
	if (r == 0) {
		int closed;

		r = encoder_append(&encoder, RECORD_STRING, &string);
		if (r == 0)
			r = encoder_append(&encoder, RECORD_MARK, &mark);
		if (r == 0)
			r = encoder_finish(&encoder);
		if (r == 0)
			r = shard_write(writer, &encoder);
		closed = shard_close(writer, &encoder);
		r = r < 0 ? r : closed;
		if (r < 0)
			err_sys(err, r, "%s: cannot write", path);
	}
	encoder_release(&encoder);
	free(path);
	return r;
}

static int run_mark(struct invocation *inv)
{
	struct shard_origin origin = { .monotonic_ns = clock_monotonic_ns(),
				       .realtime_ns = clock_realtime_ns() };
	const char *given = inv->args[0], *text = inv->args[1];
	struct err err = { "" };
	char *path = NULL;
	int r;

	if (!*text || strlen(text) > TEXT_MOST)
		return usage_error(inv->command, "a mark has 1 to %d bytes of text.", TEXT_MOST);
	boot_read(&origin.boot);
	r = is_process_number(given) ? run_of_process(given, &path, &err)
				     : run_find(given, &path, &err);
	if (r == 0 && run_writer(path) != RUN_WRITER_HELD)
		r = err_set(
			&err, -ESRCH,
			"%s is not being recorded: a mark says when something happened, so it can "
			"only be set meanwhile",
			path);
	if (r == 0)
		r = find_process(given, path, &origin, &err);
	if (r == 0)
		r = write_mark(path, &origin, text, &err);
	free(path);
	return r < 0 ? fail("%s", err.message) : EXIT_OK;
}

const struct command cmd_mark = {
	.name = "mark",
	.purpose = PURPOSE_RECORD,
	.summary = "mark the current moment in a run being recorded",
	.words = "RUN|PID TEXT",
	.description =
		"Adds a mark with a text to a run that 'moescope run' or 'moescope attach' is recording, "
		"as moescope_mark() does inside the program. Timelines and exports show it. The program "
		"does not notice.",
	.groups = groups,
	.examples = examples,
	.max_args = 2,
	.min_args = 2,
	.run = run_mark,
};
