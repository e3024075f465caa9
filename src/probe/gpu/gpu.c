/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU collection: when it starts and stops, and its own thread, which makes CUPTI deliver and reads
 * NVML. See gpu.h for the threads.
 */
#include "probe/gpu/gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/wake.h"
#include "probe/core/device_rows.h"
#include "probe/gpu/gears.h"
#include "probe/core/floors.h"
#include "probe/core/probe.h"

#define SAMPLE_NS INT64_C(100000000)
#define NO_THREAD "cannot start a thread; raise the limit (ulimit -u)"

PROBE_LOCK(lock);
static pthread_t thread;
static struct wake stop;
static bool running, have_cupti, have_nvml;
static bool cuda_used, cuda_lost; /* in this process; in the one it was forked from */
static _Atomic bool process_ends;

static void *gpu_thread(void *arg)
{
	int64_t sampled_ns = 0, now_ns;
	unsigned int wait_ms;

	(void)arg;
	life_thread_begins("moescope-gpu");
	probe_attach_large();
	if (have_nvml)
		nvml_describe();
	do {
		now_ns = clock_monotonic_ns();
		if (have_nvml && now_ns - sampled_ns >= SAMPLE_NS) {
			sampled_ns = now_ns;
			nvml_sample();
		}
		wait_ms = have_cupti ? gears_tick() : (unsigned int)(SAMPLE_NS / 1000000);
	} while (!wake_wait(&stop, (int)wait_ms));
	if (have_nvml)
		nvml_end();
	life_thread_ends();
	return NULL;
}

static void start_thread(void)
{
	stop = (struct wake){ 0 };
	running = life_thread_create(&thread, gpu_thread, NULL) == 0;
}

void gpu_start(void)
{
	uint32_t level = GATE_SESSION(gate_load());
	/* By src/exact, which then has CUPTI. Beside NVML's readings in the same process PyTorch has been seen to
	 * wait for ever. */
	bool counted = getenv("MOESCOPE_EXACT") != NULL;
	char words[256];

	pthread_mutex_lock(&lock);
	cuda_used |= !cuda_lost;
	if (cuda_lost && level) {
		/* In such a child CUPTI has been seen to hang. */
		moescope_info("GPU", "GPU collection off: CUDA does not work after a fork; let "
				     "the child exec or spawn a new program");
	} else if (!running && level) {
		have_nvml = !counted && nvml_open(words, sizeof(words)) == 0;
		if (!have_nvml && !counted)
			moescope_info("NVML", words);
		if (counted)
			snprintf(words, sizeof(words),
				 "kernels are counted, not timed ('run --counters')");
		else if (level >= MOESCOPE_TRACE)
			have_cupti = gears_start(level >= MOESCOPE_FULL, words, sizeof(words)) == 0;
		if (have_cupti || have_nvml) {
			gpu_watch_exit();
			start_thread();
		}
		if (!running && have_nvml)
			moescope_info("NVML", "device metrics off: " NO_THREAD);
		if (!running && have_cupti) { /* nobody would ever flush */
			gears_stop(false);
			snprintf(words, sizeof(words), "GPU collection off: " NO_THREAD);
		}
		if (level >= MOESCOPE_TRACE)
			moescope_info("GPU", words);
		if (!running)
			have_cupti = have_nvml = false;
	}
	pthread_mutex_unlock(&lock);
}

static void gpu_join(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (!cuda)
		return; /* the driver will call InitializeInjection, if configured to */
	dlclose(cuda);
	gpu_start();
}

static void gpu_stop(void)
{
	pthread_mutex_lock(&lock);
	if (running) {
		wake_up(&stop);
		pthread_join(thread, NULL);
		if (have_cupti)
			gears_stop(atomic_load(&process_ends));
		running = have_cupti = have_nvml = false;
	}
	pthread_mutex_unlock(&lock);
}

static void at_exit(void)
{
	atomic_store(&process_ends, true);
	moescope_stop();
	/* Even without a session: a stopped one may have left detaching to a later call. */
	if (probe_control_begin()) {
		gears_process_ends();
		probe_control_end();
	}
}

void gpu_watch_exit(void)
{
	atexit(at_exit);
}

static void gpu_after_fork(void)
{
	/* CUDA does not survive a fork: nothing here may be called in the child. */
	cuda_lost |= cuda_used;
	running = have_cupti = have_nvml = false;
	gears_after_fork();
}

PROBE_FLOOR(gpu_floor) = {
	.level = FLOOR_GPU,
	.joins = gpu_join,
	.stops = gpu_stop,
	.after_fork = gpu_after_fork,
	.wants = gears_want,
	.step = gears_step,
};
