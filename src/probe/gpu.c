/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU collection: when it starts and stops, and its own thread, which has CUPTI hand over what it
 * holds and reads NVML. See gpu.h for the threads.
 */
#include "probe/gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/gears.h"
#include "probe/probe.h"
#include "probe/recorder.h"

#define SAMPLE_NS INT64_C(100000000)
#define NO_THREAD "no thread or descriptor to be had; raise the limits (ulimit -u, ulimit -n)"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t thread;
static int stop_fd = -1;
static bool running, have_cupti, have_nvml;
static bool cuda_used, cuda_lost; /* in this process; in the one that it was forked from */
static _Atomic bool process_ends;
__thread bool gpu_on_program_thread;
_Atomic uint64_t gpu_dropped, gpu_unknown;

void gpu_lost(uint64_t dropped, uint64_t unknown)
{
	atomic_fetch_add(&gpu_dropped, dropped);
	atomic_fetch_add(&gpu_unknown, unknown);
}

void gpu_push(enum record_kind kind, const void *row, size_t row_size)
{
	gpu_push_lists(kind, row, row_size, NULL, 0);
}

void gpu_push_lists(enum record_kind kind, const void *row, size_t row_size,
		    const struct probe_list *lists, int n_lists)
{
	size_t bytes = (sizeof(struct ring_record) + row_size + 7) & ~(size_t)7;
	struct ring *ring = probe_ring();
	struct ring_record *record;
	char *to;

	if (!ring)
		return;
	for (int i = 0; i < n_lists; i++)
		bytes += (lists[i].bytes + 7) & ~(size_t)7;
	if (bytes > ring->size / 4 || bytes / 8 > UINT16_MAX) {
		ring_drop(ring, DROP_TOO_LARGE);
		return;
	}
	/* Twice: at the end of the ring a record may have to skip almost its own size. */
	if (!gpu_on_program_thread && ring->head + 2 * bytes > ring->limit)
		probe_wait_for_room(ring, (uint32_t)bytes);
	record = ring_reserve(ring, (uint32_t)bytes);
	if (!record)
		return;
	*record = (struct ring_record){ .words = (uint16_t)(bytes / 8),
					.kind = (uint8_t)kind,
					.depth = RING_TIMES_NS };
	to = (char *)(record + 1);
	memcpy(to, row, row_size);
	to += row_size;
	for (int i = 0; i < n_lists; i++) {
		if (lists[i].bytes)
			memcpy(to, lists[i].data, lists[i].bytes);
		to += (lists[i].bytes + 7) & ~(size_t)7;
	}
	ring_commit(ring, (uint32_t)bytes);
}

static void *gpu_thread(void *arg)
{
	struct pollfd stop = { .fd = stop_fd, .events = POLLIN };
	int64_t sampled_ns = 0, now_ns;
	unsigned int wait_ms;

	(void)arg;
	pthread_setname_np(pthread_self(), "moescope-gpu");
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
	} while (poll(&stop, 1, (int)wait_ms) == 0);
	if (have_nvml)
		nvml_end();
	return NULL;
}

static void start_thread(void)
{
	sigset_t all, before;

	stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	running = stop_fd >= 0 && pthread_create(&thread, NULL, gpu_thread, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!running && stop_fd >= 0) {
		close(stop_fd);
		stop_fd = -1;
	}
}

void gpu_start(void)
{
	uint32_t level = GATE_SESSION(gate_load());
	char words[256];

	pthread_mutex_lock(&lock);
	cuda_used |= !cuda_lost;
	if (cuda_lost && level) {
		/* And what CUPTI does in such a child has been seen to hang. */
		moescope_info("GPU", "GPU collection off: CUDA does not survive a fork; let the "
				     "child start a program of its own (exec, spawn)");
	} else if (!running && level) {
		/* What the session before has lost is in its own shard. */
		atomic_store(&gpu_dropped, 0);
		atomic_store(&gpu_unknown, 0);
		have_nvml = nvml_open(words, sizeof(words)) == 0;
		if (!have_nvml)
			moescope_info("NVML", words);
		if (level >= MOESCOPE_TRACE)
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

void gpu_join(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (!cuda)
		return; /* the driver will call InitializeInjection, if it was told to */
	dlclose(cuda);
	gpu_start();
}

void gpu_stop(void)
{
	uint64_t one = 1;

	recorders_flush();
	pthread_mutex_lock(&lock);
	if (running) {
		ssize_t n = write(stop_fd, &one, sizeof(one));

		(void)n; /* an eventfd of ours with room */
		pthread_join(thread, NULL);
		close(stop_fd);
		stop_fd = -1;
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
	/* Without a session, too: one that has stopped may have left detaching to a later call. */
	gears_process_ends();
}

void gpu_watch_exit(void)
{
	atexit(at_exit);
}

void gpu_after_fork(void)
{
	/* CUDA does not survive a fork: nothing here may be called in the child. */
	recorders_after_fork();
	pthread_mutex_init(&lock, NULL);
	cuda_lost |= cuda_used;
	running = have_cupti = have_nvml = false;
	gears_after_fork();
	if (stop_fd >= 0)
		close(stop_fd);
	stop_fd = -1;
}
