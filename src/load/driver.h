/* SPDX-License-Identifier: Apache-2.0
 *
 * The few CUDA driver functions that calibration needs, opened at run time and declared here, so it
 * builds without the CUDA headers. Their names fix their binary interface.
 */
#ifndef LOAD_DRIVER_H
#define LOAD_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t device_address;

/* FUNCTION(name, (arguments)) */
#define DRIVER_FUNCTIONS(FUNCTION)                                                                 \
	FUNCTION(cuInit, (unsigned int))                                                           \
	FUNCTION(cuGetErrorName, (int, const char **))                                             \
	FUNCTION(cuDeviceGetCount, (int *))                                                        \
	FUNCTION(cuDeviceGet, (int *, int))                                                        \
	FUNCTION(cuDeviceGetName, (char *, int, int))                                              \
	FUNCTION(cuDeviceGetPCIBusId, (char *, int, int))                                          \
	FUNCTION(cuDeviceTotalMem_v2, (size_t *, int))                                             \
	FUNCTION(cuDeviceGetAttribute, (int *, int, int))                                          \
	FUNCTION(cuDevicePrimaryCtxRetain, (void **, int))                                         \
	FUNCTION(cuDevicePrimaryCtxRelease_v2, (int))                                              \
	FUNCTION(cuCtxSetCurrent, (void *))                                                        \
	FUNCTION(cuModuleLoadData, (void **, const void *))                                        \
	FUNCTION(cuModuleGetFunction, (void **, void *, const char *))                             \
	FUNCTION(cuMemGetInfo_v2, (size_t *, size_t *))                                            \
	FUNCTION(cuMemAlloc_v2, (device_address *, size_t))                                        \
	FUNCTION(cuMemFree_v2, (device_address))                                                   \
	FUNCTION(cuMemAllocHost_v2, (void **, size_t))                                             \
	FUNCTION(cuMemFreeHost, (void *))                                                          \
	FUNCTION(cuMemsetD8_v2, (device_address, unsigned char, size_t))                           \
	FUNCTION(cuMemcpyHtoD_v2, (device_address, const void *, size_t))                          \
	FUNCTION(cuMemcpyDtoH_v2, (void *, device_address, size_t))                                \
	FUNCTION(cuMemcpyHtoDAsync_v2, (device_address, const void *, size_t, void *))             \
	FUNCTION(cuMemcpyDtoHAsync_v2, (void *, device_address, size_t, void *))                   \
	FUNCTION(cuMemcpyDtoDAsync_v2, (device_address, device_address, size_t, void *))           \
	FUNCTION(cuStreamCreate, (void **, unsigned int))                                          \
	FUNCTION(cuStreamSynchronize, (void *))                                                    \
	FUNCTION(cuEventCreate, (void **, unsigned int))                                           \
	FUNCTION(cuEventRecord, (void *, void *))                                                  \
	FUNCTION(cuEventSynchronize, (void *))                                                     \
	FUNCTION(cuEventElapsedTime, (float *, void *, void *))                                    \
	FUNCTION(cuLaunchKernel,                                                                   \
		 (void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,    \
		  unsigned int, unsigned int, void *, void **, void **))

extern struct driver {
#define FUNCTION(name, arguments) int(*name) arguments;
	DRIVER_FUNCTIONS(FUNCTION)
#undef FUNCTION
} driver;

/* Of the current device. */
extern struct stream {
	void *stream, *begin, *end;
} stream;

/* Writes the sentence for a failed call to `why`; returns the call's status. */
int driver_failed(int status, const char *call, char *why, size_t size);
#define DRIVER(call, why, size) driver_failed(driver.call, #call, why, size)
/* REPEATS rates of `amount` per time, after a warm-up, each over at least SAMPLE_S. Likewise. */
int driver_rates(int (*once)(void *), void *argument, double amount, double *rates, char *why,
		 size_t size);

#endif
