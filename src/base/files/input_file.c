/* SPDX-License-Identifier: Apache-2.0
 *
 * See input_file.h.
 */
#include "base/files/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
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

/* Room for what the file has now, and a byte to meet its end with; it may have more then. */
static int reserve_all(int fd, size_t max, struct buf *text)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > max)
		return -EFBIG;
	text->capacity = (size_t)st.st_size + 1;
	text->data = array_new(text->capacity, 1);
	return text->data ? 0 : -ENOMEM;
}

int input_text(const char *path, size_t max, char **ret_text, size_t *ret_length, struct err *err)
{
	struct buf text = { 0 };
	int fd = input_open(path, err), r;
	ssize_t n = 1;

	if (fd < 0)
		return fd;
	r = reserve_all(fd, max, &text);
	while (r == 0 && n != 0) {
		if (text.size == text.capacity && !buf_reserve(&text, 4096)) {
			r = -ENOMEM;
			break;
		}
		n = read(fd, text.data + text.size, text.capacity - text.size);
		if (n < 0 && errno != EINTR)
			r = -errno;
		else if (n > 0 && text.size + (size_t)n > max)
			r = -EFBIG;
		else if (n > 0)
			text.size += (size_t)n;
	}
	close(fd);
	if (r < 0) {
		buf_release(&text);
		return r == -ENOMEM ? err_set(err, r, "%s: no memory", path)
				    : err_sys(err, r, "%s: cannot read", path);
	}
	*ret_text = text.data;
	*ret_length = text.size;
	return 0;
}
