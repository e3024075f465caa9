/* SPDX-License-Identifier: Apache-2.0
 *
 * A run as a Perfetto trace; see perfetto.h. Tracks and the order of the file are here.
 */
#include "exports/perfetto/perfetto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "exports/exports.h"
#include "tables/room.h"

#define SMALL_MOST ((size_t)1 << 20)
#define TRACK_NAME_MOST 200
#define CLOCK_REALTIME_ID 1
#define CLOCK_MONOTONIC_ID 3
#define CLOCK_BOOTTIME_ID 6    /* the clock of a trace that names none */
#define PIDS UINT64_C(4194304) /* more than any pid of Linux */

static void write_out(struct perfetto *p, struct buf *buf)
{
	errno = 0;
	if (!p->failed && buf->size && fwrite(buf->data, 1, buf->size, p->out) != buf->size)
		p->failed = errno ? -errno : -EIO;
	buf->size = 0;
}

int perfetto_flush(struct perfetto *p)
{
	for (unsigned int c = 0; c < p->n_ready; c++)
		write_out(p, &p->chunks[!p->side][c]);
	p->n_ready = 0;
	if (p->small.failed)
		return -ENOMEM;
	write_out(p, &p->small);
	return p->failed;
}

uint8_t *perfetto_room(struct perfetto *p, size_t bytes)
{
	if (p->small.size > SMALL_MOST)
		perfetto_flush(p);
	return buf_reserve(&p->small, bytes);
}

void perfetto_commit(struct perfetto *p, const uint8_t *end)
{
	p->small.size = (size_t)(end - (const uint8_t *)p->small.data);
}

uint8_t *perfetto_text(uint8_t *at, uint32_t field, const char *text, size_t most)
{
	size_t length = strlen(text);
	uint8_t *content = proto_open(at, field);

	at = content;
	for (size_t i = 0, taken; i < length && i < most; i += taken) {
		uint32_t point;
		int valid;

		taken = utf8_decode(text + i, length - i, &point, &valid);
		if (i + taken > most)
			break;
		memcpy(at, valid ? text + i : "\xef\xbf\xbd", valid ? taken : 3);
		at += valid ? taken : 3;
	}
	return proto_close(content, at);
}

static uint8_t *open_track(struct perfetto *p, uint8_t **ret_packet, uint8_t **ret_track,
			   uint64_t uuid, uint64_t parent)
{
	uint8_t *at = perfetto_room(p, PERFETTO_EVENT_MOST + 3 * TRACK_NAME_MOST);

	if (!at)
		return NULL;
	*ret_packet = proto_open(at, TRACE_PACKET);
	at = proto_uint(*ret_packet, PACKET_SEQUENCE, SEQUENCE_TRACKS);
	*ret_track = proto_open(at, PACKET_TRACK);
	at = proto_uint(*ret_track, TRACK_UUID, uuid);
	return parent ? proto_uint(at, TRACK_PARENT, parent) : at;
}

static void close_track(struct perfetto *p, uint8_t *packet, uint8_t *track, uint8_t *at)
{
	perfetto_commit(p, proto_close(packet, proto_close(track, at)));
}

uint64_t perfetto_track(struct perfetto *p, const char *name, uint64_t parent, int rank)
{
	uint8_t *packet, *track, *at = open_track(p, &packet, &track, p->next_uuid, parent);

	if (!at)
		return 0;
	at = perfetto_text(at, TRACK_NAME, name, TRACK_NAME_MOST);
	at = proto_int(at, TRACK_ORDER_RANK, rank);
	close_track(p, packet, track, at);
	return p->next_uuid++;
}

uint64_t perfetto_counter_track(struct perfetto *p, const char *name, uint64_t parent)
{
	uint8_t *packet, *track, *at = open_track(p, &packet, &track, p->next_uuid, parent);

	if (!at)
		return 0;
	at = perfetto_text(at, TRACK_NAME, name, TRACK_NAME_MOST);
	at = proto_bytes(at, TRACK_COUNTER, "", 0);
	close_track(p, packet, track, at);
	return p->next_uuid++;
}

/* The process number of a shard: its pid, made unique when two hosts gave the same one. */
static uint64_t process_number(const struct run *run, size_t shard)
{
	uint64_t number = run->shards[shard].pid;

	for (size_t i = 0; i < shard; i++)
		if (run->shards[i].pid == run->shards[shard].pid)
			return (number + shard * PIDS) & INT32_MAX;
	return number & INT32_MAX;
}

static void put_processes(struct perfetto *p)
{
	const struct run *run = p->run;

	for (size_t i = 0; i < run->n_shards; i++) {
		uint8_t *packet, *track, *content, *at = open_track(p, &packet, &track, i + 1, 0);
		char name[64];

		if (!at)
			return;
		snprintf(name, sizeof(name), "rank %u (process %u)", run->shards[i].rank,
			 run->shards[i].pid);
		at = proto_uint(at, TRACK_CHILD_ORDERING, 3); /* by rank */
		content = proto_open(at, TRACK_PROCESS);
		at = proto_uint(content, 1, process_number(run, i));
		at = perfetto_text(at, 6, name, sizeof(name));
		close_track(p, packet, track, proto_close(content, at));
	}
}

/* 0: no memory. */
static uint64_t thread_track(struct perfetto *p, const struct stack_track *of, const char *name)
{
	uint8_t *packet, *track, *content,
		*at = open_track(p, &packet, &track, p->next_uuid, of->shard + UINT64_C(1));

	if (!at)
		return 0;
	content = proto_open(at, TRACK_THREAD);
	at = proto_uint(content, 1, process_number(p->run, of->shard));
	at = proto_uint(at, 2, of->id);
	at = perfetto_text(at, 5, name, TRACK_NAME_MOST);
	at = proto_close(content, at);
	close_track(p, packet, track, at);
	return p->next_uuid++;
}

int perfetto_lanes(struct perfetto *p, const struct stack_track *of, size_t lanes, uint64_t *uuids)
{
	char name[TRACK_NAME_MOST], lane_name[TRACK_NAME_MOST + 32];

	stack_track_name(p->run, of, name, sizeof(name));
	for (size_t l = 0; l < lanes; l++) {
		snprintf(lane_name, sizeof(lane_name), l ? "%s (%zu)" : "%s", name, l + 1);
		/* Thread 0 and numbers beyond a tid mean other things to the viewer. */
		if (of->family == STACK_FAMILY_THREAD && !l && of->id && of->id <= INT32_MAX &&
		    of->shard < p->run->n_shards)
			uuids[l] = thread_track(p, of, name);
		else
			uuids[l] = perfetto_track(p, lane_name, of->shard + UINT64_C(1),
						  (int)of->family);
		if (!uuids[l])
			return -ENOMEM;
	}
	return 0;
}

static uint8_t *put_clock(uint8_t *at, uint64_t id, uint64_t time)
{
	uint8_t *content = proto_open(at, 1);

	at = proto_uint(content, 1, id);
	return proto_close(content, proto_uint(at, 2, time));
}

/* What the times of the file are on the clocks of the host. */
static int put_clocks(struct perfetto *p)
{
	uint8_t *packet, *content, *at = perfetto_room(p, PERFETTO_EVENT_MOST);
	int64_t realtime_ns;

	if (!at)
		return -ENOMEM;
	at = perfetto_packet(at, &packet, FLAG_CLEARED);
	content = proto_open(at, PACKET_CLOCK_SNAPSHOT);
	at = put_clock(content, CLOCK_BOOTTIME_ID, 0);
	if (p->run->n_shards && p->origin_ns >= 0) {
		at = put_clock(at, CLOCK_MONOTONIC_ID, (uint64_t)p->origin_ns);
		realtime_ns = p->origin_ns + p->run->shards[0].realtime_offset_ns;
		if (p->run->shards[0].realtime_offset_ns && realtime_ns > 0)
			at = put_clock(at, CLOCK_REALTIME_ID, (uint64_t)realtime_ns);
	}
	perfetto_commit(p, proto_close(packet, proto_close(content, at)));
	return 0;
}

/* The earliest time of any row. */
static int64_t origin_of(const struct run *run)
{
	int64_t first = run->n_shards ? run->start_ns : INT64_MAX;

	for (unsigned int kind = 1; kind < RECORD_KIND_LIMIT; kind++) {
		const struct kind_desc *desc = kind_desc(kind);
		size_t rows = desc ? *room_rows((struct run *)run, kind) : 0;
		const int64_t *times;

		if (!rows || desc->time_column < 0)
			continue;
		times = *(int64_t **)room_slot((struct run *)run, kind,
					       2 + (unsigned int)desc->time_column);
		for (size_t i = 0; times && i < rows; i++)
			first = times[i] < first ? times[i] : first;
	}
	return first == INT64_MAX ? 0 : first;
}

/* Which records each call launched. */
static int collect_works(struct perfetto *p)
{
	const struct run *run = p->run;
	const struct {
		const uint32_t *calls;
		size_t n;
	} parts[] = { { p->at.kernel_call, run->kernel.n },
		      { p->at.copy_call, run->copy.n },
		      { p->at.set_call, run->set.n } };
	size_t n_api = run->api.n, n = run->kernel.n + run->copy.n + run->set.n;
	uint32_t work = 0, sum = 0;

	if (n >= UINT32_MAX)
		return -EFBIG;
	p->first_work = calloc(n_api + 2, sizeof(*p->first_work));
	p->works = array_new(n ? n : 1, sizeof(*p->works));
	if (!p->first_work || !p->works)
		return -ENOMEM;
	/* Two ahead, so that filling leaves the firsts where they belong. */
	for (size_t k = 0; k < 3; k++)
		for (size_t i = 0; i < parts[k].n; i++)
			if (parts[k].calls[i] != NO_CALL32)
				p->first_work[parts[k].calls[i] + 2]++;
	for (size_t c = 0; c < n_api + 2; c++) {
		sum += p->first_work[c];
		p->first_work[c] = sum;
	}
	for (size_t k = 0; k < 3; k++)
		for (size_t i = 0; i < parts[k].n; i++, work++)
			if (parts[k].calls[i] != NO_CALL32)
				p->works[p->first_work[parts[k].calls[i] + 1]++] = work;
	return 0;
}

static void perfetto_release(struct perfetto *p)
{
	stacks_release(&p->stacks);
	attribution_release(&p->at);
	free(p->first_work);
	free(p->works);
	free(p->used);
	free(p->launch_at);
	buf_release(&p->launch_bytes);
	for (size_t c = 0; c < PERFETTO_CHUNKS; c++) {
		buf_release(&p->chunks[0][c]);
		buf_release(&p->chunks[1][c]);
	}
	buf_release(&p->small);
}

int export_perfetto(const struct run *run, FILE *out, struct err *err)
{
	struct perfetto p = {
		.run = run, .out = out, .origin_ns = origin_of(run), .next_uuid = run->n_shards + 1
	};
	int (*const parts[])(struct perfetto *) = { perfetto_names,  perfetto_notes,
						    perfetto_slices, perfetto_counters,
						    perfetto_rows,   perfetto_flush };
	int r = attribution_init_calls(&p.at, run);

	if (r == 0)
		r = stacks_init(&p.stacks, run);
	if (r == 0)
		r = collect_works(&p);
	if (r == 0)
		r = put_clocks(&p);
	put_processes(&p);
	for (size_t i = 0; r == 0 && i < sizeof(parts) / sizeof(parts[0]); i++)
		r = parts[i](&p);
	perfetto_release(&p);
	if (r == 0 && fflush(out) != 0)
		r = -errno;
	return r < 0 ? err_sys(err, r, "cannot write the trace of '%s'", run->info.name) : 0;
}
