/* SPDX-License-Identifier: Apache-2.0
 *
 * What bounds a kernel, by a small rule, the same for all kernels and chips. Pure, any thread.
 *
 * 1. The part of the chip that is nearest to its peak bounds it if that is at least BOUND_PCT: DRAM (memory), L2, the
 *    tensor cores or the multiprocessors. The rate of the multiprocessors is that of their busiest part, the tensor
 *    cores among them: if these are at BOUND_PCT, it is not counted a second time.
 * 2. If DRAM, L2 and the multiprocessors were all counted and none is, the kernel waits. With less than one wave of
 *    blocks the grid is too small for the chip; else latency bounds it, and occupancy and stalls say why.
 * 3. Else it is not known.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "subjects/counters/kernel_limits.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *kernel_bound_word(enum kernel_bound bound)
{
	static const char *const words[] = {
#define BOUND(name, word) word,
		KERNEL_BOUNDS(BOUND)
#undef BOUND
	};

	return words[bound];
}

static const struct {
	const char *name, *words;
	size_t offset;
	enum kernel_bound bound;
} kernel_parts[] = {
#define PART(member) offsetof(struct kernel_limit_row, member)
	{ "SM", "the multiprocessors", PART(sm_pct), BOUND_SM },
	{ "tensor cores", "the tensor cores", PART(tensor_pct), BOUND_TENSOR },
	{ "DRAM", "DRAM", PART(dram_pct), BOUND_MEMORY },
	{ "L2", "L2", PART(l2_pct), BOUND_L2 },
#undef PART
};
_Static_assert(COUNT(kernel_parts) == KERNEL_PARTS, "a number for each");

const char *kernel_part_name(size_t part)
{
	return kernel_parts[part].name;
}

struct value kernel_part_pct(const struct kernel_limit_row *row, size_t part)
{
	return *(const struct value *)((const char *)row + kernel_parts[part].offset);
}

size_t kernel_part_nearest(const struct kernel_limit_row *row)
{
	bool tensor = row->tensor_pct.known && row->tensor_pct.v >= BOUND_PCT;
	size_t nearest = KERNEL_PARTS;
	double most = 0;

	for (size_t p = 0; p < KERNEL_PARTS; p++) {
		struct value pct = kernel_part_pct(row, p);

		if (!pct.known || (nearest < KERNEL_PARTS && pct.v <= most) ||
		    (tensor && kernel_parts[p].bound == BOUND_SM))
			continue;
		most = pct.v;
		nearest = p;
	}
	return nearest;
}

const char *stall_words(const char *stall)
{
	/* As Nsight Compute's guide explains the states of warps. */
	static const struct {
		const char *stall, *words;
	} known[] = {
		{ "long_scoreboard", "global memory" },
		{ "short_scoreboard", "shared memory" },
		{ "barrier", "other warps at a barrier" },
		{ "membar", "a memory barrier" },
		{ "math_pipe_throttle", "a busy arithmetic pipe" },
		{ "gmma", "the tensor cores" },
		{ "mio_throttle", "queue of shared-memory accesses" },
		{ "lg_throttle", "queue of global-memory accesses" },
		{ "tex_throttle", "queue of texture accesses" },
		{ "no_instruction", "instructions to be fetched" },
		{ "imc_miss", "constants to be fetched" },
		{ "branch_resolving", "a branch" },
		{ "drain", "writes at the end" },
		{ "wait", "a fixed latency of instructions" },
		{ "dispatch_stall", "the dispatcher" },
		{ "not_selected", "their turn" },
		{ "selected", "nothing: they went on" },
		{ "sleeping", "the end of a sleep" },
		{ "misc", "something else" },
	};

	for (size_t i = 0; i < COUNT(known); i++)
		if (!strcmp(known[i].stall, stall))
			return known[i].words;
	return NULL;
}

static void say_latency(struct kernel_limit_row *row)
{
	const char *words = row->stall_pct.known ? stall_words(row->stall) : NULL;
	size_t at = 0;

	if (row->achieved_occupancy_pct.known && row->achieved_occupancy_pct.v < FEW_WARPS_PCT)
		at = (size_t)snprintf(row->because, sizeof(row->because), "few warps (%.0f%%)",
				      row->achieved_occupancy_pct.v);
	if (row->stall_pct.known)
		snprintf(row->because + at, sizeof(row->because) - at, "%s%.0f%% of stalls: %s",
			 at ? ", " : "", row->stall_pct.v, words ? words : row->stall);
	else if (!at)
		snprintf(row->because, sizeof(row->because), "no part of the GPU is at %d%%",
			 BOUND_PCT);
}

void kernel_bound_decide(struct kernel_limit_row *row)
{
	size_t nearest = kernel_part_nearest(row);

	row->bound = BOUND_UNKNOWN;
	row->no_bound = NULL;
	row->because[0] = '\0';
	if (nearest < KERNEL_PARTS && kernel_part_pct(row, nearest).v >= BOUND_PCT) {
		row->bound = kernel_parts[nearest].bound;
		snprintf(row->because, sizeof(row->because), "%s at %.0f%% of the peak",
			 kernel_parts[nearest].words, kernel_part_pct(row, nearest).v);
		return;
	}
	row->no_bound = !row->dram_pct.known ? row->dram_pct.reason
			: !row->l2_pct.known ? row->l2_pct.reason
			: !row->sm_pct.known ? row->sm_pct.reason
					     : NULL;
	if (row->no_bound)
		return;
	if (row->waves.known && row->waves.v < 1) {
		row->bound = BOUND_SMALL;
		snprintf(row->because, sizeof(row->because),
			 "fewer blocks than the GPU can run at once");
		return;
	}
	row->bound = BOUND_LATENCY;
	say_latency(row);
}
