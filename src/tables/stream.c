/* SPDX-License-Identifier: Apache-2.0
 *
 * A kind of records chunk by chunk, without a table of all of them; see run_stream in tables.h.
 */
#include <errno.h>

#include "tables/room.h"

struct stream {
	enum record_kind kind;
	uint64_t durations_ns; /* so far; what would make them too many is damage, as in load.c */
	run_visitor *visit;
	void *context;
};

static int visit_chunk(struct run *run, size_t s, const struct chunk *chunk, struct stream *stream)
{
	uint64_t durations_ns;
	int r = load_chunk(run, s, chunk, &durations_ns);

	if (r == 0 && durations_ns > SHARD_TIME_SUM_MAX - stream->durations_ns)
		r = -EBADMSG;
	if (r == 0) {
		stream->durations_ns += durations_ns;
		r = stream->visit(run, stream->context);
	} else if (r == -EBADMSG) {
		r = 0;
	}
	*room_rows(run, stream->kind) = 0;
	if (run->internal->capacity[stream->kind].rows >= chunk->header.n_records)
		room_clear(run, stream->kind, 0, chunk->header.n_records);
	return r;
}

static int visit_shard(struct run *run, size_t s, struct stream *stream)
{
	struct shard_reader *reader = run->shards[s].reader;
	struct err gone;
	int r = 0;

	/* It is a loss of the run, which loading has counted or the next one will. */
	if (!reader || shard_wake(reader, &gone) < 0)
		return 0;
	for (size_t i = 0; r == 0 && i < reader->n_chunks; i++)
		if (reader->chunks[i].header.kind == stream->kind &&
		    reader->chunks[i].header.n_records)
			r = visit_chunk(run, s, &reader->chunks[i], stream);
	shard_park(reader);
	return r;
}

int run_stream(struct run *run, enum record_kind kind, uint64_t columns, run_visitor *visit,
	       void *context)
{
	struct stream stream = { .kind = kind, .visit = visit, .context = context };
	int r = 0;

	if (*room_rows(run, kind))
		return -EBUSY;
	room_drop(run, kind);
	run->internal->want.columns[kind] = columns;
	for (size_t s = 0; r == 0 && s < run->n_shards; s++)
		r = visit_shard(run, s, &stream);
	room_drop(run, kind);
	return r;
}
