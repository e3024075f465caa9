/* SPDX-License-Identifier: Apache-2.0
 *
 * What is not the same in the runs that are compared: whoever reads a difference must see whether it
 * is the one that was meant. See compare.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "compare/compare.h"

static const char *value_in(const struct run_digest *run, const char *key)
{
	for (size_t i = 0; i < run->n_facts; i++)
		if (!strcmp(run->facts[i].key, key))
			return run->facts[i].value;
	return "not said";
}

/* The values of a group's runs, each once. NULL: no memory. */
static char *value_of_group(const struct compare_group *group, const char *key)
{
	struct buf text = { 0 };

	for (size_t i = 0; i < group->n; i++) {
		const char *value = value_in(&group->runs[i], key);
		bool seen = false;

		for (size_t j = 0; j < i && !seen; j++)
			seen = !strcmp(value_in(&group->runs[j], key), value);
		if (!seen)
			buf_printf(&text, "%s%s", i ? " | " : "", *value ? value : "not said");
	}
	buf_append(&text, "", 1);
	if (text.failed) {
		buf_release(&text);
		return NULL;
	}
	return text.data;
}

static bool is_same(const struct comparison *c, const char *key)
{
	const char *first = value_in(&c->groups[0].runs[0], key);

	for (size_t g = 0; g < c->n_groups; g++)
		for (size_t i = 0; i < c->groups[g].n; i++)
			if (strcmp(value_in(&c->groups[g].runs[i], key), first) != 0)
				return false;
	return true;
}

static bool is_listed(const struct comparison *c, const char *key)
{
	for (size_t i = 0; i < c->n_facts; i++)
		if (!strcmp(c->facts[i].key, key))
			return true;
	return false;
}

static int add_compared_fact(struct comparison *c, size_t *capacity, const struct digest_fact *fact)
{
	struct compare_fact *added;

	if (array_grow(&c->facts, capacity, c->n_facts + 1, sizeof(*c->facts)) < 0)
		return -ENOMEM;
	added = &c->facts[c->n_facts++];
	*added = (struct compare_fact){ .key = fact->key, .doubtful = fact->doubtful };
	added->values = calloc(c->n_groups, sizeof(*added->values));
	if (!added->values)
		return -ENOMEM;
	for (size_t g = 0; g < c->n_groups; g++) {
		added->values[g] = value_of_group(&c->groups[g], fact->key);
		if (!added->values[g])
			return -ENOMEM;
	}
	return 0;
}

int compare_fill_facts(struct comparison *c)
{
	size_t capacity = 0;
	int r = 0;

	for (size_t g = 0; g < c->n_groups; g++)
		for (size_t i = 0; i < c->groups[g].n; i++) {
			const struct run_digest *run = &c->groups[g].runs[i];

			for (size_t j = 0; r >= 0 && j < run->n_facts; j++)
				if (!is_same(c, run->facts[j].key) &&
				    !is_listed(c, run->facts[j].key))
					r = add_compared_fact(c, &capacity, &run->facts[j]);
		}
	return r;
}
