/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip by zlib; see gunzip.h. Zeros after the last member are padding; anything else was a member.
 */
#include "ingest/gunzip.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#define INPUT_BYTES ((size_t)256 << 10)

struct gunzip {
	int fd;
	bool ended;  /* the member; at its end there may be another */
	bool at_end; /* of the file */
	z_stream stream;
	unsigned char input[INPUT_BYTES];
};

int gunzip_new(int fd, struct gunzip **ret_gunzip)
{
	struct gunzip *gunzip = malloc(sizeof(*gunzip));

	if (!gunzip)
		return -ENOMEM;
	gunzip->fd = fd;
	gunzip->ended = gunzip->at_end = false;
	gunzip->stream = (z_stream){ 0 };
	if (inflateInit2(&gunzip->stream, 15 + 16) != Z_OK) {
		free(gunzip);
		return -ENOMEM;
	}
	*ret_gunzip = gunzip;
	return 0;
}

void gunzip_free(struct gunzip *gunzip)
{
	if (!gunzip)
		return;
	inflateEnd(&gunzip->stream);
	free(gunzip);
}

/* 0, also at the end of the file. */
static int refill(struct gunzip *gunzip)
{
	ssize_t n;

	do {
		n = read(gunzip->fd, gunzip->input, sizeof(gunzip->input));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	gunzip->at_end = n == 0;
	gunzip->stream.next_in = gunzip->input;
	gunzip->stream.avail_in = (uInt)n;
	return 0;
}

ssize_t gunzip_read(struct gunzip *gunzip, char *to, size_t size)
{
	z_stream *stream = &gunzip->stream;
	uInt most = size < INT_MAX ? (uInt)size : INT_MAX;
	int r;

	stream->next_out = (unsigned char *)to;
	stream->avail_out = most;
	while (stream->avail_out) {
		if (!stream->avail_in && !gunzip->at_end) {
			r = refill(gunzip);
			if (r < 0)
				return most > stream->avail_out
					       ? (ssize_t)(most - stream->avail_out)
					       : r;
		}
		if (gunzip->ended) {
			if (gunzip->at_end || stream->next_in[0] != 0x1f)
				break;
			inflateReset(stream);
			gunzip->ended = false;
		}
		r = inflate(stream, Z_NO_FLUSH);
		if (r == Z_STREAM_END)
			gunzip->ended = true;
		else if (r == Z_MEM_ERROR)
			return -ENOMEM;
		else if (r != Z_OK && !(r == Z_BUF_ERROR && !gunzip->at_end))
			break;
	}
	if (stream->avail_out < most)
		return (ssize_t)(most - stream->avail_out);
	if (!most || (gunzip->ended && (gunzip->at_end || !stream->next_in[0])))
		return 0;
	return -EBADMSG;
}
