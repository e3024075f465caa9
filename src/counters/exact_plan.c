/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of exact counters; see exact_plan.h.
 */
#include "counters/exact_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/nearest.h"
#include "counters/sets.h"

/* What a launch takes in a row, as on an H200: see docs/benchmarks.md. */
#define WITHIN_SM_MS 1.2
#define BESIDE_SM_MS 0.13

struct wanted {
	const char *metrics[EXACT_METRICS_MOST];
	size_t n;
};

static int want(struct wanted *wanted, const char *metric, struct err *err)
{
	for (size_t i = 0; i < wanted->n; i++)
		if (!strcmp(wanted->metrics[i], metric))
			return 0;
	if (wanted->n == EXACT_METRICS_MOST)
		return err_set(err, -E2BIG, "at most %d metrics can be counted in a run",
			       EXACT_METRICS_MOST);
	wanted->metrics[wanted->n++] = metric;
	return 0;
}

/* No metric has a name without two underscores. */
static int no_such_word(const char *word, struct err *err)
{
	static const char *const others[] = { "timeline", "recorder", EXACT_PC };
	struct nearest nearest = nearest_to(word);

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		nearest_offer(&nearest, others[i]);
	for (size_t i = 0; exact_set_name(i); i++)
		nearest_offer(&nearest, exact_set_name(i));
	return err_set(
		err, -EINVAL,
		"'%s' is not timeline, recorder or pc, not a set of counters (basic, memory, compute, "
		"tensor, stalls, full) and not a metric such as dram__bytes_read.sum%s%s",
		word, nearest.best ? "; the nearest is " : "", nearest.best ? nearest.best : "");
}

int exact_plan_check(const char *words, struct err *err)
{
	char *copy = strdup(words), *rest = NULL;
	int r = copy ? 0 : err_sys(err, -ENOMEM, "counters");

	for (char *word = copy ? strtok_r(copy, ",", &rest) : NULL; word && r == 0;
	     word = strtok_r(NULL, ",", &rest)) {
		if (!strcmp(word, EXACT_PC) && strcmp(words, EXACT_PC) != 0)
			r = err_set(err, -EINVAL,
				    "pc (where warps wait) goes with no other counters in one run");
		else if (strcmp(word, EXACT_PC) != 0 && !strstr(word, "__") && !exact_is_set(word))
			r = no_such_word(word, err);
	}
	free(copy);
	return r;
}

static int no_such(const struct chip *chip, const char *metric, struct err *err)
{
	char nearest[256];

	chip_nearest(chip, metric, nearest, sizeof(nearest));
	if (!strcmp(nearest, metric))
		return err_set(err, -EINVAL,
			       "'%s' needs a part behind it, such as %s.sum or %s.avg", metric,
			       metric, metric);
	return err_set(
		err, -EINVAL,
		"%s has no metric '%s'%s%s; sets are basic, memory, compute, tensor, stalls and full",
		chip_name(chip), metric, *nearest ? "; the nearest is " : "", nearest);
}

static int read_words(const struct chip *chip, char *words, struct wanted *wanted, struct err *err)
{
	char *rest = NULL;
	int r = 0;

	for (char *word = strtok_r(words, ",", &rest); word && r == 0;
	     word = strtok_r(NULL, ",", &rest)) {
		const char *set[EXACT_METRICS_MOST];
		size_t n = exact_set(chip, word, set);

		for (size_t i = 0; i < n && r == 0; i++)
			r = want(wanted, set[i], err);
		if (!n)
			r = chip_has(chip, word) ? want(wanted, word, err)
						 : no_such(chip, word, err);
	}
	return r < 0 || wanted->n ? r : err_set(err, -EINVAL, "no metrics are named");
}

static void print_metrics(const char **metrics, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("%s%s", i ? "," : "", metrics[i]);
	printf("\n");
}

/* Each launch has its time, if there is room: rates are of both. */
static void print_group(const struct chip *chip, const char **metrics, size_t n, bool timed)
{
	if (timed && strcmp(metrics[0], EXACT_TIME) != 0 && n < EXACT_METRICS_MOST) {
		metrics[n] = EXACT_TIME;
		n += counters_fit(chip, metrics, n + 1);
	}
	printf("group ");
	print_metrics(metrics, n);
}

static bool is_timed(const struct wanted *wanted)
{
	for (size_t i = 0; i < wanted->n; i++)
		if (!strcmp(wanted->metrics[i], EXACT_TIME))
			return true;
	return false;
}

/* Of groups of one pass; and what a launch takes in a row, on the average: they take turns. */
static void print_groups(const struct chip *chip, const struct wanted *wanted, const int *group,
			 int groups)
{
	bool timed = is_timed(wanted);
	double each_ms = 0;

	for (int g = 0; g < groups; g++) {
		const char *metrics[EXACT_METRICS_MOST];
		bool within = false;
		size_t n = 0;

		for (size_t i = 0; i < wanted->n; i++)
			if (group[i] == g) {
				metrics[n++] = wanted->metrics[i];
				within = within || exact_is_within_sm(wanted->metrics[i]);
			}
		print_group(chip, metrics, n, timed);
		each_ms += within ? WITHIN_SM_MS : BESIDE_SM_MS;
	}
	printf("in a row %.2f ms\n", each_ms / groups);
}

/* A set has what other chips have, too. */
static bool needs_passes(const struct chip *chip, const struct wanted *wanted, const int *group,
			 size_t i)
{
	return group[i] == EXACT_NO_GROUP && chip_has(chip, wanted->metrics[i]);
}

/* Time and clock of a replayed launch cost no pass more, and say whether it ran as it does by itself. */
static size_t add_witnesses(const struct chip *chip, const char **metrics, size_t n, size_t *passes)
{
	static const char *const witnesses[] = { EXACT_TIME, EXACT_CLOCK };

	for (size_t w = 0; w < sizeof(witnesses) / sizeof(witnesses[0]); w++) {
		size_t more;

		if (n == EXACT_METRICS_MOST || !chip_has(chip, witnesses[w]))
			continue;
		metrics[n] = witnesses[w];
		more = counters_passes(chip, metrics, n + 1);
		n += more && more <= *passes;
	}
	return n;
}

/* One group of them all: passes are shared, and a launch has all of its metrics. Some cannot be counted together. */
static void print_replayed(const struct chip *chip, const struct wanted *wanted, int *group)
{
	for (;;) {
		const char *metrics[EXACT_METRICS_MOST];
		size_t n = 0, passes = 0;

		for (size_t i = 0; i < wanted->n; i++) {
			size_t more;

			if (!needs_passes(chip, wanted, group, i))
				continue;
			metrics[n] = wanted->metrics[i];
			more = counters_passes(chip, metrics, n + 1);
			if (!more || more > EXACT_PASSES_MOST)
				continue;
			passes = more;
			group[i] = EXACT_REPLAY_GROUP;
			n++;
		}
		if (!n)
			return;
		n = add_witnesses(chip, metrics, n, &passes);
		printf("group %zu ", passes);
		print_metrics(metrics, n);
	}
}

static void print_left_out(const struct chip *chip, const struct wanted *wanted, const int *group,
			   bool replay)
{
	for (size_t i = 0; i < wanted->n; i++)
		if (needs_passes(chip, wanted, group, i))
			printf("left out %s: it needs %s\n", wanted->metrics[i],
			       replay ? "more passes than a kernel is run again for"
				      : "several passes, and kernels are not run again without "
					"--replay kernel");
}

int exact_plan_print(const char *name, const char *words, bool replay, struct err *err)
{
	char *copy = strdup(words);
	struct wanted wanted = { .n = 0 };
	int group[EXACT_METRICS_MOST], groups = 0;
	struct chip *chip = NULL;
	int r = copy ? chip_open(&chip, name, CHIP_EXACT, NULL, err)
		     : err_sys(err, -ENOMEM, "counters");

	/* A kernel is not replayed before it has been timed; then the two are compared. */
	if (r == 0 && replay && chip_has(chip, EXACT_TIME))
		r = want(&wanted, EXACT_TIME, err);
	if (r == 0 && replay && chip_has(chip, EXACT_CLOCK))
		r = want(&wanted, EXACT_CLOCK, err);
	if (r == 0)
		r = read_words(chip, copy, &wanted, err);
	if (r == 0)
		r = groups = exact_groups(chip, wanted.metrics, wanted.n, group, err);
	if (r > 0) {
		print_groups(chip, &wanted, group, groups);
		if (replay)
			print_replayed(chip, &wanted, group);
		print_left_out(chip, &wanted, group, replay);
	}
	if (r == 0)
		r = err_set(
			err, -EINVAL,
			replay ? "this chip counts no kernel's time, without which none is run "
				 "again"
			       : "these metrics need several passes each, and kernels are not run "
				 "again without --replay kernel");
	chip_close(chip);
	free(copy);
	return r < 0 ? r : 0;
}
