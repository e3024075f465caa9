/* SPDX-License-Identifier: Apache-2.0
 *
 * Another profiler in the process: calls CUPTI in the order in which torch.profiler (Kineto) or
 * Triton Proton does. The library has this table as the symbol `second_client`. Functions return
 * the first result that is not CUPTI_SUCCESS.
 */
#ifndef SECOND_CLIENT_H
#define SECOND_CLIENT_H

#include <cupti.h>
#include <stdbool.h>
#include <stddef.h>

struct second_client {
	/* Kineto: subscribes once, for ever. */
	CUptiResult (*kineto_init)(void);
	/* Attribute, clock, callbacks (unless it relies on the ones of the last time), kinds. */
	CUptiResult (*kineto_start)(bool registers);
	CUptiResult (*kineto_stop)(void);
	/* A forced flush, if it has buffers out. */
	CUptiResult (*kineto_fetch)(void);

	/* Proton: kinds before callbacks; unsubscribes and finalises at its stop. */
	CUptiResult (*proton_start)(void);
	CUptiResult (*proton_stop)(void);

	CUptiResult (*enable)(CUpti_ActivityKind kind);
	CUptiResult (*enable_context)(CUcontext context, CUpti_ActivityKind kind);
	CUptiResult (*disable)(CUpti_ActivityKind kind);
	CUptiResult (*disable_context)(CUcontext context, CUpti_ActivityKind kind);
	CUptiResult (*flush)(void);
	CUptiResult (*unsubscribe)(void);
	CUptiResult (*finalize)(void);

	CUpti_TimestampCallbackFunc clock;
	/* Bytes of records that came; buffers that came and were not its own. */
	size_t (*received)(void);
	size_t (*unknown)(void);
	/* What its import of cuptiActivityDisable holds. */
	void *(*disable_slot)(void);
};

#endif
