/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/runs/{run}/stacks: times by stack, for a flame graph. Any thread.
 */
#include <errno.h>
#include <string.h>

#include "exports/exports.h"
#include "surfaces/http/routes.h"

struct question_of_stacks {
	const struct routes *routes;
	const char *run;
	bool device;
};

static int print_stacks(const void *what, FILE *out, struct err *err)
{
	const struct question_of_stacks *question = what;
	struct run_want want = export_flame_want(question->device);
	struct run *run;
	int r = routes_load(question->routes, question->run, &want, &run, err);

	if (r < 0)
		return r;
	r = export_flame(run, question->device, out, err);
	run_free(run);
	return r;
}

static struct reply make_reply(const struct routes *routes, const struct target *target)
{
	const char *of = target_value(target, "of");
	struct question_of_stacks question = { routes, target->segments[2], false };

	question.device = of && !strcmp(of, "device");
	if (of && !question.device && strcmp(of, "host") != 0)
		return error_reply(400, "'of' is 'host' or 'device'.");
	return printed_reply(JSON_TYPE, print_stacks, &question);
}

static const struct http_parameter parameters[] = {
	{ "of", "whose time: host (the default) or device", NULL },
	{ NULL, NULL, NULL },
};

const struct http_route route_stacks = {
	.path = "/api/runs/{run}/stacks",
	.summary = "times of ranges, operations, calls and kernels by stack",
	.answer = "A tree; stacks below 0.1% of the time are added up in the one around them.",
	.parameters = parameters,
	.make = make_reply,
};
