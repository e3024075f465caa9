/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files or none. Main thread.
 */
#include "tinymoe/system/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tinymoe/system/failure.h"

int outfile_open(struct outfile *file, const char *path, struct failure *failure)
{
	*file = (struct outfile){ .path = strdup(path) };
	if (!file->path || asprintf(&file->temporary, "%s.tmp.%ld", path, (long)getpid()) < 0) {
		free(file->path);
		*file = (struct outfile){ 0 };
		return failure_set(failure, ENOMEM, "there is not enough memory to write %s", path);
	}
	file->stream = fopen(file->temporary, "wxe");
	if (!file->stream) {
		int error = errno;

		free(file->temporary);
		file->temporary = NULL;
		outfile_abandon(file);
		return failure_set(failure, error, "cannot write %s: %s", path, strerror(error));
	}
	return 0;
}

int outfile_probe(const char *path, struct failure *failure)
{
	struct outfile file;
	int error = outfile_open(&file, path, failure);

	if (!error)
		outfile_abandon(&file);
	return error;
}

/* The rename itself must survive a crash too, so the directory is synced. */
static int sync_directory(const char *path)
{
	char *copy = strdup(path);
	int fd, error = 0;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Some file systems cannot sync a directory and return EINVAL: nothing to do about it. */
	if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL))
		error = -errno;
	if (fd >= 0)
		close(fd);
	free(copy);
	return error;
}

int outfile_commit(struct outfile *file, struct failure *failure)
{
	int error = 0;

	if (fflush(file->stream) || ferror(file->stream) || fsync(fileno(file->stream)))
		error = errno ? errno : EIO;
	if (fclose(file->stream) && !error)
		error = errno;
	file->stream = NULL;
	if (!error && rename(file->temporary, file->path))
		error = errno;
	if (!error) {
		free(file->temporary);
		file->temporary = NULL;
		error = -sync_directory(file->path);
	}
	if (error)
		failure_set(failure, error, "cannot write %s: %s", file->path, strerror(error));
	outfile_abandon(file);
	return -error;
}

void outfile_abandon(struct outfile *file)
{
	if (file->stream)
		fclose(file->stream);
	if (file->temporary)
		unlink(file->temporary);
	free(file->temporary);
	free(file->path);
	*file = (struct outfile){ 0 };
}
