/* SPDX-License-Identifier: Apache-2.0
 *
 * From what was taken in to a run directory; see intake.h. One thread, after all others have ended.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cmp.h"
#include "base/version.h"
#include "ingest/shared/intake_inside.h"
#include "trace/shard.h"

/* The segments of a process in the order of their turns. */
struct turns {
	struct segment **v;
	size_t n;
};

static int by_order(const void *a, const void *b)
{
	const struct segment *x = *(struct segment *const *)a, *y = *(struct segment *const *)b;

	return CMP(x->order, y->order) ?: CMP(x->place, y->place);
}

static int turns_of(const struct intake_process *process, struct turns *ret)
{
	const struct intake_inside *inside = process->inside;
	size_t n = 0;

	for (size_t p = 0; p < inside->n_parts; p++)
		n += inside->parts[p]->n_segments;
	ret->v = calloc(n + 1, sizeof(struct segment *));
	if (!ret->v)
		return -ENOMEM;
	ret->n = 0;
	for (size_t p = 0; p < inside->n_parts; p++)
		for (size_t s = 0; s < inside->parts[p]->n_segments; s++) {
			ret->v[ret->n] = &inside->parts[p]->segments[s];
			ret->v[ret->n]->place = ret->n;
			ret->n++;
		}
	qsort(ret->v, ret->n, sizeof(*ret->v), by_order);
	return 0;
}

int held_collect(struct intake_process *process, enum held kind, bool take, void **ret_rows,
		 size_t *ret_n)
{
	size_t size = kind_desc(held_kinds[kind])->row_size, bytes = 0;
	struct turns turns;
	char *rows;
	int r = turns_of(process, &turns);

	if (r < 0)
		return r;
	for (size_t i = 0; i < turns.n; i++)
		bytes += turns.v[i]->held[kind].size;
	rows = malloc(bytes + 1);
	for (size_t i = 0, at = 0; rows && i < turns.n; i++) {
		struct buf *held = &turns.v[i]->held[kind];

		if (held->size)
			memcpy(rows + at, held->data, held->size);
		at += held->size;
		if (take)
			buf_release(held);
	}
	free(turns.v);
	if (!rows)
		return -ENOMEM;
	*ret_rows = rows;
	*ret_n = bytes / size;
	return 0;
}

struct sums {
	int64_t time_min_ns, time_max_ns;
	uint64_t rows, damaged, unknown;
};

static struct sums sum_up_segments(const struct turns *turns)
{
	struct sums sums = { INT64_MAX, INT64_MIN, 0, 0, 0 };

	for (size_t i = 0; i < turns->n; i++) {
		const struct segment *segment = turns->v[i];

		if (segment->time_min_ns < sums.time_min_ns)
			sums.time_min_ns = segment->time_min_ns;
		if (segment->time_max_ns > sums.time_max_ns)
			sums.time_max_ns = segment->time_max_ns;
		sums.rows += segment->rows;
		sums.damaged += segment->damaged;
		sums.unknown += segment->unknown;
	}
	return sums;
}

/* Where the places of damage are; of several files, which one. */
struct file_words {
	const char *path, *at, *colon;
};

static struct file_words file_words(const struct intake_process *process)
{
	const char *path = process->inside->path;

	return path ? (struct file_words){ path, " at ", ": " }
		    : (struct file_words){ "", "at ", "" };
}

static void note_damage(struct intake *intake, const struct intake_process *process,
			const struct turns *turns, uint64_t damaged)
{
	struct file_words file = file_words(process);
	unsigned int told = 0;

	for (size_t i = 0; i < turns->n && told < NOTED_DAMAGE; i++) {
		const struct segment *segment = turns->v[i];

		for (uint64_t d = 0;
		     d < segment->damaged && d < NOTED_DAMAGE && told < NOTED_DAMAGE; d++, told++)
			intake_note(intake, "%s%s%" PRIu64 ": %s; not read.", file.path, file.at,
				    segment->damage[d].offset, segment->damage[d].what);
	}
	if (damaged > told)
		intake_note(intake, "%s%s%" PRIu64 " more events could not be read.", file.path,
			    file.colon, damaged - told);
}

static int by_count(const void *a, const void *b)
{
	const struct category *x = a, *y = b;

	return CMP(y->n, x->n) ?: strcmp(x->name, y->name);
}

static void note_unknown(struct intake *intake, const struct intake_process *process)
{
	struct file_words file = file_words(process);
	struct categories all = { 0 };
	struct buf line = { 0 };

	for (size_t p = 0; p < process->inside->n_parts; p++) {
		const struct categories *some = &process->inside->parts[p]->settled;

		for (size_t i = 0; i < some->n; i++)
			categories_add(&all, some->v[i].name, strlen(some->v[i].name),
				       some->v[i].n);
	}
	if (all.n)
		qsort(all.v, all.n, sizeof(*all.v), by_count);
	for (size_t i = 0; i < all.n; i++)
		buf_printf(&line, "%s%s (%" PRIu64 ")", i ? ", " : "", all.v[i].name, all.v[i].n);
	if (all.n && !line.failed)
		intake_note(intake, "%s%sevents in categories that are not read: %s.", file.path,
			    file.colon, line.data);
	buf_release(&line);
	free(all.v);
}

static int write_segments(struct shard_writer *writer, struct encoder *encoder,
			  const struct turns *turns)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < turns->n; i++) {
		struct buf *chunks = &turns->v[i]->chunks, out = encoder->out;

		encoder_adopt(encoder, chunks);
		encoder->out = *chunks;
		r = shard_write(writer, encoder);
		*chunks = encoder->out;
		encoder->out = out;
	}
	return r;
}

/* Writes what is pending. */
static int flush_encoder(struct shard_writer *writer, struct encoder *encoder)
{
	int r = encoder_finish(encoder);

	return r == 0 ? shard_write(writer, encoder) : r;
}

/* Rows first, names last: the stacks of operations are made on the way. */
static int write_process_rows(struct intake_process *process, struct shard_writer *writer,
			      const struct turns *turns, struct sums *sums)
{
	struct encoder encoder;
	int r;

	encoder_init(&encoder, 1, 1, 0);
	r = write_segments(writer, &encoder, turns);
	if (r == 0)
		r = nest_encode(process, &encoder);
	if (r == 0)
		r = encoder_finish(&encoder);
	if (r == 0) {
		if (encoder.time_min_ns < sums->time_min_ns)
			sums->time_min_ns = encoder.time_min_ns;
		if (encoder.time_max_ns > sums->time_max_ns)
			sums->time_max_ns = encoder.time_max_ns;
		r = shard_write(writer, &encoder);
	}
	if (r == 0)
		r = lexicon_encode(&process->inside->lexicon, &encoder);
	if (r == 0)
		r = flush_encoder(writer, &encoder);
	if (process->lived && process->to_ns > sums->time_max_ns)
		sums->time_max_ns = process->to_ns;
	if (r == 0) {
		for (int d = 0; d < DROP_REASONS; d++)
			writer->header.live.dropped[d] = process->lost[d];
		writer->header.live.dropped[DROP_FOREIGN_DAMAGED] += sums->damaged;
		writer->header.live.dropped[DROP_FOREIGN_UNKNOWN] += sums->unknown;
		writer->header.live.unfinished = process->unfinished;
		writer->header.live.recorded = sums->rows;
		writer->header.live.alive_ns = sums->time_max_ns == INT64_MIN ? 0
									      : sums->time_max_ns;
		r = shard_close(writer, &encoder);
	} else {
		shard_abandon(writer);
	}
	encoder_release(&encoder);
	return r;
}

/* The first time of a process, with what is held. */
static int64_t first_time(const struct turns *turns, int64_t min)
{
	for (size_t i = 0; i < turns->n; i++) {
		for (int h = 0; h < HELD_KINDS; h++) {
			const struct kind_desc *desc = kind_desc(held_kinds[h]);
			const struct buf *held = &turns->v[i]->held[h];
			size_t offset = desc->columns[desc->time_column].row_offset;

			for (size_t at = 0; at < held->size; at += desc->row_size) {
				int64_t time;

				memcpy(&time, held->data + at + offset, sizeof(time));
				min = time < min ? time : min;
			}
		}
	}
	return min == INT64_MAX ? 0 : min;
}

static int write_process(struct intake *intake, struct intake_process *process, size_t index,
			 const char *run_path, struct err *err)
{
	struct shard_origin origin = { .rank = process->rank,
				       .pid = process->pid,
				       .shift_ns = time_is_sane(process->shift_ns)
							   ? process->shift_ns
							   : 0 };
	struct shard_writer *writer = NULL;
	struct turns turns = { 0 };
	struct sums sums;
	char *path = NULL;
	int r = 0;

	for (size_t p = 0; r == 0 && p < process->inside->n_parts; p++)
		r = part_close(process->inside->parts[p]);
	if (r == 0)
		r = turns_of(process, &turns);
	if (r == 0 && asprintf(&path, "%s/%05zu-%" PRIu32 "-%" PRIu32 ".mst", run_path, index,
			       process->rank, process->pid) < 0) {
		path = NULL;
		r = -ENOMEM;
	}
	if (r < 0) {
		err_sys(err, r, "%s: cannot write the run", run_path);
		goto out;
	}
	sums = sum_up_segments(&turns);
	note_damage(intake, process, &turns, sums.damaged);
	note_unknown(intake, process);
	/* One clock for all processes of the run. */
	origin.monotonic_ns = first_time(&turns, sums.time_min_ns);
	if (process->lived && process->from_ns < origin.monotonic_ns &&
	    time_is_sane(process->from_ns))
		origin.monotonic_ns = process->from_ns;
	origin.realtime_ns = origin.monotonic_ns;
	if (time_is_sane(process->realtime_offset_ns) &&
	    time_is_sane(origin.monotonic_ns + process->realtime_offset_ns))
		origin.realtime_ns += process->realtime_offset_ns;
	r = shard_create_from(path, &origin, &writer, err);
	if (r == 0) {
		r = write_process_rows(process, writer, &turns, &sums);
		if (r < 0)
			err_sys(err, r, "%s: cannot write", path);
	}
	if (r == 0 && process->wall_clock) {
		int64_t start = origin.monotonic_ns + origin.shift_ns;

		if (!intake->about.started_realtime_ns || start < intake->about.started_realtime_ns)
			intake->about.started_realtime_ns = start;
	}
out:
	free(path);
	free(turns.v);
	return r;
}

static void remove_run(const char *path)
{
	char **shards, *json;
	size_t n;

	if (rundir_shards(path, &shards, &n, NULL) == 0) {
		for (size_t i = 0; i < n; i++) {
			unlink(shards[i]);
			free(shards[i]);
		}
		free(shards);
	}
	if (asprintf(&json, "%s/run.json", path) >= 0) {
		unlink(json);
		free(json);
	}
	rmdir(path);
}

static int fill_absent(char **field, const char *text)
{
	if (!*field)
		*field = strdup(text);
	return *field ? 0 : -ENOMEM;
}

/* What no file said. */
static int complete_info(struct rundir_info *info, const char *source)
{
	if (fill_absent(&info->source, source) < 0 || fill_absent(&info->command, "") < 0 ||
	    fill_absent(&info->status, "imported") < 0 || fill_absent(&info->host, "") < 0 ||
	    fill_absent(&info->cpu, "") < 0 || fill_absent(&info->version, VERSION_TEXT) < 0 ||
	    fill_absent(&info->level, "") < 0 || fill_absent(&info->schedule, "") < 0 ||
	    fill_absent(&info->kernel, "") < 0 || fill_absent(&info->ranks, "") < 0 ||
	    fill_absent(&info->notes, "") < 0)
		return -ENOMEM;
	return 0;
}

/* Two traces of one rank are legal, and a copy that was left in a directory looks the same. */
static void note_same_ranks(struct intake *intake)
{
	const struct intake_process *first = NULL, *second = NULL;
	size_t ranks = 0;

	for (size_t i = 0; i < intake->n_processes; i++) {
		const struct intake_process *process = intake->processes[i], *other = NULL;
		size_t before = 0;

		for (size_t k = 0; k < i; k++)
			if (intake->processes[k]->rank == process->rank &&
			    intake->processes[k]->inside->file != process->inside->file) {
				other = intake->processes[k];
				before++;
			}
		ranks += before == 1;
		if (other && !second) {
			first = other;
			second = process;
		}
	}
	if (second)
		intake_note(intake,
			    "%zu of the ranks %s in more than one file, such as rank %" PRIu32
			    " in %s and %s; each file counts as a process of its own.",
			    ranks, ranks == 1 ? "is" : "are", first->rank, first->inside->path,
			    second->inside->path);
}

int intake_write(struct intake *intake, const char *source, const char *run_path, struct err *err)
{
	char *full = NULL;
	int r = complete_info(&intake->about, source);

	note_same_ranks(intake);
	if (r == 0)
		r = align_clocks(intake);
	if (r < 0)
		return err_sys(err, r, "%s: cannot import", source);
	r = rundir_create_from(run_path, &intake->about, &full, err);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < intake->n_processes; i++)
		r = write_process(intake, intake->processes[i], i, full, err);
	if (intake->notes_left_out)
		buf_printf(&intake->notes, "\nand %" PRIu64 " more notes.", intake->notes_left_out);
	if (r == 0 && intake->notes.size && !intake->notes.failed) {
		free(intake->about.notes);
		intake->about.notes = strdup(intake->notes.data);
		if (!intake->about.notes)
			r = err_sys(err, -ENOMEM, "%s: cannot write", full);
	}
	/* Again, with what was learnt on the way. */
	if (r == 0)
		r = rundir_update(full, &intake->about, err);
	if (r < 0)
		remove_run(full);
	free(full);
	return r;
}
