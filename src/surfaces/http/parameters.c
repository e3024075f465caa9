/* SPDX-License-Identifier: Apache-2.0
 *
 * See parameters.h.
 */
#include "surfaces/http/parameters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/nearest.h"

#define LIMIT "limit"
#define SORT "sort"

/* Files are this machine's, and the tables of a section are views of their own. */
static bool may_be_asked(const struct question_parameter *parameter)
{
	return parameter->kind != ASK_FILE && parameter->kind != ASK_TABLE;
}

struct http_parameter view_parameter_at(const struct section *section, size_t i)
{
	static const struct question_parameter *const place[] = { ASK_PLACE, NULL };
	const struct question_parameter *const *p = section->command.parameters;

	if (i == 0)
		return (struct http_parameter){ LIMIT, "at most so many rows; 0: all", NULL };
	if (i == 1)
		return (struct http_parameter){ SORT, "the key of the column to sort by", NULL };
	/* What is no command by itself has those that all have. */
	if (!section->command.summary)
		p = place;
	for (i -= 2; p && *p; p++)
		if (may_be_asked(*p) && i-- == 0)
			return (struct http_parameter){ (*p)->name, (*p)->help, *p };
	return (struct http_parameter){ NULL, NULL, NULL };
}

int parameter_limit(const char *text, struct view_options *options, struct err *err)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value > INT32_MAX)
		return err_set(err, -EINVAL, "'" LIMIT "' needs a number of rows, not '%s'.", text);
	options->limit = value;
	return 0;
}

static int take_pair(const struct section *section, const char *key, const char *value,
		     struct view_options *options, struct err *err)
{
	struct nearest nearest = nearest_to(key);
	struct http_parameter p;

	for (size_t i = 0; (p = view_parameter_at(section, i)).name; i++) {
		nearest_offer(&nearest, p.name);
		if (strcmp(p.name, key) != 0)
			continue;
		if (p.of)
			return parameter_set(p.of, value, &options->question, err);
		if (!strcmp(key, LIMIT))
			return parameter_limit(value, options, err);
		options->sort = value;
		return 0;
	}
	if (nearest.best)
		return err_set(err, -EINVAL, "'%s' has no parameter '%s'; did you mean '%s'?",
			       section->name, key, nearest.best);
	return err_set(err, -EINVAL, "'%s' has no parameter '%s'.", section->name, key);
}

int view_parameters_take(const struct section *section, const struct target *target,
			 struct view_options *options, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < target->n_pairs; i++)
		r = take_pair(section, target->pairs[i].key, target->pairs[i].value, options, err);
	return r;
}
