/* SPDX-License-Identifier: Apache-2.0
 *
 * A CUDA driver and a cuBLASLt on one clock that only work moves on: each copy, kernel and product
 * takes as long as the rates below say, so a calibration must find exactly these. One thread.
 *
 * FAKE_CALIBRATE_FAIL names a function that fails (with 2, out of memory).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define FUNCTION(name, ...)                                                                        \
	EXPORTED int name(__VA_ARGS__);                                                            \
	EXPORTED int name(__VA_ARGS__)
#define UNUSED __attribute__((unused))

#define READ_WRITE_RATE 3e12
#define READ_RATE 4e12
#define COPY_RATE 1.5e12
#define IN_RATE 50e9
#define OUT_RATE 40e9

static double now_s;
static double events[16];
static size_t n_events;
static char kernels[2]; /* what a module's address stands for */

static int failing(const char *function)
{
	const char *name = getenv("FAKE_CALIBRATE_FAIL");

	return name && !strcmp(name, function) ? 2 : 0;
}

FUNCTION(cuInit, unsigned int flags UNUSED)
{
	return failing(__func__);
}

FUNCTION(cuGetErrorName, int status, const char **name)
{
	*name = status == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
	return 0;
}

FUNCTION(cuDeviceGetCount, int *count)
{
	*count = 1;
	return 0;
}

FUNCTION(cuDeviceGet, int *device, int ordinal)
{
	*device = ordinal;
	return 0;
}

FUNCTION(cuDeviceGetName, char *name, int size, int device UNUSED)
{
	snprintf(name, (size_t)size, "NVIDIA Scripted \"GPU\"");
	return 0;
}

FUNCTION(cuDeviceGetPCIBusId, char *bus, int size, int device UNUSED)
{
	snprintf(bus, (size_t)size, "0000:00:00.0");
	return 0;
}

FUNCTION(cuDeviceTotalMem_v2, size_t *bytes, int device UNUSED)
{
	*bytes = (size_t)100 << 30;
	return 0;
}

FUNCTION(cuDeviceGetAttribute, int *value, int attribute, int device UNUSED)
{
	*value = attribute == 16 ? 132 : 0;
	return 0;
}

FUNCTION(cuDevicePrimaryCtxRetain, void **context, int device UNUSED)
{
	*context = &now_s;
	return failing(__func__);
}

FUNCTION(cuDevicePrimaryCtxRelease_v2, int device UNUSED)
{
	return 0;
}

FUNCTION(cuCtxSetCurrent, void *context UNUSED)
{
	return 0;
}

FUNCTION(cuModuleLoadData, void **module, const void *image)
{
	*module = &kernels[strstr(image, "st.global.v4") ? 1 : 0];
	return failing(__func__);
}

FUNCTION(cuModuleGetFunction, void **function, void *module, const char *name)
{
	*function = module;
	return strcmp(name, "moescope_memory") ? 500 : 0;
}

FUNCTION(cuMemGetInfo_v2, size_t *available, size_t *all)
{
	*available = (size_t)300 << 20;
	*all = (size_t)100 << 30;
	return 0;
}

FUNCTION(cuMemAlloc_v2, uint64_t *address, size_t bytes UNUSED)
{
	static uint64_t next = 1 << 20;

	*address = next;
	next += bytes;
	return failing(__func__);
}

FUNCTION(cuMemFree_v2, uint64_t address UNUSED)
{
	return 0;
}

FUNCTION(cuMemAllocHost_v2, void **address, size_t bytes)
{
	*address = malloc(bytes);
	return failing(__func__);
}

FUNCTION(cuMemFreeHost, void *address)
{
	free(address);
	return 0;
}

FUNCTION(cuMemsetD8_v2, uint64_t to UNUSED, unsigned char value UNUSED, size_t bytes UNUSED)
{
	return 0;
}

FUNCTION(cuMemcpyHtoD_v2, uint64_t to UNUSED, const void *from UNUSED, size_t bytes UNUSED)
{
	return 0;
}

FUNCTION(cuMemcpyDtoH_v2, void *to UNUSED, uint64_t from UNUSED, size_t bytes UNUSED)
{
	return 0;
}

FUNCTION(cuMemcpyHtoDAsync_v2, uint64_t to UNUSED, const void *from UNUSED, size_t bytes,
	 void *stream UNUSED)
{
	now_s += (double)bytes / IN_RATE;
	return failing(__func__);
}

FUNCTION(cuMemcpyDtoHAsync_v2, void *to UNUSED, uint64_t from UNUSED, size_t bytes,
	 void *stream UNUSED)
{
	now_s += (double)bytes / OUT_RATE;
	return 0;
}

FUNCTION(cuMemcpyDtoDAsync_v2, uint64_t to UNUSED, uint64_t from UNUSED, size_t bytes,
	 void *stream UNUSED)
{
	now_s += (double)bytes / COPY_RATE;
	return 0;
}

FUNCTION(cuStreamCreate, void **stream, unsigned int flags UNUSED)
{
	*stream = &now_s;
	return 0;
}

FUNCTION(cuStreamSynchronize, void *stream UNUSED)
{
	return 0;
}

FUNCTION(cuEventCreate, void **event, unsigned int flags UNUSED)
{
	*event = &events[n_events++];
	return 0;
}

FUNCTION(cuEventRecord, void *event, void *stream UNUSED)
{
	*(double *)event = now_s;
	return 0;
}

FUNCTION(cuEventSynchronize, void *event UNUSED)
{
	return 0;
}

FUNCTION(cuEventElapsedTime, float *ms, void *begin, void *end)
{
	*ms = (float)((*(double *)end - *(double *)begin) * 1e3);
	return 0;
}

FUNCTION(cuLaunchKernel, void *kernel, unsigned int grid_x, unsigned int grid_y UNUSED,
	 unsigned int grid_z UNUSED, unsigned int block_x, unsigned int block_y UNUSED,
	 unsigned int block_z UNUSED, unsigned int shared UNUSED, void *stream UNUSED,
	 void **arguments, void **extra UNUSED)
{
	double bytes = 16.0 * (double)*(uint64_t *)arguments[2];

	if (grid_x != 264 || block_x != 1024)
		return 1;
	now_s += kernel == &kernels[1] ? 2 * bytes / READ_WRITE_RATE : bytes / READ_RATE;
	return 0;
}

/* cuBLASLt. The scripted device has no 8-bit units. A layout is its type. */
static int types[64];

FUNCTION(cublasLtCreate, void **handle)
{
	*handle = &now_s;
	return failing(__func__);
}

FUNCTION(cublasLtDestroy, void *handle UNUSED)
{
	return 0;
}

FUNCTION(cublasLtMatmulDescCreate, void **desc, int compute, int scale UNUSED)
{
	static int kept;

	kept = compute;
	*desc = &kept;
	return 0;
}

FUNCTION(cublasLtMatmulDescDestroy, void *desc UNUSED)
{
	return 0;
}

FUNCTION(cublasLtMatmulDescSetAttribute, void *desc UNUSED, int attribute, const void *value,
	 size_t size)
{
	return attribute == 3 && size == 4 && *(const int *)value == 1 ? 0 : 7;
}

FUNCTION(cublasLtMatrixLayoutCreate, void **layout, int type, uint64_t rows, uint64_t columns,
	 int64_t leading)
{
	types[type] = type;
	*layout = &types[type];
	return rows == columns && (uint64_t)leading == rows ? 0 : 7;
}

FUNCTION(cublasLtMatrixLayoutDestroy, void *layout UNUSED)
{
	return 0;
}

FUNCTION(cublasLtMatmulPreferenceCreate, void **preference)
{
	*preference = &now_s;
	return 0;
}

FUNCTION(cublasLtMatmulPreferenceDestroy, void *preference UNUSED)
{
	return 0;
}

FUNCTION(cublasLtMatmulPreferenceSetAttribute, void *preference UNUSED, int attribute,
	 const void *value UNUSED, size_t size)
{
	return attribute == 1 && size == 8 ? 0 : 7;
}

FUNCTION(cublasLtMatmulAlgoGetHeuristic, void *handle UNUSED, void *desc UNUSED, void *a,
	 void *b UNUSED, void *c UNUSED, void *d UNUSED, void *preference UNUSED, int wanted UNUSED,
	 void *results UNUSED, int *found)
{
	*found = *(int *)a != 28;
	return 0;
}

FUNCTION(cublasLtMatmul, void *handle UNUSED, void *desc, const void *alpha UNUSED,
	 uint64_t a UNUSED, void *a_layout, uint64_t b UNUSED, void *b_layout UNUSED,
	 const void *beta UNUSED, uint64_t c UNUSED, void *c_layout UNUSED, uint64_t d UNUSED,
	 void *d_layout UNUSED, const void *algorithm UNUSED, uint64_t workspace UNUSED,
	 size_t workspace_bytes UNUSED, void *stream UNUSED)
{
	int type = *(int *)a_layout, compute = *(int *)desc;
	double rate = type == 14      ? 800e12
		      : type == 2     ? 790e12
		      : type == 1     ? 60e12
		      : compute == 77 ? 400e12
				      : 50e12;

	now_s += 2.0 * 8192 * 8192 * 8192 / rate;
	return failing(__func__);
}
