/* SPDX-License-Identifier: Apache-2.0
 *
 * See head.h.
 */
#include "ingest/head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/input_file.h"
#include "base/read_at.h"
#include "ingest/shared/gunzip.h"

/* Of a file that breaks off or is damaged, what comes before. */
static int decompress(struct ingest_head *head, int fd)
{
	char *plain = calloc(1, INGEST_HEAD_BYTES + 1);
	struct gunzip *gunzip;
	size_t got = 0;
	ssize_t n;
	int r = plain ? gunzip_new(fd, &gunzip) : -ENOMEM;

	if (r < 0) {
		free(plain);
		return r;
	}
	while ((n = gunzip_read(gunzip, plain + got, INGEST_HEAD_BYTES - got)) > 0)
		got += (size_t)n;
	gunzip_free(gunzip);
	free(head->bytes);
	head->bytes = plain;
	head->file.head_bytes = got;
	return 0;
}

int head_read(const char *path, struct ingest_head *ret_head, struct err *err)
{
	struct ingest_head head = { .file = { .path = path },
				    .bytes = calloc(1, INGEST_HEAD_BYTES + 1) };
	int fd = input_open(path, err), r = 0;
	struct stat st = { 0 };
	ssize_t n = 0;

	if (fd < 0) {
		free(head.bytes);
		return fd;
	}
	if (!head.bytes)
		r = -ENOMEM;
	else if (fstat(fd, &st) < 0)
		r = -errno;
	else if ((n = read_at(fd, head.bytes, INGEST_HEAD_BYTES, 0)) < 0)
		r = (int)n;
	head.file.bytes = (uint64_t)st.st_size;
	head.file.head_bytes = (size_t)n;
	if (n >= 2 && !memcmp(head.bytes, "\x1f\x8b", 2)) {
		head.file.gzip = true;
		r = decompress(&head, fd);
	}
	close(fd);
	if (r < 0) {
		free(head.bytes);
		return r == -ENOTSUP
			       ? err_set(err, r,
					 "%s: compressed, and this moescope was built without "
					 "zlib; gunzip it first",
					 path)
			       : err_sys(err, r, "%s: cannot read", path);
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
