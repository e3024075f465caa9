/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that lies on a thread or a stream, as events of a Perfetto trace. Tracks are long, so
 * that chunks of a track are encoded by several threads into buffers of their own, while one writes
 * the buffers of the round before.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "exports/perfetto/perfetto.h"

#define CHUNK_REFS ((size_t)16384)

static uint8_t *text_arg(uint8_t *at, enum perfetto_arg arg, uint32_t string)
{
	return string ? perfetto_annotate(at, arg + UINT64_C(1), ANNOTATION_STRING_IID, string)
		      : at;
}

static uint8_t *true_arg(uint8_t *at, enum perfetto_arg arg)
{
	return perfetto_annotate(at, arg + UINT64_C(1), ANNOTATION_BOOL, 1);
}

static uint8_t *plain_text_arg(uint8_t *at, enum perfetto_arg arg, const char *text)
{
	uint8_t *content = proto_open(at, EVENT_ANNOTATION);

	at = proto_uint(content, ANNOTATION_NAME_IID, arg + UINT64_C(1));
	return proto_close(content, perfetto_text(at, ANNOTATION_STRING, text, 64));
}

static uint8_t *site_args(const struct run *run, uint8_t *at, uint32_t id)
{
	struct site site = run_site(run, id);

	if (site.layer >= 0)
		at = perfetto_arg(at, ARG_layer, (uint64_t)site.layer);
	if (site.expert >= 0)
		at = perfetto_arg(at, ARG_expert, (uint64_t)site.expert);
	if (site.phase)
		at = plain_text_arg(at, ARG_phase, phase_name(site.phase));
	return at;
}

static uint8_t *op_args(const struct run *run, uint8_t *at, size_t row)
{
	const struct table_op *op = &run->op;

	at = site_args(run, at, op->site[row]);
	at = text_arg(at, ARG_shape, op->shape[row]);
	if (!(op->unknown[row] & OP_FLOPS_UNKNOWN))
		at = perfetto_arg(at, ARG_flops, op->flops[row]);
	if (!(op->unknown[row] & OP_BYTES_UNKNOWN))
		at = perfetto_arg(at, ARG_bytes, op->bytes[row]);
	at = text_arg(at, ARG_stack, op->stack[row]);
	return op->unfinished[row] ? true_arg(at, ARG_unfinished) : at;
}

static uint8_t *range_args(const struct run *run, uint8_t *at, size_t row)
{
	at = site_args(run, at, run->range.site[row]);
	return run->range.unfinished[row] ? true_arg(at, ARG_unfinished) : at;
}

/* What the three kinds of device work have in common. `work`: see struct perfetto. */
static uint8_t *work_args(uint8_t *at, uint64_t correlation, uint32_t context, uint32_t graph,
			  uint64_t node, uint32_t call, uint64_t work)
{
	at = perfetto_arg(at, ARG_correlation, correlation);
	if (context)
		at = perfetto_arg(at, ARG_context, context);
	if (graph || node) {
		at = perfetto_arg(at, ARG_graph, graph);
		at = perfetto_arg(at, ARG_graph_node, node);
	}
	return call == NO_CALL32 ? at : proto_fixed64(at, EVENT_FLOW_END, work + 1);
}

static uint8_t *kernel_args(const struct perfetto *p, uint8_t *at, size_t row)
{
	const struct table_kernel *kernel = &p->run->kernel;
	uint32_t from = p->launch_at[kernel->launch[row]];
	uint32_t size = p->launch_at[kernel->launch[row] + 1] - from;

	memcpy(at, p->launch_bytes.data + from, size);
	return work_args(at + size, kernel->correlation[row], kernel->context[row],
			 kernel->graph[row], kernel->graph_node[row], p->at.kernel_call[row], row);
}

static uint8_t *copy_args(const struct perfetto *p, uint8_t *at, size_t row)
{
	const struct table_copy *copy = &p->run->copy;

	if (copy->bytes[row] != BYTES_NOT_TOLD)
		at = perfetto_arg(at, ARG_bytes, copy->bytes[row]);
	at = perfetto_arg(at, ARG_source_memory, copy->source_memory[row]);
	at = perfetto_arg(at, ARG_target_memory, copy->target_memory[row]);
	at = perfetto_arg(at, ARG_source_device, copy->source_device[row]);
	at = perfetto_arg(at, ARG_target_device, copy->target_device[row]);
	if (copy->asynchronous[row] == COPY_ASYNCHRONOUS)
		at = true_arg(at, ARG_asynchronous);
	return work_args(at, copy->correlation[row], copy->context[row], copy->graph[row],
			 copy->graph_node[row], p->at.copy_call[row], p->run->kernel.n + row);
}

static uint8_t *set_args(const struct perfetto *p, uint8_t *at, size_t row)
{
	const struct table_set *set = &p->run->set;

	if (set->bytes[row] != BYTES_NOT_TOLD)
		at = perfetto_arg(at, ARG_bytes, set->bytes[row]);
	at = perfetto_arg(at, ARG_memory, set->memory[row]);
	return work_args(at, set->correlation[row], set->context[row], set->graph[row],
			 set->graph_node[row], p->at.set_call[row],
			 p->run->kernel.n + p->run->copy.n + row);
}

static uint8_t *collective_args(const struct run *run, uint8_t *at, size_t row)
{
	const struct table_collective *c = &run->collective;

	at = text_arg(at, ARG_group, c->group[row]);
	if (c->sequence_known[row])
		at = perfetto_arg(at, ARG_sequence, c->sequence[row]);
	if (c->group_size[row])
		at = perfetto_arg(at, ARG_group_size, c->group_size[row]);
	at = text_arg(at, ARG_type, c->type[row]);
	if (c->in_elements[row])
		at = perfetto_arg(at, ARG_in_elements, c->in_elements[row]);
	if (c->out_elements[row])
		at = perfetto_arg(at, ARG_out_elements, c->out_elements[row]);
	return perfetto_arg(at, ARG_correlation, c->correlation[row]);
}

static uint8_t *api_args(const struct perfetto *p, uint8_t *at, size_t row)
{
	const struct table_api *api = &p->run->api;

	at = perfetto_arg(at, ARG_correlation, api->correlation[row]);
	if (api->driver[row])
		at = true_arg(at, ARG_driver);
	if (api->status[row] && api->status[row] != API_NOT_TOLD)
		at = perfetto_arg(at, ARG_status, api->status[row]);
	for (uint32_t w = p->first_work[row]; w < p->first_work[row + 1]; w++)
		at = proto_fixed64(at, EVENT_FLOW, p->works[w] + UINT64_C(1));
	return at;
}

static uint8_t *step_args(const struct run *run, uint8_t *at, size_t row)
{
	const struct table_step *step = &run->step;

	if (step->tokens_known[row])
		at = perfetto_arg(at, ARG_tokens, step->tokens[row]);
	at = perfetto_annotate(at, ARG_recorded + 1, ANNOTATION_BOOL, step->recorded[row] != 0);
	if (step->probe[row])
		at = perfetto_arg(at, ARG_probe, step->probe[row]);
	if (step->stage[row])
		at = perfetto_arg(at, ARG_stage, step->stage[row]);
	if (step->batch[row])
		at = perfetto_arg(at, ARG_batch, step->batch[row]);
	return step->unfinished[row] ? true_arg(at, ARG_unfinished) : at;
}

static uint8_t *span_args(const struct run *run, uint8_t *at, size_t row)
{
	const struct table_span *span = &run->span;

	at = text_arg(at, ARG_domain, span->domain[row]);
	at = perfetto_arg(at, ARG_thread, span->thread[row]);
	if (span->unfinished[row])
		return true_arg(at, ARG_unfinished);
	return perfetto_arg(at, ARG_end_thread, span->end_thread[row]);
}

static uint8_t *payload_args(const struct run *run, uint8_t *at, size_t row)
{
	const struct table_payload *payload = &run->payload;
	uint64_t bits = payload->bits[row];
	double real;

	at = text_arg(at, ARG_domain, payload->domain[row]);
	if (payload->category[row])
		at = perfetto_arg(at, ARG_category, payload->category[row]);
	memcpy(&real, &bits, sizeof(real));
	if (payload->type[row] == 3)
		return perfetto_annotate_double(at, ARG_payload + 1, real);
	if (payload->type[row])
		at = perfetto_annotate(at, ARG_payload + 1,
				       payload->type[row] == 2 ? ANNOTATION_INT : ANNOTATION_UINT,
				       bits);
	return at;
}

static uint8_t *sync_args(const struct run *run, uint8_t *at, size_t row)
{
	const struct table_sync *sync = &run->sync;

	at = perfetto_arg(at, ARG_context, sync->context[row]);
	at = perfetto_arg(at, ARG_stream, sync->stream[row]);
	return perfetto_arg(at, ARG_correlation, sync->correlation[row]);
}

static uint8_t *flow_args(const struct perfetto *p, uint8_t *at, const struct stack_ref *ref)
{
	const struct run *run = p->run;
	uint64_t id = run->kernel.n + run->copy.n + run->set.n + 1 + ref->row;

	at = perfetto_arg(at, ARG_id, run->flow.id[ref->row]);
	return proto_fixed64(at, ref->kind == STACK_FLOW_BEGIN ? EVENT_FLOW : EVENT_FLOW_END, id);
}

static uint8_t *put_args(const struct perfetto *p, uint8_t *at, const struct stack_ref *ref)
{
	switch ((enum stack_kind)ref->kind) {
	case STACK_RANGE:
		return range_args(p->run, at, ref->row);
	case STACK_OP:
		return op_args(p->run, at, ref->row);
	case STACK_API:
		return api_args(p, at, ref->row);
	case STACK_PAYLOAD:
		return payload_args(p->run, at, ref->row);
	case STACK_FLOW_BEGIN:
	case STACK_FLOW_END:
		return flow_args(p, at, ref);
	case STACK_COLLECTIVE:
		return collective_args(p->run, at, ref->row);
	case STACK_KERNEL:
		return kernel_args(p, at, ref->row);
	case STACK_COPY:
		return copy_args(p, at, ref->row);
	case STACK_SET:
		return set_args(p, at, ref->row);
	case STACK_STEP:
		return step_args(p->run, at, ref->row);
	case STACK_SPAN:
		return span_args(p->run, at, ref->row);
	case STACK_SYNC:
		return sync_args(p->run, at, ref->row);
	default:
		return at;
	}
}

static uint8_t *put_name(const struct perfetto *p, uint8_t *at, const struct stack_ref *ref)
{
	char text[64];
	uint32_t name;

	if (ref->kind == STACK_KERNEL)
		return at; /* with its launch */
	name = stack_name(p->run, ref);
	if (name)
		return proto_uint(at, EVENT_NAME_IID, perfetto_name_iid(name));
	stack_row_name(p->run, ref, text, sizeof(text));
	return perfetto_text(at, EVENT_NAME, text, sizeof(text));
}

static uint8_t *put_event(const struct perfetto *p, uint8_t *at, uint64_t track,
			  const struct stack_ref *ref)
{
	struct perfetto_event event;

	at = perfetto_event(at, &event, perfetto_time(p, stack_start(&p->stacks, ref)),
			    TYPE_SLICE_BEGIN, track);
	at = proto_uint(at, EVENT_CATEGORY_IID, ref->kind + UINT64_C(1));
	at = put_name(p, at, ref);
	at = perfetto_event_end(&event, put_args(p, at, ref));
	return perfetto_slice_end(at, perfetto_time(p, stack_end(&p->stacks, ref)), track);
}

struct round {
	struct perfetto *p;
	const uint64_t *uuids; /* of the lanes */
	const struct stack_ref *refs;
	size_t n;
};

static int encode(const struct round *round, size_t chunk)
{
	const struct perfetto *p = round->p;
	struct buf *out = &round->p->chunks[p->side][chunk];
	size_t from = chunk * CHUNK_REFS, to = from + CHUNK_REFS;

	out->size = 0;
	for (size_t i = from; i < to && i < round->n; i++) {
		const struct stack_ref *ref = &round->refs[i];
		size_t most = PERFETTO_EVENT_MOST;
		uint8_t *at;

		if (ref->kind == STACK_API)
			most += (size_t)10 *
				(p->first_work[ref->row + 1] - p->first_work[ref->row]);
		at = buf_reserve(out, most);
		if (!at)
			return -ENOMEM;
		at = put_event(p, at, round->uuids[ref->lane], ref);
		out->size = (size_t)(at - (uint8_t *)out->data);
	}
	return 0;
}

/* Task 0 writes what is ready, the others make more. */
static int do_task(void *context, size_t i, unsigned int worker)
{
	struct round *round = context;

	(void)worker;
	return i ? encode(round, i - 1) : perfetto_flush(round->p);
}

static int put_track(struct perfetto *p, const uint64_t *uuids, const struct stack_ref *refs,
		     size_t n)
{
	for (size_t from = 0; from < n; from += PERFETTO_CHUNKS * CHUNK_REFS) {
		size_t left = n - from, chunks = (left + CHUNK_REFS - 1) / CHUNK_REFS;
		struct round round = { .p = p, .uuids = uuids, .refs = refs + from, .n = left };
		int r;

		chunks = chunks < PERFETTO_CHUNKS ? chunks : PERFETTO_CHUNKS;
		/* Threads are not worth it for one chunk. */
		r = parallel_run(chunks + 1, chunks > 1 ? parallel_workers(chunks + 1) : 1, do_task,
				 &round);
		if (r < 0)
			return r;
		p->n_ready = (unsigned int)chunks;
		p->side = !p->side;
	}
	return 0;
}

int perfetto_slices(struct perfetto *p)
{
	uint64_t *uuids = NULL;
	size_t capacity = 0;
	int r = 0;

	for (size_t t = 0; r == 0 && t < p->stacks.n; t++) {
		const struct stack_ref *refs;
		size_t n, lanes;

		r = stacks_walk(&p->stacks, t, &refs, &n, &lanes);
		if (r == 0)
			r = array_grow(&uuids, &capacity, lanes, sizeof(*uuids));
		if (r == 0)
			r = perfetto_lanes(p, &p->stacks.tracks[t], lanes, uuids);
		if (r == 0)
			r = put_track(p, uuids, refs, n);
	}
	free(uuids);
	return r;
}
