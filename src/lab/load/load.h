/* SPDX-License-Identifier: Apache-2.0
 *
 * The load client: sends an experiment's requests to an OpenAI-compatible endpoint as its arrival
 * process says and timestamps every piece of every answer. One thread, one epoll.
 */
#ifndef LAB_LOAD_H
#define LAB_LOAD_H

#include "lab/serving/requests.h"
#include "lab/shared/experiment.h"

/* stop (may be NULL): set by a signal handler; requests in flight then end as cancelled. */
int load_run(const struct experiment *experiment, const volatile bool *stop,
	     struct requests *ret_requests, struct err *err);
/* Waits until GET path answers 200. -ETIMEDOUT, or -ECHILD if `alive` says no. */
int load_wait_ready(const char *url, const char *path, double timeout_s, bool (*alive)(void *),
		    void *arg, struct err *err);

#endif
