/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that appear whole; see whole_file.h.
 */
#include "base/files/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The place itself: a link that leads somewhere stays. NULL: no memory. */
static char *place_of(const char *target)
{
	struct stat st;
	char *place = NULL;

	if (lstat(target, &st) == 0 && S_ISLNK(st.st_mode))
		place = realpath(target, NULL);
	return place ? place : strdup(target);
}

static bool is_special(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Beside the target, so that the rename stays inside one file system. */
static int open_beside(const char *target, char **ret_path)
{
	char *path;
	int fd;

	if (asprintf(&path, "%s.XXXXXX", target) < 0)
		return -ENOMEM;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		fd = -errno;
		free(path);
		return fd;
	}
	*ret_path = path;
	return fd;
}

static void release(struct whole_file *whole)
{
	free(whole->target);
	free(whole->temporary);
	*whole = (struct whole_file){ 0 };
}

int whole_file_open(struct whole_file *whole, const char *target)
{
	int fd;

	*whole = (struct whole_file){ .target = place_of(target) };
	if (!whole->target)
		return -ENOMEM;
	if (is_special(target)) {
		fd = open(target, O_WRONLY | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	} else {
		fd = open_beside(whole->target, &whole->temporary);
	}
	whole->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (whole->file)
		return 0;
	if (fd >= 0) {
		close(fd);
		fd = -ENOMEM;
		if (whole->temporary)
			unlink(whole->temporary);
	}
	release(whole);
	return fd;
}

/* mkostemp makes files for the owner alone; these are meant to be passed on like any file. */
static int usual_mode(int fd)
{
	mode_t mask = umask(0);

	umask(mask);
	return fchmod(fd, 0666 & ~mask);
}

int whole_file_close(struct whole_file *whole, int r, struct err *err)
{
	/* A write that failed before has set no errno that is still there. */
	bool lost = ferror(whole->file) != 0, beside = whole->temporary != NULL;

	errno = EIO;
	if (r == 0 &&
	    (fflush(whole->file) != 0 || lost || (beside && usual_mode(fileno(whole->file)) < 0)))
		r = err_set(err, -errno, "cannot write '%s': %s.", whole->target, strerror(errno));
	if (fclose(whole->file) != 0 && r == 0)
		r = err_set(err, -errno, "cannot write '%s': %s.", whole->target, strerror(errno));
	if (r == 0 && beside && rename(whole->temporary, whole->target) < 0)
		r = err_set(err, -errno, "cannot write '%s': %s.", whole->target, strerror(errno));
	if (r < 0 && beside)
		unlink(whole->temporary);
	release(whole);
	return r;
}
