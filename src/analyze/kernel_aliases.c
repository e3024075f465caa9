/* SPDX-License-Identifier: Apache-2.0
 *
 * Short names that differ; see kernel_name.h. Pure, any thread.
 *
 * Sorted by their whole names, the one that is most like a name is beside it.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/kernel_name.h"

#define WORD 4	/* letters that say something */
#define HALF 24 /* of them around the difference; mangled names are one word */

static int by_label(const void *a, const void *b)
{
	const struct kernel_alias *x = a, *y = b;
	int order = strcmp(*x->short_name, *y->short_name);

	return order ? order : strcmp(x->name, y->name);
}

static bool in_word(char letter)
{
	return isalnum((unsigned char)letter) || letter == '_' || (letter & 0x80);
}

static size_t alike(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] && a[n] == b[n])
		n++;
	return n;
}

/* The short name with the word of the whole one that begins to differ at `at`. */
static char *with_word(const char *short_name, const char *name, size_t at)
{
	size_t from = at, to = at;
	char *out;

	while (from > 0 && at - from < HALF && in_word(name[from - 1]))
		from--;
	while (to - at < HALF && in_word(name[to]))
		to++;
	if (to - from < WORD) /* a mere number: with what follows */
		to = from + strnlen(name + from, (size_t)3 * WORD);
	return asprintf(&out, "%s …%.*s", short_name, (int)(to - from), name + from) < 0 ? NULL
											 : out;
}

/* All n are called the same in short; names that are wholly the same may stay so. */
static int tell_apart(const struct kernel_alias *labels, size_t n, char **told)
{
	for (size_t i = 0; i < n; i++) {
		size_t before = i ? alike(labels[i].name, labels[i - 1].name) : 0;
		size_t after = i + 1 < n ? alike(labels[i].name, labels[i + 1].name) : 0;

		told[i] = with_word(*labels[i].short_name, labels[i].name,
				    before > after ? before : after);
		if (!told[i])
			return -ENOMEM;
	}
	/* One word may differ from its neighbours alone: then a number, too. */
	for (size_t i = 0, same = 1; i < n; i++, same = 1) {
		char *numbered;

		for (size_t j = 0; j < i; j++)
			same += !strcmp(told[j], told[i]);
		if (same == 1)
			continue;
		if (asprintf(&numbered, "%s #%zu", told[i], same) < 0)
			return -ENOMEM;
		free(told[i]);
		told[i] = numbered;
	}
	return 0;
}

int kernel_aliases_tell_apart(struct kernel_alias *labels, size_t n)
{
	char **told = calloc(n + 1, sizeof(*told));
	int r = told ? 0 : -ENOMEM;

	if (r >= 0 && n)
		qsort(labels, n, sizeof(*labels), by_label);
	for (size_t i = 0, end; r >= 0 && i < n; i = end) {
		for (end = i + 1;
		     end < n && !strcmp(*labels[end].short_name, *labels[i].short_name);)
			end++;
		if (end - i > 1)
			r = tell_apart(labels + i, end - i, told + i);
	}
	for (size_t i = 0; told && i < n; i++) {
		if (r >= 0 && told[i]) {
			free(*labels[i].short_name);
			*labels[i].short_name = told[i];
		} else {
			free(told[i]);
		}
	}
	free(told);
	return r;
}
