/* SPDX-License-Identifier: Apache-2.0
 *
 * Work of devices and the calls that launched it. Nearly all of a large trace is written here: what
 * depends on the launch alone is made once for each, the rest are numbers.
 *
 * Arrows (ac2g) go from a call to the first of its work; their number is that of the call's row, so
 * each beginning has one end. Work without times cannot be drawn and goes out as records.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash_map.h"
#include "exports/chrome/chrome_inside.h"

/* As CUPTI numbers them, as Kineto calls them. */
static const char *const copy_kinds[] = { NULL,	  "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
					  "AtoD", "DtoA", "DtoD", "HtoH", "PtoP" };
static const char *const memories[] = { NULL, "Pageable", "Pinned", "Device", "Array", "Managed" };
static const char *const waits[] = { NULL, "Event Sync", "Stream Wait Event", "Stream Sync",
				     "Context Sync" };

#define NAME_OF(names, i) ((i) < sizeof(names) / sizeof((names)[0]) ? (names)[i] : NULL)

static void make_launch(struct trace *t, const struct row_launch *launch)
{
	struct buf *buf = &t->launches.text;
	unsigned long long shared = (unsigned long long)launch->static_shared_bytes +
				    launch->dynamic_shared_bytes;

	/* 0: the file that the run was made from does not tell. */
	if (launch->registers)
		buf_printf(buf, ",\"registers per thread\":%u", launch->registers);
	if (shared || launch->registers || launch->grid_x || launch->block_x)
		buf_printf(buf, ",\"shared memory\":%llu", shared);
	if (launch->grid_x && launch->block_x && t->multiprocessors) {
		double blocks = (double)launch->grid_x * launch->grid_y * launch->grid_z;
		double threads = (double)launch->block_x * launch->block_y * launch->block_z;
		double warps = ceil(threads / 32);

		buf_printf(buf, ",\"blocks per SM\":%.6f,\"warps per SM\":%.6f",
			   blocks / t->multiprocessors, blocks * warps / t->multiprocessors);
	}
	if (launch->grid_x)
		buf_printf(buf, ",\"grid\":[%u,%u,%u]", launch->grid_x, launch->grid_y,
			   launch->grid_z);
	if (launch->block_x)
		buf_printf(buf, ",\"block\":[%u,%u,%u]", launch->block_x, launch->block_y,
			   launch->block_z);
	/* Kineto tells the sum alone. */
	if (launch->static_shared_bytes)
		buf_printf(buf, ",\"moescope\":{\"static_shared_bytes\":%u}",
			   launch->static_shared_bytes);
}

/* What all kernels of a launch share. */
static void put_launch(struct trace *t, uint32_t id, const struct row_launch *launch)
{
	const struct piece *piece = piece_find(&t->launches, id);

	if (!piece) {
		size_t from = t->launches.text.size;

		make_launch(t, launch);
		piece = piece_make(t, &t->launches, id, from);
	}
	put_piece(t, &t->launches, piece);
}

static void put_graph(struct trace *t, uint32_t graph, uint64_t node)
{
	if (graph) {
		ARG(t, "graph id");
		emit_uint(&t->out, graph);
	}
	if (node) {
		ARG(t, "graph node id");
		emit_uint(&t->out, node);
	}
}

struct work {
	int64_t start_ns, duration_ns;
	uint64_t pid, correlation;
	uint32_t device, context, stream, call; /* call: row of run->api, or NO_CALL32 */
	uint16_t shard;
};

static void put_place(struct trace *t, const struct work *work)
{
	event_place(t, work->pid, work->stream);
	event_time(t, work->start_ns);
	event_duration(t, work->duration_ns);
	EMIT(&t->out, ",\"args\":{\"External id\":");
	emit_uint(&t->out, work->call == NO_CALL32 ? 0 : t->external[work->call]);
	EMIT(&t->out, ",\"device\":");
	emit_uint(&t->out, work->device);
	EMIT(&t->out, ",\"context\":");
	emit_uint(&t->out, work->context);
	EMIT(&t->out, ",\"stream\":");
	emit_uint(&t->out, work->stream);
	EMIT(&t->out, ",\"correlation\":");
	emit_uint(&t->out, work->correlation);
	t->filled = true;
	t->extra = false;
}

/* After the work itself: where its arrow ends, and its track. */
static void join_work(struct trace *t, const struct work *work)
{
	struct track track = { .device = work->device,
			       .stream = work->stream,
			       .context = work->context,
			       .shard = work->shard };

	track_use(t, &track);
	if (work->call == NO_CALL32 || t->call[work->call] & CALL_JOINED)
		return;
	t->call[work->call] |= CALL_WORKS | CALL_JOINED;
	EMIT(&t->out, ",\n{\"ph\":\"f\",\"id\":");
	emit_uint(&t->out, (uint64_t)work->call + 1);
	event_place(t, work->pid, work->stream);
	event_time(t, work->start_ns);
	EMIT(&t->out, ",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"}");
}

#define WORK(t, table, i, calls)                                                                   \
	{                                                                                          \
		.start_ns = (table)->start_ns[i], .duration_ns = (table)->duration_ns[i],          \
		.pid = (t)->process[(table)->shard[i]].gpu_pid + (table)->device[i],               \
		.correlation = (table)->correlation[i], .device = (table)->device[i],              \
		.context = (table)->context[i], .stream = (table)->stream[i], .call = (calls)[i],  \
		.shard = (table)->shard[i]                                                         \
	}

/* The communicators' accounts of kernels, found by their time and number. */
struct accounts {
	struct hash_map map; /* row of run->collective + 1 */
	uint8_t *told;	     /* rows that are in the event of their kernel */
};

static uint32_t hash_account(int64_t start_ns, uint64_t correlation)
{
	return (uint32_t)hash_mix(hash_mix(0, (uint64_t)start_ns), correlation);
}

/* Of several that are equal the first is told first: room for all of them keeps their order. */
static int accounts_init(struct accounts *accounts, const struct table_collective *c)
{
	*accounts = (struct accounts){ 0 };
	if (c->n >= UINT32_MAX)
		return -EFBIG;
	accounts->told = calloc(c->n + 1, 1);
	if (!accounts->told || hash_map_reserve(&accounts->map, c->n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		hash_map_add(&accounts->map, hash_account(c->start_ns[i], c->correlation[i]),
			     (uint32_t)i + 1);
	return 0;
}

static void accounts_release(struct accounts *accounts)
{
	hash_map_release(&accounts->map);
	free(accounts->told);
}

static size_t find_account(const struct trace *t, const struct accounts *accounts,
			   const struct work *work)
{
	const struct table_collective *c = &t->run->collective;
	struct hash_walk walk = hash_map_walk(&accounts->map,
					      hash_account(work->start_ns, work->correlation));
	uint32_t number;

	while ((number = hash_map_next(&accounts->map, &walk))) {
		size_t i = number - 1;

		if (!accounts->told[i] && c->start_ns[i] == work->start_ns &&
		    c->correlation[i] == work->correlation && c->shard[i] == work->shard &&
		    c->device[i] == work->device && c->stream[i] == work->stream &&
		    c->duration_ns[i] == work->duration_ns)
			return i;
	}
	return SIZE_MAX;
}

static void put_collective(struct trace *t, size_t i)
{
	const struct table_collective *c = &t->run->collective;

	ARG(t, "Collective name");
	put_string(t, c->name[i]);
	if (c->in_elements[i]) {
		ARG(t, "In msg nelems");
		emit_uint(&t->out, c->in_elements[i]);
	}
	if (c->out_elements[i]) {
		ARG(t, "Out msg nelems");
		emit_uint(&t->out, c->out_elements[i]);
	}
	if (c->group_size[i]) {
		ARG(t, "Group size");
		emit_uint(&t->out, c->group_size[i]);
	}
	if (c->type[i]) {
		ARG(t, "dtype");
		put_string(t, c->type[i]);
	}
	if (c->group[i]) {
		ARG(t, "Process Group Name");
		put_string(t, c->group[i]);
	}
	if (c->sequence_known[i]) {
		ARG(t, "Seq");
		emit_uint(&t->out, c->sequence[i]);
	}
}

static void put_kernels(struct trace *t, const struct accounts *accounts)
{
	const struct table_kernel *kernel = &t->run->kernel;
	size_t found;

	for (size_t i = 0; i < kernel->n; i++) {
		struct row_launch launch;
		struct work work;

		if (!is_on(t, kernel->shard[i]))
			continue;
		if (kernel->untimed[i] || kernel->device[i] >= DEVICES) {
			put_record(t, RECORD_KERNEL, i);
			continue;
		}
		work = (struct work)WORK(t, kernel, i, t->at.kernel_call);
		launch = run_launch(t->run, kernel->launch[i]);
		event_begin(t, "X", "kernel");
		event_name_id(t, launch.name);
		put_place(t, &work);
		put_graph(t, kernel->graph[i], kernel->graph_node[i]);
		found = t->run->collective.n ? find_account(t, accounts, &work) : SIZE_MAX;
		if (found != SIZE_MAX) {
			accounts->told[found] = 1;
			put_collective(t, found);
		}
		put_launch(t, kernel->launch[i], &launch);
		EMIT(&t->out, "}}");
		join_work(t, &work);
	}
}

/* Bytes of a nanosecond are gigabytes of a second. */
static void put_moved(struct trace *t, uint64_t bytes, int64_t duration_ns)
{
	if (bytes == BYTES_NOT_TOLD)
		return;
	ARG(t, "bytes");
	emit_uint(&t->out, bytes);
	if (duration_ns > 0) {
		ARG(t, "memory bandwidth (GB/s)");
		emit_double(&t->out, (double)bytes / (double)duration_ns);
	}
}

static void name_copy(struct trace *t, uint8_t kind, uint8_t source, uint8_t target)
{
	const char *is = NAME_OF(copy_kinds, kind), *from = NAME_OF(memories, source),
		   *to = NAME_OF(memories, target);

	EMIT(&t->out, ",\"name\":\"Memcpy ");
	emit_text(&t->out, is ? is : "Unknown");
	EMIT(&t->out, " (");
	emit_text(&t->out, from ? from : "Unknown");
	EMIT(&t->out, " -> ");
	emit_text(&t->out, to ? to : "Unknown");
	EMIT(&t->out, ")\"");
}

static void put_copy_extra(struct trace *t, size_t i)
{
	const struct table_copy *copy = &t->run->copy;

	if (!NAME_OF(copy_kinds, copy->kind[i]) && copy->kind[i]) {
		EXTRA(t, "kind");
		emit_uint(&t->out, copy->kind[i]);
	}
	if (!NAME_OF(memories, copy->source_memory[i]) && copy->source_memory[i]) {
		EXTRA(t, "source_memory");
		emit_uint(&t->out, copy->source_memory[i]);
	}
	if (!NAME_OF(memories, copy->target_memory[i]) && copy->target_memory[i]) {
		EXTRA(t, "target_memory");
		emit_uint(&t->out, copy->target_memory[i]);
	}
	if (copy->asynchronous[i] != COPY_NOT_TOLD) {
		EXTRA(t, "asynchronous");
		emit_uint(&t->out, copy->asynchronous[i]);
	}
}

static void put_copies(struct trace *t)
{
	const struct table_copy *copy = &t->run->copy;

	for (size_t i = 0; i < copy->n; i++) {
		struct work work;

		if (!is_on(t, copy->shard[i]))
			continue;
		if (copy->untimed[i] || copy->device[i] >= DEVICES) {
			put_record(t, RECORD_COPY, i);
			continue;
		}
		work = (struct work)WORK(t, copy, i, t->at.copy_call);
		event_begin(t, "X", "gpu_memcpy");
		name_copy(t, copy->kind[i], copy->source_memory[i], copy->target_memory[i]);
		put_place(t, &work);
		put_moved(t, copy->bytes[i], copy->duration_ns[i]);
		if (copy->source_device[i] != copy->device[i] ||
		    copy->target_device[i] != copy->device[i]) {
			ARG(t, "fromDevice");
			emit_uint(&t->out, copy->source_device[i]);
			ARG(t, "toDevice");
			emit_uint(&t->out, copy->target_device[i]);
		}
		put_graph(t, copy->graph[i], copy->graph_node[i]);
		put_copy_extra(t, i);
		args_end(t);
		join_work(t, &work);
	}
}

static void put_sets(struct trace *t)
{
	const struct table_set *set = &t->run->set;

	for (size_t i = 0; i < set->n; i++) {
		const char *memory = NAME_OF(memories, set->memory[i]);
		struct work work;

		if (!is_on(t, set->shard[i]))
			continue;
		if (set->untimed[i] || set->device[i] >= DEVICES) {
			put_record(t, RECORD_SET, i);
			continue;
		}
		work = (struct work)WORK(t, set, i, t->at.set_call);
		event_begin(t, "X", "gpu_memset");
		EMIT(&t->out, ",\"name\":\"Memset (");
		emit_text(&t->out, memory ? memory : "Unknown");
		EMIT(&t->out, ")\"");
		put_place(t, &work);
		put_moved(t, set->bytes[i], set->duration_ns[i]);
		put_graph(t, set->graph[i], set->graph_node[i]);
		if (!memory && set->memory[i]) {
			EXTRA(t, "memory");
			emit_uint(&t->out, set->memory[i]);
		}
		args_end(t);
		join_work(t, &work);
	}
}

/* Records of waits have a context alone; its device is that of its work. */
static uint32_t device_of_context(const struct trace *t, uint16_t shard, uint32_t context)
{
	for (size_t i = 0; i < t->n_tracks; i++)
		if (t->tracks[i].shard == shard && t->tracks[i].context == context)
			return t->tracks[i].device;
	return 0;
}

/* On a track of their own: a wait for a stream begins before work of it and ends after. */
static void put_waits(struct trace *t)
{
	const struct table_sync *sync = &t->run->sync;

	for (size_t i = 0; i < sync->n; i++) {
		const char *name = NAME_OF(waits, sync->type[i]);
		struct track track = { .sync = true, .shard = sync->shard[i] };

		if (!is_on(t, sync->shard[i]))
			continue;
		track.device = device_of_context(t, sync->shard[i], sync->context[i]);
		event_begin(t, "X", "cuda_sync");
		event_name(t, name ? name : "Sync");
		event_place(t, t->process[sync->shard[i]].gpu_pid + track.device, SYNC_TRACK);
		event_time(t, sync->start_ns[i]);
		event_duration(t, sync->duration_ns[i]);
		args_begin(t);
		ARG(t, "context");
		emit_uint(&t->out, sync->context[i]);
		ARG(t, "stream");
		if (sync->stream[i] <= INT32_MAX)
			emit_uint(&t->out, sync->stream[i]);
		else
			EMIT(&t->out, "-1");
		ARG(t, "correlation");
		emit_uint(&t->out, sync->correlation[i]);
		if (!name && sync->type[i]) {
			EXTRA(t, "type");
			emit_uint(&t->out, sync->type[i]);
		}
		if (sync->stream[i] > INT32_MAX) {
			EXTRA(t, "stream");
			emit_uint(&t->out, sync->stream[i]);
		}
		args_end(t);
		track_use(t, &track);
	}
}

int put_gpu(struct trace *t)
{
	const struct table_collective *c = &t->run->collective;
	struct accounts accounts;
	int r = accounts_init(&accounts, c);

	if (r == 0) {
		put_kernels(t, &accounts);
		put_copies(t);
		put_sets(t);
		put_waits(t);
		for (size_t i = 0; i < c->n; i++)
			if (!accounts.told[i] && is_on(t, c->shard[i]))
				put_record(t, RECORD_COLLECTIVE, i);
	}
	accounts_release(&accounts);
	return r;
}

void put_calls(struct trace *t)
{
	const struct table_api *api = &t->run->api;

	for (size_t i = 0; i < api->n; i++) {
		uint64_t pid;

		if (!is_on(t, api->shard[i]))
			continue;
		pid = t->process[api->shard[i]].pid;
		event_begin(t, "X", api->driver[i] ? "cuda_driver" : "cuda_runtime");
		event_name_id(t, api->name[i]);
		event_place(t, pid, api->thread[i]);
		event_time(t, api->start_ns[i]);
		event_duration(t, api->duration_ns[i]);
		EMIT(&t->out, ",\"args\":{\"External id\":");
		emit_uint(&t->out, t->external[i]);
		EMIT(&t->out, ",\"correlation\":");
		emit_uint(&t->out, api->correlation[i]);
		t->filled = true;
		t->extra = false;
		if (api->status[i]) {
			EXTRA(t, "status");
			emit_uint(&t->out, api->status[i]);
		}
		args_end(t);
		if (!(t->call[i] & CALL_WORKS))
			continue;
		EMIT(&t->out, ",\n{\"ph\":\"s\",\"id\":");
		emit_uint(&t->out, i + 1);
		event_place(t, pid, api->thread[i]);
		event_time(t, api->start_ns[i]);
		EMIT(&t->out, ",\"cat\":\"ac2g\",\"name\":\"ac2g\"}");
	}
}
