/* SPDX-License-Identifier: Apache-2.0
 *
 * See inflater.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "ingest/shared/inflater.h"

struct by_zlib {
	struct inflater inflater; /* first */
	z_stream stream;
};

static int zlib_run(struct inflater *inflater, uint8_t **in, size_t *n_in, uint8_t **out,
		    size_t *n_out)
{
	z_stream *stream = &((struct by_zlib *)inflater)->stream;
	int r;

	stream->next_in = *in;
	stream->avail_in = (uInt)*n_in;
	stream->next_out = *out;
	stream->avail_out = (uInt)*n_out;
	r = inflate(stream, Z_NO_FLUSH);
	*in = stream->next_in;
	*n_in = stream->avail_in;
	*out = stream->next_out;
	*n_out = stream->avail_out;
	switch (r) {
	case Z_STREAM_END:
		return INFLATED_ALL;
	case Z_MEM_ERROR:
		return -ENOMEM;
	case Z_OK:
	case Z_BUF_ERROR: /* nothing could be done */
		return INFLATED_SOME;
	default:
		return INFLATED_DAMAGED;
	}
}

static void zlib_reset(struct inflater *inflater)
{
	inflateReset(&((struct by_zlib *)inflater)->stream);
}

static void zlib_release(struct inflater *inflater)
{
	inflateEnd(&((struct by_zlib *)inflater)->stream);
	free(inflater);
}

struct inflater *inflater_zlib(void)
{
	struct by_zlib *zlib = calloc(1, sizeof(*zlib));

	if (!zlib)
		return NULL;
	zlib->inflater = (struct inflater){ zlib_run, zlib_reset, zlib_release };
	if (inflateInit2(&zlib->stream, 15 + 16) != Z_OK) {
		free(zlib);
		return NULL;
	}
	return &zlib->inflater;
}
