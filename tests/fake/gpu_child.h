/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the GPU probe: one forked process per scenario, with the scripted libraries in
 * place of NVIDIA's, whose run the test then loads. A scenario checks what only it can see (CHECK
 * ends it with status 1). Include after cmocka.h. One thread outside the scenarios.
 */
#ifndef FAKE_GPU_CHILD_H
#define FAKE_GPU_CHILD_H

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "child.h"
#include "fake_cupti.h"
#include "fake_nvml.h"
#include "moescope.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Of the scenario's process. */
static const struct fake_cupti *cupti;
static const struct fake_nvml *nvml;
static const struct fake_cuda *cuda;

/* Puts the scripted libraries where the probe looks, and opens them for the scenario too. */
static inline void use_fakes(void)
{
	void *library;

	setenv("MOESCOPE_CUPTI", FAKE_CUPTI_PATH, 1);
	setenv("MOESCOPE_NVML", FAKE_NVML_PATH, 1);
	setenv("MOESCOPE_CUDA", FAKE_CUDA_PATH, 1);
	setenv("MOESCOPE_BUDGET", "off", 0);
	library = dlopen(FAKE_CUPTI_PATH, RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
	cupti = dlsym(library, "fake_cupti");
	library = dlopen(FAKE_NVML_PATH, RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
	nvml = dlsym(library, "fake_nvml");
	library = dlopen(FAKE_CUDA_PATH, RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
	cuda = dlsym(library, "fake_cuda");
	CHECK(cupti && nvml && cuda);
}

__attribute__((constructor)) static void scenarios_use_fakes(void)
{
	prepare = use_fakes;
}

/* What the CUDA driver does at the first CUDA call of a process. */
static inline void driver_injects(void)
{
	void *symbol = dlsym(RTLD_DEFAULT, "InitializeInjection");
	int (*initialize)(void);

	CHECK(symbol);
	memcpy(&initialize, &symbol, sizeof(initialize));
	CHECK(initialize() == 1);
}

static inline void start_in(const char *run, enum moescope_level level)
{
	struct moescope_options options = { .struct_size = sizeof(options), .level = level };

	CHECK(moescope_start_with(run, &options) == 0);
	driver_injects();
}

static inline void start_at(enum moescope_level level)
{
	start_in("run.mscope", level);
}

static inline const char *fact_of(const struct run *run, const char *key)
{
	for (size_t i = 0; i < run->fact.n; i++)
		if (!strcmp(run_string(run, run->fact.key[i]), key))
			return run_string(run, run->fact.value[i]);
	return NULL;
}

/* One of several facts of the same key. */
static inline bool fact_tells(const struct run *run, const char *key, const char *words)
{
	for (size_t i = 0; i < run->fact.n; i++)
		if (!strcmp(run_string(run, run->fact.key[i]), key) &&
		    strstr(run_string(run, run->fact.value[i]), words))
			return true;
	return false;
}

/* A kernel of 100 ns that ran a moment ago. */
static inline struct fake_record kernel_record(const char *name, uint32_t correlation)
{
	uint64_t now = cupti->now();

	return (struct fake_record){ .kernel = { .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
						 .start = now - 1000,
						 .end = now - 900,
						 .gridX = 1,
						 .gridY = 1,
						 .gridZ = 1,
						 .blockX = 32,
						 .blockY = 1,
						 .blockZ = 1,
						 .streamId = 7,
						 .correlationId = correlation,
						 .name = name } };
}

/* n kernels with correlations from `first` on, through worker `worker`. */
static inline void deliver_kernels(unsigned int worker, uint32_t first, uint32_t n)
{
	struct fake_record records[64];

	while (n) {
		uint32_t part = n < 64 ? n : 64;

		for (uint32_t i = 0; i < part; i++)
			records[i] = kernel_record("some_kernel", first + i);
		cupti->deliver(worker, records, part, 0);
		first += part;
		n -= part;
	}
}

/* The run has kernels with the correlations 1..n, each once, all launched as "some_kernel". */
static inline void assert_kernels(const struct run *run, size_t n)
{
	unsigned char *seen = calloc(n + 1, 1);

	assert_non_null(seen);
	assert_int_equal(run->kernel.n, n);
	for (size_t i = 0; i < n; i++) {
		struct row_launch launch = run_launch(run, run->kernel.launch[i]);

		assert_in_range(run->kernel.correlation[i], 1, n);
		assert_int_equal(seen[run->kernel.correlation[i]]++, 0);
		assert_string_equal(run_string(run, launch.name), "some_kernel");
		assert_int_equal(launch.block_x, 32);
	}
	assert_int_equal(run->loss.bad_references, 0);
	free(seen);
}

#endif
