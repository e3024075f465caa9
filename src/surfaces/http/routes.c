/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of routes, and the replies that views give; see routes.h.
 */
#include "surfaces/http/routes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_write.h"
#include "base/text/nearest.h"
#include "surfaces/http/openapi.h"
#include "surfaces/metrics/metrics.h"
#include "surfaces/views/views.h"
#include "trace/rundir.h"

#define ROWS 100 /* unless `limit` says otherwise */

const struct http_route *const http_routes[] = { &route_compare, &route_sql,   &route_stacks,
						 &route_lanes,	 &route_boxes, &route_sums,
						 &route_search,	 &route_find,  NULL };

struct reply error_reply(int status, const char *sentence)
{
	struct reply reply = { .status = status, .type = JSON_TYPE };
	struct json json;

	json_init_buffer(&json, 2);
	json_object(&json);
	json_key(&json, "error");
	json_string(&json, sentence);
	json_object_end(&json);
	if (json_finish(&json, &reply.body) == 0)
		reply.size = strlen(reply.body);
	return reply;
}

/* HTTP's status for what went wrong. */
static int status_of(int r)
{
	switch (r) {
	case -EINVAL:
	case -ETIME: /* for what was asked for; another time is as long */
		return 400;
	case -ENOENT:
		return 404;
	case -EPERM:
		return 403;
	case -ENOTSUP:
		return 501;
	case -ENOMEM:
	case -EBUSY:
		return 503;
	default:
		return 500;
	}
}

struct reply failed_reply(int r, const struct err *err)
{
	return error_reply(status_of(r), err->message[0] ? err->message : strerror(-r));
}

struct reply printed_reply(const char *type, print_function *print, const void *what)
{
	struct reply reply = { .status = 200, .type = type };
	struct err err = { "" };
	FILE *out = open_memstream(&reply.body, &reply.size);
	int r = out ? print(what, out, &err) : -ENOMEM;

	if (out && (fclose(out) != 0) && r == 0)
		r = -ENOMEM;
	if (r == 0)
		return reply;
	free(reply.body);
	return failed_reply(r, &err);
}

/* One whose run.json cannot be read says why. */
static void run_json(struct json *json, const struct library_run *run)
{
	struct rundir_info info;
	struct err err = { "" };
	int r = rundir_read(run->path, &info, &err);

	json_object(json);
	json_key(json, "name");
	json_string(json, run->name);
	json_key(json, "changed_realtime_ns");
	json_int(json, run->changed_ns);
	if (r < 0) {
		json_key(json, "error");
		json_string(json, err.message);
		json_object_end(json);
		return;
	}
	json_key(json, "command");
	json_string(json, info.command);
	json_key(json, "source");
	json_string(json, info.source);
	json_key(json, "status");
	json_string(json, info.status);
	json_key(json, "host");
	json_string(json, info.host);
	json_key(json, "started_realtime_ns");
	json_int(json, info.started_realtime_ns);
	json_key(json, "duration_ns");
	if (info.duration_known)
		json_int(json, info.duration_ns);
	else
		json_null(json);
	json_object_end(json);
	rundir_info_release(&info);
}

static int print_runs(const void *what, FILE *out, struct err *err)
{
	const struct routes *routes = what;
	struct library_runs runs;
	struct json json;
	int r = library_list(&routes->library, &runs);

	json_init_file(&json, out, 2);
	json_object(&json);
	json_key(&json, "schema");
	json_string(&json, "moescope/runs/1");
	json_key(&json, "rows");
	json_array(&json);
	for (size_t i = 0; i < runs.n; i++)
		run_json(&json, &runs.of[i]);
	json_array_end(&json);
	json_object_end(&json);
	library_runs_release(&runs);
	if (r < 0)
		return err_sys(err, r, "cannot list the runs");
	return json_finish(&json, NULL);
}

int routes_load(const struct routes *routes, const char *name, const struct run_want *want,
		struct run **ret_run, struct err *err)
{
	char *path = library_find(&routes->library, name, err);
	int r = path ? routes->options->load(path, want, ret_run, err) : -ENOENT;

	free(path);
	return r;
}

struct question_of_view {
	const struct section *section;
	struct view_options options;
	const struct routes *routes;
	const char *run_name;
};

static int print_view(const void *what, FILE *out, struct err *err)
{
	const struct question_of_view *question = what;
	struct run_want want = section_want(question->section, &question->options);
	struct run *run;
	int r = routes_load(question->routes, question->run_name, &want, &run, err);

	if (r < 0)
		return r;
	r = section_render(question->section, run, &question->options, out, err);
	run_free(run);
	return r;
}

static struct reply view_reply(const struct routes *routes, const struct target *target)
{
	struct question_of_view question = {
		.section = section_find(target->segments[3]),
		.routes = routes,
		.run_name = target->segments[2],
		.options = { .json = true, .limit = ROWS, .question = QUESTION_ALL },
	};
	struct err err = { "" };
	int r;

	if (!question.section)
		return error_reply(404, "there is no such view; /api/openapi.json lists them.");
	r = view_parameters_take(question.section, target, &question.options, &err);
	return r < 0 ? failed_reply(r, &err) : printed_reply(JSON_TYPE, print_view, &question);
}

/* Of the newest run: a monitoring system asks for what goes on now. */
static int print_metrics(const void *what, FILE *out, struct err *err)
{
	const struct routes *routes = what;
	struct run_want want = metrics_want();
	struct library_runs runs;
	struct run *run = NULL;
	int r = library_list(&routes->library, &runs);

	if (r < 0)
		err_sys(err, r, "cannot list the runs");
	else if (runs.n)
		r = routes->options->load(runs.of[0].path, &want, &run, err);
	library_runs_release(&runs);
	if (r == 0)
		r = metrics_print(run, out, err);
	run_free(run);
	return r;
}

static bool is_openapi(const struct target *target)
{
	return target->n_segments == 2 && !target->n_pairs && !strcmp(target->segments[0], "api") &&
	       !strcmp(target->segments[1], "openapi.json");
}

bool routes_are_metrics(const struct routes *routes, const struct target *target)
{
	return routes->options->metrics && target->n_segments == 1 && !target->n_pairs &&
	       !strcmp(target->segments[0], "metrics");
}

static bool is_api(const struct target *target, size_t n)
{
	return target->n_segments == n && !strcmp(target->segments[0], "api") &&
	       !strcmp(target->segments[1], "runs");
}

/* Whether a path of OpenAPI is that of the target. */
static bool fits(const char *path, const struct target *target)
{
	for (size_t i = 0; i < target->n_segments; i++) {
		size_t length = strcspn(++path, "/");

		if (*path != '{' && (strlen(target->segments[i]) != length ||
				     strncmp(path, target->segments[i], length) != 0))
			return false;
		path += length;
		if (!*path)
			return i + 1 == target->n_segments;
	}
	return false;
}

static const struct http_route *route_of(const struct target *target)
{
	for (size_t i = 0; http_routes[i]; i++)
		if (fits(http_routes[i]->path, target))
			return http_routes[i];
	return NULL;
}

static struct reply route_reply(const struct http_route *route, const struct routes *routes,
				const struct target *target)
{
	struct err err = { "" };

	for (size_t i = 0; i < target->n_pairs; i++) {
		const struct http_parameter *p = route->parameters;
		struct nearest nearest = nearest_to(target->pairs[i].key);

		for (; p->name && strcmp(p->name, target->pairs[i].key) != 0; p++)
			nearest_offer(&nearest, p->name);
		if (p->name)
			continue;
		if (nearest.best)
			err_set(&err, -EINVAL, "%s has no parameter '%s'; did you mean '%s'?",
				route->path, target->pairs[i].key, nearest.best);
		else
			err_set(&err, -EINVAL, "%s has no parameter '%s'.", route->path,
				target->pairs[i].key);
		return failed_reply(-EINVAL, &err);
	}
	return route->make(routes, target);
}

struct reply routes_make(void *context, const char *raw)
{
	const struct routes *routes = context;
	const struct http_route *route;
	struct target target;
	struct err err = { "" };

	if (target_parse(raw, &target, &err) < 0)
		return error_reply(400, err.message);
	route = route_of(&target);
	if (route)
		return route_reply(route, routes, &target);
	if (is_api(&target, 2) && !target.n_pairs)
		return printed_reply(JSON_TYPE, print_runs, routes);
	if (is_api(&target, 4))
		return view_reply(routes, &target);
	if (is_openapi(&target))
		return printed_reply(JSON_TYPE, openapi_print, routes->options);
	if (routes_are_metrics(routes, &target))
		return printed_reply(METRICS_TYPE, print_metrics, routes);
	return error_reply(
		404, "there is nothing at this address; /api/openapi.json lists what there is.");
}

static uint64_t signature_of_all(const struct routes *routes, bool *ret_growing)
{
	struct library_runs runs;
	uint64_t sum = 1;

	if (library_list(&routes->library, &runs) == 0)
		for (size_t i = 0; i < runs.n; i++)
			sum += library_signature(runs.of[i].path, ret_growing);
	library_runs_release(&runs);
	return sum;
}

/* 0: there is no such run. */
static uint64_t signature_of(const struct routes *routes, const char *name, bool *ret_growing)
{
	char *path = name ? library_find(&routes->library, name, NULL) : NULL;
	uint64_t signature = path ? library_signature(path, ret_growing) : 0;

	free(path);
	return signature;
}

uint64_t routes_signature(void *context, const char *raw, bool *ret_growing)
{
	const struct routes *routes = context;
	const struct http_route *route;
	struct target target;

	if (target_parse(raw, &target, NULL) < 0)
		return 0;
	route = route_of(&target);
	if (route == &route_compare)
		return signature_of(routes, target_value(&target, "a"), ret_growing) +
		       signature_of(routes, target_value(&target, "b"), ret_growing);
	if (!route && !is_api(&target, 4))
		return signature_of_all(routes, ret_growing);
	return signature_of(routes, target.segments[2], ret_growing) +
	       (route && route->version ? route->version(routes, &target) : 0);
}

char *routes_followed(const struct routes *routes, const struct target *target, int *ret_status,
		      struct err *err)
{
	char *path;

	*ret_status = 0;
	if (!is_api(target, 4) || strcmp(target->segments[3], "events") != 0)
		return NULL;
	path = library_find(&routes->library, target->segments[2], err);
	if (!path)
		*ret_status = 404;
	return path;
}
