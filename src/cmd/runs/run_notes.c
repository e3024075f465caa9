/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes of processes; see run_notes.h. Main thread, after the program's end.
 */
#include "cmd/runs/run_notes.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	LINE_MOST = 1000,
	NOTES_MOST = 16 << 10, /* bytes, of all processes */
};

bool run_note_is_file(const char *name)
{
	size_t length = strlen(name);

	return strncmp(name, "auto-", 5) == 0 && length > 10 &&
	       strcmp(name + length - 5, ".note") == 0;
}

static bool has_line(const struct buf *notes, const char *line)
{
	size_t length = strlen(line);

	for (const char *at = notes->data; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		if (strncmp(at, line, length) == 0 && (at[length] == '\n' || !at[length]))
			return true;
	return false;
}

static void add_file(int fd, struct buf *notes)
{
	FILE *file = fdopen(fd, "r");
	char line[LINE_MOST];

	if (!file) {
		close(fd);
		return;
	}
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] && notes->size < NOTES_MOST && !has_line(notes, line))
			buf_printf(notes, "%s%s", notes->size ? "\n" : "", line);
	}
	fclose(file);
}

void run_notes_take(const char *run, struct buf *notes)
{
	struct dirent *entry;
	DIR *dir = opendir(run);

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		int fd = run_note_is_file(entry->d_name)
				 ? openat(dirfd(dir), entry->d_name,
					  O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
				 : -1;

		if (fd < 0)
			continue;
		add_file(fd, notes);
		unlinkat(dirfd(dir), entry->d_name, 0);
	}
	closedir(dir);
}
