/* SPDX-License-Identifier: Apache-2.0
 *
 * peer-inflate FILE.gz: zlib's own speed: everything is decompressed and discarded.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

int main(int argc, char **argv)
{
	static unsigned char in[1 << 18], out[1 << 18];
	z_stream stream = { 0 };
	unsigned long long bytes = 0;
	int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1, r = Z_OK;
	ssize_t n;

	/* 32: the header says whether it is gzip. */
	if (fd < 0 || inflateInit2(&stream, 15 + 32) != Z_OK) {
		fprintf(stderr, "usage: peer-inflate FILE.gz\n");
		return 2;
	}
	while ((n = read(fd, in, sizeof(in))) > 0) {
		stream.next_in = in;
		stream.avail_in = (uInt)n;
		do {
			/* Files of several gzip members are one stream. */
			if (r == Z_STREAM_END)
				inflateReset(&stream);
			stream.next_out = out;
			stream.avail_out = sizeof(out);
			r = inflate(&stream, Z_NO_FLUSH);
			bytes += sizeof(out) - stream.avail_out;
		} while ((r == Z_OK || r == Z_STREAM_END) &&
			 (stream.avail_in || !stream.avail_out));
		if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
			break;
	}
	inflateEnd(&stream);
	close(fd);
	if (n < 0 || r != Z_STREAM_END) {
		fprintf(stderr, "peer-inflate: %s: broken\n", argv[1]);
		return 1;
	}
	printf("bytes %llu\n", bytes);
	return 0;
}
