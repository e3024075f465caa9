/* SPDX-License-Identifier: Apache-2.0
 *
 * How to read a comparison, what was left out of it, and the conditions on it. See comparison.h.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "documents/comparison.h"

/* What casts doubt on the figures of a run. */
static void run_notes(const struct run_digest *run, struct page *page)
{
	if (run->lost)
		page_trouble(page, "%s has lost %" PRIu64 " records; 'moescope report' says which.",
			     run->name, run->lost);
	if (run->partial)
		page_trouble(page, "%s: %zu steps are left out: not every rank has them.",
			     run->name, run->partial);
	if (!run->steps && !run->whole)
		page_trouble(page, "%s: %s.", run->name, run->missing[COMPARE_STEP_TIME]);
}

static void doubts(const struct comparison *c, struct page *page)
{
	for (size_t i = 0; i < c->n_facts; i++)
		if (c->facts[i].doubtful)
			page_trouble(
				page,
				"%s differs: part of the differences may come from that alone.",
				c->facts[i].key);
	for (size_t g = 0; g < c->n_groups; g++)
		for (size_t i = 0; i < c->groups[g].n; i++)
			run_notes(&c->groups[g].runs[i], page);
}

#define NOTE(page, ...) page_words(page, 2, 2, __VA_ARGS__)

static void warmup_note(const struct comparison *c, struct page *page)
{
	size_t most = 0;

	for (size_t g = 0; g < c->n_groups; g++)
		for (size_t i = 0; i < c->groups[g].n; i++)
			if (c->groups[g].runs[i].warmup > most)
				most = c->groups[g].runs[i].warmup;
	if (most)
		NOTE(page,
		     "The first %zu steps of runs with %zu or more are left out as warm-up; "
		     "--steps chooses others.",
		     most, 3 * most);
}

/* Which run has no steps, and what can be said then. */
static void whole_note(const struct comparison *c, struct page *page)
{
	const struct run_digest *without = NULL;
	bool single = false;

	for (size_t g = 0; g < c->n_groups; g++) {
		single = single || c->groups[g].n < COMPARE_RUNS_MIN;
		for (size_t i = 0; i < c->groups[g].n && !without; i++)
			if (!c->groups[g].runs[i].has_steps)
				without = &c->groups[g].runs[i];
	}
	NOTE(page,
	     "%s has no steps, so whole runs are compared: everything that was recorded, the mean "
	     "over the ranks. A longer recording has more of everything.%s \"each\" is the time "
	     "of one call, tested over all calls.",
	     without ? without->name : "A run",
	     single ? " One run has no interval: whether it would be the same again is unknown; "
		      "3 runs of each side (--group) show it."
		    : "");
}

static void method_note(const struct comparison *c, struct page *page)
{
	bool by_steps = false, by_runs = false;

	for (size_t i = 0; i + 1 < c->n_groups; i++)
		for (size_t j = 0; j < c->pairs[i].n; j++) {
			const struct difference *d = &c->pairs[i].figures[j].d;

			by_runs = by_runs || (d->low.known && d->by_runs);
			by_steps = by_steps || (d->low.known && !d->by_runs);
		}
	if (c->groups[0].runs[0].whole) {
		whole_note(c, page);
		if (!by_runs)
			return;
	}
	if (by_runs)
		NOTE(page,
		     "Where both sides have 3 runs or more each run is one figure: mean over the "
		     "runs, Welch's t test.");
	if (by_steps)
		NOTE(page,
		     "Intervals are over the steps of the runs, with their autocorrelation. What "
		     "differs from run to run is not in them: 3 runs of each side (--group) show "
		     "it.");
	if (by_runs || by_steps)
		NOTE(page,
		     "A difference is called when its 95%% interval leaves out 0, p is at most "
		     "0.05 and it is more than %g%%. \"noise, <X\": one smaller than X would not "
		     "have been seen (4 times in 5). '+' is more than the baseline.",
		     COMPARE_RESOLUTION_PCT);
}

static void condition_line(const struct compare_check *check, struct page *page)
{
	static const char *const words[] = { "FAILED ", "ok     ", "UNKNOWN" };
	const struct judgement *j = &check->judgement;

	page_words(page, 2, 11, "%s", words[j->result]);
	page_set_tone(page, j->result == CONDITION_NOT ? TONE_GOOD : TONE_BAD);
	page_put_in(page, TONE_PLAIN, "  ");
	page_put_in(page, TONE_PLAIN, "%s (%s)", check->condition->text, check->pair->other->name);
	if (j->result == CONDITION_UNKNOWN)
		page_put(page, ": %s", j->reason);
	else if (check->condition->relative)
		page_put(page, ": %s%s%s%s", j->figure->of, j->figure->of[0] ? ", " : "",
			 j->figure->d.low_pct.known ? "near edge of the interval " : "",
			 format_pct(j->near_edge.v).text);
}

void comparison_notes(const struct compared *compared, struct page *page)
{
	const struct comparison *c = compared->comparison;

	page_empty_line(page);
	doubts(c, page);
	warmup_note(c, page);
	method_note(c, page);
	if (compared->n_checks) {
		page_empty_line(page);
		page_line(page, 2, "conditions");
	}
	for (size_t i = 0; i < compared->n_checks; i++)
		condition_line(&compared->checks[i], page);
}
