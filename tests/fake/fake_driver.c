/* SPDX-License-Identifier: Apache-2.0
 *
 * A CUDA driver as far as a profiler that is loaded by it can see: the first call loads the library
 * that CUDA_INJECTION64_PATH names. Kernels "run" by being delivered by the scripted CUPTI. One
 * thread.
 */
#include "fake_cupti.h"
#include "inject.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED CUresult cuInit(unsigned int flags);
/* Runs n kernels and waits for them: CUPTI has handed them over when it returns. */
EXPORTED void fake_driver_launch(unsigned int n);

static uint32_t correlation;

CUresult cuInit(unsigned int flags)
{
	static int initialized;

	(void)flags;
	if (!initialized++)
		inject();
	return CUDA_SUCCESS;
}

void fake_driver_launch(unsigned int n)
{
	const char *path = getenv("MOESCOPE_CUPTI");
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	const struct fake_cupti *cupti = library ? dlsym(library, "fake_cupti") : NULL;

	if (!cupti)
		abort();
	while (n--) {
		uint64_t now = cupti->now();
		struct fake_record record = { .kernel = {
						      .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
						      .start = now - 1000,
						      .end = now - 900,
						      .gridX = 1,
						      .gridY = 1,
						      .gridZ = 1,
						      .blockX = 32,
						      .blockY = 1,
						      .blockZ = 1,
						      .correlationId = ++correlation,
						      .name = "some_kernel",
					      } };

		cupti->deliver(0, &record, 1, 0);
	}
}
