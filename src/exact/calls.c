/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the driver; see calls.h.
 */
#include "exact/calls.h"

#include "exact/streams.h"

const struct call calls[] = {
#define CALL(name, use)                                                                            \
	{                                                                                          \
		CUPTI_DRIVER_TRACE_CBID_##name, use                                                \
	}
	CALL(cuLaunchKernel, LAUNCH),
	CALL(cuLaunchKernel_ptsz, LAUNCH_OF_THREAD),
	CALL(cuLaunchCooperativeKernel, LAUNCH_COOPERATIVE),
	CALL(cuLaunchCooperativeKernel_ptsz, LAUNCH_COOPERATIVE_OF_THREAD),
	CALL(cuLaunchKernelEx, LAUNCH_WITH_CONFIG),
	CALL(cuLaunchKernelEx_ptsz, LAUNCH_WITH_CONFIG_OF_THREAD),
	CALL(cuLaunchCooperativeKernelMultiDevice, COOPERATIVE_GPUS),
	CALL(cuGraphLaunch, GRAPH),
	CALL(cuGraphLaunch_ptsz, GRAPH_OF_THREAD),
	CALL(cuStreamBeginCapture, CAPTURE_BEGINS),
	CALL(cuStreamBeginCapture_ptsz, CAPTURE_BEGINS),
	CALL(cuStreamBeginCapture_v2, CAPTURE_BEGINS),
	CALL(cuStreamBeginCapture_v2_ptsz, CAPTURE_BEGINS),
	CALL(cuStreamBeginCaptureToGraph, CAPTURE_BEGINS),
	CALL(cuStreamBeginCaptureToGraph_ptsz, CAPTURE_BEGINS),
	CALL(cuStreamEndCapture, CAPTURE_ENDS),
	CALL(cuStreamEndCapture_ptsz, CAPTURE_ENDS),
	CALL(cuStreamCreate, STREAM_BEGINS),
	CALL(cuStreamCreateWithPriority, STREAM_BEGINS_WITH_PRIORITY),
	CALL(cuStreamDestroy, STREAM_ENDS_OLD),
	CALL(cuStreamDestroy_v2, STREAM_ENDS),
	CALL(cuCtxEnablePeerAccess, SHARES_MEMORY),
	CALL(cuIpcGetMemHandle, SHARES_MEMORY),
	CALL(cuIpcOpenMemHandle, SHARES_MEMORY),
	CALL(cuIpcOpenMemHandle_v2, SHARES_MEMORY),
	CALL(cuMemExportToShareableHandle, SHARES_MEMORY),
	CALL(cuMemImportFromShareableHandle, SHARES_MEMORY),
	CALL(cuMemPoolExportPointer, SHARES_MEMORY),
	CALL(cuMemPoolImportPointer, SHARES_MEMORY),
	CALL(cuMulticastCreate, SHARES_MEMORY),
#undef CALL
};
const size_t n_calls = sizeof(calls) / sizeof(calls[0]);

static bool is_of_thread(enum call_use use)
{
	return use == LAUNCH_OF_THREAD || use == LAUNCH_COOPERATIVE_OF_THREAD ||
	       use == LAUNCH_WITH_CONFIG_OF_THREAD || use == GRAPH_OF_THREAD;
}

/* Those of the per-thread streams have the same members, and those of cooperative launches begin alike. */
static const CUlaunchConfig *config_of(enum call_use use, const void *given)
{
	const cuLaunchKernelEx_params *extended = given;

	return use == LAUNCH_WITH_CONFIG || use == LAUNCH_WITH_CONFIG_OF_THREAD ? extended->config
										: NULL;
}

void call_shape(enum call_use use, const void *given, struct row_launch *launch)
{
	const cuLaunchKernel_params *plain = given;
	const CUlaunchConfig *config = config_of(use, given);

	launch->grid_x = config ? config->gridDimX : plain->gridDimX;
	launch->grid_y = config ? config->gridDimY : plain->gridDimY;
	launch->grid_z = config ? config->gridDimZ : plain->gridDimZ;
	launch->block_x = config ? config->blockDimX : plain->blockDimX;
	launch->block_y = config ? config->blockDimY : plain->blockDimY;
	launch->block_z = config ? config->blockDimZ : plain->blockDimZ;
	launch->dynamic_shared_bytes = config ? config->sharedMemBytes : plain->sharedMemBytes;
}

struct replay_launch call_launch(enum call_use use, const void *given)
{
	const cuLaunchKernel_params *plain = given;
	const cuLaunchKernelEx_params *extended = given;
	const CUlaunchConfig *config = config_of(use, given);
	bool cooperative = use == LAUNCH_COOPERATIVE || use == LAUNCH_COOPERATIVE_OF_THREAD;

	return (struct replay_launch){
		.function = config ? extended->f : plain->f,
		.parameters = config ? extended->kernelParams : plain->kernelParams,
		/* Cooperative launches have none. */
		.extra = cooperative ? NULL
			 : config    ? extended->extra
				     : plain->extra,
		.attributes = config ? config->attrs : NULL,
		.n_attributes = config ? config->numAttrs : 0,
		.cooperative = cooperative,
	};
}

CUstream call_stream(enum call_use use, const void *given)
{
	const cuLaunchKernel_params *plain = given;
	const CUlaunchConfig *config = config_of(use, given);
	const cuGraphLaunch_params *graph = given;
	CUstream stream = use == GRAPH || use == GRAPH_OF_THREAD ? graph->hStream
			  : config				 ? config->hStream
								 : plain->hStream;

	return stream_named(stream, is_of_thread(use));
}
