/* SPDX-License-Identifier: Apache-2.0
 *
 * See cache.h.
 */
#include "base/files/cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int cache_path(const char *name, char *path, size_t size)
{
	const char *cache = getenv("MOESCOPE_CACHE"), *xdg = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");
	int n = -1;

	if (cache && *cache)
		n = snprintf(path, size, "%s/%s", cache, name);
	else if (xdg && *xdg)
		n = snprintf(path, size, "%s/moescope/%s", xdg, name);
	else if (home && *home)
		n = snprintf(path, size, "%s/.cache/moescope/%s", home, name);
	return n > 0 && (size_t)n < size ? 0 : -ENOENT;
}

/* The folder `levels` above the file. */
static int make_above(const char *path, int levels)
{
	char folder[512];
	char *slash;

	if ((size_t)snprintf(folder, sizeof(folder), "%s", path) >= sizeof(folder))
		return -ENAMETOOLONG;
	for (int i = 0; i < levels; i++) {
		slash = strrchr(folder, '/');
		if (!slash)
			return -ENOENT;
		*slash = 0;
	}
	return !*folder || mkdir(folder, 0700) == 0 || errno == EEXIST ? 0 : -errno;
}

/* A folder that the user named must be in a place that exists: it may be a mistyped name. */
int cache_path_made(const char *name, char *path, size_t size)
{
	const char *cache = getenv("MOESCOPE_CACHE");
	int r = cache_path(name, path, size);

	if (r == 0 && !(cache && *cache))
		r = make_above(path, 2);
	return r < 0 ? r : make_above(path, 1);
}
