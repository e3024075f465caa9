/* SPDX-License-Identifier: Apache-2.0
 *
 * Lengths of prompts and answers; see lengths.h.
 */
#include "lab/load/lengths.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/input_file.h"

static const struct {
	const char *prefix;
	enum lengths_kind kind;
} forms[] = {
	{ "uniform:", LENGTHS_UNIFORM },
	{ "normal:", LENGTHS_NORMAL },
	{ "lognormal:", LENGTHS_LOGNORMAL },
};

void lengths_release(struct lengths *lengths)
{
	free(lengths->list);
	memset(lengths, 0, sizeof(*lengths));
}

static int bad_text(const char *text, const char *key, struct err *err)
{
	return err_set(err, -EINVAL,
		       "%s '%s' is not a length; write N, uniform:LOW,HIGH, normal:MEAN,DEVIATION, "
		       "lognormal:MEDIAN,SIGMA or file:PATH, with lengths of 1 to %lld.",
		       key, text, (long long)LENGTH_MAX);
}

static bool whole_number(const char *text, int64_t *ret_value)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (end == text || *end || errno || value < 1 || value > LENGTH_MAX)
		return false;
	*ret_value = value;
	return true;
}

static int read_list(const char *path, struct lengths *lengths, struct err *err)
{
	FILE *file = input_stream(path, err);
	size_t capacity = 0, room = 0, number = 0;
	char *line = NULL;
	ssize_t length;
	int r = 0;

	if (!file)
		return -errno;
	while (r == 0 && (length = getline(&line, &room, file)) >= 0) {
		number++;
		while (length > 0 && strchr(" \t\r\n", line[length - 1]))
			line[--length] = '\0';
		if (length == 0)
			continue;
		if (array_grow(&lengths->list, &capacity, lengths->n + 1, sizeof(int64_t)) < 0)
			r = err_set(err, -ENOMEM, "not enough memory for %s.", path);
		else if (!whole_number(line, &lengths->list[lengths->n++]))
			r = err_set(err, -EINVAL,
				    "%s, line %zu: not a whole number from 1 to %lld.", path,
				    number, (long long)LENGTH_MAX);
	}
	if (r == 0 && ferror(file))
		r = err_sys(err, -EIO, "%s cannot be read", path);
	if (r == 0 && lengths->n == 0)
		r = err_set(err, -EINVAL, "%s has no lengths; write one per line.", path);
	free(line);
	fclose(file);
	return r;
}

static bool two_numbers(const char *text, struct lengths *lengths)
{
	char *end;

	lengths->a = strtod(text, &end);
	if (end == text || *end != ',')
		return false;
	text = end + 1;
	lengths->b = strtod(text, &end);
	if (end == text || *end || !isfinite(lengths->a) || !isfinite(lengths->b))
		return false;
	if (lengths->a < 1 || lengths->a > (double)LENGTH_MAX || lengths->b < 0)
		return false;
	if (lengths->kind != LENGTHS_UNIFORM)
		return true;
	return lengths->b >= lengths->a && lengths->b <= (double)LENGTH_MAX &&
	       floor(lengths->a) == lengths->a && floor(lengths->b) == lengths->b;
}

int lengths_parse(const char *text, const char *key, struct lengths *ret_lengths, struct err *err)
{
	struct lengths lengths = { .kind = LENGTHS_FIXED };
	int64_t fixed;
	int r;

	if (strncmp(text, "file:", 5) == 0) {
		lengths.kind = LENGTHS_FILE;
		r = read_list(text + 5, &lengths, err);
		if (r < 0) {
			lengths_release(&lengths);
			return r;
		}
		*ret_lengths = lengths;
		return 0;
	}
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		size_t n = strlen(forms[i].prefix);

		if (strncmp(text, forms[i].prefix, n) != 0)
			continue;
		lengths.kind = forms[i].kind;
		if (!two_numbers(text + n, &lengths))
			return bad_text(text, key, err);
		*ret_lengths = lengths;
		return 0;
	}
	if (!whole_number(text, &fixed))
		return bad_text(text, key, err);
	lengths.a = (double)fixed;
	*ret_lengths = lengths;
	return 0;
}

int64_t lengths_draw(struct lengths *lengths, struct sampler *sampler)
{
	double value = lengths->a;

	switch (lengths->kind) {
	case LENGTHS_FILE:
		return lengths->list[lengths->next++ % lengths->n];
	case LENGTHS_UNIFORM:
		value += floor(sample_uniform(sampler) * (lengths->b - lengths->a + 1));
		value = fmin(value, lengths->b);
		break;
	case LENGTHS_NORMAL:
		value = round(value + lengths->b * sample_normal(sampler));
		break;
	case LENGTHS_LOGNORMAL:
		value = round(value * exp(lengths->b * sample_normal(sampler)));
		break;
	case LENGTHS_FIXED:
		break;
	}
	return (int64_t)fmin(fmax(value, 1), (double)LENGTH_MAX);
}

void prompt_append(struct buf *buf, struct sampler *sampler, int64_t words)
{
	static const char *const vocabulary[] = {
		"the",	 "of",	 "and",	 "to",	 "in",	  "is",	  "that",  "it",  "was",   "for",
		"on",	 "are",	 "with", "as",	 "his",	  "they", "at",	   "be",  "this",  "have",
		"from",	 "or",	 "one",	 "had",	 "by",	  "word", "but",   "not", "what",  "all",
		"were",	 "we",	 "when", "your", "can",	  "said", "there", "use", "an",	   "each",
		"which", "she",	 "do",	 "how",	 "their", "if",	  "will",  "up",  "other", "about",
		"out",	 "many", "then", "them", "these", "so",	  "some",  "her", "would", "make",
		"like",	 "him",	 "into", "time",
	};
	const size_t n = sizeof(vocabulary) / sizeof(*vocabulary);

	for (int64_t i = 0; i < words; i++) {
		const char *word = vocabulary[(size_t)(sample_uniform(sampler) * (double)n)];

		if (i)
			buf_append(buf, " ", 1);
		buf_append(buf, word, strlen(word));
	}
}
