/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions of --fail-if; see compare_conditions.h.
 */
#include "compare/compare_conditions.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	enum figure_unit figure;
	const char *name;
	double factor;
} units[] = {
	{ FIGURE_NS, "ns", 1 },	     { FIGURE_NS, "us", 1e3 },	  { FIGURE_NS, "ms", 1e6 },
	{ FIGURE_NS, "s", 1e9 },     { FIGURE_BYTES, "B", 1 },	  { FIGURE_BYTES, "kB", 1e3 },
	{ FIGURE_BYTES, "MB", 1e6 }, { FIGURE_BYTES, "GB", 1e9 }, { FIGURE_BYTES, "TB", 1e12 },
	{ FIGURE_RATE, "/s", 1 },    { FIGURE_RATE, "k/s", 1e3 }, { FIGURE_RATE, "M/s", 1e6 },
	{ FIGURE_COUNT, "", 1 },     { FIGURE_PCT, "", 1 },	  { FIGURE_RATIO, "", 1 },
};

static int unknown_metric(const char *text, struct err *err)
{
	char names[512] = "";

	for (int i = 0; i < COMPARE_METRICS; i++) {
		size_t used = strlen(names);

		snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
			 compare_metrics[i].name);
	}
	return err_set(err, -EINVAL, "no metric begins the condition '%s'; the metrics are %s.",
		       text, names);
}

static int wrong_unit(const struct condition *c, const char *unit, struct err *err)
{
	char names[80] = "%";

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t used = strlen(names);

		if (units[i].figure == compare_metrics[c->metric].unit)
			snprintf(names + used, sizeof(names) - used, ", %s",
				 *units[i].name ? units[i].name : "or nothing");
	}
	return err_set(err, -EINVAL,
		       "'%s' has no unit '%s' in the condition '%s'; it is one of %s.",
		       compare_metrics[c->metric].name, unit, c->text, names);
}

static int parse_unit(struct condition *c, const char *unit, struct err *err)
{
	if (!strcmp(unit, "%")) {
		c->relative = true;
		return 0;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (units[i].figure != compare_metrics[c->metric].unit ||
		    strcmp(units[i].name, unit) != 0)
			continue;
		c->value *= units[i].factor;
		return 0;
	}
	return wrong_unit(c, unit, err);
}

static const char *skip_spaces(const char *at)
{
	while (isspace((unsigned char)*at))
		at++;
	return at;
}

static const char *parse_op(const char *at, enum condition_op *ret_op)
{
	bool equal = at[0] && at[1] == '=';

	if (*at != '<' && *at != '>')
		return NULL;
	if (*at == '>')
		*ret_op = equal ? CONDITION_GE : CONDITION_GT;
	else
		*ret_op = equal ? CONDITION_LE : CONDITION_LT;
	return skip_spaces(at + 1 + equal);
}

int condition_parse(const char *text, struct condition *ret_condition, struct err *err)
{
	struct condition c = { .text = text };
	const char *begin = skip_spaces(text), *at = begin, *close;
	char unit[16];
	size_t length;
	char *end;
	int metric;

	while (isalnum((unsigned char)*at) || *at == '_')
		at++;
	metric = compare_metric_find(begin, (size_t)(at - begin));
	if (metric < 0)
		return unknown_metric(text, err);
	c.metric = (enum compare_metric_id)metric;
	if (*at == '[') {
		close = strchr(at, ']');
		if (!close || close == at + 1 || (size_t)(close - at) > sizeof(c.of))
			return err_set(err, -EINVAL,
				       "'[' needs the name of a row and ']' in the condition '%s'.",
				       text);
		memcpy(c.of, at + 1, (size_t)(close - at - 1));
		at = close + 1;
	}
	at = parse_op(skip_spaces(at), &c.op);
	if (!at)
		return err_set(err, -EINVAL,
			       "the condition '%s' needs >, >=, < or <= after the metric, as in "
			       "'step_time > 5%%'.",
			       text);
	c.value = strtod(at, &end);
	if (end == at || !isfinite(c.value))
		return err_set(err, -EINVAL,
			       "the condition '%s' needs a number, as in 'step_time > 5%%'.", text);
	at = skip_spaces(end);
	length = strlen(at);
	while (length && isspace((unsigned char)at[length - 1]))
		length--;
	snprintf(unit, sizeof(unit), "%.*s", (int)(length < 15 ? length : 15), at);
	if (parse_unit(&c, unit, err) < 0)
		return -EINVAL;
	*ret_condition = c;
	return 0;
}

static bool holds(enum condition_op op, double x, double limit)
{
	switch (op) {
	case CONDITION_GT:
		return x > limit;
	case CONDITION_GE:
		return x >= limit;
	case CONDITION_LT:
		return x < limit;
	case CONDITION_LE:
		break;
	}
	return x <= limit;
}

/* The edge of what is compared that lies nearest to not holding. */
static struct value near_edge(const struct condition *c, const struct difference *d)
{
	bool upwards = c->op == CONDITION_GT || c->op == CONDITION_GE;
	bool one = compare_metrics[c->metric].statistic == FIGURE_ONE && !d->by_runs;
	struct value edge;

	if (!c->relative)
		return one ? d->b : upwards ? d->b_low : d->b_high;
	/* Without a baseline above 0 there is no percentage; no change is none of any. */
	if (d->diff.known && d->diff.v == 0)
		return value_of(0);
	if (compare_metrics[c->metric].higher_is_better) {
		edge = one ? d->pct : upwards ? d->high_pct : d->low_pct;
		edge.v = -edge.v;
		return edge;
	}
	return one ? d->pct : upwards ? d->low_pct : d->high_pct;
}

static enum condition_result judge_figure(const struct condition *c,
					  const struct compare_figure *figure,
					  struct judgement *judgement)
{
	const struct difference *d = &figure->d;
	bool says_worse = c->relative && c->value >= 0 &&
			  (c->op == CONDITION_GT || c->op == CONDITION_GE);
	struct value edge = d->verdict == COMPARE_ABSENT ? d->diff : near_edge(c, d);

	judgement->figure = figure;
	judgement->near_edge = edge;
	judgement->reason = edge.reason;
	if (!edge.known)
		return CONDITION_UNKNOWN;
	/* Below the resolution, or not significant among the rows of its metric. */
	if (says_worse && (d->verdict == COMPARE_NOISE || d->verdict == COMPARE_SAME))
		return CONDITION_NOT;
	return holds(c->op, edge.v, c->value) ? CONDITION_HOLDS : CONDITION_NOT;
}

struct judgement condition_judge(const struct condition *condition, const struct compare_pair *pair)
{
	struct judgement result = { .result = CONDITION_UNKNOWN,
				    .reason = "no run has such a figure" };
	bool any = false;

	for (size_t i = 0; i < pair->n; i++) {
		const struct compare_figure *figure = &pair->figures[i];
		struct judgement one = { 0 };

		if (figure->metric != condition->metric ||
		    (condition->of[0] && strcmp(condition->of, figure->of) != 0))
			continue;
		one.result = judge_figure(condition, figure, &one);
		if (one.result == CONDITION_HOLDS)
			return one;
		/* One that cannot be judged outweighs those that do not hold. */
		if (!any || one.result == CONDITION_UNKNOWN)
			result = one;
		any = true;
	}
	return result;
}
