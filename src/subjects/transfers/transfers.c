/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and sets; see transfers.h. Pure, any thread.
 */
#include "subjects/transfers/transfers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/memory/device_memory.h"
#include "subjects/numbers/intervals.h"
#include "subjects/shared/attribution.h"
#include "subjects/shared/lanes.h"

/* As CUPTI numbers them. */
enum { COPY_HTOD = 1, COPY_DTOH, COPY_HTOA, COPY_ATOH, COPY_HTOH = 9, COPY_PTOP };

/* A copy between a device and the host. */
struct move {
	uint64_t bytes;
	int64_t start_ns, end_ns;
	uint32_t device;
	uint16_t shard;
	bool out; /* from the device */
};

struct builder {
	const struct run *run;
	const struct selection *sel;
	const struct attribution *at; /* NULL: everything is selected */
	const struct device_lanes *lanes;
	struct attribution_cursor cursor;
	struct transfer_row *rows;
	size_t n, capacity;
	/* Of each row: the timed ones whose bytes are told. */
	struct told {
		uint64_t bytes;
		int64_t time_ns;
	} * told;
	size_t told_capacity;
	struct span *spans; /* of what was selected and timed; group: the row */
	size_t n_spans;
	struct move *moves; /* that may be half of a staged one */
	size_t n_moves;
	struct staged_row *staged;
	size_t n_staged, staged_capacity;
	uint64_t without_call;
};

static const char *copy_kind_name(unsigned int kind)
{
	static const char *const names[] = { "unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
					     "AtoD",	"DtoA", "DtoD", "HtoH", "PtoP" };

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "unknown";
}

static bool same_row(const struct transfer_row *a, const struct transfer_row *b)
{
	return a->is_set == b->is_set && a->src == b->src && a->dst == b->dst &&
	       !strcmp(a->kind, b->kind) && !strcmp(a->memory, b->memory);
}

/* Rows are few: kinds times devices. */
static int find_transfer_row(struct builder *b, const struct transfer_row *key, size_t *ret_row)
{
	size_t i = 0;

	while (i < b->n && !same_row(&b->rows[i], key))
		i++;
	if (i == b->n) {
		if (array_grow(&b->rows, &b->capacity, b->n + 1, sizeof(*b->rows)) < 0 ||
		    array_grow(&b->told, &b->told_capacity, b->n + 1, sizeof(*b->told)) < 0)
			return -ENOMEM;
		b->rows[b->n] = *key;
		b->told[b->n++] = (struct told){ 0 };
	}
	*ret_row = i;
	return 0;
}

static bool is_selected(struct builder *b, const struct device_work *work, const uint32_t *calls,
			size_t i)
{
	struct place place;

	if (!b->at)
		return true;
	if (!attribution_find_near(b->at, &b->cursor, work, calls[i], &place)) {
		b->without_call++;
		return selection_is_all(b->sel);
	}
	return attribution_selects(b->at, b->sel, &place);
}

static void account(struct builder *b, size_t at, uint64_t bytes, bool untimed,
		    const struct span *span)
{
	struct transfer_row *row = &b->rows[at];

	row->count++;
	row->bytes_not_told += bytes == BYTES_NOT_TOLD;
	row->bytes += bytes == BYTES_NOT_TOLD ? 0 : bytes;
	row->small += bytes < TRANSFER_SMALL_BYTES;
	if (untimed) {
		row->untimed++;
		return;
	}
	row->time_ns += span->end_ns - span->start_ns;
	if (bytes != BYTES_NOT_TOLD) {
		b->told[at].bytes += bytes;
		b->told[at].time_ns += span->end_ns - span->start_ns;
	}
	b->spans[b->n_spans] = *span;
	b->spans[b->n_spans++].group = (uint32_t)at;
}

static int add_copy(struct builder *b, size_t i)
{
	const struct table_copy *copy = &b->run->copy;
	uint8_t kind = copy->kind[i];
	bool from_host = kind == COPY_HTOD || kind == COPY_HTOA || kind == COPY_HTOH;
	bool to_host = kind == COPY_DTOH || kind == COPY_ATOH || kind == COPY_HTOH;
	struct transfer_row key = {
		.kind = copy_kind_name(kind),
		.memory = device_memory_name(to_host && !from_host ? copy->target_memory[i]
								   : copy->source_memory[i]),
		.src = from_host ? TRANSFER_HOST : (int64_t)copy->source_device[i],
		.dst = to_host ? TRANSFER_HOST : (int64_t)copy->target_device[i],
	};
	struct span span = { copy->start_ns[i], copy->start_ns[i] + copy->duration_ns[i], 0,
			     copy->device[i], copy->shard[i] };
	size_t row;

	if (!is_selected(b,
			 &(struct device_work){ copy->correlation[i], copy->graph_node[i],
						copy->start_ns[i], copy->shard[i] },
			 b->at ? b->at->copy_call : NULL, i))
		return 0;
	if (find_transfer_row(b, &key, &row) < 0)
		return -ENOMEM;
	account(b, row, copy->bytes[i], copy->untimed[i], &span);
	b->rows[row].asynchronous += copy->asynchronous[i] == COPY_ASYNCHRONOUS;
	b->rows[row].not_told += copy->asynchronous[i] == COPY_NOT_TOLD;
	if (!copy->untimed[i] && (kind == COPY_HTOD || kind == COPY_DTOH) &&
	    copy->bytes[i] >= TRANSFER_STAGED_BYTES && copy->bytes[i] != BYTES_NOT_TOLD)
		b->moves[b->n_moves++] = (struct move){ copy->bytes[i], span.start_ns,
							span.end_ns,	copy->device[i],
							copy->shard[i], kind == COPY_DTOH };
	return 0;
}

static int add_set(struct builder *b, size_t i)
{
	const struct table_set *set = &b->run->set;
	struct transfer_row key = { .kind = "memset",
				    .memory = device_memory_name(set->memory[i]),
				    .is_set = true,
				    .src = TRANSFER_HOST,
				    .dst = set->device[i] };
	struct span span = { set->start_ns[i], set->start_ns[i] + set->duration_ns[i], 0,
			     set->device[i], set->shard[i] };
	size_t row;

	if (!is_selected(b,
			 &(struct device_work){ set->correlation[i], set->graph_node[i],
						set->start_ns[i], set->shard[i] },
			 b->at ? b->at->set_call : NULL, i))
		return 0;
	if (find_transfer_row(b, &key, &row) < 0)
		return -ENOMEM;
	account(b, row, set->bytes[i], set->untimed[i], &span);
	return 0;
}

/* The merged spans of one row on one device. */
struct part {
	const struct span *spans;
	size_t n, at; /* at: the first that may still meet a kernel */
	int64_t shared;
};

static int by_device(const void *a, const void *b)
{
	const struct span *x = ((const struct part *)a)->spans,
			  *y = ((const struct part *)b)->spans;

	return CMP(x->shard, y->shard) ?: CMP(x->device, y->device) ?: CMP(x->group, y->group);
}

/* Adds what the kernel shares with a part, of which the spans before it are done with. */
static void meet(struct part *part, const struct lane_span *kernel)
{
	while (part->at < part->n && part->spans[part->at].end_ns <= kernel->start_ns)
		part->at++;
	for (size_t i = part->at; i < part->n && part->spans[i].start_ns < kernel->end_ns; i++) {
		const struct span *span = &part->spans[i];
		int64_t start = span->start_ns > kernel->start_ns ? span->start_ns
								  : kernel->start_ns;
		int64_t end = span->end_ns < kernel->end_ns ? span->end_ns : kernel->end_ns;

		part->shared += end - start;
	}
}

static int64_t next_start(const struct part *parts, size_t n)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < n; i++)
		if (parts[i].at < parts[i].n && parts[i].spans[parts[i].at].start_ns < next)
			next = parts[i].spans[parts[i].at].start_ns;
	return next;
}

/* The parts of one device against its kernels, of which most meet none. */
static void meet_kernels(const struct builder *b, struct part *parts, size_t n)
{
	struct lane_stream stream = lane_stream(b->lanes, LANE_KERNEL, parts->spans->shard,
						parts->spans->device);
	int64_t next = next_start(parts, n);
	struct lane_span kernel;

	while (next != INT64_MAX && lane_stream_next(&stream, &kernel)) {
		if (kernel.end_ns <= next)
			continue;
		for (size_t i = 0; i < n; i++)
			meet(&parts[i], &kernel);
		next = next_start(parts, n);
	}
}

static void rate_rows(struct builder *b, const int64_t *length, const int64_t *shared)
{
	for (size_t row = 0; row < b->n; row++) {
		b->rows[row].overlap_pct =
			length[row] ? value_of(100.0 * (double)shared[row] / (double)length[row])
				    : value_absent("none was timed");
		b->rows[row].bandwidth_bytes_per_s =
			b->told[row].time_ns > 0   ? value_of((double)b->told[row].bytes * 1e9 /
							      (double)b->told[row].time_ns)
			: b->rows[row].time_ns > 0 ? value_absent("their bytes are unknown")
						   : value_absent("none was timed");
	}
}

static int overlap_rows(struct builder *b)
{
	size_t n = spans_merge(b->spans, b->n_spans), n_parts = 0, most = 0;
	int64_t *length = calloc(b->n + 1, sizeof(*length));
	int64_t *shared = calloc(b->n + 1, sizeof(*shared));
	struct part *parts;

	for (size_t at = 0; at < n; at += spans_lane_size(b->spans, n, at))
		most++;
	parts = calloc(most + 1, sizeof(*parts));
	if (!length || !shared || !parts) {
		free(length);
		free(shared);
		free(parts);
		return -ENOMEM;
	}
	for (size_t at = 0; at < n; at += parts[n_parts++].n)
		parts[n_parts] = (struct part){ .spans = b->spans + at,
						.n = spans_lane_size(b->spans, n, at) };
	if (n_parts)
		qsort(parts, n_parts, sizeof(*parts), by_device);
	for (size_t from = 0, to; from < n_parts; from = to) {
		for (to = from + 1; to < n_parts &&
				    parts[to].spans->shard == parts[from].spans->shard &&
				    parts[to].spans->device == parts[from].spans->device;)
			to++;
		meet_kernels(b, parts + from, to - from);
	}
	for (size_t i = 0; i < n_parts; i++) {
		length[parts[i].spans->group] += spans_length(parts[i].spans, parts[i].n);
		shared[parts[i].spans->group] += parts[i].shared;
	}
	rate_rows(b, length, shared);
	free(length);
	free(shared);
	free(parts);
	return 0;
}

static int moves_by_size(const void *a, const void *b)
{
	const struct move *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->bytes, y->bytes) ?:
	       CMP(x->start_ns, y->start_ns) ?: (int)y->out - (int)x->out;
}

/* Pairs of devices are few. */
static int add_staged(struct builder *b, const struct move *out, const struct move *in)
{
	size_t i = 0;

	while (i < b->n_staged &&
	       (b->staged[i].src != out->device || b->staged[i].dst != in->device))
		i++;
	if (i == b->n_staged) {
		if (array_grow(&b->staged, &b->staged_capacity, i + 1, sizeof(*b->staged)) < 0)
			return -ENOMEM;
		b->staged[b->n_staged++] = (struct staged_row){ .src = out->device,
								.dst = in->device };
	}
	b->staged[i].count++;
	b->staged[i].bytes += in->bytes;
	b->staged[i].time_ns += in->end_ns - out->start_ns;
	return 0;
}

/* Same process and size side by side, by start: each copy in takes the latest copy out of another
 * device that ended before it and is not taken yet. Only a few are looked at, so that a program
 * that moves the same size all the time costs no more. */
static int find_staged(struct builder *b)
{
	enum { LOOK_BACK = 32 };
	int r = 0;

	if (b->n_moves)
		qsort(b->moves, b->n_moves, sizeof(*b->moves), moves_by_size);
	for (size_t i = 0; r >= 0 && i < b->n_moves; i++) {
		const struct move *in = &b->moves[i];

		if (in->out)
			continue;
		for (size_t j = i, looked = 0; j-- > 0 && looked < LOOK_BACK; looked++) {
			struct move *out = &b->moves[j];

			if (out->shard != in->shard || out->bytes != in->bytes)
				break;
			if (!out->out || out->device == in->device || out->end_ns > in->start_ns ||
			    in->start_ns - out->end_ns > TRANSFER_STAGED_NS)
				continue;
			r = add_staged(b, out, in);
			out->out = false; /* taken: no later copy may have it */
			break;
		}
	}
	return r;
}

static int transfer_rows_by_time(const void *a, const void *b)
{
	const struct transfer_row *x = a, *y = b;

	return CMP(x->is_set, y->is_set) ?: CMP(y->time_ns, x->time_ns) ?:
	       strcmp(x->kind, y->kind) ?: strcmp(x->memory, y->memory) ?:
	       CMP(x->src, y->src) ?: CMP(x->dst, y->dst);
}

static int by_pair(const void *a, const void *b)
{
	const struct staged_row *x = a, *y = b;

	return CMP(x->src, y->src) ?: CMP(x->dst, y->dst);
}

static void name_end(char *out, size_t size, int64_t device)
{
	if (device == TRANSFER_HOST)
		snprintf(out, size, "host");
	else
		snprintf(out, size, "gpu %" PRId64, device);
}

static void finish_transfers(struct transfers *transfers)
{
	for (size_t i = 0; i < transfers->n; i++) {
		struct transfer_row *row = &transfers->rows[i];

		name_end(row->src_name, sizeof(row->src_name), row->src);
		name_end(row->dst_name, sizeof(row->dst_name), row->dst);
		if (row->is_set) {
			transfers->sets += row->count;
			transfers->set_bytes += row->bytes;
			transfers->set_bytes_not_told += row->bytes_not_told;
			transfers->set_time_ns += row->time_ns;
			transfers->sets_untimed += row->untimed;
		} else {
			transfers->count += row->count;
			transfers->small += row->small;
			transfers->bytes += row->bytes;
			transfers->bytes_not_told += row->bytes_not_told;
			transfers->time_ns += row->time_ns;
			transfers->untimed += row->untimed;
		}
	}
	for (size_t i = 0; i < transfers->n_staged; i++) {
		transfers->staged_count += transfers->staged[i].count;
		transfers->staged_bytes += transfers->staged[i].bytes;
	}
	if (transfers->n_staged)
		qsort(transfers->staged, transfers->n_staged, sizeof(*transfers->staged), by_pair);
	if (transfers->n)
		qsort(transfers->rows, transfers->n, sizeof(*transfers->rows),
		      transfer_rows_by_time);
}

static int build_transfers(struct builder *b)
{
	size_t all = b->run->copy.n + b->run->set.n;
	int r = 0;

	if (!all)
		return 0;
	b->spans = calloc(all, sizeof(*b->spans));
	b->moves = calloc(b->run->copy.n + 1, sizeof(*b->moves));
	if (!b->spans || !b->moves)
		return -ENOMEM;
	for (size_t i = 0; r >= 0 && i < b->run->copy.n; i++)
		r = add_copy(b, i);
	for (size_t i = 0; r >= 0 && i < b->run->set.n; i++)
		r = add_set(b, i);
	if (r >= 0)
		r = overlap_rows(b);
	return r < 0 ? r : find_staged(b);
}

int transfers_analyze_at(const struct attribution *at, const struct device_lanes *lanes,
			 const struct selection *sel, struct transfers *ret_transfers)
{
	struct builder b = { .run = at->run, .sel = sel, .lanes = lanes };
	int r;

	b.at = attribution_needed(at->run, sel) ? at : NULL;
	r = build_transfers(&b);
	free(b.spans);
	free(b.moves);
	free(b.told);
	if (r < 0) {
		free(b.rows);
		free(b.staged);
		return r;
	}
	*ret_transfers = (struct transfers){ .rows = b.rows,
					     .n = b.n,
					     .staged = b.staged,
					     .n_staged = b.n_staged,
					     .without_call = b.without_call };
	finish_transfers(ret_transfers);
	return 0;
}

int transfers_analyze(const struct run *run, const struct selection *sel,
		      struct transfers *ret_transfers)
{
	bool any = run->copy.n || run->set.n;
	struct attribution at = { .run = run };
	struct device_lanes lanes = { 0 };
	int r = any && attribution_needed(run, sel) ? attribution_init(&at, run) : 0;

	if (r >= 0 && any)
		r = device_lanes_init(&lanes, run);
	if (r >= 0)
		r = transfers_analyze_at(&at, &lanes, sel, ret_transfers);
	device_lanes_release(&lanes);
	attribution_release(&at);
	return r;
}

void transfers_release(struct transfers *transfers)
{
	free(transfers->rows);
	free(transfers->staged);
	*transfers = (struct transfers){ 0 };
}
