/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel filter; see kernel_filter.h. A program has a few hundred names and millions of
 * kernels, so each name is matched once: two bits per name id, grown by doubling.
 */
#include "probe/core/kernel_filter.h"

#include <regex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moescope.h"

enum answer { UNKNOWN, KEPT, SKIPPED };
#define PER_BYTE 4

static bool filtering;
static regex_t pattern;
static uint8_t *answers; /* two bits each */
static uint32_t n_bytes;
static _Atomic uint64_t skipped;

static void forget(void)
{
	if (filtering)
		regfree(&pattern);
	filtering = false;
	free(answers);
	answers = NULL;
	n_bytes = 0;
	atomic_store(&skipped, 0);
}

void kernel_filter_start(void)
{
	const char *text = getenv("MOESCOPE_KERNEL");
	char why[128], words[256];
	int r;

	forget();
	if (!text || !*text)
		return;
	r = regcomp(&pattern, text, REG_EXTENDED | REG_NOSUB);
	if (r == 0) {
		filtering = true;
		return;
	}
	regerror(r, &pattern, why, sizeof(why));
	snprintf(
		words, sizeof(words),
		"off, all kernels are recorded: MOESCOPE_KERNEL is not a valid regular expression (%s)",
		why);
	moescope_info("kernel filter", words);
}

/* Makes room for a name id's answer. */
static bool grow(uint32_t name_id)
{
	uint32_t need = name_id / PER_BYTE + 1, wanted = n_bytes ? n_bytes : 256;
	uint8_t *grown;

	if (need <= n_bytes)
		return true;
	while (wanted < need)
		wanted *= 2;
	grown = realloc(answers, wanted);
	if (!grown)
		return false;
	memset(grown + n_bytes, 0, wanted - n_bytes);
	answers = grown;
	n_bytes = wanted;
	return true;
}

static enum answer answer_of(uint32_t name_id, const char *name)
{
	uint32_t shift = name_id % PER_BYTE * 2;
	bool remembered = name_id && grow(name_id);
	enum answer answer = UNKNOWN;

	if (remembered)
		answer = (enum answer)(answers[name_id / PER_BYTE] >> shift & 3);
	if (answer != UNKNOWN)
		return answer;
	answer = regexec(&pattern, name, 0, NULL, 0) == REG_NOMATCH ? SKIPPED : KEPT;
	if (remembered)
		answers[name_id / PER_BYTE] |= (uint8_t)(answer << shift);
	return answer;
}

bool kernel_filter_keeps(uint32_t name_id, const char *name)
{
	if (!filtering || answer_of(name_id, name) == KEPT)
		return true;
	atomic_fetch_add_explicit(&skipped, 1, memory_order_relaxed);
	return false;
}

uint64_t kernel_filter_skipped(void)
{
	return atomic_load_explicit(&skipped, memory_order_relaxed);
}
