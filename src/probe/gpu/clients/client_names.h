/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of another profiler, from its file.
 */
#ifndef PROBE_GPU_CLIENTS_CLIENT_NAMES_H
#define PROBE_GPU_CLIENTS_CLIENT_NAMES_H

#include <cupti.h>
#include <stddef.h>

/* The profiler whose code is at the address: "torch.profiler (libtorch_cpu.so)", else the file
 * name, else "another profiler". */
void client_name_at(const void *address, char *name, size_t size);
/* CUPTI names the current subscriber to those that try to subscribe, through these two functions
 * (NULL: an old CUPTI without them). 0 or -ENOENT. */
int client_name_asked(__typeof__(cuptiSubscribe_v2) *subscribe,
		      __typeof__(cuptiUnsubscribe) *unsubscribe, char *name, size_t size);
/* A tool started around the program, by its library in the process. 0 or -ENOENT. */
int client_name_loaded(char *name, size_t size);

#endif
