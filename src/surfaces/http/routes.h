/* SPDX-License-Identifier: Apache-2.0
 *
 * What each target answers. Any thread.
 */
#ifndef SURFACES_HTTP_ROUTES_H
#define SURFACES_HTTP_ROUTES_H

#include "surfaces/http/http.h"
#include "surfaces/http/library.h"
#include "surfaces/http/parameters.h"
#include "surfaces/http/replies.h"
#include "surfaces/http/target.h"
#include "surfaces/http/timelines.h"

#define JSON_TYPE "application/json; charset=utf-8"

struct sql_desk;

struct routes {
	struct library library;
	const struct http_options *options;
	struct sql_desk *desk;
	struct timelines *timelines;
};

/* A route that is no view of a run. */
struct http_route {
	const char *path; /* as in OpenAPI: "/api/runs/{run}/sql" */
	const char *summary, *answer;
	const struct http_parameter *parameters; /* up to one without a name; others are refused */
	struct reply (*make)(const struct routes *routes, const struct target *target);
	/* What its answers depend on besides the files of the run; NULL: nothing. */
	uint64_t (*version)(const struct routes *routes, const struct target *target);
};

extern const struct http_route route_compare, route_sql, route_stacks;
extern const struct http_route route_lanes, route_boxes, route_sums, route_search, route_find;
/* All of them, up to NULL. */
extern const struct http_route *const http_routes[];

/* For reply_maker; context: struct routes, raw: the target as it came. */
struct reply routes_make(void *context, const char *raw);
uint64_t routes_signature(void *context, const char *raw, bool *ret_growing);

/* Whether the target is that of the metrics, and they are answered. */
bool routes_are_metrics(const struct routes *routes, const struct target *target);

/* {"error": "…"} */
struct reply error_reply(int status, const char *sentence);
/* The same for what went wrong: -errno, and a sentence where there is one. */
struct reply failed_reply(int r, const struct err *err);
/* What a function prints; it may fail after it has begun. */
typedef int print_function(const void *what, FILE *out, struct err *err);
struct reply printed_reply(const char *type, print_function *print, const void *what);

/* A run by its name. -ENOENT: there is none. */
int routes_load(const struct routes *routes, const char *name, const struct run_want *want,
		struct run **ret_run, struct err *err);

/* The path of the run whose changes a target follows, which the caller frees; NULL with *ret_status 0: it
 * follows none, else it cannot, and err says why. */
char *routes_followed(const struct routes *routes, const struct target *target, int *ret_status,
		      struct err *err);

#endif
