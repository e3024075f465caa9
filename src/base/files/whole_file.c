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

int open_beside(const char *path, mode_t mode, char **ret_temporary)
{
	for (int n = 1;; n++) {
		char *temporary, number[16] = "";
		int fd;

		if (n > 1)
			snprintf(number, sizeof(number), "-%d", n);
		if (asprintf(&temporary, "%s.%d%s.tmp", path, (int)getpid(), number) < 0)
			return -ENOMEM;
		fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		if (fd >= 0) {
			*ret_temporary = temporary;
			return fd;
		}
		fd = -errno;
		free(temporary);
		if (fd != -EEXIST || n == 1000)
			return fd;
	}
}

static void release_names(struct whole_file *whole)
{
	free(whole->target);
	free(whole->temporary);
	*whole = (struct whole_file){ 0 };
}

int whole_file_open(struct whole_file *whole, const char *target)
{
	char *temporary = NULL;
	int fd;

	*whole = (struct whole_file){ .target = place_of(target) };
	if (!whole->target)
		return -ENOMEM;
	if (is_special(target)) {
		fd = open(target, O_WRONLY | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	} else {
		fd = open_beside(whole->target, 0666, &temporary);
		whole->temporary = temporary;
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
	release_names(whole);
	return fd;
}

int whole_file_close(struct whole_file *whole, int r, struct err *err)
{
	/* A write that failed before has set no errno that is still there. */
	bool lost = ferror(whole->file) != 0, beside = whole->temporary != NULL;

	errno = EIO;
	if (r == 0 && (fflush(whole->file) != 0 || lost))
		r = err_set(err, -errno, "cannot write '%s': %s.", whole->target, strerror(errno));
	if (fclose(whole->file) != 0 && r == 0)
		r = err_set(err, -errno, "cannot write '%s': %s.", whole->target, strerror(errno));
	if (r == 0 && beside && rename(whole->temporary, whole->target) < 0)
		r = err_set(err, -errno, "cannot write '%s': %s.", whole->target, strerror(errno));
	if (r < 0 && beside)
		unlink(whole->temporary);
	release_names(whole);
	return r;
}

int whole_file_text(const char *target, const void *bytes, size_t size, struct err *err)
{
	struct whole_file whole;
	int r = whole_file_open(&whole, target);

	if (r < 0)
		return err_sys(err, r, "cannot write '%s'", target);
	if (size)
		fwrite(bytes, 1, size, whole.file);
	return whole_file_close(&whole, 0, err);
}
