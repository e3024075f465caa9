/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking around from /proc/self/exe. Any thread.
 */
#include "cmd/recording/installed.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From the directory of the executable: beside it, as in the build directory, or under a prefix. */
static const char *const library_places[] = {
	"",
	"../lib/",
	"../lib64/",
#if defined(__x86_64__)
	"../lib/x86_64-linux-gnu/",
#elif defined(__aarch64__)
	"../lib/aarch64-linux-gnu/",
#endif
	NULL,
};

/* Likewise: in the source tree, in the package itself, or under a prefix. */
static const char *const package_places[] = {
	"../python/moescope/",
	"../",
	"../share/moescope/python/moescope/",
	NULL,
};

static char *beside(const char *place, const char *name, int mode)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *path;

	if (n < 0)
		return NULL;
	exe[n] = '\0';
	if (strrchr(exe, '/'))
		*strrchr(exe, '/') = '\0';
	if (asprintf(&path, "%s/%s%s", exe, place, name) < 0)
		return NULL;
	if (access(path, mode) == 0)
		return path;
	free(path);
	return NULL;
}

static char *first_beside(const char *const *places, const char *name)
{
	char *path = NULL;

	for (size_t i = 0; !path && places[i]; i++)
		path = beside(places[i], name, R_OK);
	return path;
}

char *installed_program(const char *name)
{
	return beside("", name, X_OK);
}

char *installed_library(const char *name)
{
	return first_beside(library_places, name);
}

char *installed_auto_file(const char *name)
{
	char *file, *path = NULL, place[64];

	snprintf(place, sizeof(place), "auto/%s", name);
	file = first_beside(package_places, place);
	if (file)
		path = realpath(file, NULL);
	free(file);
	return path;
}

char *installed_auto_path(void)
{
	char *file = first_beside(package_places, "auto/on_path/sitecustomize.py"), *folder = NULL;

	/* Without the dots: Python shows the path as it is given. */
	if (file && strrchr(file, '/')) {
		*strrchr(file, '/') = '\0';
		folder = realpath(file, NULL);
	}
	free(file);
	return folder;
}
