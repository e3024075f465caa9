/* SPDX-License-Identifier: Apache-2.0
 *
 * What the examples share: errors in one sentence, NVTX ranges if its header is there, a clock.
 */
#ifndef EXAMPLES_COMMON_CUH
#define EXAMPLES_COMMON_CUH

#include <cuda_runtime.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define RANGE_PUSH(name) nvtxRangePushA(name)
#define RANGE_POP() nvtxRangePop()
#else
#define RANGE_PUSH(name) ((void)(name))
#define RANGE_POP() ((void)0)
#endif

/* A failed CUDA call ends the program with the call, its place and the driver's message. */
#define CHECK(call)                                                                                \
	do {                                                                                       \
		cudaError_t check_status = (call);                                                 \
		if (check_status != cudaSuccess) {                                                 \
			fprintf(stderr, "%s:%d: %s failed: %s (%s).\n", __FILE__, __LINE__, #call, \
				cudaGetErrorString(check_status), cudaGetErrorName(check_status)); \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* A range of the program for as long as the object lives. */
struct scoped_range {
	explicit scoped_range(const char *name)
	{
		RANGE_PUSH(name);
	}
	~scoped_range()
	{
		RANGE_POP();
	}
};

static inline double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A whole number in [low, high], or a sentence and status 2. */
static inline long number_option(const char *program, const char *option, const char *text,
				 long low, long high)
{
	char *end = NULL;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < low || value > high) {
		fprintf(stderr, "%s: %s wants a whole number from %ld to %ld, not '%s'.\n", program,
			option, low, high, text);
		exit(2);
	}
	return value;
}

#endif
