/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing schedules, budgets, sizes, expressions and lists of ranks. Pure functions.
 */
#include "cmd/options/run_options.h"

#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "base/text/nearest.h"
#include "trace/rundir.h"

#define THRESHOLD_MAX_NS INT64_C(1000000000)

enum { SKIP_FIRST, WAIT, WARMUP, ACTIVE, REPEAT, N_PARTS };
static const char *const part_names[N_PARTS] = { "skip_first", "wait", "warmup", "active",
						 "repeat" };

static int find_part(const char *name, struct err *err)
{
	struct nearest nearest = nearest_to(name);

	for (int i = 0; i < N_PARTS; i++) {
		if (strcmp(part_names[i], name) == 0)
			return i;
		nearest_offer(&nearest, part_names[i]);
	}
	if (nearest.best)
		return err_set(err, -EINVAL, "a schedule has no '%s'; did you mean '%s'?", name,
			       nearest.best);
	return err_set(err, -EINVAL,
		       "a schedule has no '%s', only skip_first, wait, warmup, active and repeat.",
		       name);
}

static int parse_part(const char *word, size_t length, uint32_t *parts, bool *given,
		      struct err *err)
{
	char text[64];
	char *equals, *end;
	unsigned long value;
	int part;

	if (length >= sizeof(text))
		return err_set(err, -EINVAL, "the schedule has a word of %zu characters.", length);
	memcpy(text, word, length);
	text[length] = '\0';
	equals = strchr(text, '=');
	if (!equals)
		return err_set(err, -EINVAL,
			       "'%s' in the schedule is not NAME=STEPS, as in "
			       "wait=5,warmup=2,active=3,repeat=1.",
			       text);
	*equals = '\0';
	part = find_part(text, err);
	if (part < 0)
		return part;
	if (given[part])
		return err_set(err, -EINVAL, "'%s' is in the schedule twice.", text);
	errno = 0;
	value = strtoul(equals + 1, &end, 10);
	if (end == equals + 1 || *end || equals[1] == '-' || errno || value > 1000000000)
		return err_set(err, -EINVAL,
			       "'%s' in the schedule needs a number of steps, not '%s'.", text,
			       equals + 1);
	parts[part] = (uint32_t)value;
	given[part] = true;
	return 0;
}

int schedule_canonical(const char *text, uint64_t sample, char *out, size_t size, struct err *err)
{
	uint32_t parts[N_PARTS] = { 0 };
	bool given[N_PARTS] = { false };

	while (text) {
		size_t length = strcspn(text, ",");
		int r = parse_part(text, length, parts, given, err);

		if (r < 0)
			return r;
		text = text[length] ? text + length + 1 : NULL;
	}
	/* Nothing would ever be recorded: no one means that. */
	if ((parts[WAIT] || parts[WARMUP] || parts[REPEAT]) && !parts[ACTIVE])
		return err_set(err, -EINVAL, "the schedule records nothing; add active=N.");
	snprintf(out, size, "skip_first=%u,wait=%u,warmup=%u,active=%u,repeat=%u,sample=%llu",
		 parts[SKIP_FIRST], parts[WAIT], parts[WARMUP], parts[ACTIVE], parts[REPEAT],
		 (unsigned long long)sample);
	return 0;
}

#define BUDGET_MAX_PCT 50
#define ALLOWANCE_MAX_MB (1u << 20)

/* A plain decimal number at the beginning of a text: no sign, no hexadecimal, no infinity. The
 * rest of the text, or NULL. */
static const char *take_decimal(const char *text, double *ret_value)
{
	size_t length = strspn(text, "0123456789.");
	char *end;

	*ret_value = strtod(text, &end);
	return length && end == text + length ? end : NULL;
}

int budget_parse(const char *text, double *ret_pct, struct err *err)
{
	const char *rest;
	double pct;

	if (strcmp(text, "off") == 0) {
		*ret_pct = 0;
		return 0;
	}
	rest = take_decimal(text, &pct);
	if (!rest || (*rest && strcmp(rest, "%") != 0))
		return err_set(
			err, -EINVAL,
			"'--budget' needs a percentage such as 1%% or 0.5%%, or off, not '%s'.",
			text);
	if (!(pct > 0 && pct <= BUDGET_MAX_PCT))
		return err_set(
			err, -EINVAL,
			"'--budget %s' is out of range; it must be above 0 and at most %d%%, or "
			"off for a complete trace.",
			text, BUDGET_MAX_PCT);
	*ret_pct = pct;
	return 0;
}

int threshold_parse(const char *text, uint64_t *ret_ns, struct err *err)
{
	struct given_moment given = { 0 };

	if (!moment_parse(text, &given) || given.ns > THRESHOLD_MAX_NS)
		return err_set(
			err, -EINVAL,
			"'--calls-longer-than' needs a time such as 10us or 1ms, up to 1s, not '%s'.",
			text);
	*ret_ns = (uint64_t)given.ns;
	return 0;
}

int allowance_parse(const char *text, uint64_t *ret_mb, struct err *err)
{
	static const struct {
		const char *name;
		double mb;
	} units[] = { { "", 1 },      { "MB", 1 },     { "MiB", 1 }, { "M", 1 },
		      { "GB", 1024 }, { "GiB", 1024 }, { "G", 1024 } };
	size_t n = sizeof(units) / sizeof(units[0]), i = 0;
	const char *rest;
	double value;

	rest = take_decimal(text, &value);
	while (rest && i < n && strcmp(rest, units[i].name) != 0)
		i++;
	if (!rest || i == n)
		return err_set(err, -EINVAL,
			       "'--memory-allowance' needs a size such as 128MB or 1GB, not '%s'.",
			       text);
	value *= units[i].mb;
	if (!(value >= 1 && value <= ALLOWANCE_MAX_MB))
		return err_set(err, -EINVAL,
			       "'--memory-allowance %s' is out of range; it must be from 1MB to "
			       "%uGB.",
			       text, ALLOWANCE_MAX_MB / 1024);
	*ret_mb = (uint64_t)value;
	return 0;
}

int regex_check(const char *option, const char *text, struct err *err)
{
	regex_t pattern;
	char why[128];
	int r = regcomp(&pattern, text, REG_EXTENDED | REG_NOSUB);

	if (r == 0) {
		regfree(&pattern);
		return 0;
	}
	regerror(r, &pattern, why, sizeof(why));
	return err_set(err, -EINVAL,
		       "'--%s' needs an extended regular expression, which '%s' is not: %s.",
		       option, text, why);
}

int ranks_check(const char *text, struct err *err)
{
	if (rank_in_list(0, text) >= 0)
		return 0;
	return err_set(err, -EINVAL, "'--ranks' needs a list such as 0,2-3, not '%s'.", text);
}
