/* SPDX-License-Identifier: Apache-2.0
 *
 * What each target answers. Any thread.
 */
#ifndef SURFACES_HTTP_ROUTES_H
#define SURFACES_HTTP_ROUTES_H

#include "surfaces/http/http.h"
#include "surfaces/http/library.h"
#include "surfaces/http/replies.h"
#include "surfaces/http/target.h"
#include "surfaces/http/timelines.h"

#define JSON_TYPE "application/json; charset=utf-8"

struct routes {
	struct library library;
	const struct http_options *options;
	struct timelines *timelines;
};

/* For reply_maker; context: struct routes, raw: the target as it came. */
struct reply routes_make(void *context, const char *raw);
uint64_t routes_signature(void *context, const char *raw, bool *ret_growing);

/* {"error": "…"} */
struct reply error_reply(int status, const char *sentence);
/* The same for a -errno, whose status of HTTP it has. */
struct reply failed_reply(int r, const struct err *err);

/* The path of the run whose changes a target follows, which the caller frees; NULL with *ret_status 0: it
 * follows none, else it cannot, and err says why. */
char *routes_followed(const struct routes *routes, const struct target *target, int *ret_status,
		      struct err *err);

#endif
