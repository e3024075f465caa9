/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of /proc and /sys; see proc_text.h.
 */
#include "host/machine/proc_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/small_file.h"

#define LIST_MOST 65536 /* files are not to be trusted with endless loops */

char *proc_line(char **at)
{
	char *line = *at, *end;

	if (!*line)
		return NULL;
	end = strchr(line, '\n');
	*at = end ? end + 1 : line + strlen(line);
	if (end)
		*end = '\0';
	return line;
}

size_t proc_numbers(const char *text, int64_t *ret_numbers, size_t most)
{
	size_t n = 0;

	while (n < most) {
		char *end;
		long long number = strtoll(text, &end, 10);

		if (end == text)
			break;
		ret_numbers[n++] = number;
		text = end;
	}
	return n;
}

const char *proc_after(const char *text, const char *key)
{
	size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) != 0 || !line[length] ||
		    !strchr(": \t", line[length]))
			continue;
		line += length + (line[length] == ':');
		return line + strspn(line, " \t");
	}
	return NULL;
}

bool proc_number(const char *text, const char *key, int64_t *ret_number)
{
	const char *at = proc_after(text, key);

	return at && proc_numbers(at, ret_number, 1) == 1;
}

bool proc_file_number(const char *path, int64_t *ret_number)
{
	char text[64];

	return small_file_text(path, text, sizeof(text)) > 0 &&
	       proc_numbers(text, ret_number, 1) == 1;
}

size_t proc_list(const char *text, void (*fn)(void *arg, unsigned int number), void *arg)
{
	size_t n = 0;

	while (*text >= '0' && *text <= '9') {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && n < LIST_MOST; first++, n++)
			if (fn)
				fn(arg, (unsigned int)first);
		text = *end == ',' ? end + 1 : end;
	}
	return n;
}
