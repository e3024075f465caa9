/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_comparison.csv: the kernels of several runs side by side, by name.
 */
#ifndef EXPORTS_KERNEL_COMPARISON_H
#define EXPORTS_KERNEL_COMPARISON_H

#include <stdio.h>

#include "subjects/kernels/kernels.h"

#define KERNEL_COMPARISON_FILE "kernel_comparison.csv"

struct kernel_comparison;
struct kernel_comparison *kernel_comparison_new(void); /* NULL: no memory */
void kernel_comparison_free(struct kernel_comparison *comparison);
/* Takes what it needs of the run, and of its kernels by name; the label is in its columns' titles. 0 or
 * -ENOMEM. */
int kernel_comparison_add(struct kernel_comparison *comparison, const char *label,
			  const struct run *run, const struct kernels *kernels);
void kernel_comparison_write(const struct kernel_comparison *comparison, FILE *out);

#endif
