/* SPDX-License-Identifier: Apache-2.0
 *
 * The run as Chrome trace JSON, for Perfetto and chrome://tracing.
 *
 * One process per shard, one track per thread, one for the steps, one process per device with a
 * track per stream. Spans are asynchronous events: they begin and end where they like. Times are microseconds since the start of the run, printed from integers:
 * doubles would lose nanoseconds, and with them the nesting. Within a thread outer events come
 * before inner ones.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/memory.h"
#include "analyze/nesting.h"
#include "analyze/routing.h"
#include "base/json_write.h"
#include "present/present.h"

#define STEP_TRACK UINT64_C(2147483646) /* no thread has this number */
#define DEVICE_PROCESS UINT64_C(4000000000)
#define PIDS UINT64_C(4194304) /* more than any pid of Linux */
#define MEMORY_POINTS 4096

struct trace {
	const struct run *run;
	struct json json;
};

/* The process number of a shard: its pid, made unique when two hosts gave the same one. */
static uint64_t process_of(const struct run *run, uint16_t shard)
{
	if (shard >= run->n_shards)
		return 0;
	for (uint16_t i = 0; i < shard; i++)
		if (run->shards[i].pid == run->shards[shard].pid)
			return run->shards[shard].pid + shard * PIDS;
	return run->shards[shard].pid;
}

static void put_time(struct trace *t, const char *key, int64_t ns)
{
	char text[40];
	uint64_t magnitude = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;

	snprintf(text, sizeof(text), "%s%" PRIu64 ".%03" PRIu64, ns < 0 ? "-" : "",
		 magnitude / 1000, magnitude % 1000);
	json_key(&t->json, key);
	json_raw(&t->json, text);
}

static void put_text(struct trace *t, const char *key, const char *text)
{
	json_key(&t->json, key);
	json_string(&t->json, text);
}

static void put_uint(struct trace *t, const char *key, uint64_t value)
{
	json_key(&t->json, key);
	json_uint(&t->json, value);
}

static void begin_event(struct trace *t, const char *phase, const char *name, uint64_t process,
			uint64_t thread)
{
	json_object_line(&t->json);
	put_text(t, "ph", phase);
	put_text(t, "name", name);
	put_uint(t, "pid", process);
	put_uint(t, "tid", thread);
}

static void put_start(struct trace *t, int64_t time_ns)
{
	put_time(t, "ts", time_ns - t->run->start_ns);
}

static void name_track(struct trace *t, const char *what, uint64_t process, uint64_t thread,
		       const char *name)
{
	begin_event(t, "M", what, process, thread);
	json_key(&t->json, "args");
	json_object(&t->json);
	put_text(t, "name", name);
	json_object_end(&t->json);
	json_object_end(&t->json);
}

static void order_track(struct trace *t, const char *what, uint64_t process, uint64_t thread,
			int64_t order)
{
	begin_event(t, "M", what, process, thread);
	json_key(&t->json, "args");
	json_object(&t->json);
	json_key(&t->json, "sort_index");
	json_int(&t->json, order);
	json_object_end(&t->json);
	json_object_end(&t->json);
}

static void put_names(struct trace *t)
{
	const struct run *run = t->run;

	for (size_t i = 0; i < run->n_shards; i++) {
		uint64_t process = process_of(run, (uint16_t)i);
		char name[64];

		snprintf(name, sizeof(name), "rank %u (process %u)", run->shards[i].rank,
			 run->shards[i].pid);
		name_track(t, "process_name", process, 0, name);
		order_track(t, "process_sort_index", process, 0, (int64_t)run->shards[i].rank);
		name_track(t, "thread_name", process, STEP_TRACK, "steps");
		order_track(t, "thread_sort_index", process, STEP_TRACK, -1);
	}
	for (size_t i = 0; i < run->thread.n; i++)
		name_track(t, "thread_name", process_of(run, run->thread.shard[i]),
			   run->thread.thread[i], run_string(run, run->thread.name[i]));
}

static void put_steps(struct trace *t)
{
	const struct table_step *step = &t->run->step;

	for (size_t i = 0; i < step->n; i++) {
		char name[40];

		snprintf(name, sizeof(name), "step %" PRId64, step->step[i]);
		begin_event(t, "X", name, process_of(t->run, step->shard[i]), STEP_TRACK);
		put_text(t, "cat", "step");
		put_start(t, step->start_ns[i]);
		put_time(t, "dur", step->duration_ns[i]);
		json_key(&t->json, "args");
		json_object(&t->json);
		if (step->tokens_known[i])
			put_uint(t, "tokens", step->tokens[i]);
		json_key(&t->json, "recorded");
		json_bool(&t->json, step->recorded[i]);
		if (step->unfinished[i])
			put_text(t, "unfinished", "cut by the end of the process");
		json_object_end(&t->json);
		json_object_end(&t->json);
	}
}

static void put_args(struct trace *t, const struct nested *item, const struct site *site)
{
	const struct table_op *op = &t->run->op;

	json_key(&t->json, "args");
	json_object(&t->json);
	if (site->layer >= 0)
		put_uint(t, "layer", (uint64_t)site->layer);
	if (site->expert >= 0)
		put_uint(t, "expert", (uint64_t)site->expert);
	if (site->phase)
		put_text(t, "phase", phase_name(site->phase));
	if (item->is_op) {
		if (op->shape[item->row])
			put_text(t, "shape", run_string(t->run, op->shape[item->row]));
		if (!(op->unknown[item->row] & OP_FLOPS_UNKNOWN))
			put_uint(t, "flops", op->flops[item->row]);
		if (!(op->unknown[item->row] & OP_BYTES_UNKNOWN))
			put_uint(t, "bytes", op->bytes[item->row]);
	}
	if (item->is_op ? op->unfinished[item->row] : t->run->range.unfinished[item->row])
		put_text(t, "unfinished", "cut by the end of the process");
	json_object_end(&t->json);
}

static int put_nested(struct trace *t)
{
	struct nested *list;
	size_t n;
	int r = nesting_collect(t->run, NESTING_BY_START, &list, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		const struct nested *item = &list[i];
		struct site site = run_site(t->run, item->is_op ? t->run->op.site[item->row]
								: t->run->range.site[item->row]);

		begin_event(t, "X", site.name ? run_string(t->run, site.name) : "(no name)",
			    process_of(t->run, item->shard), item->thread);
		put_text(t, "cat", item->is_op ? "op" : "range");
		put_start(t, item->start_ns);
		put_time(t, "dur", item->end_ns - item->start_ns);
		put_args(t, item, &site);
		json_object_end(&t->json);
	}
	free(list);
	return 0;
}

/* Kernels without times cannot be drawn; their number is in the metadata. */
static uint64_t put_kernels(struct trace *t)
{
	const struct table_kernel *kernel = &t->run->kernel;
	uint64_t untimed = 0, named = 0;

	for (size_t i = 0; i < kernel->n; i++) {
		struct row_launch launch = run_launch(t->run, kernel->launch[i]);
		uint64_t process = DEVICE_PROCESS + kernel->device[i];

		if (kernel->untimed[i]) {
			untimed++;
			continue;
		}
		if (kernel->device[i] < 64 && !(named >> kernel->device[i] & 1)) {
			char name[32];

			snprintf(name, sizeof(name), "GPU %u", kernel->device[i]);
			name_track(t, "process_name", process, 0, name);
			named |= UINT64_C(1) << kernel->device[i];
		}
		begin_event(t, "X", run_string(t->run, launch.name), process, kernel->stream[i]);
		put_text(t, "cat", "kernel");
		put_start(t, kernel->start_ns[i]);
		put_time(t, "dur", kernel->duration_ns[i]);
		json_key(&t->json, "args");
		json_object(&t->json);
		put_uint(t, "correlation", kernel->correlation[i]);
		json_object_end(&t->json);
		json_object_end(&t->json);
	}
	return untimed;
}

static void put_counter(struct trace *t, const char *name, uint16_t shard, int64_t time_ns,
			double value)
{
	if (!isfinite(value))
		return;
	begin_event(t, "C", name, process_of(t->run, shard), 0);
	put_start(t, time_ns);
	json_key(&t->json, "args");
	json_object(&t->json);
	json_key(&t->json, "value");
	json_double(&t->json, value);
	json_object_end(&t->json);
	json_object_end(&t->json);
}

static int put_routing(struct trace *t)
{
	struct selection all = SELECT_ALL;
	struct routing_options options = { 0 };
	struct routing routing;
	int r = routing_analyze(t->run, &all, &options, &routing);

	if (r < 0)
		return r;
	for (size_t i = 0; i < routing.n; i++) {
		const struct routing_layer *layer = &routing.layers[i];
		char name[64];

		snprintf(name, sizeof(name), "imbalance layer %d %s", layer->layer,
			 phase_name(layer->phase));
		for (size_t s = 0; s < layer->n_steps; s++)
			if (layer->steps[s].load.known)
				put_counter(t, name, 0, layer->steps[s].time_ns,
					    layer->steps[s].load.imbalance);
	}
	routing_release(&routing);
	return 0;
}

static int put_memory(struct trace *t)
{
	struct memory memory;
	int r = memory_analyze(t->run, MEMORY_POINTS, &memory);

	if (r < 0)
		return r;
	for (size_t i = 0; i < memory.n; i++) {
		const struct memory_device *d = &memory.devices[i];
		char name[64];

		if (d->device < 0)
			snprintf(name, sizeof(name), "live bytes, host");
		else
			snprintf(name, sizeof(name), "live bytes, device %d", d->device);
		for (size_t p = 0; p < d->n_points; p++)
			put_counter(t, name, d->shard, d->points[p].time_ns,
				    (double)d->points[p].live_bytes);
	}
	memory_release(&memory);
	return 0;
}

static void put_counters_and_marks(struct trace *t)
{
	const struct table_counter *counter = &t->run->counter;
	const struct table_mark *mark = &t->run->mark;

	for (size_t i = 0; i < counter->n; i++)
		put_counter(t, run_string(t->run, counter->name[i]), counter->shard[i],
			    counter->time_ns[i], counter->value[i]);
	for (size_t i = 0; i < mark->n; i++) {
		begin_event(t, "i", run_string(t->run, mark->text[i]),
			    process_of(t->run, mark->shard[i]), mark->thread[i]);
		put_start(t, mark->time_ns[i]);
		put_text(t, "s", "t");
		json_object_end(&t->json);
	}
}

static void put_span_event(struct trace *t, size_t i, const char *phase, uint32_t thread,
			   int64_t time_ns)
{
	const struct table_span *span = &t->run->span;

	begin_event(t, phase, run_string(t->run, span->name[i]), process_of(t->run, span->shard[i]),
		    thread);
	put_text(t, "cat", "span");
	put_uint(t, "id", i + 1);
	put_start(t, time_ns);
	json_key(&t->json, "args");
	json_object(&t->json);
	if (span->domain[i])
		put_text(t, "domain", run_string(t->run, span->domain[i]));
	if (span->unfinished[i])
		put_text(t, "unfinished", "cut by the end of the process");
	json_object_end(&t->json);
	json_object_end(&t->json);
}

static void put_spans(struct trace *t)
{
	const struct table_span *span = &t->run->span;

	for (size_t i = 0; i < span->n; i++) {
		uint32_t ends_on = span->unfinished[i] ? span->thread[i] : span->end_thread[i];

		put_span_event(t, i, "b", span->thread[i], span->start_ns[i]);
		put_span_event(t, i, "e", ends_on, span->start_ns[i] + span->duration_ns[i]);
	}
}

/* The name that the program gave to a category of a domain: a fact of the run. NULL: none. */
static const char *category_name(const struct run *run, uint16_t shard, const char *domain,
				 uint32_t category)
{
	const struct table_fact *fact = &run->fact;
	char key[128];

	snprintf(key, sizeof(key), "NVTX category %s%s%u", domain, *domain ? "/" : "", category);
	for (size_t i = 0; i < fact->n; i++)
		if (fact->shard[i] == shard && !strcmp(run_string(run, fact->key[i]), key))
			return run_string(run, fact->value[i]);
	return NULL;
}

static void put_payload_value(struct trace *t, uint8_t type, uint64_t bits)
{
	double real;

	if (!type)
		return; /* a category alone, or a payload that the probe cannot read */
	json_key(&t->json, "payload");
	memcpy(&real, &bits, sizeof(real));
	if (type == 1)
		json_uint(&t->json, bits);
	else if (type == 2)
		json_int(&t->json, (int64_t)bits);
	else
		json_double(&t->json, real);
}

static void put_payloads(struct trace *t)
{
	const struct table_payload *payload = &t->run->payload;

	for (size_t i = 0; i < payload->n; i++) {
		const char *domain = run_string(t->run, payload->domain[i]), *name;

		begin_event(t, "i", run_string(t->run, payload->name[i]),
			    process_of(t->run, payload->shard[i]), payload->thread[i]);
		put_text(t, "cat", "payload");
		put_start(t, payload->time_ns[i]);
		put_text(t, "s", "t");
		json_key(&t->json, "args");
		json_object(&t->json);
		put_payload_value(t, payload->type[i], payload->bits[i]);
		if (*domain)
			put_text(t, "domain", domain);
		if (payload->category[i]) {
			put_uint(t, "category", payload->category[i]);
			name = category_name(t->run, payload->shard[i], domain,
					     payload->category[i]);
			if (name)
				put_text(t, "category_name", name);
		}
		json_object_end(&t->json);
		json_object_end(&t->json);
	}
}

static void put_metadata(struct trace *t, uint64_t untimed)
{
	const struct run *run = t->run;

	json_key(&t->json, "otherData");
	json_object(&t->json);
	put_text(t, "run", run->info.name);
	put_text(t, "command", run->info.command);
	put_text(t, "status", run->info.status);
	put_text(t, "notes", run->info.notes);
	json_key(&t->json, "start_monotonic_ns");
	json_int(&t->json, run->start_ns);
	json_key(&t->json, "started_realtime_ns");
	json_int(&t->json, run->info.started_realtime_ns);
	put_uint(t, "lost", loss_total(&run->loss));
	put_uint(t, "untimed_kernels", untimed);
#define LOSS(field, words)                                                                         \
	if (run->loss.field)                                                                       \
		put_uint(t, "loss: " words, run->loss.field);
	LOSS_COUNTERS(LOSS)
#undef LOSS
	json_object_end(&t->json);
}

int present_chrome(const struct run *run, FILE *out, struct err *err)
{
	struct trace t = { .run = run };
	uint64_t untimed;
	int r;

	json_init_file(&t.json, out, 0);
	json_object(&t.json);
	put_text(&t, "displayTimeUnit", "ms");
	json_key(&t.json, "traceEvents");
	json_array(&t.json);
	put_names(&t);
	put_steps(&t);
	r = put_nested(&t);
	untimed = put_kernels(&t);
	if (r >= 0)
		r = put_routing(&t);
	if (r >= 0)
		r = put_memory(&t);
	if (r < 0)
		return err_sys(err, r, "cannot make the trace of '%s'", run->info.name);
	put_counters_and_marks(&t);
	put_spans(&t);
	put_payloads(&t);
	json_array_end(&t.json);
	put_metadata(&t, untimed);
	json_object_end(&t.json);
	r = json_finish(&t.json, NULL);
	return r < 0 ? err_sys(err, r, "cannot write the trace of '%s'", run->info.name) : 0;
}
