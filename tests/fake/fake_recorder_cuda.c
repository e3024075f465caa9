/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver and a run-time compiler without a device, as far as the recorder needs them: memory is the
 * host's, launches run the recorder's own kernels as C, on the thread that launches, under a lock.
 * Calls that a real driver refuses while another thread captures are refused here, too.
 */
#include "fake_recorder_cuda.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "recorder_shim.h"

#define EXPORTED __attribute__((visibility("default")))
#define CONTEXT ((CUcontext)0x10)
#define OTHER_CONTEXT ((CUcontext)0x20)
#define CUBIN "machine code of the recorder"
#define MAX_NODES 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queried = PTHREAD_COND_INITIALIZER;
static const char *failing;
static CUresult failure;
static bool held, capturing, deferring, capture_spoiled, waited;
static unsigned int n_live, n_calls, n_launches, n_queries;
static __thread CUcontext current = CONTEXT;
static __thread CUcontext below;
static __thread CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

enum { ROUTE = 1, ROUTES, STEP };

struct node {
	unsigned int function, blocks, threads;
	union {
		struct recorder_call call;
		struct recorder_calls calls;
		struct recorder_step step;
	};
};
static struct node nodes[MAX_NODES];
static unsigned int n_nodes;

/* The beginning of every call. */
static CUresult enter(const char *call)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	n_calls++;
	if (failing && (!strcmp(failing, call) || !strcmp(failing, "*")))
		result = failure;
	pthread_mutex_unlock(&lock);
	return result;
}

#define ENTER()                                                                                    \
	do {                                                                                       \
		CUresult entered = enter(__func__);                                                \
                                                                                                   \
		if (entered != CUDA_SUCCESS)                                                       \
			return entered;                                                            \
	} while (0)

/* Of calls that are unsafe while anybody captures. */
static CUresult unsafe(void)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	if (capturing && mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
		capture_spoiled = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* What the driver has handed out. It lies in a list: a driver that ends keeps it, and no checker
 * of memory may call that a leak. */
struct object {
	struct object *next;
	_Alignas(16) char memory[];
};
static struct object *objects;

/* Not zero, as on a device. */
static void *object_new(size_t bytes)
{
	struct object *object = malloc(sizeof(*object) + bytes);

	if (!object)
		abort();
	memset(object->memory, 0xa5, bytes);
	pthread_mutex_lock(&lock);
	object->next = objects;
	objects = object;
	n_live++;
	pthread_mutex_unlock(&lock);
	return object->memory;
}

static void object_free(void *memory)
{
	struct object **at = &objects, *found;

	pthread_mutex_lock(&lock);
	while (*at && (*at)->memory != memory)
		at = &(*at)->next;
	found = *at;
	if (!found)
		abort(); /* never handed out, or given back twice */
	*at = found->next;
	n_live--;
	pthread_mutex_unlock(&lock);
	free(found);
}

static void run_node(const struct node *node)
{
	if (node->function == STEP)
		end_step(&node->step);
	else if (node->function == ROUTES)
		shim_routes(&node->calls, node->blocks, node->threads);
	else
		shim_route(&node->call, node->blocks, node->threads);
}

/* ---- the test's end */

static void set_context(bool has)
{
	current = has ? CONTEXT : NULL;
}

static void other_context(void)
{
	current = OTHER_CONTEXT;
}

static void set_failure(const char *call, CUresult result)
{
	pthread_mutex_lock(&lock);
	failing = call;
	failure = result;
	pthread_mutex_unlock(&lock);
}

static void set_held(bool now)
{
	pthread_mutex_lock(&lock);
	held = now;
	pthread_mutex_unlock(&lock);
}

static void set_capture(bool on)
{
	pthread_mutex_lock(&lock);
	capturing = on;
	if (on)
		n_nodes = 0;
	pthread_mutex_unlock(&lock);
}

static void replay(void)
{
	pthread_mutex_lock(&lock);
	if (capture_spoiled)
		abort();
	for (unsigned int i = 0; i < n_nodes; i++)
		run_node(&nodes[i]);
	pthread_mutex_unlock(&lock);
}

static void defer(void)
{
	pthread_mutex_lock(&lock);
	deferring = true;
	n_nodes = 0;
	pthread_mutex_unlock(&lock);
}

static unsigned int read_locked(const unsigned int *value)
{
	unsigned int now;

	pthread_mutex_lock(&lock);
	now = *value;
	pthread_mutex_unlock(&lock);
	return now;
}

static unsigned int live(void)
{
	return read_locked(&n_live);
}

static unsigned int calls(void)
{
	return read_locked(&n_calls);
}

static unsigned int launches(void)
{
	return read_locked(&n_launches);
}

static bool waited_for_program(void)
{
	return waited;
}

static bool wait_queries(unsigned int n)
{
	struct timespec until;
	unsigned int want;
	bool reached;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 100;
	pthread_mutex_lock(&lock);
	want = n_queries + n;
	while (n_queries < want && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&queried, &lock, &until);
	reached = n_queries >= want;
	pthread_mutex_unlock(&lock);
	return reached;
}

extern EXPORTED const struct fake_recorder_cuda fake_recorder_cuda;
const struct fake_recorder_cuda fake_recorder_cuda = {
	.set_context = set_context,
	.other_context = other_context,
	.fail_call = set_failure,
	.hold = set_held,
	.capture = set_capture,
	.replay = replay,
	.defer = defer,
	.live = live,
	.calls = calls,
	.launches = launches,
	.waited_for_program = waited_for_program,
	.wait_queries = wait_queries,
};

/* ---- the driver */

CUresult cuGetErrorName(CUresult error, const char **name)
{
	*name = error == CUDA_ERROR_DEINITIALIZED ? "CUDA_ERROR_DEINITIALIZED"
						  : "CUDA_ERROR_SCRIPTED";
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	ENTER();
	*context = current;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	ENTER();
	current = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	ENTER();
	below = current;
	current = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	ENTER();
	*context = current;
	current = below;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	ENTER();
	*device = 0;
	return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
	ENTER();
	if (unsafe() != CUDA_SUCCESS)
		return unsafe();
	if (deferring)
		replay();
	deferring = false;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	ENTER();
	(void)device;
	*value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
		 : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
									     : 2;
	return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *exchanged)
{
	CUstreamCaptureMode before = mode;

	ENTER();
	mode = *exchanged;
	*exchanged = before;
	return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	ENTER();
	if (strcmp(image, CUBIN) != 0)
		return CUDA_ERROR_INVALID_IMAGE;
	*module = object_new(1);
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
	ENTER();
	object_free(module);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	static const char *const names[] = { "moescope_route", "moescope_routes", "moescope_step" };

	ENTER();
	(void)module;
	for (uintptr_t i = 0; i < 3; i++)
		if (!strcmp(name, names[i])) {
			*function = (CUfunction)(i + 1);
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
	ENTER();
	if (unsafe() != CUDA_SUCCESS)
		return unsafe();
	*memory = (CUdeviceptr)(uintptr_t)object_new(bytes);
	return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr memory)
{
	ENTER();
	object_free((void *)(uintptr_t)memory);
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
	ENTER();
	(void)flags;
	if (unsafe() != CUDA_SUCCESS)
		return unsafe();
	*memory = object_new(bytes);
	return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *memory)
{
	ENTER();
	object_free(memory);
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *memory, unsigned int flags)
{
	ENTER();
	(void)flags;
	*device = (CUdeviceptr)(uintptr_t)memory;
	return CUDA_SUCCESS;
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n, CUstream stream)
{
	ENTER();
	(void)stream;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n; i++)
		((unsigned int *)(uintptr_t)to)[i] = value;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	ENTER();
	(void)stream;
	pthread_mutex_lock(&lock);
	memcpy(to, (void *)(uintptr_t)from, bytes);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	ENTER();
	(void)stream;
	pthread_mutex_lock(&lock);
	for (size_t row = 0; row < copy->Height; row++)
		memcpy((char *)copy->dstHost + row * copy->dstPitch,
		       (char *)(uintptr_t)copy->srcDevice + row * copy->srcPitch,
		       copy->WidthInBytes);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	ENTER();
	if (flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE; /* it would wait for the program's default stream */
	*stream = object_new(1);
	return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	ENTER();
	object_free(stream);
	return CUDA_SUCCESS;
}

/* The program's streams are small numbers in the tests. */
CUresult cuStreamSynchronize(CUstream stream)
{
	ENTER();
	if ((uintptr_t)stream < 4096)
		waited = true;
	return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	ENTER();
	(void)stream;
	pthread_mutex_lock(&lock);
	*status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	ENTER();
	(void)flags;
	*event = object_new(1);
	return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
	ENTER();
	object_free(event);
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	ENTER();
	(void)event;
	if ((uintptr_t)stream < 4096)
		waited = true;
	return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
	CUresult result;

	ENTER();
	(void)event;
	if (unsafe() != CUDA_SUCCESS)
		return unsafe();
	pthread_mutex_lock(&lock);
	n_queries++;
	pthread_cond_broadcast(&queried);
	result = held ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
			unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared_bytes, CUstream stream,
			void **arguments, void **extra)
{
	struct node node = { .function = (unsigned int)(uintptr_t)function,
			     .blocks = grid_x,
			     .threads = block_x };

	ENTER();
	(void)stream;
	if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared_bytes || extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (current != CONTEXT)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (node.function == STEP)
		node.step = *(struct recorder_step *)arguments[0];
	else if (node.function == ROUTES)
		node.calls = *(struct recorder_calls *)arguments[0];
	else
		node.call = *(struct recorder_call *)arguments[0];
	pthread_mutex_lock(&lock);
	n_launches++;
	if ((capturing || deferring) && n_nodes < MAX_NODES)
		nodes[n_nodes++] = node;
	else
		run_node(&node);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

/* ---- the compiler */

EXPORTED int nvrtcCreateProgram(void **program, const char *source, const char *name, int n,
				const char *const *headers, const char *const *names);
EXPORTED int nvrtcDestroyProgram(void **program);
EXPORTED int nvrtcCompileProgram(void *program, int n, const char *const *options);
EXPORTED int nvrtcGetProgramLogSize(void *program, size_t *size);
EXPORTED int nvrtcGetProgramLog(void *program, char *log);
EXPORTED int nvrtcGetPTXSize(void *program, size_t *size);
EXPORTED int nvrtcGetPTX(void *program, char *ptx);
EXPORTED int nvrtcGetCUBINSize(void *program, size_t *size);
EXPORTED int nvrtcGetCUBIN(void *program, char *cubin);
EXPORTED int nvrtcGetNumSupportedArchs(int *n);
EXPORTED int nvrtcGetSupportedArchs(int *archs);

int nvrtcCreateProgram(void **program, const char *source, const char *name, int n,
		       const char *const *headers, const char *const *names)
{
	(void)name;
	if (n != 1 || !strstr(source, names[0]) || !strstr(headers[0], "struct recorder_call"))
		return 1;
	*program = object_new(1);
	return 0;
}

int nvrtcDestroyProgram(void **program)
{
	object_free(*program);
	return 0;
}

int nvrtcCompileProgram(void *program, int n, const char *const *options)
{
	(void)program;
	if (enter(__func__) != CUDA_SUCCESS)
		return 6;
	return n < 1 || strcmp(options[0], "--gpu-architecture=sm_90") != 0;
}

int nvrtcGetProgramLogSize(void *program, size_t *size)
{
	(void)program;
	*size = sizeof("line 1: trouble");
	return 0;
}

int nvrtcGetProgramLog(void *program, char *log)
{
	(void)program;
	strcpy(log, "line 1: trouble");
	return 0;
}

int nvrtcGetPTXSize(void *program, size_t *size)
{
	(void)program;
	*size = 0;
	return 1;
}

int nvrtcGetPTX(void *program, char *ptx)
{
	(void)program;
	(void)ptx;
	return 1;
}

int nvrtcGetCUBINSize(void *program, size_t *size)
{
	(void)program;
	*size = sizeof(CUBIN);
	return 0;
}

int nvrtcGetCUBIN(void *program, char *cubin)
{
	(void)program;
	memcpy(cubin, CUBIN, sizeof(CUBIN));
	return 0;
}

int nvrtcGetNumSupportedArchs(int *n)
{
	*n = 3;
	return 0;
}

int nvrtcGetSupportedArchs(int *archs)
{
	archs[0] = 75;
	archs[1] = 90;
	archs[2] = 100;
	return 0;
}
