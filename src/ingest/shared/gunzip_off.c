/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for gunzip.c in builds without zlib.
 */
#include "ingest/shared/gunzip.h"

#include <errno.h>

int gunzip_new(int fd, struct gunzip **ret_gunzip)
{
	(void)fd;
	(void)ret_gunzip;
	return -ENOTSUP;
}

void gunzip_free(struct gunzip *gunzip)
{
	(void)gunzip;
}

ssize_t gunzip_read(struct gunzip *gunzip, char *to, size_t size)
{
	(void)gunzip;
	(void)to;
	(void)size;
	return -ENOTSUP;
}
