/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that appear whole; see whole_file.h.
 */
#include "cmd/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/place.h"

static void whole_file_free(struct whole_file *whole)
{
	free(whole->temporary);
	free(whole->place);
	free(whole->target);
	*whole = (struct whole_file){ 0 };
}

/* Beside the target, so that the rename stays inside one file system. */
static int open_temporary(struct whole_file *whole)
{
	int fd, code;

	if (asprintf(&whole->temporary, "%s.XXXXXX", whole->place) < 0) {
		whole->temporary = NULL;
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
	return -code;
}

int whole_file_open(struct whole_file *whole, const char *target)
{
	bool stream;
	int r;

	*whole = (struct whole_file){ .target = strdup(target) };
	r = whole->target ? place_find(target, &whole->place, &stream) : -ENOMEM;
	if (r == 0 && stream) {
		/* A reader that goes away is told like a full disk. */
		signal(SIGPIPE, SIG_IGN);
		whole->file = fopen(target, "we");
		r = whole->file ? 0 : -errno;
	} else if (r == 0) {
		r = open_temporary(whole);
	}
	if (r < 0)
		whole_file_free(whole);
	return r;
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
	if (r == 0 && (fflush(whole->file) != 0 || lost ||
		       (whole->temporary && usual_mode(fileno(whole->file)) < 0)))
		r = err_set(err, -errno, "cannot write '%s': %s.", whole->target, strerror(errno));
	if (fclose(whole->file) != 0 && r == 0)
		r = err_set(err, -errno, "cannot write '%s': %s.", whole->target, strerror(errno));
	if (r == 0 && whole->temporary && rename(whole->temporary, whole->place) < 0)
		r = err_set(err, -errno, "cannot write '%s': %s.", whole->target, strerror(errno));
	if (r < 0 && whole->temporary)
		unlink(whole->temporary);
	whole_file_free(whole);
	return r;
}
