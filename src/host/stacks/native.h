/* SPDX-License-Identifier: Apache-2.0
 *
 * Native stacks of another process, taken by the kernel while its threads are on a CPU
 * (perf_event_open). Nothing runs in that process and nothing stops it. Callchains follow frame
 * pointers: code built without them ends a chain or leaves callers out. So does an optimised leaf function,
 * which has no frame even with -fno-omit-frame-pointer: its direct caller is missing. One thread.
 */
#ifndef HOST_STACKS_NATIVE_H
#define HOST_STACKS_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum native_moment {
	NATIVE_RUNS, /* by the clock, in the middle of something */
	NATIVE_LEFT, /* it left its CPU */
};

struct native_sample {
	int64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t pid, thread;
	enum native_moment moment;
	/* Leaf first, user space only. All but the first are return addresses: the call itself is at
	 * ip - 1, which matters for a call at a function's very end. */
	const uint64_t *ips;
	size_t n;
	const uint64_t *registers; /* as unwind_take wants them; NULL: none */
};
struct native;

/* Follows the threads of a process, and the threads and processes that these start from now on.
 * hz: samples a second of CPU time of each thread.
 *
 * 0, or -errno with the reason in `why` and what the user can do about it. On success `why` is empty, or
 * says which threads are not followed. Needs a file descriptor per thread and CPU: the limit on open files is
 * raised as far as the system allows when it is in the way, and set back by native_close. */
int native_open(struct native **ret, pid_t pid, unsigned int hz, char *why, size_t size);

/* Hands over what has come since; the samples are valid during the call only. In the order of time for
 * each CPU, not across CPUs. */
typedef void native_fn(void *arg, const struct native_sample *sample);
void native_drain(struct native *n, native_fn *fn, void *arg);
/* Only what came from this CPU. */
void native_drain_cpu(struct native *n, int cpu, native_fn *fn, void *arg);

/* Whether there are samples of all threads that leave their CPU: users without CAP_PERFMON get none where
 * kernel.perf_event_paranoid is above 1. */
bool native_has_leaves(const struct native *n);
/* Since when there is one for each time that a thread left its CPU; INT64_MAX: there is not. They have pauses where
 * threads do that too often for it to cost nothing. To be asked now and then, after native_drain. */
int64_t native_leaves_since(struct native *n, int64_t now_ns);

/* Samples that the kernel dropped because nobody drained, told so far. */
uint64_t native_lost(const struct native *n);
void native_close(struct native *n);

#endif
