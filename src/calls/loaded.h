/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of libraries that the program has loaded, however it did: libraries of Python's modules are not among those
 * that the loader searches for everybody (RTLD_LOCAL), so that there is no "next" function behind a wrapper.
 */
#ifndef CALLS_LOADED_H
#define CALLS_LOADED_H

/* The function of that name in a loaded object whose file name begins with `prefix`, else the next one of that name;
 * NULL: none. The library then stays loaded. It takes the loader's lock: once for each function. */
void *loaded_find(const char *prefix, const char *name);

#endif
