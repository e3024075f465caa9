/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing schedules. Pure functions.
 */
#include "cmd/run_options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/nearest.h"

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
		return err_set(err, -EINVAL, "the schedule records nothing; add active=N to it.");
	snprintf(out, size, "skip_first=%u,wait=%u,warmup=%u,active=%u,repeat=%u,sample=%llu",
		 parts[SKIP_FIRST], parts[WAIT], parts[WARMUP], parts[ACTIVE], parts[REPEAT],
		 (unsigned long long)sample);
	return 0;
}
