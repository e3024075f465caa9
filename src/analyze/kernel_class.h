/* SPDX-License-Identifier: Apache-2.0
 *
 * What kind of work a kernel does, by its name: one table of patterns, first match wins. A file
 * of the user's goes before the table. Pure but for reading that file; any thread.
 */
#ifndef ANALYZE_KERNEL_CLASS_H
#define ANALYZE_KERNEL_CLASS_H

#include "base/err.h"

struct kernel_classes;

/* `path`: a file of lines "class<TAB>pattern" (POSIX extended regular expressions, upper and
 * lower case alike; '#' begins a comment line), or NULL. -EINVAL with the line for a bad one. */
int kernel_classes_new(const char *path, struct kernel_classes **ret_classes, struct err *err);
void kernel_classes_free(struct kernel_classes *classes);

/* "gemm" "grouped_gemm" "attention" "normalisation" "elementwise" "reduction" "routing" "permute"
 * "collective" "copy" "other", or a class of the file. Lives as long as `classes`; the same
 * address for the same class. */
const char *kernel_class_of(const struct kernel_classes *classes, const char *name);

#endif
