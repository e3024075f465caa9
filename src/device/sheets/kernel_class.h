/* SPDX-License-Identifier: Apache-2.0
 *
 * What kind of work a kernel does, by its name: one table of patterns, first match wins. A file
 * of the user's goes before the table. Pure but for reading that file; any thread.
 */
#ifndef DEVICE_KERNEL_CLASS_H
#define DEVICE_KERNEL_CLASS_H

#include <stdbool.h>

#include "base/err.h"

struct kernel_classes;

/* The parts of a layer with experts, by what ranges around them are called (subject moe). */
enum moe_part {
	MOE_ATTENTION,
	MOE_ROUTER,
	MOE_DISPATCH,
	MOE_EXPERTS,
	MOE_COMBINE,
	MOE_SHARED,
	MOE_REST,
	MOE_PARTS,
};

/* `path`: a file of lines "class<TAB>pattern" (POSIX extended regular expressions, upper and
 * lower case alike; '#' begins a comment line), or NULL. -EINVAL with the line for a bad one. */
int kernel_classes_new(const char *path, struct kernel_classes **ret_classes, struct err *err);
void kernel_classes_free(struct kernel_classes *classes);

/* One of the classes below, or one of the file. Lives as long as `classes`; the same address for the
 * same class. NULL: no memory.
 *
 * gemm           matrix products, convolutions too
 * grouped_gemm   products of several experts at once
 * attention      also linear attention and state-space layers
 * normalisation  norms and softmax
 * routing        which tokens go to which expert: top-k, sorting, histograms, offsets
 * permute        tokens or rows gathered, scattered, looked up
 * quantisation   to and from narrow formats, with their scales
 * transpose      the layout of a tensor changed
 * elementwise, reduction, copy, fft
 * collective     communication; that of expert parallelism is apart: dispatch, combine, and notify
 *                (counts exchanged before the transfer, barriers)
 * other          nothing in the name tells */
const char *kernel_class_of(const struct kernel_classes *classes, const char *name);

/* The rule that a range or operation of that name follows: KERNEL_RANGE_NONE, or -ENOMEM. */
#define KERNEL_RANGE_NONE (-1)
int kernel_class_range(const struct kernel_classes *classes, const char *range);
/* Whether kernels may be of another class there than their names tell. */
bool kernel_class_range_decides(int rule);
/* Which part of a mixture of experts such a range is; MOE_PARTS: none. certain: also in runs where
 * nothing else tells of experts. */
enum moe_part kernel_class_range_part(int rule, bool *ret_certain);
/* What a kernel of a class does in a range of a rule, where the range says more than the kernel's
 * name: a matrix product in "self_attn" or aten::scaled_dot_product_attention is
 * attention, one in a router is routing, one in "experts" grouped_gemm (of a shared expert it stays
 * gemm); a kernel whose name tells nothing follows attention and routers too. Every other class
 * stays. NULL: the range says nothing. */
const char *kernel_class_in_range(const struct kernel_classes *classes, const char *class,
				  int rule);

/* Whether kernels of the class move data between devices: collective, dispatch, combine, notify. */
bool kernel_class_communicates(const char *class);

#endif
