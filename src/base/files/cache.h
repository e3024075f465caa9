/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's folder for what a machine has been found to do: MOESCOPE_CACHE, else "moescope" in
 * XDG_CACHE_HOME or in ~/.cache.
 */
#ifndef BASE_CACHE_H
#define BASE_CACHE_H

#include <stddef.h>

/* The path of a file in it; -ENOENT without a home, or when it does not fit. */
int cache_path(const char *name, char *path, size_t size);
/* The same, after making the folder where it is missing. */
int cache_path_made(const char *name, char *path, size_t size);

#endif
