/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a comparison; see comparison.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "documents/comparison.h"

/* Six digits of what is an estimate itself: more would be noise, and not the same on every machine. */
static struct cell rounded(const struct field_row *at)
{
	const struct value *value = (const void *)((const char *)at->item + at->field->offset);
	char text[32];

	if (!value->known)
		return cell_absent(value->reason);
	snprintf(text, sizeof(text), "%.6g", value->v);
	return cell_real(strtod(text, NULL));
}

#define ROUNDED(row_type, member) MEMBER(row_type, member), .read = rounded

/* The key of a table in a comparison, and its name in the key "table". */
#define KERNELS "kernels"
#define CLASSES "classes"
#define LAUNCH_RANGES "launch_ranges"
#define COLLECTIVES "collectives"
#define HOST "host"

static struct cell read_table(const struct field_row *at)
{
	static const char *const names[] = { [COMPARE_KERNELS] = KERNELS,
					     [COMPARE_CLASSES] = CLASSES,
					     [COMPARE_RANGES] = LAUNCH_RANGES,
					     [COMPARE_COLLECTIVES] = COLLECTIVES };
	const struct compared_row *row = at->item;

	if (row->figure)
		return cell_text("figures");
	if (row->table == COMPARE_HOST)
		return cell_text(row->row->is_op ? "operations" : "ranges");
	return cell_text(names[row->table]);
}

static struct cell read_metric(const struct field_row *at)
{
	const struct compared_row *row = at->item;

	if (row->figure)
		return cell_text(compare_metrics[row->figure->metric].name);
	return cell_text(row->table == COMPARE_HOST ? "self_time" : "kernel_time");
}

static struct cell name_of(const struct compare_figure *figure)
{
	return figure->of[0] ? cell_text(figure->of) : cell_absent("the whole run");
}

static struct cell read_of(const struct field_row *at)
{
	const struct compared_row *row = at->item;

	return row->figure ? name_of(row->figure) : cell_text(row->row->name);
}

static struct cell read_unit(const struct field_row *at)
{
	const struct compared_row *row = at->item;

	return cell_text(figure_unit_name(row->figure ? compare_metrics[row->figure->metric].unit
						      : FIGURE_NS));
}

static struct cell read_compared(const struct field_row *at)
{
	const struct compared_row *row = at->item;
	enum compare_metric_id metric = row->figure ? row->figure->metric : COMPARE_STEP_TIME;

	if (row->pair->whole || row->d->by_runs || compare_metrics[metric].statistic == FIGURE_ONE)
		return cell_text("runs");
	return cell_text(metric == COMPARE_TTFT || metric == COMPARE_TPOT ? "requests"
			 : metric == COMPARE_ITL			  ? "tokens"
									  : "steps");
}

static struct cell read_verdict(const struct field_row *at)
{
	const struct difference *d = at->item;

	return cell_text(compare_verdict_name(d->verdict));
}

static struct cell read_state(const struct field_row *at)
{
	const struct compare_row *row = at->item;

	return cell_text(row->is_new ? "new" : row->is_gone ? "gone" : "both");
}

static const char *no_row(const struct field_row *at)
{
	const struct compared_row *row = at->item;

	return row->row ? NULL : "of kernels and operations only";
}

static const void *group_of(const struct field_row *at)
{
	const struct compared_row *row = at->item;

	return row->pair->other;
}

static const void *difference_of(const struct field_row *at)
{
	const struct compared_row *row = at->item;

	return row->d;
}

static const void *row_of(const struct field_row *at)
{
	const struct compared_row *row = at->item;

	return row->row;
}

static const void *call_of(const struct field_row *at)
{
	const struct compared_row *row = at->item;

	return &row->row->call;
}

#define GROUP_NAME MEMBER(struct compare_group, name)
#define DIFFERENCE .from = difference_of
#define OF_ROW .optional = true, .absent = no_row, .from = row_of
#define OF_CALL .optional = true, .absent = no_row, .from = call_of
#define SAYS(words) .meaning = (words)

static const struct field row_fields[] = {
	{ "table", .unit = UNIT_TEXT, READ(TEXT, read_table),
	  SAYS("figures, kernels, classes, launch_ranges, collectives, operations or ranges") },
	{ "group", .unit = UNIT_TEXT, .from = group_of, GROUP_NAME,
	  SAYS("name of the group that is compared with the baseline") },
	{ "metric", .unit = UNIT_TEXT, READ(TEXT, read_metric),
	  SAYS("name of the figure, as in --fail-if") },
	{ "of", .unit = UNIT_TEXT, MAY_READ(TEXT, read_of), .optional = true,
	  SAYS("phase, cause, device, layer, kernel…; left out: the whole run") },
	{ "unit", .unit = UNIT_TEXT, READ(TEXT, read_unit),
	  SAYS("ns, bytes, per_s, %, count or ratio: of baseline, value, difference and visible") },
	{ "baseline", .unit = UNIT_RATIO, DIFFERENCE, MEMBER(struct difference, a),
	  SAYS("figure of the baseline") },
	{ "value", .unit = UNIT_RATIO, DIFFERENCE, MEMBER(struct difference, b),
	  SAYS("figure of the group") },
	{ "difference", .unit = UNIT_RATIO, DIFFERENCE, MEMBER(struct difference, diff),
	  SAYS("value - baseline") },
	{ "difference_low", .unit = UNIT_RATIO, DIFFERENCE, ROUNDED(struct difference, low),
	  SAYS("lower end of the 95% interval of difference") },
	{ "difference_high", .unit = UNIT_RATIO, DIFFERENCE, ROUNDED(struct difference, high),
	  SAYS("upper end of the 95% interval of difference") },
	{ "difference_pct", .unit = UNIT_PCT, DIFFERENCE, ROUNDED(struct difference, pct),
	  SAYS("100 difference / baseline") },
	{ "low_pct", .unit = UNIT_PCT, DIFFERENCE, ROUNDED(struct difference, low_pct),
	  SAYS("lower end of the 95% interval of difference_pct") },
	{ "high_pct", .unit = UNIT_PCT, DIFFERENCE, ROUNDED(struct difference, high_pct),
	  SAYS("upper end of the 95% interval of difference_pct") },
	{ "value_low", .unit = UNIT_RATIO, DIFFERENCE, ROUNDED(struct difference, b_low),
	  SAYS("lower end of the 95% interval of value") },
	{ "value_high", .unit = UNIT_RATIO, DIFFERENCE, ROUNDED(struct difference, b_high),
	  SAYS("upper end of the 95% interval of value") },
	{ "p", .unit = UNIT_RATIO, DIFFERENCE, ROUNDED(struct difference, p),
	  SAYS("probability of a difference as large by chance alone") },
	{ "p_adjusted", .unit = UNIT_RATIO, DIFFERENCE, ROUNDED(struct difference, p_adjusted),
	  SAYS("p, adjusted for the number of rows of the metric (Benjamini and Hochberg)") },
	{ "visible", .unit = UNIT_RATIO, DIFFERENCE, ROUNDED(struct difference, visible),
	  SAYS("the smallest difference found 4 times in 5") },
	{ "visible_pct", .unit = UNIT_PCT, DIFFERENCE, ROUNDED(struct difference, visible_pct),
	  SAYS("the same in percent of the baseline") },
	{ "compared", .unit = UNIT_TEXT, READ(TEXT, read_compared), .metric = NO_METRIC,
	  SAYS("what was counted: steps, runs, requests or tokens") },
	{ "n_baseline", .unit = UNIT_INT, DIFFERENCE, MEMBER(struct difference, n_a),
	  SAYS("how many of them the baseline has") },
	{ "n", .unit = UNIT_INT, DIFFERENCE, MEMBER(struct difference, n_b),
	  SAYS("how many of them the group has") },
	{ "verdict", .unit = UNIT_TEXT, DIFFERENCE, READ(TEXT, read_verdict),
	  SAYS("better, worse, noise, same, untested or absent") },
	{ "state", .unit = UNIT_TEXT, OF_ROW, READ(TEXT, read_state),
	  SAYS("of a kernel or operation: both, new or gone") },
	{ "count_baseline", .unit = UNIT_COUNT, OF_ROW, MEMBER(struct compare_row, count_a),
	  SAYS("executions in a step, or in a whole run, of the baseline") },
	{ "count", .unit = UNIT_COUNT, OF_ROW, MEMBER(struct compare_row, count_b),
	  SAYS("executions in a step, or in a whole run, of the group") },
	{ "explains_pct", .unit = UNIT_PCT, .absent = no_row, .from = row_of,
	  ROUNDED(struct compare_row, explains_pct),
	  SAYS("share of the difference of step_time_mean, of whole runs: of kernel_time") },
	{ "call_baseline_ns", .unit = UNIT_NS, OF_CALL, ROUNDED(struct difference, a),
	  SAYS("mean time of one execution in the baseline") },
	{ "call_ns", .unit = UNIT_NS, OF_CALL, ROUNDED(struct difference, b),
	  SAYS("mean time of one execution in the group") },
	{ "call_pct", .unit = UNIT_PCT, OF_CALL, ROUNDED(struct difference, pct),
	  SAYS("difference of call_ns from call_baseline_ns, over all executions") },
	{ "call_low_pct", .unit = UNIT_PCT, OF_CALL, ROUNDED(struct difference, low_pct),
	  SAYS("lower end of the 95% interval of call_pct") },
	{ "call_high_pct", .unit = UNIT_PCT, OF_CALL, ROUNDED(struct difference, high_pct),
	  SAYS("upper end of the 95% interval of call_pct") },
	{ "call_p", .unit = UNIT_RATIO, OF_CALL, ROUNDED(struct difference, p_adjusted),
	  SAYS("p_adjusted of call_pct") },
	{ "call_verdict", .unit = UNIT_TEXT, OF_CALL, READ(TEXT, read_verdict),
	  SAYS("verdict on call_pct") },
};

const struct field_set compared_table_rows = {
	FIELDS(row_fields),
	.rows = { { ITEMS(struct compared_table, rows, n) } },
	.levels = 1,
	PART("compare_row", "A figure on both sides."),
};

const struct field_set comparison_rows = {
	FIELDS(row_fields),
	.rows = { { ITEMS(struct compared, rows, n) } },
	.levels = 1,
	PART("compare_row", "A figure on both sides."),
};

static const struct field run_fields[] = {
	{ "name", .unit = UNIT_TEXT, MEMBER(struct run_digest, name), SAYS("name of the run") },
	{ "path", .unit = UNIT_TEXT, MEMBER(struct run_digest, path),
	  SAYS("its directory or file") },
	{ "steps", .unit = UNIT_COUNT, MEMBER(struct run_digest, steps),
	  SAYS("steps that are compared") },
	{ "warmup_steps", .unit = UNIT_COUNT, MEMBER(struct run_digest, warmup),
	  SAYS("steps left out at the beginning") },
	{ "unfinished_steps", .unit = UNIT_COUNT, MEMBER(struct run_digest, unfinished),
	  SAYS("steps left out: cut by the end of the process") },
	{ "partial_steps", .unit = UNIT_COUNT, MEMBER(struct run_digest, partial),
	  SAYS("steps left out: not on every rank") },
	{ "device_covered_steps", .unit = UNIT_COUNT, MEMBER(struct run_digest, covered),
	  SAYS("compared steps that device records cover") },
	{ "lost", .unit = UNIT_COUNT, MEMBER(struct run_digest, lost),
	  SAYS("records lost while recording") },
};

static const struct field_group runs = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(run_fields),
	.items = { ITEMS(struct compare_group, runs, n) },
	PART("compared_run", "A run of a group."),
};

static const struct field group_fields[] = {
	{ "name", .unit = UNIT_TEXT, GROUP_NAME, SAYS("name of the group") },
	{ "runs", .of = &runs, SAYS("repeated runs of it") },
};

static const struct field_group groups = {
	FIELD_LIST,
	FIELD_SPREAD_OUT,
	FIELDS(group_fields),
	.items = { ITEMS(struct comparison, groups, n_groups) },
	PART("compared_group", "Runs that are one side."),
};

static size_t group_count(const struct field_row *in)
{
	const struct comparison *comparison = in->in->item;

	return comparison->n_groups;
}

static const struct field fact_value = { .unit = UNIT_TEXT, .type = FIELD_TEXT };

static const struct field_group fact_values = {
	FIELD_ARRAY,
	FIELD_ON_ONE_LINE,
	.fields = &fact_value,
	.items = { .first = offsetof(struct compare_fact, values),
		   .size = sizeof(char *),
		   .count = group_count },
};

static const struct field fact_fields[] = {
	{ "fact", .unit = UNIT_TEXT, MEMBER(struct compare_fact, key), SAYS("what differs") },
	{ "doubtful", MEMBER(struct compare_fact, doubtful),
	  SAYS("it makes the comparison doubtful") },
	{ "values", .of = &fact_values, SAYS("its value in each group") },
};

static const struct field_group facts = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(fact_fields),
	.items = { ITEMS(struct comparison, facts, n_facts) },
	PART("differing_fact", "Something other than the program's speed that differs."),
};

static struct cell read_confidence(const struct field_row *at)
{
	(void)at;
	return cell_real(100 * (1 - COMPARE_ALPHA));
}

static struct cell read_resolution(const struct field_row *at)
{
	(void)at;
	return cell_real(COMPARE_RESOLUTION_PCT);
}

static const struct field_group rows = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	.table = &compared_table_rows,
};

static const void *base_of_pair(const struct field_row *at)
{
	const struct compared_pair *compared = at->item;

	return compared->pair->base;
}

static const void *group_of_pair(const struct field_row *at)
{
	const struct compared_pair *compared = at->item;

	return compared->pair->other;
}

static struct cell read_pair_compared(const struct field_row *at)
{
	const struct compared_pair *compared = at->item;

	return cell_text(compared->pair->whole ? "whole runs" : "steps");
}

static const char *no_table(const struct field_row *at)
{
	const struct compared_pair *compared = at->item;
	size_t offset = at->field->offset - offsetof(struct compared_pair, tables);

	return compared->pair->tables[offset / sizeof(compared->tables[0])].reason;
}

#define TABLE(which)                                                                               \
	.of = &rows, .absent = no_table, .offset = offsetof(struct compared_pair, tables[which])

static const struct field pair_fields[] = {
	{ "baseline", .unit = UNIT_TEXT, .from = base_of_pair, GROUP_NAME,
	  SAYS("name of the baseline") },
	{ "group", .unit = UNIT_TEXT, .from = group_of_pair, GROUP_NAME,
	  SAYS("name of the group") },
	{ "compared", .unit = UNIT_TEXT, READ(TEXT, read_pair_compared), .metric = NO_METRIC,
	  SAYS("what a figure is of: steps, or whole runs where one of them has no steps") },
	{ "figures", .of = &rows, .offset = offsetof(struct compared_pair, figures),
	  SAYS("figures of the runs") },
	{ KERNELS, TABLE(COMPARE_KERNELS), SAYS("by kernel: time of a step or run") },
	{ CLASSES, TABLE(COMPARE_CLASSES), SAYS("kernels by class") },
	{ LAUNCH_RANGES, TABLE(COMPARE_RANGES), SAYS("kernels by the ranges around their launch") },
	{ COLLECTIVES, TABLE(COMPARE_COLLECTIVES), SAYS("by collective") },
	{ HOST, TABLE(COMPARE_HOST), SAYS("by operation and range: self time of a step or run") },
};

static const struct field_group pairs = {
	FIELD_LIST,
	FIELD_SPREAD_OUT,
	FIELDS(pair_fields),
	.items = { ITEMS(struct compared, pairs, n_pairs) },
	PART("comparison", "A group against the baseline."),
};

static const void *condition_of(const struct field_row *at)
{
	const struct compare_check *check = at->item;

	return check->condition;
}

static const void *group_of_check(const struct field_row *at)
{
	const struct compare_check *check = at->item;

	return check->pair->other;
}

static struct cell read_result(const struct field_row *at)
{
	static const char *const names[] = { "holds", "not", "unknown" };
	const struct compare_check *check = at->item;

	return cell_text(names[check->judgement.result]);
}

static struct cell read_deciding(const struct field_row *at)
{
	const struct judgement *judgement = &((const struct compare_check *)at->item)->judgement;

	return judgement->figure ? name_of(judgement->figure) : cell_absent(judgement->reason);
}

static const char *no_edge(const struct field_row *at)
{
	const struct judgement *judgement = &((const struct compare_check *)at->item)->judgement;

	return judgement->near_edge.known ? NULL : judgement->reason;
}

static const struct field check_fields[] = {
	{ "condition", .unit = UNIT_TEXT, .from = condition_of, MEMBER(struct condition, text),
	  SAYS("the condition as given") },
	{ "group", .unit = UNIT_TEXT, .from = group_of_check, GROUP_NAME,
	  SAYS("group that it was held against") },
	{ "result", .unit = UNIT_TEXT, READ(TEXT, read_result), SAYS("holds, not or unknown") },
	{ "of", .unit = UNIT_TEXT, MAY_READ(TEXT, read_deciding),
	  SAYS("the row that decided; null: the whole run, or none") },
	{ "relative", .from = condition_of, MEMBER(struct condition, relative),
	  SAYS("the limit is in percent of the baseline") },
	{ "limit", .unit = UNIT_RATIO, .from = condition_of, MEMBER(struct condition, value),
	  SAYS("number in the condition") },
	{ "compared_value", .unit = UNIT_RATIO, .absent = no_edge,
	  ROUNDED(struct compare_check, judgement.near_edge),
	  SAYS("the end of the interval that was compared with the limit") },
};

static const struct field_group checks = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(check_fields),
	.items = { ITEMS(struct compared, checks, n_checks) },
	PART("condition", "A condition of --fail-if."),
};

static const void *comparison_of(const struct field_row *at)
{
	const struct compared *compared = at->item;

	return compared->comparison;
}

static const struct field fields[] = {
	{ "groups", .of = &groups, .from = comparison_of, SAYS("the first is the baseline") },
	{ "differ", .of = &facts, .from = comparison_of,
	  SAYS("what else differs between the groups") },
	{ "confidence_pct", .unit = UNIT_PCT, READ(REAL, read_confidence),
	  SAYS("of every interval") },
	{ "resolution_pct", .unit = UNIT_PCT, READ(REAL, read_resolution),
	  SAYS("smaller differences are called noise") },
	{ "comparisons", .of = &pairs, SAYS("one for each other group") },
	{ "conditions", .of = &checks, SAYS("results of --fail-if") },
};

const struct field_set comparison_fields = {
	FIELDS(fields),
	PART("compare", "runs, or groups of them, against a baseline"),
};
