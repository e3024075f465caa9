/* SPDX-License-Identifier: Apache-2.0
 *
 * Other CUPTI clients in the process (torch.profiler, Triton Proton, anything that calls libcupti):
 * when one arrives and when it has left, so that the probe yields and resumes.
 *
 * CUPTI has one subscriber and one pair of buffer callbacks per process; a second client silently
 * takes them over and both lose their records. So the other's calls are redirected to wrappers here
 * (imports.h), which let the probe detach before the first of them proceeds. All others together
 * count as one client.
 *
 * Threads: wrappers run on the other's threads, hooks as described below. Nothing here holds a lock
 * while it calls a hook or CUPTI. After a fork the child's wrappers only pass calls on.
 */
#ifndef PROBE_GPU_CLIENTS_CLIENTS_H
#define PROBE_GPU_CLIENTS_CLIENTS_H

#include <cupti.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clients_hooks {
	/* The other is about to use CUPTI: detach (disable, flush, unsubscribe, with CUPTI
	 * functions looked up before clients_watch or by this library). On the other's thread,
	 * before its call proceeds; it may be inside dlopen or a CUDA call, so take no lock under
	 * which another of our threads opens a library. */
	void (*arrives)(const char *name);
	/* It is done: attach again. On the thread that calls clients_settle. */
	void (*leaves)(void);
	/* Whether kinds that the probe enabled are on. Any thread, no lock. */
	bool (*records)(void);
	/* The probe's own completion callback, for a probe buffer that CUPTI returns only when the
	 * other's callbacks are in place. */
	CUpti_BuffersCallbackCompleteFunc completed;
};

/* Redirects the calls; called again, also those of modules missed while they were being loaded.
 * `with` must stay valid forever. 0 or -errno: -ECANCELED if MOESCOPE_SHARE=off forbids it,
 * -ENOTSUP on an unsupported architecture, -ENOENT if the library lacks the functions. */
int clients_watch(void *libcupti, const struct clients_hooks *with);
/* No hook is called any more, and the calls are restored, unless the other holds something: then
 * they stay, so that the next session knows (call clients_active after clients_watch). Clients that
 * keep addresses from dlsym still come through here, and are passed on. */
void clients_unwatch(void);
/* Calls leaves() when the other has disabled everything it enabled, CUPTI holds none of its
 * buffers, and it has been quiet for half a second. Call it a few times a second. */
void clients_settle(int64_t now_ns);
void clients_after_fork(void);

/* Between arrives() and leaves(). */
bool clients_active(void);
/* The other is idle but still subscribed (torch.profiler never unsubscribes): the probe can record
 * activity, but can neither subscribe nor call cuptiFinalize, which would leave the other with a
 * dead handle. */
bool clients_hold_subscription(void);
/* Another client has called CUPTI since it was last finalised. */
bool clients_were_here(void);
/* The clock that the other has set in CUPTI for all records, including ours (torch.profiler sets
 * the processor's counter, not nanoseconds), or NULL: CUPTI's own. It stays when the other
 * leaves. */
CUpti_TimestampCallbackFunc clients_clock(void);
/* The probe has called cuptiFinalize: the other's registrations are gone too. */
void clients_after_finalize(void);

/* Call it first in the probe's completion callback: true if the buffer was the other's (left from
 * before the probe resumed); it has been delivered. */
bool clients_deliver(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
		     size_t valid);

/* Who holds the subscription after CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED; the probe must
 * hold none. 0, or -ENOENT with "another profiler". */
int clients_name_holder(char *name, size_t size);

#endif
