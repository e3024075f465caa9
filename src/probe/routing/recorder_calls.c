/* SPDX-License-Identifier: Apache-2.0
 *
 * The device recorder's calls on the program's threads and streams: they check numbers, launch a
 * kernel on the given stream, and return. See recorder_inside.h for the overview.
 */
#include <errno.h>
#include <string.h>

#include "probe/core/device_rows.h"
#include "probe/routing/recorder_inside.h"

#define ROWS_PER_THREAD_SLOTS 8 /* slots of a call that one thread takes, before more blocks */

static int launch_recorder(struct moescope_recorder *r, CUfunction function, uint32_t blocks,
			   uint32_t threads, void *argument, void *stream, struct err *err)
{
	void *arguments[] = { argument };
	CUcontext current = NULL;
	bool push = recorder_cuda.cuCtxGetCurrent(&current) != CUDA_SUCCESS ||
		    current != r->context;
	int e = push ? CHECKED(cuCtxPushCurrent_v2(r->context)) : 0;

	if (e < 0)
		return e;
	e = recorder_cuda_check(recorder_cuda.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1,
							     0, stream, arguments, NULL),
				"cuLaunchKernel", err);
	if (push)
		recorder_cuda.cuCtxPopCurrent_v2(&current);
	return e;
}

/* Kernel arguments hold pointers, the driver returns numbers. */
static void *on_device(CUdeviceptr at)
{
	void *pointer;

	_Static_assert(sizeof(pointer) == sizeof(at), "a device pointer is a pointer");
	memcpy(&pointer, &at, sizeof(pointer));
	return pointer;
}

static bool capturing(void *stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return recorder_cuda.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* All calls for a layer have the same number of experts and slots, so its rows have too. */
static int check_shape(struct moescope_recorder *r, const struct moescope_device_routing *routing,
		       struct err *err)
{
	uint32_t shape = routing->experts << 8 | routing->k, before = 0;

	if (atomic_compare_exchange_strong(&r->shapes[routing->layer], &before, shape) ||
	    before == shape)
		return 0;
	return err_set(
		err, -EINVAL,
		"layer %d had %u experts and k %u before, now %u and %u: open another recorder",
		(int)routing->layer, before >> 8, before & 0xff, routing->experts, routing->k);
}

static int check_routing(struct moescope_recorder *r, const struct moescope_device_routing *routing,
			 struct err *err)
{
	if (routing->layer < 0 || (uint32_t)routing->layer >= r->layers)
		return err_set(err, -EINVAL, "layer is %d, but the recorder has %u layers",
			       (int)routing->layer, r->layers);
	if (!routing->experts || routing->experts > r->experts)
		return err_set(err, -EINVAL, "experts is %u, but the recorder has %u",
			       routing->experts, r->experts);
	if (!routing->k || routing->k > r->k || routing->k > routing->experts)
		return err_set(err, -EINVAL, "k is %u, but the recorder has %u, and experts is %u",
			       routing->k, r->k, routing->experts);
	if (routing->tokens > INT32_MAX / routing->k)
		return err_set(err, -EINVAL, "%llu tokens are too many for one call: split it",
			       (unsigned long long)routing->tokens);
	if (!routing->indices && routing->tokens)
		return err_set(err, -EINVAL, "indices is NULL");
	if (routing->indices_type != MOESCOPE_I32 && routing->indices_type != MOESCOPE_I64)
		return err_set(err, -EINVAL,
			       "indices_type is %d; it must be MOESCOPE_I32 or MOESCOPE_I64",
			       (int)routing->indices_type);
	if (routing->weights &&
	    (routing->weights_type < MOESCOPE_F32 || routing->weights_type > MOESCOPE_BF16))
		return err_set(err, -EINVAL,
			       "weights_type is %d; it must be MOESCOPE_F32, _F16 or _BF16",
			       (int)routing->weights_type);
	return check_shape(r, routing, err);
}

static uint32_t phase_now(const struct moescope_device_routing *routing)
{
	struct ring *ring;

	if (routing->phase || GATE_NOW(gate_load()) < MOESCOPE_COUNTS)
		return (uint32_t)routing->phase;
	ring = probe_ring();
	return ring ? probe_phase(ring) : 0;
}

static struct recorder_call call_for(const struct moescope_recorder *r,
				     const struct moescope_device_routing *routing)
{
	struct recorder_call call = {
		.state = on_device(r->state),
		.counts = on_device(r->counts),
		.kept = on_device(r->kept),
		.kept_weights = on_device(r->kept_weights),
		.indices = routing->indices,
		.weights = routing->weights,
		.valid = routing->valid,
		.mask = routing->mask,
		.rows = (uint32_t)routing->tokens,
		.k = routing->k,
		.experts = routing->experts,
		.layer = (uint32_t)routing->layer,
		.phase = phase_now(routing),
		.indices_64 = routing->indices_type == MOESCOPE_I64,
		.weights_type = (uint32_t)routing->weights_type,
		.layers = r->layers,
		.max_k = r->k,
		.layer_words = r->layer_words,
		.slot_words = r->slot_words,
		.kept_rows = r->kept_rows,
		.kept_bytes = r->kept_bytes,
		.copies = RECORDER_MAX_EXPERTS / routing->experts,
	};

	call.copies = call.copies > RECORDER_THREADS / 32 ? RECORDER_THREADS / 32 : call.copies;
	return call;
}

/* In a graph it may be replayed when somebody records. */
static bool worth_launching(const struct moescope_device_routing *routing)
{
	return routing->tokens &&
	       (GATE_NOW(gate_load()) >= MOESCOPE_COUNTS || capturing(routing->stream));
}

static int launch_call(struct moescope_recorder *r, struct recorder_call *call, void *stream,
		       struct err *err)
{
	uint32_t per_block = RECORDER_THREADS * ROWS_PER_THREAD_SLOTS, blocks;

	if (call->rows <= RECORDER_DIRECT_ROWS)
		return launch_recorder(r, r->route, 1, RECORDER_DIRECT_ROWS, call, stream, err);
	blocks = (call->rows * call->k + per_block - 1) / per_block;
	blocks = blocks > r->max_blocks ? r->max_blocks : blocks;
	return launch_recorder(r, r->route, blocks, RECORDER_THREADS, call, stream, err);
}

static int route(struct moescope_recorder *r, const struct moescope_device_routing *given,
		 struct err *err)
{
	struct moescope_device_routing routing;
	struct recorder_call call;
	int e;

	if (!probe_given(&routing, sizeof(routing), given))
		return err_set(err, -EINVAL, RECORDER_NO_SIZE);
	if ((e = check_routing(r, &routing, err)) < 0 || !worth_launching(&routing))
		return e;
	call = call_for(r, &routing);
	return launch_call(r, &call, routing.stream, err);
}

/* ---- many calls at once */

/* Calls of few rows waiting for their launch. */
struct batch {
	struct recorder_calls calls;
	uint32_t n;
	void *stream;
};

/* Blocks of a kernel run in any order, and rows of one layer keep theirs. */
static bool batch_takes(const struct batch *batch, const struct recorder_call *call, void *stream)
{
	if (call->rows > RECORDER_DIRECT_ROWS || batch->n == RECORDER_FEW ||
	    (batch->n && stream != batch->stream))
		return false;
	for (uint32_t i = 0; i < batch->n; i++)
		if (batch->calls.few[i].layer == call->layer)
			return false;
	return true;
}

static void batch_add(struct batch *batch, const struct recorder_call *call, void *stream)
{
	if (!batch->n)
		batch->calls.common = *call;
	batch->stream = stream;
	batch->calls.few[batch->n++] = (struct recorder_few){ .indices = call->indices,
							      .weights = call->weights,
							      .valid = call->valid,
							      .mask = call->mask,
							      .rows = call->rows,
							      .k = call->k,
							      .experts = call->experts,
							      .layer = call->layer,
							      .phase = call->phase,
							      .indices_64 = call->indices_64,
							      .weights_type = call->weights_type };
}

static int batch_launch(struct moescope_recorder *r, struct batch *batch, struct err *err)
{
	uint32_t n = batch->n;

	batch->n = 0;
	return n ? launch_recorder(r, r->routes, n, RECORDER_DIRECT_ROWS, &batch->calls,
				   batch->stream, err)
		 : 0;
}

static int batch_route(struct moescope_recorder *r, struct batch *batch,
		       const struct moescope_device_routing *routing, struct err *err)
{
	struct recorder_call call;
	int e = check_routing(r, routing, err);

	if (e < 0 || !worth_launching(routing))
		return e;
	call = call_for(r, routing);
	if (!batch_takes(batch, &call, routing->stream))
		e = batch_launch(r, batch, err);
	if (call.rows <= RECORDER_DIRECT_ROWS) {
		batch_add(batch, &call, routing->stream);
		return e;
	}
	return e < 0 ? e : launch_call(r, &call, routing->stream, err);
}

/* The first error, with its text; the other calls are still counted. */
static int routes(struct moescope_recorder *r, const struct moescope_device_routing *routings,
		  size_t n, struct err *err)
{
	const char *at = (const char *)routings;
	struct moescope_device_routing routing;
	struct batch batch;
	size_t stride = 0;
	int first = 0, e;

	_Static_assert(sizeof(batch.calls) <= 4096, "a kernel's arguments on every device");

	batch.n = 0;
	for (size_t i = 0; i < n; i++, at += stride) {
		if (!probe_given(&routing, sizeof(routing), at) ||
		    (stride && routing.struct_size != stride)) {
			e = err_set(first ? NULL : err, -EINVAL, RECORDER_NO_SIZE);
			first = first ? first : e;
			break; /* where the next one starts is unknown */
		}
		stride = routing.struct_size;
		e = batch_route(r, &batch, &routing, first ? NULL : err);
		first = first ? first : e;
	}
	e = batch_launch(r, &batch, first ? NULL : err);
	return first ? first : e;
}

int moescope_recorder_route(struct moescope_recorder *recorder,
			    const struct moescope_device_routing *routing)
{
	struct err *err = NULL;
	int saved, e;

	if (!recorder_begin(&err, &saved))
		return -EBUSY;
	e = recorder_usable(recorder, err);
	return recorder_end(e < 0 ? e : route(recorder, routing, err), saved);
}

int moescope_recorder_routes(struct moescope_recorder *recorder,
			     const struct moescope_device_routing *routings, size_t n)
{
	struct err *err = NULL;
	int saved, e;

	if (!recorder_begin(&err, &saved))
		return -EBUSY;
	e = recorder_usable(recorder, err);
	return recorder_end(e < 0 ? e : routes(recorder, routings, n, err), saved);
}

void moescope_recorder_lost(struct moescope_recorder *recorder, uint64_t calls)
{
	struct err *err = NULL;
	int saved;

	if (!recorder_begin(&err, &saved))
		return;
	if (recorder_usable(recorder, err) == 0 && GATE_NOW(gate_load()) >= MOESCOPE_COUNTS)
		probe_lost_device(calls, 0);
	recorder_end(0, saved);
}

/* ---- steps and the gate */

static int end_step(struct moescope_recorder *r, int64_t step, void *stream, struct err *err)
{
	struct recorder_step args = { .state = on_device(r->state),
				      .shared = on_device(r->shared_device),
				      .counts = on_device(r->counts),
				      .step = step < 0 ? -1 : step,
				      .slots = r->slots,
				      .slot_words = r->slot_words };
	/* Not the gate: a step that a pause or the schedule cuts short still ends here. */
	bool session = atomic_load_explicit(&probe_session, memory_order_relaxed) != 0;
	bool in_graph = (step >= 0 || !session) && capturing(stream);

	if (!in_graph && !session)
		return 0;
	if (in_graph)
		args.step = -1; /* the number would be the same at each replay */
	return launch_recorder(r, r->step, 1, 1, &args, stream, err);
}

int moescope_recorder_step(struct moescope_recorder *recorder, int64_t step, void *stream)
{
	struct err *err = NULL;
	int saved, e;

	if (!recorder_begin(&err, &saved))
		return -EBUSY;
	e = recorder_usable(recorder, err);
	return recorder_end(e < 0 ? e : end_step(recorder, step, stream, err), saved);
}

static int set_gate(struct moescope_recorder *r, int on, void *stream, struct err *err)
{
	CUcontext current = NULL;
	int e;

	if (capturing(stream))
		return err_set(err, -EBUSY,
			       "the stream is being captured: set the gate outside of the capture");
	if ((e = CHECKED(cuCtxPushCurrent_v2(r->context))) < 0)
		return e;
	e = CHECKED(cuMemsetD32Async(r->state + offsetof(struct recorder_state, gate), on != 0, 1,
				     stream));
	recorder_cuda.cuCtxPopCurrent_v2(&current);
	return e;
}

int moescope_recorder_gate(struct moescope_recorder *recorder, int on, void *stream)
{
	struct err *err = NULL;
	int saved, e;

	if (!recorder_begin(&err, &saved))
		return -EBUSY;
	e = recorder_usable(recorder, err);
	return recorder_end(e < 0 ? e : set_gate(recorder, on, stream, err), saved);
}
