/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of a whole run that fit on one screen, and that users of profilers for one GPU know:
 * one memory, one load of each expert number, one mean time a kind of kernel. Where a run has
 * several devices or layers, `overview.h` says which one stands for it:
 *
 * memory      the device with the highest peak of the program's allocator, devices before the host;
 *             without allocations of the program, what the driver handed out on a device
 * experts     assignments of the experts with the same number, over all layers; recomputed forward
 *             passes route the same tokens again and are left out
 * kernels     attention: of that class. experts: launched in a range that names an expert, or, when
 *             no range does, of the class grouped_gemm
 * bandwidths  of the device that used most of it, means over its samples. PCIe: the busier
 *             direction against what the link of that generation and width can carry
 *
 * Pure, any thread.
 */
#ifndef SUBJECTS_OVERVIEW_H
#define SUBJECTS_OVERVIEW_H

#include "subjects/device/device_state.h"
#include "subjects/device/timeline.h"
#include "subjects/kernels/kernels.h"
#include "subjects/memory/device_memory.h"
#include "subjects/memory/memory.h"
#include "subjects/routing/routing.h"

struct overview {
	const struct memory_device *memory; /* of the parts; NULL: the program reports none */
	struct value peak_bytes, total_bytes;
	bool peak_by_driver;

	uint64_t *n; /* of each expert number; NULL: no experts */
	uint32_t experts;
	uint64_t tokens;
	struct load_metrics load; /* not known: no routing */
	struct value cv_excess;
	struct value *expert_bytes; /* weights of each number, where the program told sizes */

	struct value attention_ns, expert_ns; /* mean time of a kernel */
	bool expert_by_class;
	struct value busy_pct;			 /* of all devices together */
	struct value dram_pct, dram_bytes_per_s; /* the second: of the device's peak */
	struct value pcie_pct;
};

/* The answers that it is made of. */
struct overview_parts {
	const struct memory *memory;
	const struct device_memory *device_memory;
	const struct device_states *device_states;
	const struct timeline *timeline;
	const struct routing *routing;
	const struct kernels *by_class;
	const struct kernels *by_expert; /* NULL: no range names an expert */
};

int overview_make(const struct run *run, const struct overview_parts *parts,
		  struct overview *ret_overview);
void overview_release(struct overview *overview);

/* Bytes a second that a PCIe link carries in one direction; absent: generation not known. */
struct value pcie_bytes_per_s(double generation, double width);

#endif
