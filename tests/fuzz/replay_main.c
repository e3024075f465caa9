/* SPDX-License-Identifier: Apache-2.0
 *
 * An ordinary program around a fuzz target: runs every file given, and every file in the
 * directories given, through it. Prints how many; a finding is a sanitizer report or an abort.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static size_t n_replayed;

static int replay_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *data = NULL;
	size_t size = 0;
	FILE *memory = f ? open_memstream(&data, &size) : NULL;
	int c;

	if (!f || !memory) {
		fprintf(stderr, "%s: cannot read: %s\n", path, strerror(errno));
		if (f)
			fclose(f);
		return -1;
	}
	while ((c = getc(f)) != EOF)
		putc(c, memory);
	fclose(f);
	fclose(memory);
	LLVMFuzzerTestOneInput((const uint8_t *)data, size);
	free(data);
	n_replayed++;
	return 0;
}

static int replay(const char *path)
{
	struct stat st;
	struct dirent **entries;
	int n, failed = 0;

	if (stat(path, &st) < 0) {
		fprintf(stderr, "%s: cannot read: %s\n", path, strerror(errno));
		return -1;
	}
	if (!S_ISDIR(st.st_mode))
		return replay_file(path);
	n = scandir(path, &entries, NULL, alphasort);
	if (n < 0)
		return -1;
	for (int i = 0; i < n; i++) {
		char *inner;

		if (entries[i]->d_name[0] != '.' &&
		    asprintf(&inner, "%s/%s", path, entries[i]->d_name) >= 0) {
			failed |= replay_file(inner);
			free(inner);
		}
		free(entries[i]);
	}
	free(entries);
	return failed;
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++)
		failed |= replay(argv[i]);
	printf("%zu inputs replayed\n", n_replayed);
	return failed || !n_replayed;
}
