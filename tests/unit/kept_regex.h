/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns are compiled once and kept. For programs that open the same tables thousands of times and
 * would spend nine tenths of their time in regcomp; linked with --wrap for it. Included once.
 */
#ifndef TESTS_KEPT_REGEX_H
#define TESTS_KEPT_REGEX_H

#include <regex.h>
#include <stdlib.h>
#include <string.h>

static struct {
	char pattern[1024];
	int flags;
	regex_t regex;
} kept[1024];
static size_t n_kept;

int __real_regcomp(regex_t *ret_regex, const char *pattern, int flags);
int __wrap_regcomp(regex_t *ret_regex, const char *pattern, int flags);
void __wrap_regfree(regex_t *regex);

int __wrap_regcomp(regex_t *ret_regex, const char *pattern, int flags)
{
	size_t i = 0;

	while (i < n_kept && (kept[i].flags != flags || strcmp(kept[i].pattern, pattern) != 0))
		i++;
	if (i == n_kept) {
		int r;

		if (i == sizeof(kept) / sizeof(kept[0]) ||
		    strlen(pattern) >= sizeof(kept[i].pattern))
			abort();
		r = __real_regcomp(&kept[i].regex, pattern, flags);
		if (r)
			return r;
		strcpy(kept[i].pattern, pattern);
		kept[i].flags = flags;
		n_kept++;
	}
	*ret_regex = kept[i].regex;
	return 0;
}

void __wrap_regfree(regex_t *regex)
{
	(void)regex;
}

#endif
