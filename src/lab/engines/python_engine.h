/* SPDX-License-Identifier: Apache-2.0
 *
 * What engines that live in Python share: whether its packages are there, and the driver's text.
 */
#ifndef LAB_PYTHON_ENGINE_H
#define LAB_PYTHON_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Of python/moescope/lab/drivers, made into C by tools/embed_text.py. */
extern const char transformers_driver_text[], sglang_experts_text[];

/* Asks `python` for packages (names with a comma between them) without importing them. 0, or -ENOENT
 * with a sentence that names what is missing and the command that installs it. */
int python_packages_check(const char *python, const char *engine, const char *packages,
			  struct err *err);
/* The program's path by PATH, into out. False: there is none. */
bool path_find(const char *program, char *out, size_t size);

#endif
