/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, following and closing a loaded run; see tables.h. One thread.
 */
#include "tables/tables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "moescope.h"
#include "tables/load.h"
#include "tables/room.h"
#include "tables/window.h"
#include "trace/rundir.h"
#include "trace/shard.h"

#define FIRST_CHUNKS 4 /* of a shard: names, facts and what it is about */

uint64_t loss_total(const struct loss *loss)
{
	uint64_t total = 0;

#define LOSS(field, words) total += loss->field;
	LOSS_COUNTERS(LOSS)
#undef LOSS
	return total - loss->salvaged - loss->unknown_events;
}

static void shard_loss(const struct run *run, size_t s, struct loss *ret)
{
	const struct shard_reader *reader = run->shards[s].reader;
	const struct shard_state_internal *state = &run->internal->shards[s];
	const struct shard_header *header = &reader->header;
	const uint64_t *salvaged = reader->has_rings ? reader->salvaged_dropped : NULL;
	uint64_t *fields[DROP_REASONS] = {
		[DROP_RING_FULL] = &ret->dropped_ring_full,
		[DROP_NO_MEMORY] = &ret->dropped_no_memory,
		[DROP_TOO_DEEP] = &ret->dropped_too_deep,
		[DROP_UNBALANCED] = &ret->dropped_unbalanced,
		[DROP_TOO_LARGE] = &ret->dropped_too_large,
		[DROP_NAMES] = &ret->dropped_names,
		[DROP_UNWRITTEN] = &ret->dropped_unwritten,
		[DROP_DEVICE] = &ret->dropped_device,
		[DROP_DEVICE_UNKNOWN] = &ret->unknown_device,
		[DROP_FOREIGN_DAMAGED] = &ret->damaged_events,
		[DROP_FOREIGN_UNKNOWN] = &ret->unknown_events,
		[DROP_IN_SIGNAL] = &ret->dropped_in_signal,
		[DROP_IN_CHILD] = &ret->dropped_in_child,
		[DROP_NO_CLOCK] = &ret->dropped_no_clock,
		[DROP_DAMAGED] = &ret->corrupt_chunks,
	};

	*ret = (struct loss){ 0 };
	for (int d = 0; d < DROP_REASONS; d++) {
		uint64_t written = header->live.dropped[d];

		/* The rings know of drops since the header was written; the header knows of
		 * those that no ring counts. */
		*fields[d] = salvaged && salvaged[d] > written ? salvaged[d] : written;
	}
	ret->write_errors = header->live.write_errors;
	ret->unfinished = header->live.unfinished + reader->salvaged_unfinished;
	ret->corrupt_chunks += reader->corrupt_chunks + state->damaged_chunks;
	ret->cut_bytes = reader->cut_bytes;
	ret->unknown_kinds = state->unknown_kinds;
	ret->unknown_columns = state->unknown_columns;
	ret->bad_references = state->bad_references;
	ret->salvaged = header->live.salvaged + reader->salvaged_records;
}

static int64_t clamp_time(int64_t ns)
{
	return ns > SHARD_TIME_MAX ? SHARD_TIME_MAX : ns < -SHARD_TIME_MAX ? -SHARD_TIME_MAX : ns;
}

/* The least and the largest time of the chunks that the reader lists; false: none has one. */
static bool chunks_span(const struct shard_reader *reader, int64_t *ret_min_ns, int64_t *ret_max_ns)
{
	bool any = false;

	for (size_t i = 0; i < reader->n_chunks; i++) {
		const struct chunk_header *chunk = &reader->chunks[i].header;

		if ((!chunk->time_min_ns && !chunk->time_max_ns) ||
		    !time_is_sane(chunk->time_min_ns) || !time_is_sane(chunk->time_max_ns))
			continue;
		if (!any || chunk->time_min_ns < *ret_min_ns)
			*ret_min_ns = chunk->time_min_ns;
		if (!any || chunk->time_max_ns > *ret_max_ns)
			*ret_max_ns = chunk->time_max_ns;
		any = true;
	}
	return any;
}

static void widen(struct run_shard *shard, int64_t min_ns, int64_t max_ns)
{
	if (min_ns < shard->start_ns)
		shard->start_ns = min_ns;
	if (max_ns > shard->end_ns)
		shard->end_ns = max_ns;
}

static void shard_span(struct run_shard *shard, const struct shard_state_internal *state)
{
	const struct shard_reader *reader = shard->reader;
	int64_t min_ns, max_ns, shift_ns = state->shift_ns;

	shard->start_ns = shard->end_ns = reader->header.monotonic_ns;
	if (time_is_sane(reader->header.live.alive_ns))
		shard->end_ns = reader->header.live.alive_ns;
	if (chunks_span(reader, &min_ns, &max_ns))
		widen(shard, min_ns, max_ns);
	if (state->has_gone)
		widen(shard, state->gone_min_ns, state->gone_max_ns);
	if (shard->end_ns < shard->start_ns)
		shard->end_ns = shard->start_ns;
	shard->start_ns = clamp_time(shard->start_ns + shift_ns);
	shard->end_ns = clamp_time(shard->end_ns + shift_ns);
}

/* Once for each shard: rows that are loaded stay where they are. */
static int place_shard(struct run *run, size_t s)
{
	const struct shard_header *header = &run->shards[s].reader->header;
	struct shard_state_internal *state = &run->internal->shards[s];
	int64_t shift_ns, offset_ns;
	bool sane;
	int r;

	if (state->placed)
		return 0;
	r = clocks_shift(&run->internal->clocks, header, &shift_ns, &sane);
	if (r < 0)
		return r;
	state->damaged_chunks += !sane;
	/* Of the times as they are in the tables, but for the shift of an import. */
	offset_ns = header->realtime_ns - header->monotonic_ns - shift_ns;
	run->shards[s].realtime_offset_ns = time_is_sane(offset_ns) ? offset_ns : 0;
	state->shift_ns = shift_ns + header->shift_ns;
	state->placed = true;
	return 0;
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), n = strlen(end);

	return length >= n && strcmp(text + length - n, end) == 0;
}

/* By its name, or, of a run that was imported, by what it begins with: readings of a machine are never among
 * other records. */
static enum shard_role role_of(const struct run_shard *shard)
{
	const char *name = strrchr(shard->path, '/');

	name = name ? name + 1 : shard->path;
	if (strncmp(name, RUNDIR_HOST, strlen(RUNDIR_HOST)) == 0)
		return ROLE_MACHINE;
	if (strncmp(name, RUNDIR_COUNTERS, strlen(RUNDIR_COUNTERS)) == 0)
		return ROLE_COUNTERS;
	if (ends_with(name, RUNDIR_STACKS))
		return ROLE_THREADS;
	if (ends_with(name, RUNDIR_HEAP))
		return ROLE_HEAP;
	if (strstr(name, RUNDIR_MARK))
		return ROLE_MARK;
	for (size_t i = 0; i < shard->reader->n_chunks && i < FIRST_CHUNKS; i++)
		if (shard->reader->chunks[i].header.kind == RECORD_HOST_SAMPLE)
			return ROLE_MACHINE;
	return ROLE_PROCESS;
}

static int describe_shard(struct run *run, size_t s)
{
	struct run_shard *shard = &run->shards[s];
	const struct shard_reader *reader = shard->reader;
	int r = place_shard(run, s);

	if (r < 0)
		return r;
	shard->rank = reader->header.rank;
	shard->pid = reader->header.pid;
	if (shard->role == ROLE_PROCESS)
		shard->role = role_of(shard);
	shard->file_bytes = reader->file_bytes;
	shard->trouble = reader->trouble;
	shard->state = reader->alive				   ? SHARD_LIVE
		       : reader->header.live.closed == SHARD_CLEAN ? SHARD_CLOSED
								   : SHARD_CRASHED;
	shard_span(shard, &run->internal->shards[s]);
	return 0;
}

/* Sums over the shards. */
static void summarise(struct run *run)
{
	bool any = false;

	run->loss = (struct loss){ 0 };
	for (size_t s = 0; s < run->n_shards; s++) {
		struct run_shard *shard = &run->shards[s];

		if (!shard->reader) {
			run->loss.unreadable_shards++;
			continue;
		}
		shard_loss(run, s, &shard->loss);
#define LOSS(field, words) run->loss.field += shard->loss.field;
		LOSS_COUNTERS(LOSS)
#undef LOSS
		if (!any || shard->start_ns < run->start_ns)
			run->start_ns = shard->start_ns;
		if (!any || shard->end_ns > run->end_ns)
			run->end_ns = shard->end_ns;
		any = true;
	}
}

/* A shard that cannot be read is a loss, not the end of the run. */
static int open_shard(struct run *run, size_t s)
{
	struct run_shard *shard = &run->shards[s];

	if (shard_open(shard->path, &shard->reader, &shard->trouble) < 0)
		return 0;
	shard_park(shard->reader);
	return describe_shard(run, s);
}

/* The file has gone or been replaced since. What was loaded of it stays. */
static void lose_shard(struct run *run, size_t s)
{
	struct shard_reader *reader = run->shards[s].reader;

	run->internal->shards[s].damaged_chunks++;
	run->shards[s].state = SHARD_CRASHED;
	reader->n_chunks = run->internal->shards[s].loaded_chunks;
	reader->alive = false;
	reader->finished = true;
}

static int add_shard(struct run *run, const char *path, struct err *err)
{
	struct run_shard *shards;
	struct shard_state_internal *internal;
	size_t n = run->n_shards;

	if (n == UINT16_MAX)
		return err_set(err, -E2BIG, "%s: more than %u shards in one run", run->info.path,
			       UINT16_MAX);
	shards = realloc(run->shards, (n + 1) * sizeof(*shards));
	if (shards)
		run->shards = shards;
	internal = realloc(run->internal->shards, (n + 1) * sizeof(*internal));
	if (internal)
		run->internal->shards = internal;
	if (!shards || !internal)
		return err_sys(err, -ENOMEM, "%s: cannot load", path);
	memset(&shards[n], 0, sizeof(shards[n]));
	memset(&internal[n], 0, sizeof(internal[n]));
	shards[n].path = strdup(path);
	if (!shards[n].path)
		return err_sys(err, -ENOMEM, "%s: cannot load", path);
	run->n_shards++;
	return open_shard(run, n) < 0 ? err_sys(err, -ENOMEM, "%s: cannot load", path) : 0;
}

static int by_shard_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The paths of the shards that the run has already, sorted; NULL without memory. */
static const char **known_paths(const struct run *run)
{
	const char **paths = calloc(run->n_shards + 1, sizeof(*paths));

	for (size_t s = 0; paths && s < run->n_shards; s++)
		paths[s] = run->shards[s].path;
	if (paths)
		qsort(paths, run->n_shards, sizeof(*paths), by_shard_name);
	return paths;
}

static int find_shards(struct run *run, struct err *err)
{
	size_t n, n_known = run->n_shards;
	const char **known;
	char **paths;
	int r;

	if (run->internal->single_file)
		return run->n_shards ? 0 : add_shard(run, run->info.path, err);
	known = known_paths(run);
	r = known ? rundir_shards(run->info.path, &paths, &n, err)
		  : err_sys(err, -ENOMEM, "%s: cannot load", run->info.path);
	if (r < 0) {
		free(known);
		return r;
	}
	for (size_t i = 0; i < n; i++) {
		if (r == 0 && !bsearch(&paths[i], known, n_known, sizeof(*known), by_shard_name))
			r = add_shard(run, paths[i], err);
		free(paths[i]);
	}
	free(paths);
	free(known);
	return r;
}

static void info_release(struct run_info *info)
{
	free(info->name);
	free(info->path);
	free(info->source);
	free(info->command);
	free(info->status);
	free(info->host);
	free(info->cpu);
	free(info->version);
	free(info->level);
	free(info->notes);
	*info = (struct run_info){ 0 };
}

static char *run_name(const char *path)
{
	size_t length = strlen(path), suffix = strlen(RUNDIR_SUFFIX);
	const char *from;

	while (length > 1 && path[length - 1] == '/')
		length--;
	for (from = path + length; from > path && from[-1] != '/';)
		from--;
	length -= (size_t)(from - path);
	if (length > suffix && !strncmp(from + length - suffix, RUNDIR_SUFFIX, suffix))
		length -= suffix;
	return strndup(from, length);
}

/* run.json, or what is known without one. */
static int read_info(struct run *run, const char *path, struct err *err)
{
	struct rundir_info from = { 0 };
	struct run_info info;
	int r = run->internal->single_file ? -ENOENT : rundir_read(path, &from, err);

	if (r < 0 && r != -ENOENT)
		return r;
	info = (struct run_info){
		.name = run_name(path),
		.path = strdup(path),
		.source = r == 0 ? from.source : strdup(""),
		.command = r == 0 ? from.command : strdup(""),
		.status = r == 0 ? from.status : strdup("unknown"),
		.host = r == 0 ? from.host : strdup(""),
		.cpu = r == 0 ? from.cpu : strdup(""),
		.version = r == 0 ? from.version : strdup(""),
		.level = r == 0 ? from.level : strdup(""),
		.notes = r == 0 ? from.notes : strdup(""),
		.cpus = from.cpus,
		.exit_status = from.exit_status,
		.signal = from.signal,
		.started_realtime_ns =
			time_is_sane(from.started_realtime_ns) ? from.started_realtime_ns : 0,
		.duration_known = from.duration_known && from.duration_ns >= 0 &&
				  time_is_sane(from.duration_ns),
		.budget_pct = from.budget_pct,
		.budget_known = from.budget_known,
	};
	if (info.duration_known)
		info.duration_ns = from.duration_ns;
	free(from.schedule);
	free(from.kernel);
	free(from.ranks);
	info_release(&run->info);
	run->info = info;
	if (!info.name || !info.path || !info.source || !info.command || !info.status ||
	    !info.host || !info.cpu || !info.version || !info.level || !info.notes)
		return err_sys(err, -ENOMEM, "%s: cannot load", path);
	return 0;
}

/* A process that begins to record makes the file first; run_refresh looks again. */
static bool waits_for_header(const struct run *run, size_t s)
{
	struct stat st;

	return !strcmp(run->info.status, "running") && stat(run->shards[s].path, &st) == 0 &&
	       st.st_size < (off_t)sizeof(struct shard_header);
}

static int check_readable(const struct run *run, struct err *err)
{
	for (size_t s = 0; s < run->n_shards; s++)
		if (run->shards[s].reader || waits_for_header(run, s))
			return 0;
	if (run->n_shards)
		return err_set(err, -EBADMSG, "%s", run->shards[0].trouble.message);
	if (!strcmp(run->info.status, "unknown"))
		return err_set(
			err, -ENOENT,
			"%s: not a moescope run (neither run.json nor a shard in it); make one "
			"with 'moescope run -- PROGRAM'",
			run->info.path);
	return 0;
}

/* Chunks that are loaded are not listed any longer: a process writes some each moment. */
static void forget_chunks(struct run *run, size_t s)
{
	struct shard_state_internal *state = &run->internal->shards[s];
	struct shard_reader *reader = run->shards[s].reader;
	int64_t min_ns, max_ns;

	if (chunks_span(reader, &min_ns, &max_ns)) {
		if (!state->has_gone || min_ns < state->gone_min_ns)
			state->gone_min_ns = min_ns;
		if (!state->has_gone || max_ns > state->gone_max_ns)
			state->gone_max_ns = max_ns;
		state->has_gone = true;
	}
	shard_forget_chunks(reader);
	state->loaded_chunks = 0;
}

/* One shard after the other is open, so that a run may have any number. */
static int load_all(struct run *run, struct err *err)
{
	for (size_t s = 0; s < run->n_shards; s++) {
		struct shard_reader *reader = run->shards[s].reader;
		int r;

		if (!reader || run->internal->shards[s].loaded_chunks == reader->n_chunks)
			continue;
		if (shard_wake(reader, &run->shards[s].trouble) < 0) {
			lose_shard(run, s);
			continue;
		}
		r = load_shard(run, s);
		shard_park(reader);
		if (r < 0)
			return err_sys(err, r, "%s: cannot load", run->shards[s].path);
		if (run->internal->want.window_bytes)
			forget_chunks(run, s);
	}
	summarise(run);
	return 0;
}

/* The first step's row says which step the routing before it is of (load.c). */
static void want_steps_of_routing(struct run_want *want)
{
	if (!(want->kinds & (WANT(ROUTING) | WANT(ROUTED))))
		return;
	if (!(want->kinds & WANT(STEP)))
		want->columns[RECORD_STEP] = 0;
	else if (want->columns[RECORD_STEP])
		want->columns[RECORD_STEP] |= WANT_COLUMN(step, first);
	want->kinds |= WANT(STEP);
}

int run_load(const char *path, const struct run_want *want, struct run **ret_run, struct err *err)
{
	struct run *run = calloc(1, sizeof(*run));
	struct stat st;
	int r;

	if (!run || !(run->internal = calloc(1, sizeof(*run->internal)))) {
		free(run);
		return err_sys(err, -ENOMEM, "%s: cannot load", path);
	}
	run->internal->want = want ? *want : (struct run_want){ .kinds = WANT_ALL };
	want_steps_of_routing(&run->internal->want);
	window_want(&run->internal->want);
	if (stat(path, &st) < 0) {
		r = errno == ENOENT ? err_set(err, -ENOENT,
					      "%s: no such run; 'ls -d *.mscope' lists "
					      "the runs of this directory",
					      path)
				    : err_sys(err, -errno, "%s: cannot open", path);
		goto fail;
	}
	run->internal->single_file = !S_ISDIR(st.st_mode);
	r = read_info(run, path, err);
	if (r == 0)
		r = find_shards(run, err);
	if (r == 0)
		r = check_readable(run, err);
	if (r == 0)
		r = load_all(run, err);
	if (r < 0)
		goto fail;
	*ret_run = run;
	return 0;
fail:
	run_free(run);
	return r;
}

static uint64_t rows_known(const struct run *run)
{
	uint64_t n = 0;

	for (int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++)
		n += run->internal->rows[k];
	return n;
}

static int refresh_shard(struct run *run, size_t s, struct err *err)
{
	struct shard_reader *reader = run->shards[s].reader;
	int r;

	if (!reader) /* its header may not have been there yet */
		return open_shard(run, s);
	if (reader->finished)
		return 0;
	if (shard_wake(reader, &run->shards[s].trouble) < 0) {
		lose_shard(run, s);
		return 0;
	}
	r = shard_refresh(reader, err);
	if (r == 0)
		r = describe_shard(run, s);
	shard_park(reader);
	return r;
}

int run_refresh(struct run *run, uint64_t *ret_new, struct err *err)
{
	uint64_t before = rows_known(run);
	char *path = strdup(run->info.path);
	int r = path ? read_info(run, path, err) : -ENOMEM;

	free(path);
	for (size_t s = 0; r == 0 && s < run->n_shards; s++)
		r = refresh_shard(run, s, err);
	if (r == 0)
		r = find_shards(run, err);
	if (r == 0)
		r = load_all(run, err);
	if (r < 0)
		return r;
	*ret_new = rows_known(run) - before;
	return 0;
}

int run_add_steps(struct run *run, const struct row_step *steps, const uint16_t *shards, size_t n,
		  const char *by)
{
	const struct kind_desc *desc = kind_desc(RECORD_STEP);
	size_t *rows = room_rows(run, RECORD_STEP), before = *rows;
	uint16_t *to_shards;
	int r = room_reserve(run, RECORD_STEP, before + n);
	char *text = r < 0 ? NULL : strdup(by);

	if (!text)
		return -ENOMEM;
	free(run->steps_found);
	run->steps_found = text;
	memcpy(&to_shards, room_slot(run, RECORD_STEP, 1), sizeof(to_shards));
	memcpy(to_shards + before, shards, n * sizeof(*shards));
	for (unsigned int c = 0; c < desc->n_columns; c++) {
		size_t size = column_type_size(desc->columns[c].type);
		char *to;

		if (!room_wanted(run, RECORD_STEP, c))
			continue;
		memcpy(&to, room_slot(run, RECORD_STEP, 2 + c), sizeof(to));
		for (size_t i = 0; i < n; i++)
			memcpy(to + (before + i) * size,
			       (const char *)&steps[i] + desc->columns[c].row_offset, size);
	}
	*rows = before + n;
	return 0;
}

void run_free(struct run *run)
{
	if (!run)
		return;
	room_free(run);
	free(run->steps_found);
	for (size_t s = 0; s < run->n_shards; s++) {
		shard_reader_free(run->shards[s].reader);
		free(run->shards[s].path);
		for (int k = 0; k <= RECORD_LAUNCH; k++)
			free(run->internal->shards[s].maps[k].to);
	}
	for (unsigned int w = 0; w < PARALLEL_MOST; w++)
		shard_scratch_release(&run->internal->workers[w].scratch);
	for (int k = 0; k <= RECORD_LAUNCH; k++)
		interned_release(&run->internal->dictionaries[k]);
	clocks_release(&run->internal->clocks);
	free(run->internal->shards);
	free(run->internal);
	free(run->shards);
	info_release(&run->info);
	free(run);
}

uint64_t run_rows(const struct run *run, enum record_kind kind)
{
	return run->internal->rows[kind];
}

const char *run_string(const struct run *run, uint32_t id)
{
	const char *text = interned_key(&run->internal->dictionaries[RECORD_STRING], id);

	return text ? text : "";
}

struct site run_site(const struct run *run, uint32_t id)
{
	const char *key = interned_key(&run->internal->dictionaries[RECORD_SITE], id);
	struct row_site row = { .layer = -1, .expert = -1 };

	if (key)
		memcpy(&row, key, sizeof(row));
	return (struct site){ row.name, row.layer, row.expert, row.phase };
}

struct row_launch run_launch(const struct run *run, uint32_t id)
{
	const char *key = interned_key(&run->internal->dictionaries[RECORD_LAUNCH], id);
	struct row_launch row = { 0 };

	if (key)
		memcpy(&row, key, sizeof(row));
	row.id = id;
	return row;
}

const char *phase_name(unsigned int phase)
{
	static const char *const names[] = { "",	"forward", "backward",	"optimizer", "data",
					     "prefill", "decode",  "recompute", "evaluation" };

	return phase < sizeof(names) / sizeof(names[0]) ? names[phase] : "?";
}

const char *memory_use_name(unsigned int use)
{
	static const char *const names[] = { "other",	  "parameters",	 "gradients",
					     "optimizer", "activations", "cache" };

	return use < sizeof(names) / sizeof(names[0]) ? names[use] : "?";
}
