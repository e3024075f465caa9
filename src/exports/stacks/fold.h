/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks added up: everything that was open at once, outermost first, is a stack, and the times of
 * equal stacks are one sum. One thread.
 *
 * Of the host: the time of frames, ranges, operations and calls that nothing inside them took. Of the
 * device: the time of kernels, copies and sets, under what was open on the thread when the call that
 * launched them began; the call itself is no part of the stack. Work without its call is under a name
 * that says so. What has no time is in neither. Of threads that were looked at from outside the time on a processor
 * is the host's, too.
 */
#ifndef EXPORTS_FOLD_H
#define EXPORTS_FOLD_H

#include "base/hash_map.h"
#include "exports/stacks/stacks.h"
#include "subjects/shared/selection.h"

/* A stack: its innermost name, and the stack around it, whose number is lower. Node 0 is none. */
struct fold_node {
	uint32_t parent, label;
	int64_t host_ns, device_ns;
	int64_t wait_ns;	   /* of a stack that ends with what is waited for */
	uint64_t host_n, device_n; /* how often */
	int64_t heap_bytes;	   /* of host memory, live when it was most */
};

struct fold {
	const struct run *run;
	struct stacks stacks;
	struct stack_labels labels;
	struct fold_node *nodes; /* n is 0 or counts node 0 */
	size_t n, capacity;
	struct hash_map map; /* of nodes */
	uint32_t *call_node; /* of each row of run->api; 0: none */
};

/* Beside the host's time: the device's; what threads waited for that were looked at from outside, as a stack that
 * ends with "(waiting: lock)". */
enum { FOLD_DEVICE = 1, FOLD_WAITS = 2 };
/* 0 or -errno; release it in both cases. */
int fold_make(struct fold *fold, const struct run *run, unsigned int more);
/* Only threads that were looked at from outside, their time on a processor in the selected steps (NULL: always), without the functions of Python's import
 * itself, whose time is their caller's. */
int fold_make_samples(struct fold *fold, const struct run *run, const struct selection *sel);
/* Host memory when it was most, by the stack that allocated it. */
int fold_make_heap(struct fold *fold, const struct run *run);
void fold_release(struct fold *fold);

#endif
