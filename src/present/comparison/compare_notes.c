/* SPDX-License-Identifier: Apache-2.0
 *
 * How to read a comparison, what was left out of it, and the conditions on it. See compare.h.
 */
#include <inttypes.h>
#include <string.h>

#include "base/text/format.h"
#include "present/comparison/compare_inside.h"

static void note(const struct compare_scene *scene, const char *text, FILE *out)
{
	fputs("  ", out);
	text_wrap(out, text, (size_t)(scene->options->width > 0 ? scene->options->width : 80), 2,
		  2);
}

static void trouble(const struct compare_scene *scene, const char *text, FILE *out)
{
	bool color = scene->options->color;

	fprintf(out, "%s!%s ", text_style_on(TEXT_YELLOW, color),
		text_style_off(TEXT_YELLOW, color));
	text_wrap(out, text, (size_t)(scene->options->width > 0 ? scene->options->width : 80), 2,
		  2);
}

/* What casts doubt on the figures of a run. */
static void run_notes(const struct compare_scene *scene, const struct run_digest *run, FILE *out)
{
	char text[400];

	if (run->lost) {
		snprintf(text, sizeof(text),
			 "%s has lost %" PRIu64 " records; 'moescope report' says which.",
			 run->name, run->lost);
		trouble(scene, text, out);
	}
	if (run->partial) {
		snprintf(text, sizeof(text), "%s: %zu steps are left out: not every rank has them.",
			 run->name, run->partial);
		trouble(scene, text, out);
	}
	if (!run->steps && !run->whole) {
		snprintf(text, sizeof(text), "%s: %s.", run->name, run->missing[COMPARE_STEP_TIME]);
		trouble(scene, text, out);
	}
}

static void doubts(const struct compare_scene *scene, FILE *out)
{
	const struct comparison *c = scene->comparison;
	char text[200];

	for (size_t i = 0; i < c->n_facts; i++) {
		if (!c->facts[i].doubtful)
			continue;
		snprintf(text, sizeof(text),
			 "%s differs: part of the differences may come from that alone.",
			 c->facts[i].key);
		trouble(scene, text, out);
	}
	for (size_t g = 0; g < c->n_groups; g++)
		for (size_t i = 0; i < c->groups[g].n; i++)
			run_notes(scene, &c->groups[g].runs[i], out);
}

static void warmup_note(const struct compare_scene *scene, FILE *out)
{
	const struct comparison *c = scene->comparison;
	size_t most = 0;
	char text[200];

	for (size_t g = 0; g < c->n_groups; g++)
		for (size_t i = 0; i < c->groups[g].n; i++)
			most = c->groups[g].runs[i].warmup > most ? c->groups[g].runs[i].warmup
								  : most;
	if (!most)
		return;
	snprintf(text, sizeof(text),
		 "The first %zu steps of runs with %zu or more are left out as warm-up; --steps "
		 "chooses others.",
		 most, 3 * most);
	note(scene, text, out);
}

/* Which run has no steps, and what can be said then. */
static void whole_note(const struct compare_scene *scene, FILE *out)
{
	const struct comparison *c = scene->comparison;
	const struct run_digest *without = NULL;
	bool single = false;
	char text[700];

	for (size_t g = 0; g < c->n_groups; g++) {
		single = single || c->groups[g].n < COMPARE_RUNS_MIN;
		for (size_t i = 0; i < c->groups[g].n && !without; i++)
			if (!c->groups[g].runs[i].has_steps)
				without = &c->groups[g].runs[i];
	}
	snprintf(text, sizeof(text),
		 "%s has no steps, so whole runs are compared: everything that was recorded, the "
		 "mean over the ranks. A longer recording has more of everything.%s \"each\" is "
		 "the time of one call, tested over all calls.",
		 without ? without->name : "A run",
		 single ? " One run has no interval: whether it would be the same again is not "
			  "known; 3 runs of each side (--group) show it."
			: "");
	note(scene, text, out);
}

static void method_note(const struct compare_scene *scene, FILE *out)
{
	const struct comparison *c = scene->comparison;
	bool by_steps = false, by_runs = false;
	char text[600];

	for (size_t i = 0; i + 1 < c->n_groups; i++)
		for (size_t j = 0; j < c->pairs[i].n; j++) {
			const struct difference *d = &c->pairs[i].figures[j].d;

			by_runs = by_runs || (d->low.known && d->by_runs);
			by_steps = by_steps || (d->low.known && !d->by_runs);
		}
	if (c->groups[0].runs[0].whole) {
		whole_note(scene, out);
		if (!by_runs)
			return;
	}
	if (by_runs)
		note(scene,
		     "Where both sides have 3 runs or more each run is one figure: mean over the "
		     "runs, Welch's t test.",
		     out);
	if (by_steps)
		note(scene,
		     "Intervals are over the steps of the runs, with their autocorrelation. What "
		     "differs from run to run is not in them: 3 runs of each side (--group) show "
		     "it.",
		     out);
	if (!by_runs && !by_steps)
		return;
	snprintf(
		text, sizeof(text),
		"A difference is called when its 95%% interval leaves out 0, p is at most 0.05 and "
		"it is more than %g%%. \"noise, <X\": one smaller than X would not have been seen "
		"(4 times in 5). '+' is more than the baseline.",
		COMPARE_RESOLUTION_PCT);
	note(scene, text, out);
}

static void print_check(const struct compare_scene *scene, const struct compare_check *check,
			FILE *out)
{
	static const char *const words[] = { "FAILED ", "ok     ", "UNKNOWN" };
	const struct judgement *j = &check->judgement;
	enum text_style style = j->result == CONDITION_NOT ? TEXT_GREEN : TEXT_RED;
	bool color = scene->options->color;
	const char *of = j->figure ? j->figure->of : "";
	char text[500], detail[200] = "";

	if (j->result == CONDITION_UNKNOWN)
		snprintf(detail, sizeof(detail), ": %s", j->reason);
	else if (check->condition->relative)
		snprintf(detail, sizeof(detail), ": %s%s%s%s", of, *of ? ", " : "",
			 j->figure->d.low_pct.known ? "near edge of the interval " : "",
			 format_pct(j->near_edge.v).text);
	fprintf(out, "  %s%s%s  ", text_style_on(style, color), words[j->result],
		text_style_off(style, color));
	snprintf(text, sizeof(text), "%s (%s)%s", check->condition->text, check->pair->other->name,
		 detail);
	text_wrap(out, text, (size_t)(scene->options->width > 0 ? scene->options->width : 80), 11,
		  11);
}

void compare_text_notes(const struct compare_scene *scene, FILE *out)
{
	fputc('\n', out);
	doubts(scene, out);
	warmup_note(scene, out);
	method_note(scene, out);
	if (scene->n_checks)
		fputs("\n  conditions\n", out);
	for (size_t i = 0; i < scene->n_checks; i++)
		print_check(scene, &scene->checks[i], out);
}
