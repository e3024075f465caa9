/* SPDX-License-Identifier: Apache-2.0
 *
 * What Python engines share: whether packages are installed, and the driver's source.
 */
#ifndef LAB_PYTHON_ENGINE_H
#define LAB_PYTHON_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* From python/moescope/lab/drivers, turned into C by tools/embed_text.py. */
extern const char transformers_driver_text[], sglang_experts_text[];

/* Asks `python` for packages (comma-separated names) without importing them. 0, or -ENOENT with a
 * sentence that names what is missing and the command to install it. */
int python_packages_check(const char *python, const char *engine, const char *packages,
			  struct err *err);
/* Finds the program in PATH and copies its path to out. False: not found. */
bool path_find(const char *program, char *out, size_t size);

#endif
