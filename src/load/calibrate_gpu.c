/* SPDX-License-Identifier: Apache-2.0
 *
 * Peaks of the GPUs: memory by kernels that read, and that read and write; copies within the device
 * and to and from the host, pinned and pageable; matrix products. One thread.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/calibrate.h"
#include "load/driver.h"

#define BLOCK 1024
#define BLOCKS_PER_MULTIPROCESSOR 2
#define MULTIPROCESSOR_COUNT 16 /* CU_DEVICE_ATTRIBUTE_… */
#define MEMORY_BYTES (UINT64_C(2) << 30)
#define MEMORY_BYTES_MIN (UINT64_C(64) << 20)
#define HOST_BYTES (UINT64_C(256) << 20)
#define ROUNDS_MAX (1 << 16)

struct driver driver;
struct stream stream;

#define HEAD                                                                                       \
	".version 7.0\n.target sm_52\n.address_size 64\n"                                          \
	".visible .entry "
#define BEGIN                                                                                      \
	"(.param .u64 from, .param .u64 to, .param .u64 n) {\n"                                    \
	"  .reg .pred %p<3>;\n  .reg .b32 %r<16>;\n  .reg .b64 %rd<12>;\n"                         \
	"  ld.param.u64 %rd1, [from];\n  ld.param.u64 %rd2, [to];\n  ld.param.u64 %rd3, [n];\n"    \
	"  cvta.to.global.u64 %rd4, %rd1;\n  cvta.to.global.u64 %rd5, %rd2;\n"                     \
	"  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %ntid.x;\n  mov.u32 %r3, %tid.x;\n"              \
	"  mov.u32 %r4, %nctaid.x;\n  mul.wide.u32 %rd6, %r1, %r2;\n"                              \
	"  cvt.u64.u32 %rd7, %r3;\n  add.u64 %rd6, %rd6, %rd7;\n"                                  \
	"  mul.wide.u32 %rd8, %r4, %r2;\n  mov.u32 %r9, 0;\n"                                      \
	"LOOP:\n  setp.ge.u64 %p1, %rd6, %rd3;\n  @%p1 bra DONE;\n"                                \
	"  shl.b64 %rd9, %rd6, 4;\n  add.u64 %rd10, %rd4, %rd9;\n  add.u64 %rd11, %rd5, %rd9;\n"   \
	"  ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd10];\n"
#define NEXT "  add.u64 %rd6, %rd6, %rd8;\n  bra LOOP;\nDONE:\n"

/* 16 bytes per thread and turn. The read-only one keeps the sum alive with a store that never
 * happens: the memory holds zeros. */
static const char read_write_ptx[] = HEAD "moescope_memory" BEGIN
					  "  st.global.v4.u32 [%rd11], {%r5, %r6, %r7, %r8};\n" NEXT
					  "  ret;\n}\n";
static const char read_ptx[] = HEAD
	"moescope_memory" BEGIN "  or.b32 %r5, %r5, %r6;\n  or.b32 %r7, %r7, %r8;\n"
	"  or.b32 %r9, %r9, %r5;\n  or.b32 %r9, %r9, %r7;\n" NEXT
	"  setp.eq.u32 %p2, %r9, 0;\n  @%p2 bra END;\n  st.global.u32 [%rd5], %r9;\n"
	"END:\n  ret;\n}\n";

static struct {
	device_address from, to;
	uint64_t bytes, vectors, host_bytes;
	void *host, *kernel;
	unsigned int blocks;
	void *nvml_device; /* NULL: no NVML */
	double clock_mhz;  /* 0: not seen */
} gpu;

static const char *find_driver(void)
{
	static char why[256];
	/* Tests substitute a scripted driver. */
	const char *given = getenv("MOESCOPE_CUDA");
	void *library = dlopen(given && *given ? given : "libcuda.so.1", RTLD_NOW);
	const struct {
		const char *name;
		void *to;
	} functions[] = {
#define FUNCTION(name, arguments) { #name, &driver.name },
		DRIVER_FUNCTIONS(FUNCTION)
#undef FUNCTION
	};

	if (!library) {
		snprintf(why, sizeof(why), "no NVIDIA driver: %.200s", dlerror());
		return why;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *symbol = dlsym(library, functions[i].name);

		if (!symbol) {
			snprintf(why, sizeof(why), "the NVIDIA driver has no %s; it is too old",
				 functions[i].name);
			return why;
		}
		memcpy(functions[i].to, &symbol, sizeof(symbol));
	}
	return NULL;
}

int driver_failed(int status, const char *call, char *why, size_t size)
{
	const char *name = NULL;

	if (!status)
		return 0;
	if (status < 0) {
		snprintf(why, size, "cublasLtMatmul: status %d", -status);
		return status;
	}
	if (driver.cuGetErrorName(status, &name) != 0 || !name)
		name = "an unknown error";
	snprintf(why, size, "%.*s: %s", (int)strcspn(call, "("), call, name);
	return status;
}

/* The device seconds of n times `once`, between two events. 0, or -1 with the sentence. `once`
 * returns a driver status, or a negated cuBLASLt status. */
static int driver_time(int (*once)(void *), void *argument, int n, double *ret_s, char *why,
		       size_t size)
{
	float ms = 0;

	if (DRIVER(cuEventRecord(stream.begin, stream.stream), why, size))
		return -1;
	for (int i = 0; i < n; i++)
		if (driver_failed(once(argument), "the measured call", why, size))
			return -1;
	if (DRIVER(cuEventRecord(stream.end, stream.stream), why, size) ||
	    DRIVER(cuEventSynchronize(stream.end), why, size) ||
	    DRIVER(cuEventElapsedTime(&ms, stream.begin, stream.end), why, size))
		return -1;
	if (!(ms > 0)) {
		snprintf(why, size, "the device's clock did not move");
		return -1;
	}
	*ret_s = (double)ms * 1e-3;
	return 0;
}

int driver_rates(int (*once)(void *), void *argument, double amount, double *rates, char *why,
		 size_t size)
{
	double seconds = 0;
	int rounds = 1;

	while (seconds < SAMPLE_S && rounds < ROUNDS_MAX) {
		if (driver_time(once, argument, rounds, &seconds, why, size) < 0)
			return -1;
		rounds *= seconds < SAMPLE_S ? 2 : 1;
	}
	for (int i = 0; i < REPEATS; i++) {
		if (driver_time(once, argument, rounds, &seconds, why, size) < 0)
			return -1;
		rates[i] = amount * rounds / seconds;
	}
	return 0;
}

static int launch(void *unused)
{
	void *arguments[] = { &gpu.from, &gpu.to, &gpu.vectors };

	(void)unused;
	return driver.cuLaunchKernel(gpu.kernel, gpu.blocks, 1, 1, BLOCK, 1, 1, 0, stream.stream,
				     arguments, NULL);
}

static int copy_within(void *unused)
{
	(void)unused;
	return driver.cuMemcpyDtoDAsync_v2(gpu.to, gpu.from, gpu.bytes, stream.stream);
}

static int copy_in(void *unused)
{
	(void)unused;
	return driver.cuMemcpyHtoDAsync_v2(gpu.to, gpu.host, gpu.host_bytes, stream.stream);
}

static int copy_out(void *unused)
{
	(void)unused;
	return driver.cuMemcpyDtoHAsync_v2(gpu.host, gpu.from, gpu.host_bytes, stream.stream);
}

static void measure(const struct device *device, const char *key, int (*once)(void *),
		    double amount)
{
	double rates[REPEATS];
	char why[256];

	if (driver_rates(once, NULL, amount, rates, why, sizeof(why)) < 0)
		tell_absent(device, key, why);
	else
		tell(device, key, rates, REPEATS);
}

static int median_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The better of the two kernels is what the memory can do. */
static void measure_memory(const struct device *device)
{
	static const struct {
		const char *ptx;
		int times; /* each byte is moved */
	} kinds[] = { { read_write_ptx, 2 }, { read_ptx, 1 } };
	double best[REPEATS] = { 0 };
	char why[256];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		double rates[REPEATS];
		void *module;

		if (DRIVER(cuModuleLoadData(&module, kinds[i].ptx), why, sizeof(why)) ||
		    DRIVER(cuModuleGetFunction(&gpu.kernel, module, "moescope_memory"), why,
			   sizeof(why)) ||
		    driver_rates(launch, NULL, kinds[i].times * (double)gpu.bytes, rates, why,
				 sizeof(why)) < 0) {
			tell_absent(device, "memory_bytes_per_s", why);
			return;
		}
		qsort(rates, REPEATS, sizeof(rates[0]), median_order);
		if (rates[REPEATS / 2] > best[REPEATS / 2])
			memcpy(best, rates, sizeof(best));
	}
	tell(device, "memory_bytes_per_s", best, REPEATS);
}

/* Copies of pageable memory return when the host's part is done: timed by the host, as the program
 * sees them. */
static void measure_pageable(const struct device *device, bool in)
{
	const char *key = in ? "htod_pageable_bytes_per_s" : "dtoh_pageable_bytes_per_s";
	double rates[REPEATS];
	char why[256];

	for (int i = -1; i < REPEATS; i++) { /* -1: the pages are touched */
		double begin = now_s();
		int status = in ? driver.cuMemcpyHtoD_v2(gpu.to, gpu.host, gpu.host_bytes)
				: driver.cuMemcpyDtoH_v2(gpu.host, gpu.from, gpu.host_bytes);

		if (driver_failed(status, "cuMemcpy", why, sizeof(why)) ||
		    DRIVER(cuStreamSynchronize(NULL), why, sizeof(why))) {
			tell_absent(device, key, why);
			return;
		}
		if (i >= 0)
			rates[i] = (double)gpu.host_bytes / (now_s() - begin);
	}
	tell(device, key, rates, REPEATS);
}

static void measure_host(const struct device *device)
{
	char why[256];

	gpu.host_bytes = gpu.bytes < HOST_BYTES ? gpu.bytes : HOST_BYTES;
	if (DRIVER(cuMemAllocHost_v2(&gpu.host, gpu.host_bytes), why, sizeof(why))) {
		tell_absent(device, "htod_pinned_bytes_per_s", why);
		tell_absent(device, "dtoh_pinned_bytes_per_s", why);
	} else {
		memset(gpu.host, 0, gpu.host_bytes);
		measure(device, "htod_pinned_bytes_per_s", copy_in, (double)gpu.host_bytes);
		measure(device, "dtoh_pinned_bytes_per_s", copy_out, (double)gpu.host_bytes);
		driver.cuMemFreeHost(gpu.host);
	}
	gpu.host = calloc(1, gpu.host_bytes);
	if (!gpu.host) {
		tell_absent(device, "htod_pageable_bytes_per_s", "no memory for its array");
		return;
	}
	memset(gpu.host, 0, gpu.host_bytes);
	measure_pageable(device, true);
	measure_pageable(device, false);
	free(gpu.host);
	gpu.host = NULL;
}

static struct {
	int (*init)(void);
	int (*by_bus)(const char *, void **);
	int (*clock)(void *, int, unsigned int *);
} nvml;

/* Clocks are a note next to the figures: without NVML there is none. */
static void find_nvml(int device)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	char bus[64];

	gpu.nvml_device = NULL;
	gpu.clock_mhz = 0;
	if (!library)
		return;
	*(void **)&nvml.init = dlsym(library, "nvmlInit_v2");
	*(void **)&nvml.by_bus = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
	*(void **)&nvml.clock = dlsym(library, "nvmlDeviceGetClockInfo");
	if (!nvml.init || !nvml.by_bus || !nvml.clock || nvml.init() != 0 ||
	    driver.cuDeviceGetPCIBusId(bus, sizeof(bus), device) != 0 ||
	    nvml.by_bus(bus, &gpu.nvml_device) != 0)
		gpu.nvml_device = NULL;
}

/* While work is queued: of the multiprocessors (NVML_CLOCK_SM), the lowest seen. */
static void note_clock(void)
{
	unsigned int mhz;

	if (gpu.nvml_device && nvml.clock(gpu.nvml_device, 1, &mhz) == 0 && mhz &&
	    (gpu.clock_mhz <= 0 || mhz < gpu.clock_mhz))
		gpu.clock_mhz = mhz;
}

/* As much as is free, within reason. */
static int make_room(char *why, size_t size)
{
	size_t available = 0, all = 0;

	if (DRIVER(cuMemGetInfo_v2(&available, &all), why, size))
		return -1;
	gpu.bytes = MEMORY_BYTES;
	while (gpu.bytes > MEMORY_BYTES_MIN && gpu.bytes * 3 > available)
		gpu.bytes /= 2;
	gpu.vectors = gpu.bytes / 16;
	if (DRIVER(cuMemAlloc_v2(&gpu.from, gpu.bytes), why, size))
		return -1;
	if (DRIVER(cuMemAlloc_v2(&gpu.to, gpu.bytes), why, size)) {
		driver.cuMemFree_v2(gpu.from);
		return -1;
	}
	if (DRIVER(cuMemsetD8_v2(gpu.from, 0, gpu.bytes), why, size) ||
	    DRIVER(cuMemsetD8_v2(gpu.to, 0, gpu.bytes), why, size)) {
		driver.cuMemFree_v2(gpu.from);
		driver.cuMemFree_v2(gpu.to);
		return -1;
	}
	return 0;
}

static int enter(int index, struct device *device, int *ret_handle, char *why, size_t size)
{
	int multiprocessors = 0;
	size_t memory = 0;
	void *context;

	snprintf(device->label, sizeof(device->label), "gpu %d", index);
	snprintf(device->name, sizeof(device->name), "unknown");
	if (DRIVER(cuDeviceGet(ret_handle, index), why, size) ||
	    DRIVER(cuDeviceGetName(device->name, sizeof(device->name), *ret_handle), why, size) ||
	    DRIVER(cuDeviceTotalMem_v2(&memory, *ret_handle), why, size) ||
	    DRIVER(cuDeviceGetAttribute(&multiprocessors, MULTIPROCESSOR_COUNT, *ret_handle), why,
		   size) ||
	    DRIVER(cuDevicePrimaryCtxRetain(&context, *ret_handle), why, size) ||
	    DRIVER(cuCtxSetCurrent(context), why, size) ||
	    DRIVER(cuStreamCreate(&stream.stream, 1), why, size) ||
	    DRIVER(cuEventCreate(&stream.begin, 0), why, size) ||
	    DRIVER(cuEventCreate(&stream.end, 0), why, size))
		return -1;
	device->memory_bytes = (double)memory;
	gpu.blocks = (unsigned int)multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
	return 0;
}

static void calibrate_one(int index)
{
	struct device device = { 0 };
	char why[256];
	int handle;

	if (enter(index, &device, &handle, why, sizeof(why)) < 0) {
		tell_absent(&device, "memory_bytes_per_s", why);
		return;
	}
	find_nvml(handle);
	if (make_room(why, sizeof(why)) < 0) {
		tell_absent(&device, "memory_bytes_per_s", why);
	} else {
		measure_memory(&device);
		measure(&device, "copy_bytes_per_s", copy_within, (double)gpu.bytes);
		measure_host(&device);
		driver.cuMemFree_v2(gpu.from);
		driver.cuMemFree_v2(gpu.to);
	}
	calibrate_gemm(&device, note_clock);
	if (gpu.clock_mhz > 0)
		tell_one(&device, "clock_mhz", gpu.clock_mhz);
	else
		tell_absent(&device, "clock_mhz", "NVML does not tell it");
	driver.cuDevicePrimaryCtxRelease_v2(handle);
}

void calibrate_gpus(void)
{
	const struct device none = { .label = "gpu" };
	const char *missing = find_driver();
	char why[256];
	int n = 0;

	if (missing) {
		tell_absent(&none, "", missing);
		return;
	}
	if (DRIVER(cuInit(0), why, sizeof(why)) || DRIVER(cuDeviceGetCount(&n), why, sizeof(why))) {
		tell_absent(&none, "", why);
		return;
	}
	if (!n)
		tell_absent(&none, "", "the driver sees no device");
	for (int i = 0; i < n; i++)
		calibrate_one(i);
}
