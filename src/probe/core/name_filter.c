/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters of names; see name_filter.h. A program has a few hundred names and millions of
 * kernels, so each name is matched once: two bits per name id, grown by doubling.
 */
#include "probe/core/name_filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moescope.h"

enum answer { UNKNOWN, KEPT, SKIPPED };
#define PER_BYTE 4

static void forget(struct name_filter *filter)
{
	if (filter->filtering)
		regfree(&filter->pattern);
	filter->filtering = false;
	free(filter->answers);
	filter->answers = NULL;
	filter->n_bytes = 0;
	atomic_store(&filter->skipped, 0);
}

void name_filter_start(struct name_filter *filter)
{
	const char *text = getenv(filter->variable);
	char why[128], words[256], key[32];
	int r;

	forget(filter);
	if (!text || !*text)
		return;
	r = regcomp(&filter->pattern, text, REG_EXTENDED | REG_NOSUB);
	if (r == 0) {
		filter->filtering = true;
		return;
	}
	regerror(r, &filter->pattern, why, sizeof(why));
	snprintf(words, sizeof(words),
		 "off, all %ss are recorded: %s is not a valid regular expression (%s)",
		 filter->what, filter->variable, why);
	snprintf(key, sizeof(key), "%s filter", filter->what);
	moescope_info(key, words);
}

/* Makes room for a name id's answer. */
static bool grow(struct name_filter *filter, uint32_t name_id)
{
	uint32_t need = name_id / PER_BYTE + 1, wanted = filter->n_bytes ? filter->n_bytes : 256;
	uint8_t *grown;

	if (need <= filter->n_bytes)
		return true;
	while (wanted < need)
		wanted *= 2;
	grown = realloc(filter->answers, wanted);
	if (!grown)
		return false;
	memset(grown + filter->n_bytes, 0, wanted - filter->n_bytes);
	filter->answers = grown;
	filter->n_bytes = wanted;
	return true;
}

static enum answer answer_of(struct name_filter *filter, uint32_t name_id, const char *name)
{
	uint32_t shift = name_id % PER_BYTE * 2;
	bool remembered = name_id && grow(filter, name_id);
	enum answer answer = UNKNOWN;

	if (remembered)
		answer = (enum answer)(filter->answers[name_id / PER_BYTE] >> shift & 3);
	if (answer != UNKNOWN)
		return answer;
	answer = regexec(&filter->pattern, name, 0, NULL, 0) == REG_NOMATCH ? SKIPPED : KEPT;
	if (remembered)
		filter->answers[name_id / PER_BYTE] |= (uint8_t)(answer << shift);
	return answer;
}

bool name_filter_keeps(struct name_filter *filter, uint32_t name_id, const char *name)
{
	if (!filter->filtering || answer_of(filter, name_id, name) == KEPT)
		return true;
	atomic_fetch_add_explicit(&filter->skipped, 1, memory_order_relaxed);
	return false;
}

uint64_t name_filter_skipped(const struct name_filter *filter)
{
	return atomic_load_explicit(&filter->skipped, memory_order_relaxed);
}
