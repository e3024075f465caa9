/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack of the thread that allocates, as a node of the log: native functions by frame pointers, and where Python runs its
 * functions with the innermost native ones. Memory is read as another process's would be (process_vm_readv), so that
 * nothing found on a stack can fault.
 */
#ifndef HEAP_FRAMES_H
#define HEAP_FRAMES_H

#include <stdint.h>

/* Finds Python in the program. Once, before the program's own code runs. */
void frames_prepare(void);

/* frame: that of a function compiled with a frame pointer, whose caller is the innermost to be told. Not within
 * itself. */
uint32_t frames_node(const void *frame);

#endif
