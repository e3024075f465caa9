/* SPDX-License-Identifier: Apache-2.0
 *
 * Places of files; see place.h.
 */
#include "base/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int place_find(const char *path, char **ret_place, bool *ret_stream)
{
	struct stat there;
	char *place;

	*ret_stream = stat(path, &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
	place = *ret_stream ? NULL : realpath(path, NULL);
	/* What is not there yet, or has no name (/dev/stdout of a pipe), is reached as it was said. */
	if (!place)
		place = strdup(path);
	if (!place)
		return -ENOMEM;
	*ret_place = place;
	return 0;
}
