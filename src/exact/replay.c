/* SPDX-License-Identifier: Apache-2.0
 *
 * Which launches may run several times; see replay.h.
 */
#include "exact/replay.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "counters/api.h"
#include "exact/streams.h"

/* For what was launched before to end. Whatever takes longer may be waiting for what the program does next. */
#define END_NS INT64_C(500000000)
#define LEAVE_NS INT64_C(50000000) /* for other threads to leave the driver */
#define LOOK_AGAIN_NS 20000
#define PARAMETERS_MOST 4096 /* CUDA's own limit is 32,764 bytes */

static _Atomic bool shared, goes_on;
static _Atomic int64_t calls, waiting;
static __thread unsigned int depth __attribute__((tls_model("initial-exec")));

const char *replay_words(enum replay_answer answer)
{
	static const char *const words[REPLAY_ANSWERS] = {
		[REPLAY_FIT] = "",
		[REPLAY_CLASS] = "whose names do not say what they do",
		[REPLAY_TIED] = "that are cooperative or bound to others by their launch",
		[REPLAY_UNSEEN] = "that had not ended in a single pass before",
		[REPLAY_LONG] = "whose passes would take too long",
		[REPLAY_PARAMETERS] = "whose parameters cannot be read",
		[REPLAY_MEMORY] = "that have memory of the host or of another GPU",
		[REPLAY_ROOM] = "for want of free GPU memory, which must hold all that is in use",
		[REPLAY_SHARED] = "of a process that works with other GPUs or ranks",
		[REPLAY_BESIDE] = "beside other work",
	};

	return words[answer];
}

void replay_begin(void)
{
	/* As launchers and MPI libraries set them. */
	static const char *const sizes[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
					     "SLURM_NTASKS" };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const char *size = getenv(sizes[i]);

		if (size && strtol(size, NULL, 10) > 1)
			replay_process_shares();
	}
}

void replay_process_shares(void)
{
	atomic_store(&shared, true);
}

bool replay_is_shared(void)
{
	return atomic_load(&shared);
}

/* ---- what a launch is given */

/* Attributes that neither let a kernel meet others nor others wait for it. */
static bool is_harmless(const CUlaunchAttribute *attribute)
{
	switch (attribute->id) {
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return true;
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		return !attribute->value.cooperative;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
		return !attribute->value.programmaticStreamSerializationAllowed;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		return attribute->value.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
	default:
		return false;
	}
}

/* Where the GPU can use any memory of the process, a pointer may be to what the driver does not know. */
static bool is_of_process(uint64_t address)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned char there;

	return syscall(SYS_mincore, address & ~(page - 1), (size_t)1, &there) == 0 ||
	       errno != ENOMEM;
}

static bool reads_any_memory(uint32_t device)
{
	int reads = 1;

	return counter_api.cuDeviceGetAttribute(&reads, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
						(CUdevice)device) != CUDA_SUCCESS ||
	       reads;
}

/* A word of the parameters: a number, or an address. */
static bool stays_on_device(uint64_t word, uint32_t device, bool any_memory)
{
	unsigned int type = 0, managed = 0;
	int of_device = -1;

	if (word < 4096)
		return true;
	if (counter_api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word) !=
	    CUDA_SUCCESS)
		return !any_memory || word >> 47 || !is_of_process(word);
	return type == CU_MEMORYTYPE_DEVICE &&
	       counter_api.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, word) ==
		       CUDA_SUCCESS &&
	       !managed &&
	       counter_api.cuPointerGetAttribute(&of_device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
						 word) == CUDA_SUCCESS &&
	       of_device == (int)device;
}

static enum replay_answer look_at_bytes(const uint8_t *bytes, size_t size, uint32_t device,
					bool any_memory)
{
	for (size_t at = 0; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, bytes + at, sizeof(word));
		if (!stays_on_device(word, device, any_memory))
			return REPLAY_MEMORY;
	}
	return REPLAY_FIT;
}

/* In place of an array of parameters: a buffer with its size. */
static enum replay_answer look_at_extra(const struct replay_launch *launch, bool any_memory)
{
	const uint8_t *buffer = NULL;
	size_t size = 0;

	for (void **word = launch->extra; word[0] != CU_LAUNCH_PARAM_END; word += 2)
		if (word[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = word[1];
		else if (word[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = *(const size_t *)word[1];
		else
			return REPLAY_PARAMETERS;
	return buffer || !size ? look_at_bytes(buffer, size, launch->device, any_memory)
			       : REPLAY_PARAMETERS;
}

typedef CUresult parameter_fn(void *function, size_t i, size_t *size);

static CUresult of_function(void *function, size_t i, size_t *size)
{
	size_t offset;

	return counter_api.cuFuncGetParamInfo(function, i, &offset, size);
}

static CUresult of_kernel(void *function, size_t i, size_t *size)
{
	size_t offset;

	return counter_api.cuKernelGetParamInfo(function, i, &offset, size);
}

/* What a program launches may be a kernel of a library, which belongs to no context: the driver has two handles. */
static enum replay_answer look_at_parameters(const struct replay_launch *launch)
{
	bool any_memory = reads_any_memory(launch->device);
	parameter_fn *size_of = of_function;
	size_t size = 0;

	if (launch->extra)
		return look_at_extra(launch, any_memory);
	if (!launch->parameters)
		return REPLAY_FIT;
	if (size_of(launch->function, 0, &size) != CUDA_SUCCESS)
		size_of = of_kernel;
	for (size_t i = 0; i < PARAMETERS_MOST; i++) {
		CUresult result = size_of(launch->function, i, &size);
		enum replay_answer answer;

		/* There are no more. One that seems to have none may be a handle of a third kind. */
		if (result == CUDA_ERROR_INVALID_VALUE && i > 0)
			return REPLAY_FIT;
		if (result != CUDA_SUCCESS)
			return REPLAY_PARAMETERS;
		answer = look_at_bytes(launch->parameters[i], size, launch->device, any_memory);
		if (answer != REPLAY_FIT)
			return answer;
	}
	return REPLAY_PARAMETERS;
}

/* Nobody says how much it writes, and where CUPTI finds no room on the GPU it would take the host's. */
static bool has_room(void)
{
	size_t free_bytes = 0, total = 0;

	return counter_api.cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS &&
	       free_bytes >= total - free_bytes;
}

enum replay_answer replay_of_launch(const struct replay_launch *launch)
{
	if (launch->cooperative)
		return REPLAY_TIED;
	for (unsigned int i = 0; i < launch->n_attributes; i++)
		if (!is_harmless(&launch->attributes[i]))
			return REPLAY_TIED;
	if (!has_room())
		return REPLAY_ROOM;
	return look_at_parameters(launch);
}

/* ---- alone */

void replay_call_begins(void)
{
	if (depth++ == 0)
		atomic_fetch_add(&calls, 1);
}

/* The call that was going on when the library was loaded has an end only. */
void replay_call_ends(void)
{
	if (depth && --depth == 0)
		atomic_fetch_sub(&calls, 1);
}

void replay_waits(bool waits)
{
	if (depth)
		atomic_fetch_add(&waiting, waits ? 1 : -1);
}

bool replay_goes_on(void)
{
	return atomic_load(&goes_on);
}

void replay_ends(void)
{
	atomic_store(&goes_on, false);
}

/* A call that begins now sees `goes_on` and waits; those that began before are counted. */
static bool is_alone(void)
{
	return atomic_load(&calls) - atomic_load(&waiting) <= 1;
}

enum replay_answer replay_alone(CUcontext context)
{
	const struct timespec moment = { .tv_nsec = LOOK_AGAIN_NS };
	int64_t begin_ns = clock_monotonic_ns(), passed_ns = 0;
	bool alone = false, ended = false;

	atomic_store(&goes_on, true);
	while (!ended && passed_ns < (alone ? END_NS : LEAVE_NS)) {
		alone = alone || is_alone();
		ended = alone && streams_all_ended(context);
		if (!ended)
			nanosleep(&moment, NULL);
		passed_ns = clock_monotonic_ns() - begin_ns;
	}
	if (ended && is_alone())
		return REPLAY_FIT;
	atomic_store(&goes_on, false);
	return REPLAY_BESIDE;
}
