/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a program waits for its first CUDA calls: cuInit, where the driver loads an injected
 * library, then a context and an allocation. Prints one JSON object, microseconds.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "first_call: libcuda.so.1 has no %s.\n", name);
		exit(1);
	}
	return found;
}

static void check(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "first_call: %s failed with CUDA error %d.\n", what, (int)r);
	exit(1);
}

int main(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	CUresult (*init)(unsigned int);
	CUresult (*retain)(CUcontext *, CUdevice);
	CUresult (*set_current)(CUcontext);
	CUresult (*mem_free)(CUdeviceptr);
	CUresult (*mem_alloc)(CUdeviceptr *, size_t);
	double times[4];
	CUcontext context;
	CUdeviceptr memory;

	if (!library) {
		fprintf(stderr, "first_call: no CUDA driver: %s.\n", dlerror());
		return 1;
	}
	*(void **)&init = symbol(library, "cuInit");
	*(void **)&retain = symbol(library, "cuDevicePrimaryCtxRetain");
	*(void **)&set_current = symbol(library, "cuCtxSetCurrent");
	*(void **)&mem_alloc = symbol(library, "cuMemAlloc_v2");
	*(void **)&mem_free = symbol(library, "cuMemFree_v2");

	times[0] = now_us();
	check(init(0), "cuInit");
	times[1] = now_us();
	check(retain(&context, 0), "cuDevicePrimaryCtxRetain");
	check(set_current(context), "cuCtxSetCurrent");
	times[2] = now_us();
	check(mem_alloc(&memory, 1 << 20), "cuMemAlloc");
	check(mem_free(memory), "cuMemFree");
	times[3] = now_us();
	printf("{\"init_us\": %.1f, \"context_us\": %.1f, \"allocate_us\": %.1f, \"total_us\": %.1f}\n",
	       times[1] - times[0], times[2] - times[1], times[3] - times[2], times[3] - times[0]);
	return 0;
}
