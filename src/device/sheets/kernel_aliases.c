/* SPDX-License-Identifier: Apache-2.0
 *
 * Short names that differ; see kernel_name.h. Pure, any thread.
 *
 * What tells a kernel from its like are words of the whole name: of those of one short name the word
 * is taken that rules most of the others out, and again, until none is left. Kernels of equal words
 * get a number.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "device/sheets/kernel_name.h"

#define WORDS_MOST 3  /* in a short name */
#define GROUP_MOST 64 /* that are compared with each other; more get numbers at once */
#define LETTERS_MOST 28

struct word {
	const char *at;
	size_t n;
};

struct words {
	struct word *list;
	size_t n, capacity;
};

static int by_alias(const void *a, const void *b)
{
	const struct kernel_alias *x = a, *y = b;
	int order = strcmp(*x->short_name, *y->short_name);

	return order ? order : strcmp(x->name, y->name);
}

static bool in_word(char letter)
{
	return isalnum((unsigned char)letter) || letter == '_' || (letter & 0x80);
}

static bool has_word(const struct words *words, struct word word)
{
	for (size_t i = 0; i < words->n; i++)
		if (words->list[i].n == word.n && !memcmp(words->list[i].at, word.at, word.n))
			return true;
	return false;
}

/* The next word of a mangled name: "6kernel" says how long it is, "Li128E" is a number. */
static struct word mangled_word(const char *at)
{
	char *end;
	unsigned long length;

	while (*at && !isdigit((unsigned char)*at) &&
	       !(at[0] == 'L' && islower((unsigned char)at[1])))
		at += *at == 'S' ? 1 + strspn(at + 1, "0123456789") : 1; /* "S9_": one of before */
	if (*at == 'L') {
		at += 2;
		return (struct word){ at, strspn(at, "0123456789") };
	}
	if (!*at)
		return (struct word){ at, 0 };
	length = strtoul(at, &end, 10);
	return (struct word){ end, length < strlen(end) ? length : strlen(end) };
}

static struct word plain_word(const char *at)
{
	struct word word = { at, 0 };

	while (*word.at && !in_word(*word.at))
		word.at++;
	while (in_word(word.at[word.n]))
		word.n++;
	return word;
}

/* Each word of a name once. */
static int split_words(const char *name, struct words *words)
{
	bool mangled = !strncmp(name, "_Z", 2);

	while (*name) {
		struct word word = mangled ? mangled_word(name) : plain_word(name);

		name = word.at + word.n;
		if (!word.n || has_word(words, word))
			continue;
		if (array_grow(&words->list, &words->capacity, words->n + 1, sizeof(word)) < 0)
			return -ENOMEM;
		words->list[words->n++] = word;
	}
	return 0;
}

/* The word of `own` that most of those that are left do not have; n 0: there is none. */
static struct word best_word(const struct words *own, const struct words *all, const bool *left,
			     size_t n)
{
	struct word best = { 0 };
	size_t most = 0;

	for (size_t w = 0; w < own->n; w++) {
		size_t without = 0;

		for (size_t i = 0; i < n; i++)
			without += left[i] && !has_word(&all[i], own->list[w]);
		if (without > most) {
			most = without;
			best = own->list[w];
		}
	}
	return best;
}

/* The short name of the i-th of n with the words that tell it from the others. */
static int with_words(const struct kernel_alias *aliases, const struct words *all, size_t i,
		      size_t n, char **ret_text)
{
	const char *separator = " …";
	bool left[GROUP_MOST];
	struct buf text = { 0 };

	buf_printf(&text, "%s", *aliases[i].short_name);
	for (size_t k = 0; k < n; k++)
		left[k] = k != i;
	for (size_t words = 0; words < WORDS_MOST; words++) {
		struct word word = best_word(&all[i], all, left, n);

		if (!word.n)
			break;
		for (size_t k = 0; k < n; k++)
			left[k] = left[k] && has_word(&all[k], word);
		buf_printf(&text, "%s%.*s", separator,
			   (int)(word.n < LETTERS_MOST ? word.n : LETTERS_MOST), word.at);
		separator = " ";
	}
	buf_append(&text, "", 1);
	if (text.failed) {
		buf_release(&text);
		return -ENOMEM;
	}
	*ret_text = text.data;
	return 0;
}

/* Of n names, all called the same in short, into told. */
static int tell_group_apart(const struct kernel_alias *aliases, size_t n, char **told)
{
	struct words all[GROUP_MOST] = { 0 };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = split_words(aliases[i].name, &all[i]);
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = with_words(aliases, all, i, n, &told[i]);
	for (size_t i = 0; i < n; i++)
		free(all[i].list);
	return r;
}

/* Those of n texts that are there already, in the order of their names, get a number; all but the
 * first of a group that is too large to compare. */
static int number_equals(const struct kernel_alias *aliases, size_t n, char **told)
{
	for (size_t i = n; i-- > 1;) { /* from the last: the ones before have no number yet */
		const char *own = told[i] ? told[i] : *aliases[i].short_name;
		size_t same = n > GROUP_MOST ? i + 1 : 1;
		char *numbered;

		for (size_t j = 0; n <= GROUP_MOST && j < i; j++)
			same += !strcmp(told[j] ? told[j] : *aliases[j].short_name, own);
		if (same == 1)
			continue;
		if (asprintf(&numbered, "%s #%zu", own, same) < 0)
			return -ENOMEM;
		free(told[i]);
		told[i] = numbered;
	}
	return 0;
}

int kernel_aliases_tell_apart(struct kernel_alias *aliases, size_t n)
{
	char **told = calloc(n + 1, sizeof(*told));
	int r = told ? 0 : -ENOMEM;

	if (r >= 0 && n)
		qsort(aliases, n, sizeof(*aliases), by_alias);
	for (size_t i = 0, end; r >= 0 && i < n; i = end) {
		for (end = i + 1;
		     end < n && !strcmp(*aliases[end].short_name, *aliases[i].short_name);)
			end++;
		if (end - i > 1 && end - i <= GROUP_MOST)
			r = tell_group_apart(aliases + i, end - i, told + i);
		if (r >= 0)
			r = number_equals(aliases + i, end - i, told + i);
	}
	for (size_t i = 0; told && i < n; i++) {
		if (r >= 0 && told[i]) {
			free(*aliases[i].short_name);
			*aliases[i].short_name = told[i];
		} else {
			free(told[i]);
		}
	}
	free(told);
	return r;
}
