/* SPDX-License-Identifier: Apache-2.0
 *
 * From the records of a run to the tracks of its timeline; see lod_build.h. The records are read twice, chunk
 * by chunk: to count the events of each track, and to put each into its place in a scratch file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/whole_file.h"
#include "subjects/shared/iterations.h"
#include "tables/tables.h"
#include "timeline/lod_build.h"

/* Places in a process, from the top of the screen. */
enum place { PLACE_STEPS, PLACE_STREAM, PLACE_THREAD, PLACE_SPANS, PLACE_WAITS };

#define FOUND_MOST                                                                                 \
	4000000 /* records in which steps are sought by repetition: they are all in memory then */
#define RESTS ((size_t)16 << 20) /* bytes of areas that are in memory at a time */

struct source {
	enum record_kind record;
	enum stack_kind stack;
	uint8_t place, part;
	uint64_t counted, named; /* columns for counting, and others for filling */
};

#define COLUMN(kind, field) WANT_COLUMN(kind, field)
#define ON_STREAM(kind) (COLUMN(kind, device) | COLUMN(kind, stream))
#define SOURCE(NAME, kind, place, part, counted, name)                                             \
	{                                                                                          \
		RECORD_##NAME, STACK_##NAME, place, part, counted,                                 \
			COLUMN(kind, start_ns) | COLUMN(kind, duration_ns) | (name)                \
	}

/* The words, the families and what is inside what are those of the exports (exports/stacks). */
static const struct source sources[] = {
	SOURCE(STEP, step, PLACE_STEPS, 0, COLUMN(step, recorded), COLUMN(step, step)),
	SOURCE(COLLECTIVE, collective, PLACE_STREAM, 0, ON_STREAM(collective),
	       COLUMN(collective, name)),
	SOURCE(KERNEL, kernel, PLACE_STREAM, 1, ON_STREAM(kernel) | COLUMN(kernel, untimed),
	       COLUMN(kernel, launch)),
	SOURCE(COPY, copy, PLACE_STREAM, 2, ON_STREAM(copy) | COLUMN(copy, untimed),
	       COLUMN(copy, kind)),
	SOURCE(SET, set, PLACE_STREAM, 2, ON_STREAM(set) | COLUMN(set, untimed), 0),
	SOURCE(FRAME, frame, PLACE_THREAD, 0, COLUMN(frame, thread) | COLUMN(frame, depth),
	       COLUMN(frame, name)),
	SOURCE(RANGE, range, PLACE_THREAD, 1, COLUMN(range, thread) | COLUMN(range, depth),
	       COLUMN(range, site)),
	SOURCE(OP, op, PLACE_THREAD, 1, COLUMN(op, thread) | COLUMN(op, depth), COLUMN(op, site)),
	SOURCE(LIBRARY_CALL, library_call, PLACE_THREAD, 2, COLUMN(library_call, thread),
	       COLUMN(library_call, name)),
	SOURCE(API, api, PLACE_THREAD, 2, COLUMN(api, thread), COLUMN(api, name)),
	SOURCE(OS_CALL, os_call, PLACE_THREAD, 2, COLUMN(os_call, thread), COLUMN(os_call, name)),
	SOURCE(SPAN, span, PLACE_SPANS, 0, COLUMN(span, thread), COLUMN(span, name)),
	SOURCE(SYNC, sync, PLACE_WAITS, 0, COLUMN(sync, type), 0),
};

/* Steps that are found by repetition, in a track of their own. */
static const struct source found_steps = { RECORD_STEP, STACK_STEP, PLACE_STEPS, 1, 0, 0 };

/* The rows of a chunk, whatever their kind. */
struct rows {
	size_t n;
	const uint16_t *shard;
	const int64_t *start_ns, *duration_ns;
	const uint32_t *device, *id;
	const uint8_t *untimed, *depth;
	const uint16_t *frame_depth;
};

static struct rows rows_of(const struct run *run, enum stack_kind kind)
{
#define ROWS(table)                                                                                \
	.n = run->table.n, .shard = run->table.shard, .start_ns = run->table.start_ns,             \
	.duration_ns = run->table.duration_ns
#define STREAM_ROWS(table) ROWS(table), .device = run->table.device, .id = run->table.stream
#define THREAD_ROWS(table) ROWS(table), .id = run->table.thread
	switch (kind) {
	case STACK_STEP:
		return (struct rows){ ROWS(step) };
	case STACK_COLLECTIVE:
		return (struct rows){ STREAM_ROWS(collective) };
	case STACK_KERNEL:
		return (struct rows){ STREAM_ROWS(kernel), .untimed = run->kernel.untimed };
	case STACK_COPY:
		return (struct rows){ STREAM_ROWS(copy), .untimed = run->copy.untimed };
	case STACK_SET:
		return (struct rows){ STREAM_ROWS(set), .untimed = run->set.untimed };
	case STACK_FRAME:
		return (struct rows){ THREAD_ROWS(frame), .frame_depth = run->frame.depth };
	case STACK_RANGE:
		return (struct rows){ THREAD_ROWS(range), .depth = run->range.depth };
	case STACK_OP:
		return (struct rows){ THREAD_ROWS(op), .depth = run->op.depth };
	case STACK_LIBRARY_CALL:
		return (struct rows){ THREAD_ROWS(library_call) };
	case STACK_API:
		return (struct rows){ THREAD_ROWS(api) };
	case STACK_OS_CALL:
		return (struct rows){ THREAD_ROWS(os_call) };
	case STACK_SPAN:
		return (struct rows){ ROWS(span) };
	case STACK_SYNC:
		return (struct rows){ ROWS(sync) };
	default:
		return (struct rows){ 0 };
	}
#undef ROWS
#undef STREAM_ROWS
#undef THREAD_ROWS
}

static int compare_tracks(const void *a, const void *b)
{
	const struct track *x = a, *y = b;
	const uint32_t xs[] = { x->rank, x->shard, x->place, x->device, x->id, x->part, x->depth };
	const uint32_t ys[] = { y->rank, y->shard, y->place, y->device, y->id, y->part, y->depth };

	for (size_t i = 0; i < sizeof(xs) / sizeof(xs[0]); i++)
		if (xs[i] != ys[i])
			return xs[i] < ys[i] ? -1 : 1;
	return 0;
}

static uint32_t track_hash(const struct track *track)
{
	return (uint32_t)hash_mix(hash_mix((uint64_t)track->shard << 48 |
						   (uint64_t)track->place << 40 |
						   (uint64_t)track->part << 32 | track->depth,
					   track->device),
				  track->id);
}

/* NULL: no memory. add false: also if it is not there. */
static struct track *find_track(struct builder *b, const struct track *like, bool add)
{
	uint32_t hash = track_hash(like), number;
	struct hash_walk walk = hash_map_walk(&b->by_track, hash);

	while ((number = hash_map_next(&b->by_track, &walk)))
		if (compare_tracks(&b->tracks[number - 1], like) == 0)
			return &b->tracks[number - 1];
	if (!add || b->n_tracks == UINT32_MAX ||
	    array_grow(&b->tracks, &b->tracks_capacity, b->n_tracks + 1, sizeof(*b->tracks)) < 0 ||
	    hash_map_add(&b->by_track, hash, (uint32_t)b->n_tracks + 1) < 0)
		return NULL;
	b->tracks[b->n_tracks] = *like;
	return &b->tracks[b->n_tracks++];
}

struct reading {
	struct builder *b;
	const struct source *source;
};

static struct track track_like(const struct reading *reading, const struct rows *rows, size_t i)
{
	const struct run *run = reading->b->run;

	return (struct track){ .rank = run->shards[rows->shard[i]].rank,
			       .shard = rows->shard[i],
			       .place = reading->source->place,
			       .part = reading->source->part,
			       .device = rows->device ? rows->device[i] : 0,
			       .id = rows->id ? rows->id[i] : 0,
			       .depth = rows->depth	    ? rows->depth[i]
					: rows->frame_depth ? rows->frame_depth[i]
							    : 0 };
}

static bool is_stopped(const struct builder *b)
{
	return b->stop && atomic_load(b->stop);
}

int builder_rests(struct builder *b, size_t bytes)
{
	b->touched += bytes;
	if (b->touched < RESTS)
		return 0;
	b->touched = 0;
	area_rest(&b->scratch);
	for (int s = 0; s < LOD_SECTIONS; s++)
		area_rest(&b->areas[s]);
	return is_stopped(b) ? -ECANCELED : 0;
}

static int count_chunk(struct run *run, void *context)
{
	struct reading *reading = context;
	struct rows rows = rows_of(run, reading->source->stack);
	struct track *track = NULL;

	for (size_t i = 0; i < rows.n; i++) {
		struct track like;

		if (rows.untimed && rows.untimed[i])
			continue;
		like = track_like(reading, &rows, i);
		if (!track || compare_tracks(track, &like) != 0)
			track = find_track(reading->b, &like, true);
		if (!track)
			return -ENOMEM;
		track->n++;
	}
	return is_stopped(reading->b) ? -ECANCELED : 0;
}

static void fill_event(struct builder *b, struct track *track, const struct raw_event *event)
{
	struct raw_event *at = (struct raw_event *)b->scratch.data + track->first + track->taken;

	/* A shard that changes while it is read. */
	if (track->taken == track->n) {
		b->left_out++;
		return;
	}
	track->unsorted |= track->taken && raw_comes_before(event, at - 1);
	track->taken++;
	*at = *event;
	if (!b->has_origin || event->start < b->origin_ns)
		b->origin_ns = event->start;
	b->has_origin = true;
}

static int fill_chunk(struct run *run, void *context)
{
	struct reading *reading = context;
	struct builder *b = reading->b;
	struct rows rows = rows_of(run, reading->source->stack);
	struct track *track = NULL;

	for (size_t i = 0; i < rows.n; i++) {
		struct stack_ref ref = { .row = (uint32_t)i, .kind = reading->source->stack };
		struct raw_event event = { .start = rows.start_ns[i] };
		struct track like;
		int r;

		if (rows.untimed && rows.untimed[i]) {
			b->left_out++;
			continue;
		}
		like = track_like(reading, &rows, i);
		if (!track || compare_tracks(track, &like) != 0)
			track = find_track(b, &like, false);
		if (!track) {
			b->left_out++;
			continue;
		}
		/* Broken clocks of others. */
		event.duration = rows.duration_ns[i] > 0 ? rows.duration_ns[i] : 0;
		r = stack_label(&b->labels, &ref, &event.name);
		if (r < 0)
			return r;
		fill_event(b, track, &event);
	}
	return builder_rests(b, rows.n * sizeof(struct raw_event));
}

static int read_records(struct builder *b, bool fill)
{
	int r = 0;

	for (size_t s = 0; r == 0 && s < sizeof(sources) / sizeof(sources[0]); s++) {
		struct reading reading = { b, &sources[s] };

		r = run_stream(b->run, sources[s].record,
			       sources[s].counted | (fill ? sources[s].named : 0),
			       fill ? fill_chunk : count_chunk, &reading);
	}
	return r;
}

/* Steps of a run in which nobody marked any. It is loaded once more: a stream of records has no repetition. */
static int find_steps(struct builder *b, const char *run_path, struct iterations *ret_found,
		      struct err *err)
{
	struct run *run;
	int r;

	if (run_rows(b->run, RECORD_STEP) || !run_rows(b->run, RECORD_KERNEL))
		return 0;
	b->steps = LOD_STEPS_NOT_SOUGHT;
	if (run_rows(b->run, RECORD_KERNEL) + run_rows(b->run, RECORD_API) +
		    run_rows(b->run, RECORD_RANGE) >
	    FOUND_MOST)
		return 0;
	r = run_load(run_path, &iterations_want, &run, err);
	if (r < 0)
		return r;
	/* A run that has grown meanwhile makes this index stale: the next one has them. */
	if (run->n_shards == b->run->n_shards) {
		r = iterations_find(run, ret_found);
		b->steps = ret_found->n ? LOD_STEPS_FOUND : LOD_STEPS_NOT_FOUND;
	}
	run_free(run);
	return r;
}

static int count_found(struct builder *b, const struct iterations *found)
{
	for (size_t i = 0; i < found->n; i++) {
		const struct rows row = { .n = 1, .shard = &found->shards[i] };
		const struct reading reading = { b, &found_steps };
		struct track like = track_like(&reading, &row, 0);
		struct track *track = find_track(b, &like, true);

		if (!track)
			return -ENOMEM;
		track->n++;
	}
	return 0;
}

/* After the records: their stream wants the table empty. */
static int fill_found(struct builder *b, const struct iterations *found)
{
	struct reading reading = { b, &found_steps };
	int r = found->n ? run_add_steps(b->run, found->steps, found->shards, found->n,
					 found->anchor)
			 : 0;

	return r == 0 && found->n ? fill_chunk(b->run, &reading) : r;
}

uint64_t lod_records(const struct run *run)
{
	uint64_t n = 0;

	for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++)
		n += run_rows(run, sources[s].record);
	return n;
}

/* Tracks in the order of the screen, each with its place in the scratch file. */
static int place_tracks(struct builder *b)
{
	if (b->n_tracks)
		qsort(b->tracks, b->n_tracks, sizeof(*b->tracks), compare_tracks);
	hash_map_release(&b->by_track);
	b->by_track = (struct hash_map){ 0 };
	for (size_t t = 0; t < b->n_tracks; t++) {
		b->tracks[t].first = b->n;
		b->n += b->tracks[t].n;
		if (hash_map_add(&b->by_track, track_hash(&b->tracks[t]), (uint32_t)t + 1) < 0)
			return -ENOMEM;
	}
	return 0;
}

enum lod_kind track_kind(const struct track *track)
{
	switch ((enum place)track->place) {
	case PLACE_STEPS:
		return LOD_STEPS;
	case PLACE_STREAM:
		return track->part == 2 ? LOD_COPIES : LOD_KERNELS;
	case PLACE_THREAD:
		return track->part == 2 ? LOD_API : LOD_RANGES;
	case PLACE_SPANS:
		return LOD_RANGES;
	default:
		return LOD_API;
	}
}

void track_words(const struct builder *b, const struct track *track, char *group, char *title,
		 size_t size)
{
	static const enum stack_family families[] = { STACK_FAMILY_STEPS, STACK_FAMILY_STREAM,
						      STACK_FAMILY_THREAD, STACK_FAMILY_SPANS,
						      STACK_FAMILY_WAITS };
	struct stack_track words = { .family = families[track->place],
				     .shard = track->shard,
				     .device = track->device,
				     .id = track->id };
	const struct run_shard *shards = b->run->shards;
	unsigned int processes = 0;
	size_t length;

	for (size_t s = 0; s < b->run->n_shards; s++)
		processes += shards[s].rank == track->rank && shard_is_process(b->run, s);
	if (processes > 1)
		snprintf(group, size, "rank %u (process %u)", track->rank,
			 shards[track->shard].pid);
	else
		snprintf(group, size, "rank %u", track->rank);
	stack_track_name(b->run, &words, title, size);
	length = strlen(title);
	/* What has the same kind as another part of its family is told apart by its title. */
	if (track->part == found_steps.part && track->place == PLACE_STEPS)
		snprintf(title + length, size - length, " found by repetition");
	if (track->part == 0 && track->place == PLACE_STREAM)
		snprintf(title + length, size - length, " collectives");
	if (track->part == 0 && track->place == PLACE_THREAD)
		snprintf(title + length, size - length, " frames");
}

/* A file of no directory, beside the run or where temporary files go. */
static int open_nameless(const char *run_path)
{
	const char *given = getenv("TMPDIR");
	const char *const places[] = { run_path, given && *given ? given : "/var/tmp", "/var/tmp",
				       "/tmp" };
	int fd = -1;

	for (size_t i = 0; fd < 0 && i < sizeof(places) / sizeof(places[0]); i++) {
		char *path;

		fd = open(places[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (fd >= 0)
			break;
		if (asprintf(&path, "%s/moescope-timeline-XXXXXX", places[i]) < 0)
			return -ENOMEM;
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
		free(path);
	}
	return fd < 0 ? -errno : fd;
}

static void builder_release(struct builder *b)
{
	area_close(&b->scratch);
	for (int s = 0; s < LOD_SECTIONS; s++)
		area_close(&b->areas[s]);
	if (b->scratch_fd >= 0)
		close(b->scratch_fd);
	stack_labels_release(&b->labels);
	hash_map_release(&b->by_track);
	free(b->tracks);
	free(b->lanes);
	free(b->longs);
	free(b->names);
	buf_release(&b->texts);
	run_free(b->run);
}

static int build(struct builder *b, const char *run_path, uint64_t fingerprint, struct err *err)
{
	struct run_want want = { .kinds = WANT(THREAD) };
	struct iterations found = { 0 };
	int r = run_load(run_path, &want, &b->run, err);

	if (r < 0)
		return r;
	stack_labels_init(&b->labels, b->run);
	r = read_records(b, false);
	if (r == 0)
		r = find_steps(b, run_path, &found, err);
	if (r == 0)
		r = count_found(b, &found);
	if (r == 0)
		r = place_tracks(b);
	if (r == 0 && b->n) {
		b->scratch_fd = open_nameless(run_path);
		r = b->scratch_fd < 0 ? b->scratch_fd
				      : area_open(&b->scratch, b->scratch_fd, 0,
						  b->n * sizeof(struct raw_event));
	}
	if (r == 0)
		r = read_records(b, true);
	if (r == 0)
		r = fill_found(b, &found);
	iterations_release(&found);
	if (r == 0)
		r = index_write(b, fingerprint);
	return r < 0 ? err_sys(err, r, "%s: cannot make its timeline", run_path) : 0;
}

/* Where the file is made: without a name, so that a kill leaves nothing behind, and in the run's directory,
 * so that it can get one. */
struct workplace {
	int fd;
	bool in_run;
	char *temporary; /* its name, on a file system where every file has one */
};

static int open_workplace(struct workplace *place, const char *run_path, const char *path)
{
	*place = (struct workplace){ .in_run = true };
	place->fd = open(run_path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	if (place->fd < 0)
		place->fd = open_beside(path, 0666, &place->temporary);
	if (place->fd >= 0)
		return 0;
	place->in_run = false;
	place->fd = open_nameless(run_path);
	return place->fd < 0 ? place->fd : 0;
}

/* Gives the file its name in the run. */
static int publish(struct workplace *place, const char *path)
{
	char nameless[32];
	int r;

	if (!place->temporary) {
		snprintf(nameless, sizeof(nameless), "/proc/self/fd/%d", place->fd);
		if (asprintf(&place->temporary, "%s.%d.tmp", path, (int)getpid()) < 0) {
			place->temporary = NULL;
			return -ENOMEM;
		}
		/* What has the name already is of a process that was killed at this very point. */
		unlink(place->temporary);
		if (linkat(AT_FDCWD, nameless, AT_FDCWD, place->temporary, AT_SYMLINK_FOLLOW) < 0) {
			r = -errno;
			free(place->temporary);
			place->temporary = NULL;
			return r;
		}
	}
	return rename(place->temporary, path) < 0 ? -errno : 0;
}

/* After the file was written, or not. */
static void leave_workplace(struct workplace *place, bool published)
{
	if (place->temporary && !published)
		unlink(place->temporary);
	free(place->temporary);
}

int lod_make(const char *run_path, const _Atomic bool *stop, struct lod **ret_lod, struct err *err)
{
	struct builder b = { .scratch_fd = -1, .stop = stop };
	struct workplace place;
	uint64_t fingerprint;
	bool published = false;
	char *path;
	int r;

	if (asprintf(&path, "%s/" LOD_FILE, run_path) < 0)
		return err_set(err, -ENOMEM, "no memory for the timeline of '%s'.", run_path);
	/* Before it is read: what comes meanwhile makes it stale. */
	r = index_fingerprint(run_path, &fingerprint, err);
	if (r == 0) {
		r = open_workplace(&place, run_path, path);
		if (r < 0)
			err_sys(err, r, "%s: cannot write its timeline", run_path);
	}
	if (r == 0) {
		b.fd = place.fd;
		r = build(&b, run_path, fingerprint, err);
		builder_release(&b);
		/* Without a name it serves as well, but not the next time. */
		published = r == 0 && place.in_run && publish(&place, path) == 0;
		leave_workplace(&place, published);
		if (r == 0)
			r = index_map(place.fd, path, &fingerprint, ret_lod, err);
		else
			close(place.fd);
	}
	free(path);
	return r;
}
