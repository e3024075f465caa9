/* SPDX-License-Identifier: Apache-2.0
 *
 * See run_lock.h. run.lock has an open file description lock: a reader can query it without taking
 * it, so it never gets in a writer's way.
 */
#include "trace/run_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char *lock_path(const char *path, const char *name)
{
	char *file;

	return asprintf(&file, "%s/%s", path, name) < 0 ? NULL : file;
}

/* Opened and locked. -EAGAIN: its holder removed it meanwhile. */
static int open_locked(const char *file)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;
	int r = 0, fd = open(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_OFD_SETLK, &whole) < 0)
		r = errno == EACCES || errno == EAGAIN ? -EBUSY : -errno;
	else if (fstat(fd, &st) < 0 || st.st_nlink == 0)
		r = -EAGAIN;
	if (r == 0)
		return fd;
	close(fd);
	/* A file that nobody can lock would tell readers that its run was abandoned. */
	if (r != -EBUSY && r != -EAGAIN)
		unlink(file);
	return r;
}

static int take(const char *path, const char *name, int *ret_fd)
{
	char *file = lock_path(path, name);
	int fd;

	if (!file)
		return -ENOMEM;
	do
		fd = open_locked(file);
	while (fd == -EAGAIN);
	free(file);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

static void release(const char *path, const char *name, int fd, bool remove)
{
	char *file = fd >= 0 && remove ? lock_path(path, name) : NULL;

	if (file)
		unlink(file);
	free(file);
	if (fd >= 0)
		close(fd);
}

int run_lock_take(const char *path, int *ret_fd)
{
	return take(path, RUN_LOCK_FILE, ret_fd);
}

void run_lock_release(const char *path, int fd, bool ended)
{
	release(path, RUN_LOCK_FILE, fd, ended);
}

int join_lock_take(const char *path, int *ret_fd)
{
	return take(path, JOIN_LOCK_FILE, ret_fd);
}

void join_lock_release(const char *path, int fd)
{
	release(path, JOIN_LOCK_FILE, fd, true);
}

/* The file in `dir`, if it is a plain one: whoever may write there could put anything else. */
static int open_plain(int dir, const char *name)
{
	struct stat st;
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static enum run_writer holder(int dir, const char *name)
{
	struct flock whole = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int fd = open_plain(dir, name), r;

	if (fd < 0)
		return RUN_WRITER_UNKNOWN;
	r = fcntl(fd, F_OFD_GETLK, &whole);
	close(fd);
	if (r < 0)
		return RUN_WRITER_UNKNOWN;
	return whole.l_type == F_UNLCK ? RUN_WRITER_GONE : RUN_WRITER_HELD;
}

static enum run_writer holder_of_buffers(int dir, const char *name)
{
	int fd = open_plain(dir, name), r;

	if (fd < 0)
		return RUN_WRITER_UNKNOWN;
	r = flock(fd, LOCK_SH | LOCK_NB) < 0 ? -errno : 0;
	close(fd);
	if (r == -EWOULDBLOCK)
		return RUN_WRITER_HELD;
	return r < 0 ? RUN_WRITER_UNKNOWN : RUN_WRITER_GONE;
}

enum run_writer run_writer(const char *path)
{
	DIR *dir = opendir(path);
	enum run_writer writer;
	struct dirent *entry;

	if (!dir)
		return RUN_WRITER_UNKNOWN;
	writer = holder(dirfd(dir), RUN_LOCK_FILE);
	while (writer != RUN_WRITER_HELD && (entry = readdir(dir))) {
		size_t length = strlen(entry->d_name);
		enum run_writer one;

		if (length < 5 || strcmp(entry->d_name + length - 5, ".ring") != 0)
			continue;
		one = holder_of_buffers(dirfd(dir), entry->d_name);
		if (one != RUN_WRITER_UNKNOWN)
			writer = one;
	}
	closedir(dir);
	return writer;
}

enum run_writer join_lock_holder(const char *path)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum run_writer writer = RUN_WRITER_UNKNOWN;

	if (dir >= 0) {
		writer = holder(dir, JOIN_LOCK_FILE);
		close(dir);
	}
	return writer;
}
