/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that appear whole; see whole_file.h.
 */
#include "cmd/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Beside the target, so that the rename stays inside one file system. */
int whole_file_open(struct whole_file *whole, const char *target)
{
	int fd, code;

	*whole = (struct whole_file){ .target = strdup(target) };
	if (!whole->target || asprintf(&whole->temporary, "%s.XXXXXX", target) < 0) {
		free(whole->target);
		return -ENOMEM;
	}
	fd = mkostemp(whole->temporary, O_CLOEXEC);
	whole->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (whole->file)
		return 0;
	code = errno;
	if (fd >= 0) {
		close(fd);
		unlink(whole->temporary);
	}
	free(whole->target);
	free(whole->temporary);
	return -code;
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
	bool lost = ferror(whole->file) != 0;

	errno = EIO;
	if (r == 0 && (fflush(whole->file) != 0 || lost || usual_mode(fileno(whole->file)) < 0))
		r = err_set(err, -errno, "cannot write '%s': %s.", whole->target, strerror(errno));
	if (fclose(whole->file) != 0 && r == 0)
		r = err_set(err, -errno, "cannot write '%s': %s.", whole->target, strerror(errno));
	if (r == 0 && rename(whole->temporary, whole->target) < 0)
		r = err_set(err, -errno, "cannot write '%s': %s.", whole->target, strerror(errno));
	if (r < 0)
		unlink(whole->temporary);
	free(whole->temporary);
	free(whole->target);
	*whole = (struct whole_file){ 0 };
	return r;
}
