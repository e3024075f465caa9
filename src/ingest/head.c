/* SPDX-License-Identifier: Apache-2.0
 *
 * See head.h.
 */
#include "ingest/head.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

static ssize_t read_some(int fd, char *to, size_t most)
{
	size_t got = 0;

	while (got < most) {
		ssize_t n = pread(fd, to + got, most - got, (off_t)got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

#ifdef HAVE_ZLIB
/* Of a file that breaks off or is damaged, what comes before. The first members may be short. */
static size_t inflate_head(const char *from, size_t bytes, char *to, size_t most)
{
	z_stream z = { .next_in = (Bytef *)from,
		       .avail_in = (uInt)bytes,
		       .next_out = (Bytef *)to,
		       .avail_out = (uInt)most };

	if (inflateInit2(&z, 15 + 16) != Z_OK)
		return 0;
	while (inflate(&z, Z_SYNC_FLUSH) == Z_STREAM_END && z.avail_in && z.avail_out &&
	       inflateReset(&z) == Z_OK)
		;
	inflateEnd(&z);
	return most - z.avail_out;
}

static int decompress(struct ingest_head *head, const char *path, struct err *err)
{
	char *plain = calloc(1, INGEST_HEAD_BYTES + 1);

	if (!plain)
		return err_sys(err, -ENOMEM, "%s: cannot read", path);
	head->file.head_bytes = inflate_head(head->bytes, head->file.head_bytes, plain,
					     INGEST_HEAD_BYTES);
	free(head->bytes);
	head->bytes = plain;
	return 0;
}
#else
static int decompress(struct ingest_head *head, const char *path, struct err *err)
{
	(void)head;
	return err_set(err, -ENOTSUP,
		       "%s: compressed, and this moescope was built without zlib; gunzip it first",
		       path);
}
#endif

int head_read(const char *path, struct ingest_head *ret_head, struct err *err)
{
	struct ingest_head head = { .file = { .path = path },
				    .bytes = calloc(1, INGEST_HEAD_BYTES + 1) };
	int fd = head.bytes ? open(path, O_RDONLY | O_CLOEXEC) : -1, r = 0;
	struct stat st = { 0 };
	ssize_t n = 0;

	if (!head.bytes)
		r = -ENOMEM;
	else if (fd < 0 || fstat(fd, &st) < 0)
		r = -errno;
	else if ((n = read_some(fd, head.bytes, INGEST_HEAD_BYTES)) < 0)
		r = (int)n;
	if (fd >= 0)
		close(fd);
	if (r < 0) {
		free(head.bytes);
		return err_sys(err, r, "%s: cannot read", path);
	}
	head.file.bytes = (uint64_t)st.st_size;
	head.file.head_bytes = (size_t)n;
	if (n >= 2 && !memcmp(head.bytes, "\x1f\x8b", 2)) {
		head.file.gzip = true;
		r = decompress(&head, path, err);
	}
	if (r < 0) {
		free(head.bytes);
		return r;
	}
	head.file.head = head.bytes;
	*ret_head = head;
	return 0;
}

void head_release(struct ingest_head *head)
{
	free(head->bytes);
	head->bytes = NULL;
}
