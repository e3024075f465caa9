/* SPDX-License-Identifier: Apache-2.0
 *
 * See input_file.h.
 */
#include "base/files/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

/* O_NONBLOCK: opening a FIFO would otherwise wait for its writer. Regular files ignore it. */
#define FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

static int refuse(int fd, const char *path, int code, struct err *err)
{
	close(fd);
	return code == -EINVAL ? err_set(err, code, "%s: not a regular file", path)
			       : err_sys(err, code, "%s: cannot read", path);
}

/* Another process may hold a lease on the file, as file servers do: that is worth waiting for. */
static int open_leased(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode)) {
		errno = ENXIO;
		return -1;
	}
	return open(path, FLAGS & ~O_NONBLOCK);
}

int input_open(const char *path, struct err *err)
{
	int fd = open(path, FLAGS);
	struct stat st;

	if (fd < 0 && errno == EWOULDBLOCK)
		fd = open_leased(path);
	if (fd < 0 && errno == ENXIO) /* a socket, or a device that is not there */
		return err_set(err, -EINVAL, "%s: not a regular file", path);
	if (fd < 0)
		return err_sys(err, -errno, "%s: cannot open", path);
	if (fstat(fd, &st) < 0)
		return refuse(fd, path, -errno, err);
	if (S_ISDIR(st.st_mode))
		return refuse(fd, path, -EISDIR, err);
	if (!S_ISREG(st.st_mode))
		return refuse(fd, path, -EINVAL, err);
	return fd;
}

FILE *input_stream(const char *path, struct err *err)
{
	int fd = input_open(path, err);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "rb");

	if (fd < 0) {
		errno = -fd;
	} else if (!file) {
		close(fd);
		err_sys(err, -ENOMEM, "%s: cannot open", path);
		errno = ENOMEM;
	}
	return file;
}

int input_text(const char *path, size_t max, char **ret_text, size_t *ret_length, struct err *err)
{
	struct buf text = { 0 };
	int fd = input_open(path, err), r = 0;
	ssize_t n = 0;

	if (fd < 0)
		return fd;
	do {
		void *to = buf_reserve(&text, 4096);

		n = to ? read(fd, to, 4096) : 0;
		if (!to)
			r = -ENOMEM;
		else if (n < 0)
			r = -errno;
		else if (text.size + (size_t)n > max)
			r = -EFBIG;
		else
			text.size += (size_t)n;
	} while (r == 0 && n > 0);
	close(fd);
	if (r < 0) {
		buf_release(&text);
		return err_sys(err, r, "%s: cannot read", path);
	}
	*ret_text = text.data;
	*ret_length = text.size;
	return 0;
}
