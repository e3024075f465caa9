/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack of one thread: Python's functions, the native ones that the kernel took, or both in one. The sampler's
 * inside.
 */
#ifndef HOST_STACKS_THREAD_STACK_H
#define HOST_STACKS_THREAD_STACK_H

#include "host/stacks/followed.h"

/* For native_drain, with the sampler as its argument. */
void thread_stack_came(void *arg, const struct native_sample *sample);

/* A node of the process's tree; 0: none was seen. ran: it has run since the last look. Its times must be new. */
uint32_t thread_stack(struct sampler *s, struct process *p, struct thread *t, bool ran);

#endif
