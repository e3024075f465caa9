/* SPDX-License-Identifier: Apache-2.0
 *
 * Step times; see steps.h for the policy. Phases are in step_phases.c. Pure, any thread.
 */
#include "subjects/steps/steps.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "subjects/shared/steady.h"
#include "subjects/steps/step_phases.h"

#define WARMUP_STEPS 5
#define WARMUP_STEPS_TOTAL 15 /* fewer steps say nothing about a beginning */
#define OUTLIER_MADS 3
#define MAD_TO_STD 1.4826 /* of a normal distribution */
#define OUTLIER_SHARE 0.10

const char *step_stage_name(unsigned int stage)
{
	static const char *const names[] = { "", "prefill", "decode", "mixed" };

	return stage < sizeof(names) / sizeof(names[0]) ? names[stage] : "";
}

const char *step_source_name(unsigned int source)
{
	static const char *const names[] = { "program", "range", "device_range", "repetition" };

	return source < sizeof(names) / sizeof(names[0]) ? names[source] : "unknown";
}

static void fill_row(const struct run *run, size_t i, struct step_row *row)
{
	const struct table_step *step = &run->step;

	*row = (struct step_row){
		.row = i,
		.step = step->step[i],
		.rank = step->shard[i] < run->n_shards ? run->shards[step->shard[i]].rank : 0,
		.start_ns = step->start_ns[i],
		.duration_ns = step->duration_ns[i],
		.recorded = step->recorded[i],
		.unfinished = step->unfinished[i],
		.timed = step_is_timed(step, i),
		.probe = step->probe[i],
		.source = step->source[i],
		.stage = step->stage[i],
		.batch = step->batch[i],
	};
	if (!step->tokens_known[i]) {
		row->tokens = value_absent("the program did not give the tokens of this step");
		row->tokens_per_s = row->tokens;
		return;
	}
	row->tokens = value_of((double)step->tokens[i]);
	if (row->unfinished)
		row->tokens_per_s = value_absent("the step was cut by the end of the process");
	else if (!row->timed)
		row->tokens_per_s = value_absent("the set-up of the program is in its time");
	else if (row->duration_ns <= 0)
		row->tokens_per_s = value_absent("no time passed");
	else
		row->tokens_per_s =
			value_of((double)step->tokens[i] * 1e9 / (double)row->duration_ns);
}

/* Tokens per second of wall time: the steps of several ranks run side by side, so the time is
 * that from the first to the last step of the window, less what lies between steps. */
static void sum_tokens(struct steps *s, size_t n_shards)
{
	double tokens = 0, timed = 0, time_ns = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (s->rows[i].unfinished || !s->rows[i].tokens.known)
			continue;
		tokens += s->rows[i].tokens.v;
		n++;
		if (!s->rows[i].timed)
			continue;
		timed += s->rows[i].tokens.v;
		time_ns += (double)s->rows[i].duration_ns;
	}
	if (!n) {
		s->tokens = value_absent(s->n ? "the program did not give the tokens of its steps"
					      : "no steps were recorded");
		s->tokens_per_s = s->tokens;
		return;
	}
	s->tokens = value_of(tokens);
	s->tokens_per_s = time_ns > 0 ? value_of(timed * 1e9 / (time_ns / (double)n_shards))
				      : value_absent("no time passed");
}

static size_t shards_with_steps(const struct run *run, const struct steps *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += i == 0 ||
		     run->step.shard[s->rows[i].row] != run->step.shard[s->rows[i - 1].row];
	return n ? n : 1;
}

static struct value phase_share(const struct steps *s, int phase)
{
	if (s->phased_ns <= 0)
		return value_absent("no range names a phase");
	if (phase && !s->phase_ns[phase])
		return value_absent("no range names this phase");
	return value_of(100.0 * (double)s->phase_ns[phase] / (double)s->phased_ns);
}

static void sum_phases(struct steps *s)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct step_row *row = &s->rows[i];

		if (!row->phases_known || !row->timed)
			continue;
		s->n_phased++;
		s->phased_ns += row->duration_ns;
		for (int p = 0; p < STEP_PHASES; p++)
			s->phase_ns[p] += row->phase_ns[p];
	}
	for (int p = 0; p < STEP_PHASES; p++)
		s->phase_pct[p] = phase_share(s, p);
}

/* x: the n sorted durations of the finished steps; scratch: as long. */
static void find_outliers(struct steps *s, const double *x, double *scratch, size_t n)
{
	double median, mad, limit;

	if (n < 8) {
		s->outlier_limit_ns = value_absent("fewer than 8 steps");
		return;
	}
	median = stats_percentile_sorted(x, n, 50);
	for (size_t i = 0; i < n; i++)
		scratch[i] = fabs(x[i] - median);
	mad = stats_median(scratch, n) * MAD_TO_STD;
	limit = median + fmax(OUTLIER_MADS * mad, OUTLIER_SHARE * median);
	s->outlier_limit_ns = value_of(limit);
	for (size_t i = 0; i < s->n; i++) {
		struct step_row *row = &s->rows[i];

		row->outlier = row->timed && (double)row->duration_ns > limit;
		s->n_outliers += row->outlier;
	}
}

/* Each process has a beginning of its own. first: of all of them; rest: what came later. */
static void find_warmup(const struct run *run, struct steps *s, double *first, double *rest)
{
	size_t n_first = 0, n_rest = 0, n;

	for (size_t i = 0, end; i < s->n; i = end) {
		uint16_t shard = run->step.shard[s->rows[i].row];

		for (n = 0, end = i; end < s->n && run->step.shard[s->rows[end].row] == shard;)
			n += s->rows[end++].timed;
		if (n < WARMUP_STEPS_TOTAL)
			continue;
		for (size_t at = i, seen = 0; at < end; at++) {
			if (!s->rows[at].timed)
				continue;
			*(seen++ < WARMUP_STEPS ? &first[n_first++] : &rest[n_rest++]) =
				(double)s->rows[at].duration_ns;
		}
	}
	if (!n_first) {
		s->warmup_mean_ns = value_absent("fewer than 15 steps");
		s->warmup_ratio = s->warmup_mean_ns;
		return;
	}
	s->n_warmup = WARMUP_STEPS;
	s->warmup_mean_ns = value_of(stats_mean(first, n_first));
	s->warmup_ratio = value_of(s->warmup_mean_ns.v / stats_median(rest, n_rest));
	if (!isfinite(s->warmup_ratio.v))
		s->warmup_ratio = value_absent("no time passed");
}

static int find_steady(const struct run *run, const struct selection *sel, struct steps *s)
{
	bool *starting = calloc(run->step.n + 1, sizeof(*starting));
	double *x = calloc(s->n + 1, sizeof(*x));
	size_t n = 0, end = s->n;
	int r = starting && x ? steady_steps(run, sel, starting) : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < s->n; i++) {
		const struct step_row *row = &s->rows[i], **slowest;

		if (!row->timed)
			continue;
		slowest = starting[row->row] ? &s->slowest_starting : &s->slowest_steady;
		if (!*slowest || row->duration_ns > (*slowest)->duration_ns)
			*slowest = row;
		x[starting[row->row] ? --end : n++] = (double)row->duration_ns;
	}
	if (r >= 0) {
		s->steady = stats_summarize(x, n);
		s->starting = stats_summarize(x + end, s->n - end);
	}
	free(starting);
	free(x);
	return r;
}

static int summarize_steps(const struct run *run, struct steps *s)
{
	double *x = calloc(s->n ? s->n * 2 : 1, sizeof(*x));
	size_t n = 0;

	if (!x)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++)
		if (s->rows[i].timed && s->rows[i].recorded)
			x[n++] = (double)s->rows[i].duration_ns;
	s->recorded = stats_summarize(x, n);
	n = 0;
	for (size_t i = 0; i < s->n; i++) {
		s->n_unfinished += s->rows[i].unfinished;
		s->n_set_up += !s->rows[i].unfinished && !s->rows[i].timed;
		s->n_not_recorded += !s->rows[i].recorded;
		if (s->rows[i].timed)
			x[n++] = (double)s->rows[i].duration_ns;
	}
	s->all = stats_summarize(x, n);
	find_outliers(s, x, x + s->n, n);
	find_warmup(run, s, x, x + s->n);
	free(x);
	return 0;
}

int steps_analyze(const struct run *run, const struct selection *sel, struct steps *ret_steps)
{
	struct steps s = { 0 };
	struct step_index index;
	int r = step_index_init(&index, run);

	if (r < 0)
		return r;
	s.rows = calloc(index.n ? index.n : 1, sizeof(*s.rows));
	r = s.rows ? 0 : -ENOMEM;
	for (size_t i = 0; r >= 0 && i < index.n; i++)
		if (selection_has_step(sel, run->step.step[index.rows[i]]))
			fill_row(run, index.rows[i], &s.rows[s.n++]);
	step_index_release(&index);
	if (r >= 0)
		r = step_phases_fill(run, s.rows, s.n);
	if (r >= 0)
		r = summarize_steps(run, &s);
	if (r >= 0)
		r = find_steady(run, sel, &s);
	if (r < 0) {
		steps_release(&s);
		return r;
	}
	sum_tokens(&s, shards_with_steps(run, &s));
	sum_phases(&s);
	*ret_steps = s;
	return 0;
}

void steps_release(struct steps *steps)
{
	free(steps->rows);
	*steps = (struct steps){ 0 };
}
