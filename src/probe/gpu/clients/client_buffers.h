/* SPDX-License-Identifier: Apache-2.0
 *
 * Who owns an activity buffer. CUPTI returns a buffer to the callbacks registered when it is full,
 * not to those that provided it; with two clients in turn that can be the wrong one. The other
 * client's callbacks are therefore registered through these, which remember its buffers.
 *
 * Threads: any; the lock is not held while a callback runs.
 */
#ifndef PROBE_GPU_CLIENTS_CLIENT_BUFFERS_H
#define PROBE_GPU_CLIENTS_CLIENT_BUFFERS_H

#include <cupti.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What CUPTI gets instead of the other's callbacks. */
void CUPTIAPI client_buffers_requested(uint8_t **buffer, size_t *size, size_t *max_records);
void CUPTIAPI client_buffers_completed(CUcontext context, uint32_t stream, uint8_t *buffer,
				       size_t size, size_t valid);

/* The callbacks behind them; NULL, NULL: none. Outstanding buffers keep the callback they had. */
void client_buffers_use(CUpti_BuffersCallbackRequestFunc request,
			CUpti_BuffersCallbackCompleteFunc complete);
bool client_buffers_in_use(void);
/* Where buffers go that are not the other's. */
void client_buffers_probe(CUpti_BuffersCallbackCompleteFunc complete);

/* Delivers a buffer to the other client if it owns it. */
bool client_buffers_deliver(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
			    size_t valid);
/* How many of the other's buffers CUPTI has. */
size_t client_buffers_out(void);
/* CUPTI has been finalised and returns none of them. */
void client_buffers_forget(void);
void client_buffers_after_fork(void);

#endif
