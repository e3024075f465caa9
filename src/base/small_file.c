/* SPDX-License-Identifier: Apache-2.0
 *
 * See small_file.h.
 */
#include "base/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/read_at.h"

ssize_t small_file_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -errno : read_at(fd, text, size - 1, 0);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n;
}

bool small_file_line(const char *path, char *line, size_t size)
{
	ssize_t n = small_file_text(path, line, size);

	line[strcspn(line, "\n")] = '\0';
	return n > 0;
}

/* The value of a line with this key; NULL: it has another one. */
static const char *value_in(const char *line, const char *key)
{
	size_t length = strlen(key);

	if (strncmp(line, key, length) != 0 || !line[length] || !strchr(" \t:", line[length]))
		return NULL;
	line += length;
	line += strspn(line, " \t");
	line += *line == ':';
	return line + strspn(line, " \t");
}

bool small_file_value(const char *path, const char *key, char *value, size_t size)
{
	FILE *file = fopen(path, "re");
	const char *found = NULL;
	char line[512];

	value[0] = '\0';
	while (file && !found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		found = value_in(line, key);
		if (found)
			snprintf(value, size, "%s", found);
	}
	if (file)
		fclose(file);
	return found != NULL;
}
