/* SPDX-License-Identifier: Apache-2.0
 *
 * What the recorder's kernels and the host both know: the layout of the counts on a device, and the
 * arguments of the kernels. Also compiled for the device, by nvcc or at run time by NVRTC, which
 * has no standard headers: so plain types, of the same size everywhere.
 *
 * A slot holds one step: struct recorder_slot, then for each layer a struct recorder_layer, k_hist
 * (max_k + 1 words) and load (max_experts words), all in 32-bit words. Kept tokens are separate, by
 * slot, layer and row.
 */
#ifndef PROBE_ROUTING_RECORDER_LAYOUT_H
#define PROBE_ROUTING_RECORDER_LAYOUT_H

#define RECORDER_MAX_EXPERTS 1024
#define RECORDER_MAX_K 64
#define RECORDER_THREADS 256
/* For up to this many rows one warp adds to the counts in device memory, without its own
 * histogram. */
#define RECORDER_DIRECT_ROWS 32

/* Slots that are not experts, as in moescope.h, and the code for any other value. */
#define RECORDER_PADDING (-1)
#define RECORDER_UNUSED (-2)
#define RECORDER_DROPPED (-3)
#define RECORDER_INVALID (-4)
/* A kept slot is the expert or, from the largest value down, one of these four. */
#define RECORDER_CODES 4
#define RECORDER_CODE(slot, bytes) (((bytes) == 1 ? 0xff : 0xffff) + 1 + (slot))

struct recorder_slot {
	long long step;
	unsigned long long time_ns; /* device global timer, when the step was complete */
};

struct recorder_layer {
	unsigned int rows;   /* seen in this step: where the next call keeps its tokens */
	unsigned int ticket; /* blocks of the running call that are done */
	unsigned int phase;  /* of the last call */
	unsigned int tokens, padding, unused, dropped, invalid, weighted;
	unsigned int reserved;
	double confidence;
};
#define RECORDER_SLOT_WORDS (sizeof(struct recorder_slot) / 4)
#define RECORDER_LAYER_WORDS (sizeof(struct recorder_layer) / 4)

/* In device memory; only the kernels write it, except the gate. */
struct recorder_state {
	unsigned int gate;
	unsigned int full;   /* no slot is free for this step */
	unsigned int used;   /* the slot has counts of this step */
	unsigned int missed; /* calls dropped in this step */
	unsigned int slot, reserved;
	long long step;		       /* of this step, unless the host gives another */
	unsigned long long head, tail; /* slots completed, and those known to be free again */
	unsigned long long dropped;    /* calls */
};

/* In pinned host memory that the device sees; each line says who writes it. */
struct recorder_shared {
	volatile unsigned long long head;	   /* device: slots completed */
	volatile unsigned long long dropped_calls; /* device: no free slot */
	volatile unsigned long long tail;	   /* host: slots fetched and cleared */
};

/* The argument of the route kernel. */
struct recorder_call {
	struct recorder_state *state;
	unsigned int *counts;
	unsigned char *kept;	     /* NULL: only counts */
	unsigned char *kept_weights; /* NULL: none */
	const void *indices, *weights;
	const unsigned int *valid;
	const unsigned char *mask;
	unsigned int rows, k, experts, layer, phase;
	unsigned int indices_64;   /* else 32 bits */
	unsigned int weights_type; /* enum moescope_number */
	unsigned int layers, max_k, layer_words, slot_words;
	unsigned int kept_rows;	 /* of a layer and step */
	unsigned int kept_bytes; /* of a kept slot: 1 or 2 */
	unsigned int copies;	 /* of the histogram in a block, so that warps collide less often */
};

/* A call of up to RECORDER_DIRECT_ROWS rows among many. */
struct recorder_few {
	const void *indices, *weights;
	const unsigned int *valid;
	const unsigned char *mask;
	unsigned int rows, k, experts, layer, phase, indices_64, weights_type;
	unsigned int reserved;
};

/* The argument of the kernel for many calls, one block each: what they share and what differs. As
 * many as fit into the 4 KiB that every device accepts. */
#define RECORDER_FEW 62
struct recorder_calls {
	struct recorder_call common;
	struct recorder_few few[RECORDER_FEW];
};

/* The arguments of the step kernel. */
struct recorder_step {
	struct recorder_state *state;
	struct recorder_shared *shared;
	unsigned int *counts;
	long long step; /* -1: continue counting */
	unsigned int slots, slot_words;
};

#endif
