/* SPDX-License-Identifier: Apache-2.0
 *
 * See inflater.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "ingest/inflater.h"

struct inflater {
	z_stream stream;
};

struct inflater *inflater_new(void)
{
	struct inflater *inflater = calloc(1, sizeof(*inflater));

	if (inflater && inflateInit2(&inflater->stream, 15 + 16) != Z_OK) {
		free(inflater);
		inflater = NULL;
	}
	return inflater;
}

void inflater_free(struct inflater *inflater)
{
	if (inflater)
		inflateEnd(&inflater->stream);
	free(inflater);
}

void inflater_reset(struct inflater *inflater)
{
	inflateReset(&inflater->stream);
}

int inflater_run(struct inflater *inflater, uint8_t **in, size_t *n_in, uint8_t **out,
		 size_t *n_out)
{
	z_stream *stream = &inflater->stream;
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
