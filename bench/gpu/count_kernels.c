/* SPDX-License-Identifier: Apache-2.0
 *
 * The least that a CUPTI client can do: have kernel records delivered and count them. Its cost is
 * CUPTI's own price, the floor for every profiler that records kernels.
 *
 * Loaded by the CUDA driver through CUDA_INJECTION64_PATH; prints nothing. If COUNT_KERNELS_OUT is
 * set, the count is written to that file at exit, so a benchmark can check that it did count. A
 * program may also load it and call count_kernels_on() and count_kernels_off() itself.
 *
 * Buffers are reused: at most a few are ever allocated. Callbacks come on the program's threads and
 * on CUPTI's.
 */
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/driver/cupti_names.h"

#define BUFFER_BYTES (1u << 20)
#define MAX_SPARE 64

int InitializeInjection(void);
int count_kernels_on(void);
int count_kernels_off(void);
unsigned long long count_kernels_so_far(void);
extern int count_copies;

#define CUPTI_FUNCTIONS(FUNCTION)                                                                  \
	FUNCTION(cuptiActivityRegisterCallbacks)                                                   \
	FUNCTION(cuptiActivityEnable)                                                              \
	FUNCTION(cuptiActivityDisable)                                                             \
	FUNCTION(cuptiActivityFlushAll)                                                            \
	FUNCTION(cuptiActivityGetNextRecord)                                                       \
	FUNCTION(cuptiActivityGetNumDroppedRecords)                                                \
	FUNCTION(cuptiFinalize)

static struct {
#define FUNCTION(name) __typeof__(name) *name;
	CUPTI_FUNCTIONS(FUNCTION)
#undef FUNCTION
} api;

static _Atomic unsigned long long kernels, dropped;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *spare[MAX_SPARE];
static unsigned int n_spare;
static bool enabled;
/* Copies and sets are device work too, and have their price. */
static const CUpti_ActivityKind copies[] = { CUPTI_ACTIVITY_KIND_MEMCPY,
					     CUPTI_ACTIVITY_KIND_MEMSET };
#define COPIES (sizeof(copies) / sizeof(copies[0]))
int count_copies; /* a program that loads this may set it */

static void CUPTIAPI buffer_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
	uint8_t *memory = NULL;

	pthread_mutex_lock(&lock);
	if (n_spare)
		memory = spare[--n_spare];
	pthread_mutex_unlock(&lock);
	if (!memory)
		memory = aligned_alloc(8, BUFFER_BYTES);
	*buffer = memory;
	*size = memory ? BUFFER_BYTES : 0;
	*max_records = 0;
}

static void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer,
				      size_t size, size_t valid)
{
	CUpti_Activity *record = NULL;
	unsigned long long n = 0;
	size_t lost = 0;

	(void)size;
	while (valid && api.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
		n += record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
	atomic_fetch_add(&kernels, n);
	if (api.cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS)
		atomic_fetch_add(&dropped, lost);
	pthread_mutex_lock(&lock);
	if (n_spare < MAX_SPARE) {
		spare[n_spare++] = buffer;
		buffer = NULL;
	}
	pthread_mutex_unlock(&lock);
	free(buffer);
}

static bool load(void)
{
	static const char *const names[] = { CUPTI_LIBRARY_NAMES, NULL };
	const char *given = getenv("COUNT_KERNELS_CUPTI");
	void *library = given && *given ? dlopen(given, RTLD_NOW | RTLD_LOCAL) : NULL;

	if (api.cuptiActivityEnable)
		return true;
	/* A copy that is already loaded, such as PyTorch's, comes before any other. */
	for (unsigned int i = 0; !library && names[i]; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	for (unsigned int i = 0; !library && names[i]; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return false;
#define FUNCTION(name)                                                                             \
	*(void **)&api.name = dlsym(library, #name);                                               \
	if (!api.name)                                                                             \
		return false;
	CUPTI_FUNCTIONS(FUNCTION)
#undef FUNCTION
	return true;
}

/* 0, or the CUPTI status, or -1 without a usable libcupti. */
int count_kernels_on(void)
{
	CUptiResult r;

	if (!load())
		return -1;
	r = api.cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed);
	if (r == CUPTI_SUCCESS)
		r = api.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	for (size_t i = 0; r == CUPTI_SUCCESS && count_copies && i < COPIES; i++)
		r = api.cuptiActivityEnable(copies[i]);
	enabled = r == CUPTI_SUCCESS;
	return (int)r;
}

/* Takes what is pending and leaves nothing attached. Not while another thread uses CUDA. */
int count_kernels_off(void)
{
	CUptiResult r;

	if (!enabled)
		return 0;
	enabled = false;
	r = api.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	for (size_t i = 0; count_copies && i < COPIES; i++)
		api.cuptiActivityDisable(copies[i]);
	api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	if (r == CUPTI_SUCCESS)
		r = api.cuptiFinalize();
	return (int)r;
}

unsigned long long count_kernels_so_far(void)
{
	return atomic_load(&kernels);
}

static void at_exit(void)
{
	const char *path = getenv("COUNT_KERNELS_OUT");
	FILE *file;

	if (enabled)
		api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	file = path ? fopen(path, "w") : NULL;
	if (!file)
		return;
	fprintf(file, "{\"enabled\": %s, \"kernels\": %llu, \"dropped\": %llu}\n",
		enabled ? "true" : "false", atomic_load(&kernels), atomic_load(&dropped));
	fclose(file);
}

int InitializeInjection(void)
{
	atexit(at_exit);
	count_kernels_on();
	return 1;
}
