/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA driver, opened at run time: one build runs on machines with and without it.
 */
#ifndef LOAD_CUDA_H
#define LOAD_CUDA_H

#include <cuda.h>

#define CUDA_FUNCTIONS(FUNCTION)                                                                   \
	FUNCTION(cuInit)                                                                           \
	FUNCTION(cuGetErrorName)                                                                   \
	FUNCTION(cuDeviceGet)                                                                      \
	FUNCTION(cuDevicePrimaryCtxRetain)                                                         \
	FUNCTION(cuCtxSetCurrent)                                                                  \
	FUNCTION(cuModuleLoadData)                                                                 \
	FUNCTION(cuModuleGetFunction)                                                              \
	FUNCTION(cuMemAlloc_v2)                                                                    \
	FUNCTION(cuMemAllocHost_v2)                                                                \
	FUNCTION(cuMemGetInfo_v2)                                                                  \
	FUNCTION(cuMemsetD8_v2)                                                                    \
	FUNCTION(cuMemcpyDtoH_v2)                                                                  \
	FUNCTION(cuMemcpyHtoDAsync_v2)                                                             \
	FUNCTION(cuStreamCreate)                                                                   \
	FUNCTION(cuStreamSynchronize)                                                              \
	FUNCTION(cuStreamBeginCapture_v2)                                                          \
	FUNCTION(cuStreamEndCapture)                                                               \
	FUNCTION(cuGraphInstantiateWithFlags)                                                      \
	FUNCTION(cuGraphLaunch)                                                                    \
	FUNCTION(cuGraphDestroy)                                                                   \
	FUNCTION(cuGraphExecDestroy)                                                               \
	FUNCTION(cuLaunchKernel)

extern struct cuda {
#define FUNCTION(name) __typeof__(name) *name;
	CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
} cuda;

/* 0, or -1 with a sentence on stderr. */
int cuda_open(void);
/* Ends the program with a sentence if a call failed: finding faults is its purpose. */
void cuda_check(CUresult result, const char *call);
#define CUDA(call) cuda_check(cuda.call, #call)

#endif
