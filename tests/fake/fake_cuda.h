/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test drives the scripted libcuda with. A test reaches the library by dlopen of the path in
 * MOESCOPE_CUDA and takes the symbol `fake_cuda` from it. At first the program sees the two devices
 * of the scripted NVML in NVML's order.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#define FAKE_CUDA_MAX 4

/* The 16 bytes of a UUID all alike: what the scripted NVML calls GPU-ssssssss-ssss-..., s in hex. */
struct fake_cuda_device {
	unsigned char uuid;   /* of the device, or of its MIG instance */
	unsigned char parent; /* of the GPU, which the older call gives */
};

struct fake_cuda {
	/* What cuDeviceGetCount answers; CUDA_SUCCESS at first. */
	void (*set_result)(CUresult result);
	void (*set_devices)(const struct fake_cuda_device *devices, size_t n);
	/* Returns when cuDeviceGetCount has been called n times; false after 100 seconds. */
	bool (*wait_counts)(unsigned int n);
};

#endif
