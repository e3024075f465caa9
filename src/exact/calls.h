/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the driver that matter to counting single kernels, and what a launch among them was given. Pure, any thread.
 */
#ifndef EXACT_CALLS_H
#define EXACT_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "counters/api.h"
#include "exact/replay.h"
#include "trace/records.h"

enum call_use {
	LAUNCH,
	LAUNCH_OF_THREAD, /* its stream 0 is the thread's */
	LAUNCH_COOPERATIVE,
	LAUNCH_COOPERATIVE_OF_THREAD,
	LAUNCH_WITH_CONFIG,
	LAUNCH_WITH_CONFIG_OF_THREAD,
	LAUNCHES = LAUNCH_WITH_CONFIG_OF_THREAD,
	GRAPH,
	GRAPH_OF_THREAD,
	COOPERATIVE_GPUS,
	CAPTURE_BEGINS,
	CAPTURE_ENDS,
	STREAM_BEGINS,
	STREAM_BEGINS_WITH_PRIORITY,
	STREAM_ENDS,
	STREAM_ENDS_OLD,
	SHARES_MEMORY, /* with another process or GPU */
};
struct call {
	CUpti_CallbackId id;
	enum call_use use;
};
extern const struct call calls[];
extern const size_t n_calls;

/* `given`: the parameters of a launch, as CUPTI hands them out. */
void call_shape(enum call_use use, const void *given, struct row_launch *launch);
struct replay_launch call_launch(enum call_use use, const void *given);
/* Of a launch or a graph. */
CUstream call_stream(enum call_use use, const void *given);

#endif
