/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/compare: what 'moescope compare A B --json' prints. Any thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "documents/comparison.h"
#include "surfaces/http/routes.h"
#include "surfaces/sheets/sheet_print.h"

#define ROWS 100 /* of each table, unless `limit` says otherwise */

struct question_of_two {
	const struct routes *routes;
	const char *names[2]; /* the baseline first */
	struct view_options options;
};

static int take_run(const struct question_of_two *question, size_t i, bool whole,
		    struct run_digest *ret_digest, struct err *err)
{
	struct run_want want = { .kinds = DIGEST_KINDS };
	struct run *run;
	int r = routes_load(question->routes, question->names[i], &want, &run, err);

	if (r < 0)
		return r;
	r = whole ? digest_take_whole(run, ret_digest)
		  : digest_take(run, &question->options.question.sel, ret_digest);
	run_free(run);
	return r < 0 ? err_sys(err, r, "cannot analyse the run '%s'", question->names[i]) : 0;
}

struct levelling {
	const struct question_of_two *question;
	struct err *err;
};

static int take_whole(void *context, size_t g, size_t i, struct run_digest *ret_whole)
{
	const struct levelling *levelling = context;

	(void)i; /* a group is one run */
	return take_run(levelling->question, g, true, ret_whole, levelling->err);
}

static int print_groups(const struct question_of_two *question, struct compare_group *groups,
			FILE *out, struct err *err)
{
	struct compared_choice choice = { question->options.limit, question->options.sort };
	struct levelling levelling = { question, err };
	struct comparison comparison;
	struct compared compared;
	int r = compare_level(groups, 2, take_whole, &levelling);

	if (r < 0)
		return r;
	r = compare_groups(groups, 2, &comparison);
	if (r < 0)
		return err_sys(err, r, "cannot compare the runs");
	r = compared_make(&comparison, NULL, 0, &choice, &compared, err);
	if (r >= 0) {
		r = sheet_print(&comparison_sheet, &compared, &question->options, out, err);
		compared_release(&compared);
	}
	comparison_release(&comparison);
	return r;
}

static int print_comparison(const void *what, FILE *out, struct err *err)
{
	const struct question_of_two *question = what;
	struct run_digest digests[2];
	struct compare_group groups[] = {
		{ .name = question->names[0], .runs = &digests[0], .n = 1 },
		{ .name = question->names[1], .runs = &digests[1], .n = 1 }
	};
	size_t n = 0;
	int r = 0;

	while (r >= 0 && n < 2) {
		r = take_run(question, n, false, &digests[n], err);
		n += r >= 0;
	}
	if (r >= 0)
		r = print_groups(question, groups, out, err);
	while (n > 0)
		digest_release(&digests[--n]);
	return r;
}

static int take_parameters(const struct target *target, struct view_options *options,
			   struct err *err)
{
	const char *limit = target_value(target, "limit"), *steps = target_value(target, "steps");
	int r = 0;

	options->sort = target_value(target, "sort");
	if (limit)
		r = parameter_limit(limit, options, err);
	if (r >= 0 && steps)
		r = parameter_set(&ask_steps, steps, &options->question, err);
	return r;
}

static struct reply make_reply(const struct routes *routes, const struct target *target)
{
	struct question_of_two question = {
		.routes = routes,
		.names = { target_value(target, "a"), target_value(target, "b") },
		.options = { .json = true, .limit = ROWS, .question = QUESTION_ALL },
	};
	struct err err = { "" };
	int r;

	if (!question.names[0] || !question.names[1])
		return error_reply(400, "name two runs: 'a', the baseline, and 'b'.");
	r = take_parameters(target, &question.options, &err);
	return r < 0 ? failed_reply(r, &err)
		     : printed_reply(JSON_TYPE, print_comparison, &question);
}

static const struct http_parameter parameters[] = {
	{ "a", "the name of the baseline, a run of /api/runs", NULL },
	{ "b", "the name of the run that is compared with it", NULL },
	{ "limit", "at most so many rows of each table; 0: all", NULL },
	{ "sort", "the key of a row to sort the tables by", NULL },
	{ "steps", "only these steps: A, A:B, A: or :B", NULL },
	{ NULL, NULL, NULL },
};

const struct http_route route_compare = {
	.path = "/api/compare",
	.summary = "a run against another",
	.answer = "An object of the schema moescope/compare/1 (docs/json.md).",
	.parameters = parameters,
	.make = make_reply,
};
