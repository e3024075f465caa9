/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of groups of runs against those of the first; see compare.h.
 */
#include "compare/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "subjects/numbers/stats.h"

const char *compare_verdict_name(enum compare_verdict verdict)
{
	static const char *const names[] = { "same",  "noise",	  "better",
					     "worse", "untested", "absent" };

	return names[verdict];
}

void difference_of_contrast(struct difference *d, const struct contrast *c)
{
	d->a = value_of(c->a);
	d->b = value_of(c->b);
	d->diff = value_of(c->diff);
	d->low = value_of(c->low);
	d->high = value_of(c->high);
	d->b_low = value_of(c->b_low);
	d->b_high = value_of(c->b_high);
	d->pct = c->pct;
	d->low_pct = c->low_pct;
	d->high_pct = c->high_pct;
	d->p = d->p_adjusted = c->p;
	d->visible = value_of(c->visible);
	d->visible_pct = c->a > 0 ? value_of(fmax(COMPARE_RESOLUTION_PCT, 100 * c->visible / c->a))
				  : c->pct;
}

void difference_untested(struct difference *d, double a, double b, const char *reason)
{
	d->a = value_of(a);
	d->b = value_of(b);
	d->diff = value_of(b - a);
	d->pct = a > 0 ? value_of(100 * (b - a) / a) : value_absent("the baseline is 0");
	d->low = d->high = d->low_pct = d->high_pct = d->b_low = d->b_high = d->p = d->p_adjusted =
		d->visible = d->visible_pct = value_absent(reason);
	d->verdict = COMPARE_UNTESTED;
}

struct difference difference_absent(const char *reason)
{
	struct value none = value_absent(reason);

	return (struct difference){
		none, none, none, none, none, none,  none, none, none,
		none, none, none, none, none, false, 0,	   0,	 COMPARE_ABSENT
	};
}

static enum compare_verdict judge_difference(const struct difference *d, bool higher_is_better)
{
	bool apart = d->low.v > 0 || d->high.v < 0;

	if (!d->p.known && d->diff.v == 0)
		return COMPARE_SAME;
	if (!apart || (d->p_adjusted.known && d->p_adjusted.v > COMPARE_ALPHA) ||
	    (d->pct.known && fabs(d->pct.v) <= COMPARE_RESOLUTION_PCT))
		return COMPARE_NOISE;
	return (d->diff.v > 0) == higher_is_better ? COMPARE_BETTER : COMPARE_WORSE;
}

int differences_judge(struct difference **differences, size_t n, bool higher_is_better)
{
	double *p = calloc(n + 1, sizeof(*p));
	size_t tested = 0;
	int r;

	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (differences[i]->p.known)
			p[tested++] = differences[i]->p.v;
	r = stats_adjust_p(p, tested);
	tested = 0;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct difference *d = differences[i];

		if (d->p.known)
			d->p_adjusted = value_of(p[tested++]);
		if (d->low.known)
			d->verdict = judge_difference(d, higher_is_better);
	}
	free(p);
	return r;
}

/* One figure of all runs of a group. */
struct sample {
	double *values; /* one a run that has it */
	size_t n_values;
	double *x; /* of all of them */
	size_t n;
	const char *reason; /* why there is none */
};

static const struct digest_figure *find_figure(const struct run_digest *run,
					       enum compare_metric_id metric, const char *of)
{
	for (size_t i = 0; i < run->n; i++)
		if (run->figures[i].metric == metric && (!of || !strcmp(run->figures[i].of, of)))
			return &run->figures[i];
	return NULL;
}

/* A phase or a cause of idle time that a run has not, but others of its sort, took no time. */
static bool absent_is_zero(enum compare_metric_id metric)
{
	return metric == COMPARE_PHASE_TIME || metric == COMPARE_IDLE_TIME;
}

static void add_run(struct sample *s, const struct run_digest *run, enum compare_metric_id metric,
		    const char *of)
{
	const struct digest_figure *f = find_figure(run, metric, of);

	if (f) {
		s->values[s->n_values++] = f->value.v;
		memcpy(s->x + s->n, f->x, f->n * sizeof(*f->x));
		s->n += f->n;
		return;
	}
	f = find_figure(run, metric, NULL);
	if (f && absent_is_zero(metric)) {
		s->values[s->n_values++] = 0;
		for (size_t i = 0; i < f->n; i++)
			s->x[s->n++] = 0;
	} else if (!s->reason) {
		s->reason = f ? "there is none of that name in the run" : run->missing[metric];
	}
}

static int gather_sample(const struct compare_group *group, enum compare_metric_id metric,
			 const char *of, struct sample *ret)
{
	struct sample s = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < group->n; i++)
		for (size_t j = 0; j < group->runs[i].n; j++)
			n += group->runs[i].figures[j].metric == metric
				     ? group->runs[i].figures[j].n
				     : 0;
	s.values = calloc(group->n, sizeof(*s.values));
	s.x = calloc(n + 1, sizeof(*s.x));
	if (!s.values || !s.x) {
		free(s.values);
		free(s.x);
		return -ENOMEM;
	}
	for (size_t i = 0; i < group->n; i++)
		add_run(&s, &group->runs[i], metric, of);
	*ret = s;
	return 0;
}

static double statistic(const struct sample *s, enum figure_statistic kind)
{
	/* The order is not needed any more. */
	return kind == FIGURE_MEDIAN ? stats_median(s->x, s->n) : stats_mean(s->x, s->n);
}

static int contrast(const struct sample *a, const struct sample *b, enum figure_statistic kind,
		    bool whole, struct difference *d)
{
	struct moments m_a, m_b;
	struct contrast c;
	int r = 0;

	d->by_runs = a->n_values >= COMPARE_RUNS_MIN && b->n_values >= COMPARE_RUNS_MIN;
	d->n_a = d->by_runs || kind == FIGURE_ONE ? a->n_values : a->n;
	d->n_b = d->by_runs || kind == FIGURE_ONE ? b->n_values : b->n;
	if (d->by_runs) {
		m_a = moments_of_runs(a->values, a->n_values);
		m_b = moments_of_runs(b->values, b->n_values);
		c = contrast_means(&m_a, &m_b);
	} else if (kind == FIGURE_ONE) {
		difference_untested(d, stats_mean(a->values, a->n_values),
				    stats_mean(b->values, b->n_values), COMPARE_WHOLE_UNTESTED);
		if (d->diff.v == 0)
			d->verdict = COMPARE_SAME;
		return 0;
	} else if (a->n < COMPARE_STEPS_MIN || b->n < COMPARE_STEPS_MIN) {
		difference_untested(d, statistic(a, kind), statistic(b, kind),
				    whole ? COMPARE_WHOLE_UNTESTED : COMPARE_FEW);
		if (whole && d->diff.v == 0)
			d->verdict = COMPARE_SAME;
		return 0;
	} else if (kind == FIGURE_MEDIAN) {
		r = contrast_medians(a->x, a->n, b->x, b->n, &c);
	} else {
		m_a = moments_of(a->x, a->n);
		m_b = moments_of(b->x, b->n);
		c = contrast_means(&m_a, &m_b);
	}
	if (r >= 0)
		difference_of_contrast(d, &c);
	return r;
}

static int compare_figure(const struct compare_pair *pair, struct compare_figure *figure)
{
	struct sample a, b;
	int r = gather_sample(pair->base, figure->metric, figure->of, &a);

	if (r < 0)
		return r;
	r = gather_sample(pair->other, figure->metric, figure->of, &b);
	if (r >= 0) {
		enum figure_statistic kind = compare_metrics[figure->metric].statistic;

		if (a.n_values && b.n_values) {
			r = contrast(&a, &b, kind, pair->whole, &figure->d);
		} else {
			figure->d = difference_absent(a.n_values ? b.reason : a.reason);
			if (a.n_values)
				figure->d.a = value_of(kind == FIGURE_ONE || a.n_values > 1
							       ? stats_mean(a.values, a.n_values)
							       : a.values[0]);
			if (b.n_values)
				figure->d.b = value_of(stats_mean(b.values, b.n_values));
		}
		free(b.values);
		free(b.x);
	}
	free(a.values);
	free(a.x);
	return r;
}

static bool is_listed(const struct compare_pair *pair, enum compare_metric_id metric,
		      const char *of)
{
	for (size_t i = pair->n; i-- > 0 && pair->figures[i].metric == metric;)
		if (!strcmp(pair->figures[i].of, of))
			return true;
	return false;
}

/* Every figure that a run of one of the groups has; one row without a figure for a metric that none
 * has is left out. */
static void list_figures(struct compare_pair *pair)
{
	const struct compare_group *groups[] = { pair->base, pair->other };

	for (int m = 0; m < COMPARE_METRICS; m++)
		for (size_t g = 0; g < 2; g++)
			for (size_t i = 0; i < groups[g]->n; i++) {
				const struct run_digest *run = &groups[g]->runs[i];

				for (size_t j = 0; j < run->n; j++)
					if ((int)run->figures[j].metric == m &&
					    !is_listed(pair, (enum compare_metric_id)m,
						       run->figures[j].of))
						pair->figures[pair->n++] = (struct compare_figure){
							.metric = (enum compare_metric_id)m,
							.of = run->figures[j].of
						};
			}
}

static size_t count_figures(const struct compare_group *group)
{
	size_t n = 0;

	for (size_t i = 0; i < group->n; i++)
		n += group->runs[i].n;
	return n;
}

/* Verdicts, metric by metric. */
static int judge_figures(struct compare_pair *pair)
{
	struct difference **family = calloc(pair->n + 1, sizeof(*family));
	int r = family ? 0 : -ENOMEM;

	for (size_t i = 0, end; r >= 0 && i < pair->n; i = end) {
		for (end = i; end < pair->n && pair->figures[end].metric == pair->figures[i].metric;
		     end++)
			family[end - i] = &pair->figures[end].d;
		r = differences_judge(family, end - i,
				      compare_metrics[pair->figures[i].metric].higher_is_better);
	}
	free(family);
	return r;
}

static int compare_pair(struct compare_pair *pair)
{
	int r = 0;

	pair->figures = calloc(count_figures(pair->base) + count_figures(pair->other) + 1,
			       sizeof(*pair->figures));
	if (!pair->figures)
		return -ENOMEM;
	list_figures(pair);
	for (size_t i = 0; r >= 0 && i < pair->n; i++)
		r = compare_figure(pair, &pair->figures[i]);
	if (r >= 0)
		r = judge_figures(pair);
	return r < 0 ? r : compare_fill_rows(pair);
}

static bool is_whole(const struct compare_group *group)
{
	for (size_t i = 0; i < group->n; i++)
		if (group->runs[i].whole)
			return true;
	return false;
}

int compare_level(struct compare_group *groups, size_t n,
		  int (*take)(void *context, size_t g, size_t i, struct run_digest *ret_whole),
		  void *context)
{
	bool any = false;
	int r = 0;

	for (size_t g = 0; g < n; g++)
		for (size_t i = 0; i < groups[g].n; i++)
			any = any || groups[g].runs[i].whole;
	for (size_t g = 0; any && g < n; g++)
		for (size_t i = 0; !r && i < groups[g].n; i++) {
			struct run_digest *digest = &groups[g].runs[i], whole;

			if (digest->whole)
				continue;
			r = take(context, g, i, &whole);
			if (!r) {
				digest_release(digest);
				*digest = whole;
			}
		}
	return r;
}

int compare_groups(const struct compare_group *groups, size_t n, struct comparison *ret_comparison)
{
	struct comparison c = { .groups = groups, .n_groups = n };
	int r;

	c.pairs = calloc(n, sizeof(*c.pairs));
	r = c.pairs ? compare_fill_facts(&c) : -ENOMEM;
	for (size_t i = 1; r >= 0 && i < n; i++) {
		c.pairs[i - 1] = (struct compare_pair){ .base = &groups[0],
							.other = &groups[i],
							.whole = is_whole(&groups[0]) ||
								 is_whole(&groups[i]) };
		r = compare_pair(&c.pairs[i - 1]);
	}
	if (r < 0) {
		comparison_release(&c);
		return r;
	}
	*ret_comparison = c;
	return 0;
}

void comparison_release(struct comparison *c)
{
	for (size_t i = 0; c->pairs && i + 1 < c->n_groups; i++) {
		free(c->pairs[i].figures);
		for (int t = 0; t < COMPARE_TABLES; t++)
			free(c->pairs[i].tables[t].rows);
	}
	for (size_t i = 0; i < c->n_facts; i++) {
		for (size_t g = 0; c->facts[i].values && g < c->n_groups; g++)
			free(c->facts[i].values[g]);
		free(c->facts[i].values);
	}
	free(c->facts);
	free(c->pairs);
	*c = (struct comparison){ 0 };
}
