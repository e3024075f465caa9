/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for chrome_gzip.c where zlib was not there to build with.
 */
#include "exports/chrome/chrome_gzip.h"

#include <errno.h>

bool gzip_built(void)
{
	return false;
}

int gzip_out_new(FILE *file, struct gzip_out **ret_gzip)
{
	(void)file;
	(void)ret_gzip;
	return -ENOTSUP;
}

int gzip_out_write(struct gzip_out *gzip, const void *bytes, size_t size)
{
	(void)gzip;
	(void)bytes;
	(void)size;
	return -ENOTSUP;
}

int gzip_out_finish(struct gzip_out *gzip)
{
	(void)gzip;
	return -ENOTSUP;
}

void gzip_out_free(struct gzip_out *gzip)
{
	(void)gzip;
}
