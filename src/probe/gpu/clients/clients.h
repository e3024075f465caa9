/* SPDX-License-Identifier: Apache-2.0
 *
 * Other CUPTI clients in the process (torch.profiler, Triton Proton, anything that calls libcupti):
 * when one comes and when it has gone, so that the probe yields and resumes.
 *
 * CUPTI has one subscriber and one pair of buffer callbacks in a process; a second client takes them
 * over in silence and both lose their records. So the other's calls are redirected to wrappers here
 * (imports.h), which let the probe detach before the first of them is carried out. All others
 * together count as one client.
 *
 * Threads: wrappers run on the other's threads, hooks as said below. Nothing here holds a lock
 * while it calls a hook or CUPTI. After a fork the child's wrappers only pass on.
 */
#ifndef PROBE_GPU_CLIENTS_CLIENTS_H
#define PROBE_GPU_CLIENTS_CLIENTS_H

#include <cupti.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clients_hooks {
	/* The other is about to use CUPTI: detach (disable, flush, unsubscribe, with functions of
	 * CUPTI looked up before clients_watch or by this library). On the other's thread, before
	 * its call goes on; it may be inside dlopen or a CUDA call, so take no lock under which
	 * another thread of ours opens a library. */
	void (*arrives)(const char *name);
	/* It is done: attach again. On the thread that calls clients_settle. */
	void (*leaves)(void);
	/* Whether kinds are on that the probe has enabled. Any thread, no lock. */
	bool (*records)(void);
	/* The probe's own completion callback, for a buffer of the probe's that CUPTI returns
	 * only when the other's callbacks are in place. */
	CUpti_BuffersCallbackCompleteFunc completed;
};

/* Redirects the calls; again: also those of modules that were missed while they were being loaded.
 * `with` must stay valid for ever. 0 or -errno: -ECANCELED when MOESCOPE_SHARE=off forbids it,
 * -ENOTSUP on an architecture without rules, -ENOENT without the functions in the library. */
int clients_watch(void *libcupti, const struct clients_hooks *with);
/* No hook is called any more, and the calls are put back, unless the other holds something: then
 * they stay, so that the next session knows (ask clients_active after clients_watch). Clients that
 * keep addresses from dlsym still come through here, and are passed on. */
void clients_unwatch(void);
/* Calls leaves() when the other has disabled all that it enabled, CUPTI holds none of its buffers,
 * and it has been quiet for half a second. To be called a few times a second. */
void clients_settle(int64_t now_ns);
void clients_after_fork(void);

/* Between arrives() and leaves(). */
bool clients_active(void);
/* The other is idle but still subscribed (torch.profiler never unsubscribes): the probe can record
 * activity, but it can neither subscribe nor may it call cuptiFinalize, which would leave the other
 * with a dead handle. */
bool clients_hold_subscription(void);
/* Another has called CUPTI since it was last finalised. */
bool clients_were_here(void);
/* The clock that the other has given to CUPTI for all records, ours too (torch.profiler gives the
 * processor's counter, not nanoseconds), or NULL: CUPTI's own. It stays when the other leaves. */
CUpti_TimestampCallbackFunc clients_clock(void);
/* The probe has called cuptiFinalize: what the other had registered is gone as well. */
void clients_after_finalize(void);

/* First thing in the probe's completion callback: true when the buffer was the other's (left from
 * before the probe resumed); it has been handed to it. */
bool clients_deliver(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
		     size_t valid);

/* Who holds the subscription after CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED; the probe must
 * hold none. 0, or -ENOENT with "another profiler". */
int clients_name_holder(char *name, size_t size);

#endif
