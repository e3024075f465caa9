/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope compare: runs, or groups of repeated runs, against the first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/results/compare_runs.h"
#include "cmd/results/table.h"
#include "cmd/terminal/output.h"
#include "documents/comparison.h"
#include "surfaces/sheets/sheet_print.h"

struct compare_values {
	struct table_values table; /* first: the shared options write into it */
	struct string_list groups, conditions;
};

static const struct option_desc own[] = {
	{ .name = "group",
	  .short_name = 'g',
	  .kind = OPTION_STRINGS,
	  .metavar = "GROUP",
	  .help = "repeated runs of one configuration as NAME=RUN,RUN,..., each a run or a "
		  "directory of runs; repeat for each group, the baseline first",
	  .offset = offsetof(struct compare_values, groups) },
	{ .name = "fail-if",
	  .short_name = 'f',
	  .kind = OPTION_STRINGS,
	  .metavar = "CONDITION",
	  .help = "exit with 1 if this holds beyond noise, as in 'step_time > 5%' (more than 5% "
		  "worse than the baseline) or 'step_time > 12ms'; may be repeated",
	  .offset = offsetof(struct compare_values, conditions) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 },
					      { table_step_options, 0 },
					      { table_row_options, 0 },
					      { table_page_options, 0 },
					      { table_format_options, 0 },
					      { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope compare a.mscope b.mscope", "b against a." },
	{ "moescope compare a.mscope b.mscope c.mscope",
	  "Two candidates against a, side by side." },
	{ "moescope compare -g old=a1,a2,a3 -g new=b1,b2,b3",
	  "Three runs of each, so that variation between runs counts as noise." },
	{ "moescope compare old/ new/ --fail-if 'step_time > 5%'",
	  "In CI: fail if steps are certainly more than 5% slower." },
	{ NULL, NULL },
};

static const struct compare_values defaults = { .table = TABLE_DEFAULTS };

/* Exit 1: a condition holds, or cannot be judged. A gate that lets pass what it could not see is
 * none. */
static int report_checks(const struct compare_check *checks, size_t n)
{
	int r = EXIT_OK;

	for (size_t i = 0; i < n; i++) {
		const struct compare_check *check = &checks[i];

		if (check->judgement.result == CONDITION_HOLDS)
			r = fail("the condition '%s' holds for '%s'.", check->condition->text,
				 check->pair->other->name);
		else if (check->judgement.result == CONDITION_UNKNOWN)
			r = fail("the condition '%s' cannot be judged for '%s': %s.",
				 check->condition->text, check->pair->other->name,
				 check->judgement.reason);
	}
	return r;
}

static int show(struct invocation *inv, const struct comparison *comparison,
		const struct condition *conditions)
{
	const struct compare_values *values = inv->values;
	struct view_options options = table_view_options(&values->table);
	size_t pairs = comparison->n_groups - 1, n = pairs * values->conditions.n;
	struct compare_check *checks = calloc(n + 1, sizeof(*checks));
	struct compared_choice choice;
	struct compared compared;
	struct err err = { "" };
	int r;

	if (!checks)
		return fail("no memory for the comparison.");
	for (size_t i = 0; i < n; i++) {
		checks[i].condition = &conditions[i / pairs];
		checks[i].pair = &comparison->pairs[i % pairs];
		checks[i].judgement = condition_judge(checks[i].condition, checks[i].pair);
	}
	choice = (struct compared_choice){ options.limit, options.sort };
	if (values->table.limit < 0 && !options.json && !options.csv)
		choice.limit = 20;
	r = compared_make(comparison, checks, n, &choice, &compared, &err);
	if (r >= 0) {
		r = sheet_print(&comparison_sheet, &compared, &options, inv->out->file, &err);
		compared_release(&compared);
	}
	if (r == -EINVAL)
		r = usage_error(inv->command, "%s", err.message);
	else if (r < 0)
		r = fail("%s", err.message[0] ? err.message : strerror(-r));
	else
		r = report_checks(checks, n);
	free(checks);
	return r;
}

static int load_runs(struct invocation *inv, struct compare_runs *runs)
{
	const struct compare_values *values = inv->values;
	int r = EXIT_OK;

	for (unsigned int i = 0; r == EXIT_OK && i < values->groups.n; i++)
		r = compare_runs_add_group(runs, inv->command, values->groups.v[i]);
	for (int i = 0; r == EXIT_OK && i < inv->n_args; i++)
		r = compare_runs_add(runs, inv->args[i]);
	return r == EXIT_OK ? compare_runs_level(runs) : r;
}

static int compare(struct invocation *inv, const struct condition *conditions)
{
	const struct compare_values *values = inv->values;
	struct compare_runs runs = { .sel = values->table.question.sel };
	struct comparison comparison;
	int r;

	r = load_runs(inv, &runs);
	if (r == EXIT_OK) {
		int code = compare_groups(runs.groups, runs.n, &comparison);

		if (code < 0) {
			r = fail("cannot compare the runs: %s.", strerror(-code));
		} else {
			r = show(inv, &comparison, conditions);
			comparison_release(&comparison);
		}
	}
	compare_runs_release(&runs);
	return r;
}

static int run_compare(struct invocation *inv)
{
	const struct compare_values *values = inv->values;
	struct condition conditions[STRINGS_MAX];
	struct err err = { "" };

	if (table_check_forms(inv, &values->table) != EXIT_OK)
		return EXIT_USAGE;
	if (values->groups.n && inv->n_args)
		return usage_error(inv->command,
				   "give runs as arguments or with '--group', not both.");
	if (values->groups.n + (unsigned int)inv->n_args < 2)
		return usage_error(inv->command, "'compare' needs at least two runs or groups.");
	for (unsigned int i = 0; i < values->conditions.n; i++)
		if (condition_parse(values->conditions.v[i], &conditions[i], &err) < 0)
			return usage_error(inv->command, "%s", err.message);
	return compare(inv, conditions);
}

const struct command cmd_compare = {
	.name = "compare",
	.purpose = PURPOSE_COMPARE,
	.summary = "runs or groups of runs side by side, noise told from change",
	.words = "[RUN]...",
	.description =
		"Compares each run with the first: step time, tokens per second, phases, device "
		"time and idle time by cause, memory, routing, latencies, and kernels and "
		"operations by name. Each difference has a 95% interval and a test, so noise is "
		"called noise. Differences between the runs themselves are listed first. RUN is "
		"a run, or a directory of repeated runs, which form one group.",
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct compare_values),
	.max_args = -1,
	.completion = COMPLETE_RUN,
	.run = run_compare,
};
