/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of exact counters; see exact_plan.h.
 */
#include "counters/exact_plan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters/sets.h"

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

int exact_plan_check(const char *words, struct err *err)
{
	char *copy = strdup(words), *rest = NULL;
	int r = copy ? 0 : err_sys(err, -ENOMEM, "counters");

	for (char *word = copy ? strtok_r(copy, ",", &rest) : NULL; word && r == 0;
	     word = strtok_r(NULL, ",", &rest)) {
		size_t n;

		if (!strcmp(word, EXACT_PC) && strcmp(words, EXACT_PC) != 0)
			r = err_set(err, -EINVAL,
				    "pc (where warps wait) goes with no other counters in one run");
		else if (strcmp(word, EXACT_PC) != 0 && !strstr(word, "__") && !exact_set(word, &n))
			r = err_set(
				err, -EINVAL,
				"'%s' is neither timeline, recorder nor pc, no set of counters (basic, "
				"memory, compute, tensor, stalls, full) and no metric, as "
				"dram__bytes_read.sum is",
				word);
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
		size_t n = 0;
		const char *const *set = exact_set(word, &n);

		for (size_t i = 0; i < n && r == 0; i++)
			r = want(wanted, set[i], err);
		if (!set)
			r = chip_has(chip, word) ? want(wanted, word, err)
						 : no_such(chip, word, err);
	}
	return r < 0 || wanted->n ? r : err_set(err, -EINVAL, "no metrics are named");
}

/* Each launch has its time, if there is room: rates are of both. */
static void print_group(const struct chip *chip, const char **metrics, size_t n, bool timed)
{
	if (timed && strcmp(metrics[0], EXACT_TIME) != 0 && n < EXACT_METRICS_MOST) {
		metrics[n] = EXACT_TIME;
		n += counters_fit(chip, metrics, n + 1);
	}
	printf("group ");
	for (size_t i = 0; i < n; i++)
		printf("%s%s", i ? "," : "", metrics[i]);
	printf("\n");
}

static void print_groups(const struct chip *chip, const struct wanted *wanted, const int *group,
			 int groups)
{
	bool timed = false;

	for (size_t i = 0; i < wanted->n; i++)
		timed = timed || !strcmp(wanted->metrics[i], EXACT_TIME);
	for (int g = 0; g < groups; g++) {
		const char *metrics[EXACT_METRICS_MOST];
		size_t n = 0;

		for (size_t i = 0; i < wanted->n; i++)
			if (group[i] == g)
				metrics[n++] = wanted->metrics[i];
		print_group(chip, metrics, n, timed);
	}
	/* A set has what other chips have, too. */
	for (size_t i = 0; i < wanted->n; i++)
		if (group[i] == EXACT_NO_GROUP && chip_has(chip, wanted->metrics[i]))
			printf("left out %s: it needs several passes, and kernels are not run again\n",
			       wanted->metrics[i]);
}

int exact_plan_print(const char *name, const char *words, struct err *err)
{
	char *copy = strdup(words);
	struct wanted wanted = { .n = 0 };
	int group[EXACT_METRICS_MOST], groups = 0;
	struct chip *chip = NULL;
	int r = copy ? chip_open(&chip, name, CHIP_EXACT, NULL, err)
		     : err_sys(err, -ENOMEM, "counters");

	if (r == 0)
		r = read_words(chip, copy, &wanted, err);
	if (r == 0)
		r = groups = exact_groups(chip, wanted.metrics, wanted.n, group, err);
	if (r > 0)
		print_groups(chip, &wanted, group, groups);
	if (r == 0)
		r = err_set(
			err, -EINVAL,
			"these metrics need several passes each, and kernels are not run again");
	chip_close(chip);
	free(copy);
	return r < 0 ? r : 0;
}
