/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder's kernels: routing is counted where it happens. Compiled by nvcc when the library is
 * built, or by NVRTC when a recorder is opened; and as C by the tests, which supply the macros
 * below and run the threads of a block one after the other. So: plain C, no warp intrinsics, and a
 * function for each part between two barriers.
 *
 * Threads: one row each, several in turn. Kernels of one recorder run one after the other on the
 * program's stream; blocks of one kernel meet only in atomics. Nothing comes from the host but the
 * arguments, which are the same at each replay of a graph: gate, slot and step are in device
 * memory.
 */
#include "probe/routing/recorder_layout.h"

#ifdef __CUDACC__
#define ON_DEVICE static __device__ __forceinline__
#define ADD(to, n) atomicAdd(to, n)
#define TAKE_TICKET(to) atomicAdd(to, 1u)
#define FENCE() __threadfence()
#define PREFETCH(from) asm volatile("prefetch.global.L1 [%0];" ::"l"(from))
#define READ_SHARED(from) (*(from))
/* What the host reads: it must not be visible before earlier writes. */
#define PUBLISH(to, value)                                                                         \
	do {                                                                                       \
		__threadfence_system();                                                            \
		*(to) = (value);                                                                   \
	} while (0)

ON_DEVICE unsigned long long device_time_ns(void)
{
	unsigned long long ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

ON_DEVICE float bits_as_float(unsigned int bits)
{
	return __uint_as_float(bits);
}
#endif

/* A block's own counts have the layout of a layer, with `copies` times the load. */
#define BLOCK_WORDS (RECORDER_LAYER_WORDS + RECORDER_MAX_K + 1 + 1 + RECORDER_MAX_EXPERTS)

ON_DEVICE unsigned int *k_hist_of(struct recorder_layer *layer)
{
	return (unsigned int *)(layer + 1);
}

ON_DEVICE struct recorder_layer *layer_of(const struct recorder_call *call)
{
	return (struct recorder_layer *)(call->counts +
					 (unsigned long long)call->state->slot * call->slot_words +
					 RECORDER_SLOT_WORDS + call->layer * call->layer_words);
}

ON_DEVICE int slot_at(const struct recorder_call *call, unsigned int at)
{
	long long slot = call->indices_64 ? ((const long long *)call->indices)[at]
					  : ((const int *)call->indices)[at];

	if (slot < RECORDER_DROPPED || slot >= (long long)call->experts)
		return RECORDER_INVALID;
	return (int)slot;
}

ON_DEVICE float half_as_float(unsigned int bits)
{
	unsigned int sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31,
		     part = bits & 0x3ffu;

	if (exponent == 0) /* zero or subnormal: part * 2^-24 */
		return (sign ? -1.0f : 1.0f) * (float)part * 5.9604644775390625e-8f;
	if (exponent == 31)
		return bits_as_float(sign | 0x7f800000u | part << 13);
	return bits_as_float(sign | (exponent + 112) << 23 | part << 13);
}

/* The weight of a slot that names an expert; 0 for an impossible weight. */
ON_DEVICE float weight_at(const struct recorder_call *call, unsigned int at)
{
	float weight;

	if (slot_at(call, at) < 0)
		return 0;
	switch (call->weights_type) {
	case 3:
		weight = half_as_float(((const unsigned short *)call->weights)[at]);
		break;
	case 4:
		weight = bits_as_float((unsigned int)((const unsigned short *)call->weights)[at]
				       << 16);
		break;
	default:
		weight = ((const float *)call->weights)[at];
	}
	return weight > 0 ? weight : 0;
}

ON_DEVICE int is_padding(const struct recorder_call *call, unsigned int row, unsigned int valid)
{
	if (row >= valid || (call->mask && !call->mask[row]))
		return 1;
	for (unsigned int s = 0; s < call->k; s++)
		if (slot_at(call, row * call->k + s) != RECORDER_PADDING)
			return 0;
	return 1;
}

/* The row's slots, and each weight's share of the row's, in 255ths. */
ON_DEVICE void keep_row(const struct recorder_call *call, unsigned int row, unsigned int place,
			int padding, float sum)
{
	unsigned long long layer = (unsigned long long)call->state->slot * call->layers +
				   call->layer;
	unsigned long long to = layer * call->kept_rows * call->max_k +
				(unsigned long long)place * call->k;

	for (unsigned int s = 0; s < call->k; s++) {
		int slot = padding ? RECORDER_PADDING : slot_at(call, row * call->k + s);
		unsigned int code = slot >= 0 ? (unsigned int)slot
					      : (unsigned int)RECORDER_CODE(slot, call->kept_bytes);

		if (call->kept_bytes == 1)
			call->kept[to + s] = (unsigned char)code;
		else
			((unsigned short *)call->kept)[to + s] = (unsigned short)code;
		if (call->kept_weights) {
			float share = sum > 0 && !padding ? weight_at(call, row * call->k + s) / sum
							  : 0;

			call->kept_weights[to + s] = (unsigned char)(share * 255.0f + 0.5f);
		}
	}
}

/* 1 - H(w)/ln E over the token's normalised weights. */
ON_DEVICE float confidence_of(const struct recorder_call *call, unsigned int row, float sum)
{
	float entropy = 0;

	for (unsigned int s = 0; s < call->k; s++) {
		float share = weight_at(call, row * call->k + s) / sum;

		if (share > 0)
			entropy -= share * logf(share);
	}
	return 1.0f - entropy / logf((float)call->experts);
}

ON_DEVICE float sum_of_weights(const struct recorder_call *call, unsigned int row)
{
	float sum = 0;

	for (unsigned int s = 0; call->weights && s < call->k; s++)
		sum += weight_at(call, row * call->k + s);
	return sum;
}

/* Every `stride`-th row from `first`, into a layer of the slot or of the block. */
ON_DEVICE void route_rows(const struct recorder_call *call, unsigned int first, unsigned int stride,
			  struct recorder_layer *to, unsigned int *load, unsigned int base)
{
	unsigned int *k_hist = k_hist_of(to), valid = call->valid ? *call->valid : call->rows;
	unsigned int tokens = 0, padding = 0, unused = 0, dropped = 0, invalid = 0, weighted = 0;
	unsigned int all_used = 0; /* rows with k experts: nearly all, so counted here first */
	double confidence = 0;

	for (unsigned int row = first; row < call->rows; row += stride) {
		int is_pad = is_padding(call, row, valid);
		unsigned int used = 0;
		float sum = is_pad ? 0 : sum_of_weights(call, row);

		if (call->kept && base < call->kept_rows && row < call->kept_rows - base)
			keep_row(call, row, base + row, is_pad, sum);
		if (is_pad) {
			padding++;
			continue;
		}
		for (unsigned int s = 0; s < call->k; s++) {
			int slot = slot_at(call, row * call->k + s);

			if (slot >= 0) {
				ADD(&load[slot], 1u);
				used++;
			} else if (slot == RECORDER_DROPPED) {
				dropped++;
			} else if (slot == RECORDER_INVALID) {
				invalid++;
			} else { /* padding in a real token's row: an unused slot */
				unused++;
			}
		}
		tokens++;
		if (used == call->k)
			all_used++;
		else
			ADD(&k_hist[used], 1u);
		if (sum > 0 && call->experts > 1) {
			confidence += confidence_of(call, row, sum);
			weighted++;
		}
	}
	if (tokens)
		ADD(&to->tokens, tokens);
	if (all_used)
		ADD(&k_hist[call->k], all_used);
	if (padding)
		ADD(&to->padding, padding);
	if (unused)
		ADD(&to->unused, unused);
	if (dropped)
		ADD(&to->dropped, dropped);
	if (invalid)
		ADD(&to->invalid, invalid);
	if (weighted) {
		ADD(&to->weighted, weighted);
		ADD(&to->confidence, confidence);
	}
}

/* A call of a few rows is all latency: its first lines are fetched before the state says whether
 * they are needed. */
ON_DEVICE void route_prefetch(const struct recorder_call *call, unsigned int row)
{
	if (row >= call->rows)
		return;
	PREFETCH((const char *)call->indices + (size_t)row * call->k * (call->indices_64 ? 8 : 4));
	if (call->weights)
		PREFETCH((const char *)call->weights +
			 (size_t)row * call->k * (call->weights_type == 2 ? 4 : 2));
}

/* Whether this call counts at all. The same for every thread of the call. */
ON_DEVICE int route_opens(const struct recorder_call *call, int first)
{
	if (!call->state->gate)
		return 0;
	if (call->state->full) {
		if (first)
			ADD(&call->state->missed, 1u);
		return 0;
	}
	if (first)
		call->state->used = 1;
	return 1;
}

ON_DEVICE void block_clear(const struct recorder_call *call, unsigned int *block,
			   unsigned int thread)
{
	unsigned int words = RECORDER_LAYER_WORDS + call->max_k + 1 + call->copies * call->experts;

	for (unsigned int w = thread; w < words; w += RECORDER_THREADS)
		block[w] = 0;
}

/* The block's counts into the slot's. */
ON_DEVICE void block_merge(const struct recorder_call *call, const unsigned int *block,
			   unsigned int thread, struct recorder_layer *to)
{
	const struct recorder_layer *from = (const struct recorder_layer *)block;
	const unsigned int *k_hist = block + RECORDER_LAYER_WORDS, *load = k_hist + call->max_k + 1;
	unsigned int *to_k_hist = k_hist_of(to), *to_load = to_k_hist + call->max_k + 1;

	for (unsigned int e = thread; e < call->experts; e += RECORDER_THREADS) {
		unsigned int n = 0;

		for (unsigned int c = 0; c < call->copies; c++)
			n += load[c * call->experts + e];
		if (n)
			ADD(&to_load[e], n);
	}
	for (unsigned int i = thread; i <= call->k; i += RECORDER_THREADS)
		if (k_hist[i])
			ADD(&to_k_hist[i], k_hist[i]);
	if (thread != 0)
		return;
	if (from->tokens)
		ADD(&to->tokens, from->tokens);
	if (from->padding)
		ADD(&to->padding, from->padding);
	if (from->unused)
		ADD(&to->unused, from->unused);
	if (from->dropped)
		ADD(&to->dropped, from->dropped);
	if (from->invalid)
		ADD(&to->invalid, from->invalid);
	if (from->weighted) {
		ADD(&to->weighted, from->weighted);
		ADD(&to->confidence, from->confidence);
	}
}

/* One thread of each block, when the block is done: the last block says where the rows of the next
 * call start, because another block may still have to read it before. */
ON_DEVICE void route_ends(const struct recorder_call *call, struct recorder_layer *to,
			  unsigned int blocks)
{
	if (blocks > 1 && call->kept) {
		FENCE();
		if (TAKE_TICKET(&to->ticket) != blocks - 1)
			return;
		to->ticket = 0;
	}
	if (call->kept)
		to->rows += call->rows;
	to->phase = call->phase;
}

/* One of many calls, as if it were alone. */
ON_DEVICE struct recorder_call one_of(const struct recorder_calls *calls, unsigned int i)
{
	struct recorder_call call = calls->common;

	call.indices = calls->few[i].indices;
	call.weights = calls->few[i].weights;
	call.valid = calls->few[i].valid;
	call.mask = calls->few[i].mask;
	call.rows = calls->few[i].rows;
	call.k = calls->few[i].k;
	call.experts = calls->few[i].experts;
	call.layer = calls->few[i].layer;
	call.phase = calls->few[i].phase;
	call.indices_64 = calls->few[i].indices_64;
	call.weights_type = calls->few[i].weights_type;
	return call;
}

ON_DEVICE void end_step(const struct recorder_step *args)
{
	struct recorder_state *state = args->state;

	if (args->step >= 0)
		state->step = args->step;
	if (state->used) {
		struct recorder_slot *slot =
			(struct recorder_slot *)(args->counts + (unsigned long long)state->slot *
									args->slot_words);

		slot->step = state->step;
		slot->time_ns = device_time_ns();
		state->head++;
		state->slot = (unsigned int)(state->head % args->slots);
		state->used = 0;
		PUBLISH(&args->shared->head, state->head);
	}
	if (state->missed) {
		state->dropped += state->missed;
		PUBLISH(&args->shared->dropped_calls, state->dropped);
		state->missed = 0;
	}
	/* Over the bus only if the tail known here is not enough. */
	if (state->head - state->tail >= args->slots)
		state->tail = READ_SHARED(&args->shared->tail);
	state->full = state->head - state->tail >= args->slots;
	state->step++;
}

#ifdef __CUDACC__
extern "C" __global__ void __launch_bounds__(RECORDER_THREADS)
	moescope_route(const struct recorder_call call)
{
	__shared__ unsigned long long block_words[(BLOCK_WORDS + 1) / 2];
	unsigned int *block = (unsigned int *)block_words, thread = threadIdx.x, base;
	struct recorder_layer *to;

	route_prefetch(&call, blockIdx.x * blockDim.x + thread);
	if (!route_opens(&call, blockIdx.x == 0 && thread == 0))
		return;
	to = layer_of(&call);
	base = call.kept ? to->rows : 0;
	if (call.rows <= RECORDER_DIRECT_ROWS) {
		route_rows(&call, thread, blockDim.x, to, k_hist_of(to) + call.max_k + 1, base);
		__syncthreads(); /* all have read the base */
	} else {
		unsigned int copy = thread / 32 % call.copies;

		block_clear(&call, block, thread);
		__syncthreads();
		route_rows(&call, blockIdx.x * blockDim.x + thread, gridDim.x * blockDim.x,
			   (struct recorder_layer *)block,
			   block + RECORDER_LAYER_WORDS + call.max_k + 1 + copy * call.experts,
			   base);
		__syncthreads();
		block_merge(&call, block, thread, to);
	}
	if (thread == 0)
		route_ends(&call, to, gridDim.x);
}

/* One block per call: blocks belong to different layers, so they meet only in the state. */
extern "C" __global__ void __launch_bounds__(RECORDER_DIRECT_ROWS)
	moescope_routes(const struct recorder_calls calls)
{
	const struct recorder_call call = one_of(&calls, blockIdx.x);
	struct recorder_layer *to;
	unsigned int base;

	route_prefetch(&call, threadIdx.x);
	if (!route_opens(&call, threadIdx.x == 0))
		return;
	to = layer_of(&call);
	base = call.kept ? to->rows : 0;
	route_rows(&call, threadIdx.x, blockDim.x, to, k_hist_of(to) + call.max_k + 1, base);
	__syncthreads(); /* all have read the base */
	if (threadIdx.x == 0)
		route_ends(&call, to, 1);
}

extern "C" __global__ void moescope_step(const struct recorder_step args)
{
	if (blockIdx.x == 0 && threadIdx.x == 0)
		end_step(&args);
}
#endif
