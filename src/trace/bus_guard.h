/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps a program alive whose buffer file is truncated while it records. The rings are a shared
 * mapping of that file, so that they outlive a SIGKILL, and a store past the end of the file raises
 * SIGBUS on the program's thread. The guard maps empty memory over the missing part, and the store
 * is retried there.
 *
 * The signal is the program's: every other SIGBUS is passed on as if the guard were not there, with
 * the flags and mask of the program's handler. A handler that the program installs later stays.
 * Then, and on threads that block SIGBUS, a truncated buffer file ends the program as it would
 * without a guard. docs/design.md has the reasons.
 */
#ifndef TRACE_BUS_GUARD_H
#define TRACE_BUS_GUARD_H

#include <stdint.h>

/* Parts of the mapping; one thread at a time. */
void bus_guard_add(void *at, uint64_t bytes);
void bus_guard_remove(const void *at);

void bus_guard_install(void);
void bus_guard_restore(void);

#endif
