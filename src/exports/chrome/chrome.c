/* SPDX-License-Identifier: Apache-2.0
 *
 * The run as Chrome trace JSON in the form of PyTorch's profiler (Kineto): for Perfetto,
 * chrome://tracing, TensorBoard's plugin and Holistic Trace Analysis.
 *
 * A process of the run is a process of the trace, a device another one with a track for each stream.
 * With one process in the file, devices have the numbers that Kineto gives them; with several they
 * need numbers of their own. What Kineto has no event or argument for is there as well, under
 * "moescope", so that a trace makes the same run again: an event of that category with `record` in its
 * arguments is a record; one without is drawn for people only.
 *
 * Times are microseconds since the start of the run, written from integers: doubles would lose
 * nanoseconds, and with them the nesting.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"
#include "exports/chrome/chrome_gzip.h"
#include "exports/chrome/chrome_inside.h"
#include "exports/exports.h"

#define TRACKS_NAMED 4096
#define DEVICES_LIKELY 64 /* a pid below this looks like the number of a device */

void event_begin(struct trace *t, const char *phase, const char *category)
{
	if (t->any_event)
		EMIT(&t->out, ",\n{\"ph\":\"");
	else
		EMIT(&t->out, "\n{\"ph\":\"");
	t->any_event = true;
	emit_bytes(&t->out, phase, 1);
	if (category) {
		EMIT(&t->out, "\",\"cat\":\"");
		emit_text(&t->out, category);
	}
	EMIT(&t->out, "\"");
}

void event_name(struct trace *t, const char *name)
{
	EMIT(&t->out, ",\"name\":");
	emit_string(&t->out, name);
}

void event_name_id(struct trace *t, uint32_t string)
{
	EMIT(&t->out, ",\"name\":");
	put_string(t, string);
}

void event_place(struct trace *t, uint64_t pid, uint64_t tid)
{
	EMIT(&t->out, ",\"pid\":");
	emit_uint(&t->out, pid);
	EMIT(&t->out, ",\"tid\":");
	emit_uint(&t->out, tid);
}

void event_time(struct trace *t, int64_t time_ns)
{
	EMIT(&t->out, ",\"ts\":");
	emit_us(&t->out, time_ns - t->run->start_ns);
}

void event_duration(struct trace *t, int64_t duration_ns)
{
	EMIT(&t->out, ",\"dur\":");
	emit_us(&t->out, duration_ns);
}

const struct piece *piece_make(struct trace *t, struct pieces *pieces, uint32_t id, size_t from)
{
	size_t had = pieces->capacity;

	if (pieces->text.failed || array_grow(&pieces->list, &pieces->capacity, (size_t)id + 1,
					      sizeof(*pieces->list)) < 0) {
		t->failed = -ENOMEM;
		return NULL;
	}
	memset(pieces->list + had, 0, (pieces->capacity - had) * sizeof(*pieces->list));
	pieces->list[id] = (struct piece){ from, (uint32_t)(pieces->text.size - from) };
	return &pieces->list[id];
}

void put_piece(struct trace *t, const struct pieces *pieces, const struct piece *piece)
{
	if (!piece)
		EMIT(&t->out, "null"); /* no memory: nobody will see it */
	else if (piece->length)	       /* nothing may be told of a launch, and no text be there */
		emit_bytes(&t->out, pieces->text.data + piece->at, piece->length);
}

void put_string(struct trace *t, uint32_t string)
{
	const struct piece *piece = piece_find(&t->strings, string);

	if (!piece) {
		size_t from = t->strings.text.size;

		buf_escaped(&t->strings.text, run_string(t->run, string));
		piece = piece_make(t, &t->strings, string, from);
	}
	put_piece(t, &t->strings, piece);
}

static void name_track(struct trace *t, const char *what, uint64_t pid, uint64_t tid,
		       const char *name, bool ours)
{
	event_begin(t, "M", ours ? "moescope" : NULL);
	event_name(t, what);
	event_place(t, pid, tid);
	args_begin(t);
	if (!strcmp(what, "process_labels"))
		ARG(t, "labels");
	else
		ARG(t, "name");
	emit_string(&t->out, name);
	args_end(t);
}

static void order_track(struct trace *t, const char *what, uint64_t pid, uint64_t tid,
			int64_t order)
{
	event_begin(t, "M", NULL);
	event_name(t, what);
	event_place(t, pid, tid);
	args_begin(t);
	ARG(t, "sort_index");
	emit_int(&t->out, order);
	args_end(t);
}

void track_use(struct trace *t, const struct track *track)
{
	const struct track *last = t->n_tracks ? &t->tracks[t->last_track] : NULL;

#define SAME(a, b)                                                                                 \
	((a)->stream == (b)->stream && (a)->device == (b)->device && (a)->shard == (b)->shard &&   \
	 (a)->context == (b)->context && (a)->sync == (b)->sync)
	if (last && SAME(track, last))
		return;
	for (size_t i = 0; i < t->n_tracks; i++) {
		if (SAME(track, &t->tracks[i])) {
			t->last_track = i;
			return;
		}
	}
#undef SAME
	if (t->n_tracks == TRACKS_NAMED)
		return;
	if (array_grow(&t->tracks, &t->tracks_capacity, t->n_tracks + 1, sizeof(*t->tracks)) < 0) {
		t->failed = -ENOMEM;
		return;
	}
	t->last_track = t->n_tracks;
	t->tracks[t->n_tracks++] = *track;
}

/* Whether a track before this one has named the same device, or stream of it. */
static bool named_before(const struct trace *t, size_t at, bool stream_too)
{
	const struct track *track = &t->tracks[at];

	for (size_t i = 0; i < at; i++)
		if (t->tracks[i].shard == track->shard && t->tracks[i].device == track->device &&
		    (!stream_too || (t->tracks[i].sync == track->sync &&
				     (track->sync || t->tracks[i].stream == track->stream))))
			return true;
	return false;
}

static void name_devices(struct trace *t)
{
	for (size_t i = 0; i < t->n_tracks; i++) {
		const struct track *track = &t->tracks[i];
		uint64_t pid = t->process[track->shard].gpu_pid + track->device;
		char name[64], label[32];

		snprintf(label, sizeof(label), "GPU %u", track->device);
		snprintf(name, sizeof(name), "rank %u GPU %u", t->run->shards[track->shard].rank,
			 track->device);
		if (!named_before(t, i, false)) {
			name_track(t, "process_name", pid, 0, t->n_on > 1 ? name : label, false);
			name_track(t, "process_labels", pid, 0, label, false);
			order_track(t, "process_sort_index", pid, 0, 5000000 + (int64_t)i);
		}
		if (named_before(t, i, true))
			continue;
		snprintf(name, sizeof(name), "stream %u ", track->stream);
		if (track->sync)
			name_track(t, "thread_name", pid, SYNC_TRACK, "synchronisation", true);
		else
			name_track(t, "thread_name", pid, track->stream, name, false);
		if (!track->sync)
			order_track(t, "thread_sort_index", pid, track->stream, track->stream);
	}
}

static void name_processes(struct trace *t)
{
	const struct run *run = t->run;

	for (size_t i = 0; i < run->n_shards; i++) {
		uint64_t pid = t->process[i].pid;
		char name[64];

		if (!t->process[i].on)
			continue;
		snprintf(name, sizeof(name), "rank %u (process %u)", run->shards[i].rank,
			 run->shards[i].pid);
		name_track(t, "process_name", pid, 0, name, false);
		name_track(t, "process_labels", pid, 0, "CPU", false);
		order_track(t, "process_sort_index", pid, 0, (int64_t)run->shards[i].rank);
		name_track(t, "thread_name", pid, STEP_TRACK, "steps", true);
		order_track(t, "thread_sort_index", pid, STEP_TRACK, -1);
		name_track(t, "thread_name", pid, RECORD_TRACK, "records", true);
	}
	for (size_t i = 0; i < run->thread.n; i++)
		if (is_on(t, run->thread.shard[i]))
			name_track(t, "thread_name", t->process[run->thread.shard[i]].pid,
				   run->thread.thread[i], run_string(run, run->thread.name[i]),
				   false);
}

static void top_text(struct trace *t, const char *key, const char *text)
{
	if (t->filled)
		EMIT(&t->out, ",");
	t->filled = true;
	emit_string(&t->out, key);
	EMIT(&t->out, ":");
	emit_string(&t->out, text);
}

static void top_int(struct trace *t, const char *key, int64_t value)
{
	if (t->filled)
		EMIT(&t->out, ",");
	t->filled = true;
	emit_string(&t->out, key);
	EMIT(&t->out, ":");
	emit_int(&t->out, value);
}

static void put_devices(struct trace *t)
{
	const struct table_device *device = &t->run->device;
	bool any = false;

	EMIT(&t->out, ",\"deviceProperties\":[");
	/* Of several processes nobody could tell whose they are: they are records then. */
	for (size_t i = 0; t->n_on == 1 && i < device->n; i++) {
		if (!is_on(t, device->shard[i]))
			continue;
		emit_text(&t->out, any ? ",{" : "{");
		any = true;
		t->filled = false;
		top_int(t, "id", device->device[i]);
		top_text(t, "name", run_string(t->run, device->name[i]));
#define KNOWN(key, value)                                                                          \
	if (value)                                                                                 \
		top_int(t, key, (int64_t)(value));
		KNOWN("totalGlobalMem", device->memory_bytes[i])
		if (device->capability[i]) {
			top_int(t, "computeMajor", device->capability[i] / 10);
			top_int(t, "computeMinor", device->capability[i] % 10);
		}
		KNOWN("numSms", device->multiprocessors[i])
		KNOWN("maxThreadsPerMultiprocessor", device->threads_per_multiprocessor[i])
		KNOWN("regsPerMultiprocessor", device->registers_per_multiprocessor[i])
		KNOWN("sharedMemPerMultiprocessor", device->shared_bytes_per_multiprocessor[i])
		EMIT(&t->out, ",\"moescope\":{");
		t->filled = false;
		if (device->uuid[i])
			top_text(t, "uuid", run_string(t->run, device->uuid[i]));
		KNOWN("clock_khz", device->clock_khz[i])
		KNOWN("memory_bytes_per_s", device->memory_bytes_per_s[i])
		KNOWN("l2_bytes", device->l2_bytes[i])
		KNOWN("blocks_per_multiprocessor", device->blocks_per_multiprocessor[i])
#undef KNOWN
		EMIT(&t->out, "}}");
	}
	EMIT(&t->out, "]");
}

/* One rank in the file: which one, of how many the run knows. */
static void put_distributed(struct trace *t)
{
	uint32_t rank = 0, world = 0;
	bool known = false;

	for (size_t i = 0; i < t->run->n_shards; i++) {
		uint32_t its = t->run->shards[i].rank;

		world = its >= world ? its + 1 : world;
		if (!t->process[i].on)
			continue;
		if (known && its != rank)
			return;
		rank = its;
		known = true;
	}
	if (!known)
		return;
	EMIT(&t->out, ",\"distributedInfo\":{");
	t->filled = false;
	if (t->run->collective.n)
		top_text(t, "backend", "nccl");
	/* Holistic Trace Analysis looks for the rank with this blank. */
	emit_text(&t->out, t->filled ? ",\"rank\": " : "\"rank\": ");
	emit_uint(&t->out, rank);
	t->filled = true;
	top_int(t, "world_size", world);
	EMIT(&t->out, "}");
}

static void put_loss(struct trace *t, const struct loss *loss)
{
	EMIT(&t->out, ",\"loss\":{");
	t->filled = false;
#define LOSS(field, words)                                                                         \
	if (loss->field)                                                                           \
		top_int(t, #field, (int64_t)loss->field);
	LOSS_COUNTERS(LOSS)
#undef LOSS
	EMIT(&t->out, "}");
}

static void put_processes(struct trace *t)
{
	bool any = false;

	EMIT(&t->out, ",\"processes\":[");
	for (size_t i = 0; i < t->run->n_shards; i++) {
		const struct run_shard *shard = &t->run->shards[i];

		if (!t->process[i].on)
			continue;
		emit_text(&t->out, any ? ",{" : "{");
		any = true;
		t->filled = false;
		top_int(t, "rank", shard->rank);
		top_int(t, "pid", shard->pid);
		top_int(t, "trace_pid", (int64_t)t->process[i].pid);
		top_int(t, "first_device_pid", (int64_t)t->process[i].gpu_pid);
		top_int(t, "start_ns", shard->start_ns - t->run->start_ns);
		top_int(t, "end_ns", shard->end_ns - t->run->start_ns);
		put_loss(t, &shard->loss);
		EMIT(&t->out, "}");
	}
	EMIT(&t->out, "]");
}

/* What run.json says, and what the run lost. */
static void put_about(struct trace *t)
{
	const struct run_info *info = &t->run->info;

	EMIT(&t->out, "\"moescope\":{");
	t->filled = false;
	top_text(t, "version", VERSION_TEXT);
	top_text(t, "run", info->name);
	top_text(t, "command", info->command);
	top_text(t, "status", info->status);
	if (!strcmp(info->status, "exited"))
		top_int(t, "exit_status", info->exit_status);
	if (!strcmp(info->status, "killed"))
		top_int(t, "signal", info->signal);
	top_text(t, "host", info->host);
	top_text(t, "cpu", info->cpu);
	top_int(t, "cpus", info->cpus);
	top_text(t, "level", info->level);
	top_text(t, "notes", info->notes);
	top_int(t, "started_realtime_ns", info->started_realtime_ns);
	if (info->duration_known)
		top_int(t, "duration_ns", info->duration_ns);
	if (info->budget_known) {
		EMIT(&t->out, ",\"budget_pct\":");
		emit_double(&t->out, info->budget_pct);
	}
	top_int(t, "start_monotonic_ns", t->run->start_ns);
	top_int(t, "lost", (int64_t)loss_total(&t->run->loss));
	put_loss(t, &t->run->loss);
	put_processes(t);
	EMIT(&t->out, "}");
}

/* Nanoseconds since 1970 at the start of the run, as far as it is known. */
static int64_t base_time(const struct run *run)
{
	for (size_t i = 0; i < run->n_shards; i++)
		if (run->shards[i].realtime_offset_ns)
			return run->shards[i].realtime_offset_ns + run->start_ns;
	return run->info.started_realtime_ns;
}

static void put_head(struct trace *t)
{
	EMIT(&t->out, "{");
	put_about(t); /* first: it tells readers of ours what the rest is */
	EMIT(&t->out, ",\"schemaVersion\":1,\"traceName\":");
	emit_string(&t->out, t->run->info.name);
	put_devices(t);
	put_distributed(t);
	EMIT(&t->out, ",\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":");
	emit_int(&t->out, base_time(t->run));
	EMIT(&t->out, ",\"traceEvents\":[");
}

static void put_tail(struct trace *t)
{
	EMIT(&t->out, "\n]}\n");
}

static bool pid_taken(const struct trace *t, size_t shard)
{
	for (size_t i = 0; i < shard; i++)
		if (t->run->shards[i].pid == t->run->shards[shard].pid)
			return true;
	return false;
}

/* Pids of two hosts may be the same, and the first of a container look like a device's number. */
static int find_processes(struct trace *t, int64_t rank)
{
	const struct run *run = t->run;

	t->process = calloc(run->n_shards + 1, sizeof(*t->process));
	if (!t->process)
		return -ENOMEM;
	for (size_t i = 0; i < run->n_shards; i++) {
		t->process[i].on = rank < 0 || run->shards[i].rank == (uint64_t)rank;
		t->process[i].pid = run->shards[i].pid + (pid_taken(t, i) ? i * PIDS : 0);
		t->n_on += t->process[i].on;
	}
	for (size_t i = 0; i < run->n_shards; i++)
		t->process[i].gpu_pid = t->n_on == 1 && t->process[i].pid >= DEVICES_LIKELY
						? 0
						: DEVICE_PROCESS + i * DEVICES;
	return 0;
}

static void find_multiprocessors(struct trace *t)
{
	const struct table_device *device = &t->run->device;

	for (size_t i = 0; i < device->n; i++) {
		if (i && device->multiprocessors[i] != t->multiprocessors) {
			t->multiprocessors = 0;
			return;
		}
		t->multiprocessors = device->multiprocessors[i];
	}
}

/* What Kineto calls external ids, by which TensorBoard's plugin finds the operation of a kernel. */
static int find_externals(struct trace *t)
{
	size_t n = t->run->api.n;
	struct attribution_cursor cursor = { 0 };

	t->call = calloc(n + 1, 1);
	t->external = calloc(n + 1, sizeof(*t->external));
	if (!t->call || !t->external)
		return -ENOMEM;
	for (size_t i = 0; t->at.n_ranges && t->at.n_ranges < UINT32_MAX && i < n; i++) {
		struct place place = attribution_place_near(&t->at, &cursor, i);

		if (place.range != NO_RANGE)
			t->external[i] = (uint32_t)place.range + 1;
	}
	return 0;
}

static int put_events(struct trace *t)
{
	int r = attribution_init(&t->at, t->run);

	if (r < 0)
		return r;
	r = find_externals(t);
	if (r < 0)
		return r;
	find_multiprocessors(t);
	name_processes(t);
	r = put_host(t);
	if (r < 0)
		return r;
	r = put_gpu(t);
	if (r < 0)
		return r;
	put_calls(t);
	name_devices(t);
	r = put_allocations(t);
	if (r < 0)
		return r;
	put_records(t);
	r = put_derived(t);
	return r < 0 ? r : t->failed;
}

static void pieces_release(struct pieces *pieces)
{
	free(pieces->list);
	buf_release(&pieces->text);
}

static void trace_release(struct trace *t)
{
	attribution_release(&t->at);
	pieces_release(&t->strings);
	pieces_release(&t->launches);
	pieces_release(&t->shapes);
	pieces_release(&t->stacks);
	free(t->process);
	free(t->call);
	free(t->external);
	free(t->tracks);
	free(t->told);
}

static int write_trace(const struct run *run, int64_t rank, bool gzip, FILE *file, struct err *err)
{
	struct trace t = { .run = run };
	int r = find_processes(&t, rank);

	if (r == 0)
		r = emit_init(&t.out, file, gzip);
	if (r == 0) {
		put_head(&t);
		r = put_events(&t);
		put_tail(&t);
		r = emit_finish(&t.out, r);
	}
	trace_release(&t);
	return r < 0 ? err_sys(err, r, "cannot write the trace of '%s'", run->info.name) : 0;
}

int export_chrome(const struct run *run, FILE *out, struct err *err)
{
	return write_trace(run, -1, false, out, err);
}

int export_chrome_gzip(const struct run *run, FILE *out, struct err *err)
{
	return write_trace(run, -1, true, out, err);
}

int export_chrome_rank(const struct run *run, uint32_t rank, bool gzip, FILE *out, struct err *err)
{
	return write_trace(run, rank, gzip, out, err);
}

bool export_chrome_packs(void)
{
	return gzip_built();
}
