/* SPDX-License-Identifier: Apache-2.0
 *
 * Short kernel names. Pure, any thread.
 */
#ifndef DEVICE_KERNEL_NAME_H
#define DEVICE_KERNEL_NAME_H

#include <stddef.h>

/* The function of a demangled name with its namespaces, without return type, template arguments
 * and parameters; of a kernel that only runs what a template argument says (cutlass::device_kernel,
 * the elementwise kernels of PyTorch) that argument's; the whole name where nothing would remain.
 * *ret_short: free() it. */
int kernel_short_name(const char *name, char **ret_short);

/* A kernel of a table: its whole name, and the short one, which is free()d and made anew. */
struct kernel_alias {
	const char *name;
	char **short_name;
};

/* Where several of the kernels are called the same in short, adds the words of the whole name that
 * tell each from the others: "at::native::sum_functor …BFloat16"; else a number. Sorts
 * `aliases`. */
int kernel_aliases_tell_apart(struct kernel_alias *aliases, size_t n);

#endif
