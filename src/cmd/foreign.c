/* SPDX-License-Identifier: Apache-2.0
 *
 * A foreign file goes the way of every run: it is imported into a run directory, which is loaded. The
 * directory is a temporary one, gone before anything is shown; a child sees to that should this
 * process end on the way, however it does. Main thread.
 */
#include "cmd/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/run_files.h"
#include "ingest/ingest.h"
#include "trace/format.h"

/* A single shard may be given for its run. */
static bool is_shard(const char *path)
{
	char magic[sizeof(SHARD_MAGIC) - 1];
	FILE *file = fopen(path, "rb");
	bool shard = file && fread(magic, sizeof(magic), 1, file) == 1 &&
		     !memcmp(magic, SHARD_MAGIC, sizeof(magic));

	if (file)
		fclose(file);
	return shard;
}

const char *foreign_formats(void)
{
	static char text[512];
	size_t at = 0;

	for (size_t i = 0; ingest_importers[i] && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s",
				       i == 0			 ? ""
				       : ingest_importers[i + 1] ? ", "
								 : " or ",
				       ingest_importers[i]->words);
	return text;
}

int foreign_is(const char *path, struct err *err)
{
	const struct importer *importer;
	int r = is_shard(path) ? 0 : ingest_recognise(path, &importer, err);

	if (r == 0 && !is_shard(path))
		err_set(err, -EBADMSG, "%s: neither a run nor a %s", path, foreign_formats());
	return r;
}

static int temporary_path(char **ret_path, struct err *err)
{
	const char *root = getenv("TMPDIR");
	char *path;

	if (asprintf(&path, "%s/moescope-import-XXXXXX", root && *root ? root : "/tmp") < 0)
		return err_sys(err, -ENOMEM, "cannot import");
	if (!mkdtemp(path)) {
		int r = err_sys(err, -errno,
				"%s: cannot make a directory for the import; name another place "
				"with TMPDIR",
				path);

		free(path);
		return r;
	}
	*ret_path = path;
	return 0;
}

/* A child that removes the directory when this process is gone. `life` is closed by the system then. */
struct caretaker {
	pid_t pid; /* -1: there is none, which matters only if this process is killed */
	int life;
};

static struct caretaker caretaker_start(const char *directory)
{
	struct caretaker caretaker = { -1, -1 };
	int ends[2];
	char byte;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return caretaker;
	caretaker.pid = fork();
	if (caretaker.pid != 0) {
		close(ends[0]);
		caretaker.life = ends[1];
		return caretaker;
	}
	setsid(); /* what the terminal sends to stop the command is not for it */
	close(ends[1]);
	while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
		;
	run_files_remove(directory, true);
	_exit(0);
}

static void caretaker_end(const struct caretaker *caretaker)
{
	if (caretaker->life >= 0)
		close(caretaker->life);
	while (caretaker->pid > 0 && waitpid(caretaker->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* The run is called as the file is. */
static int rename_run(struct run *run, const char *path)
{
	const char *last = strrchr(path, '/');
	char *name = strdup(last && last[1] ? last + 1 : path), *copy = strdup(path);

	if (!name || !copy) {
		free(name);
		free(copy);
		return -ENOMEM;
	}
	free(run->info.name);
	free(run->info.path);
	run->info.name = name;
	run->info.path = copy;
	return 0;
}

int foreign_load(const char *path, const struct run_want *want, struct run **ret_run,
		 struct err *err)
{
	struct caretaker caretaker;
	struct run *run = NULL;
	char *directory = NULL;
	int r = temporary_path(&directory, err);

	if (r < 0)
		return r;
	caretaker = caretaker_start(directory);
	r = ingest_run(path, want->kinds, directory, err);
	if (r == 0)
		r = run_load(directory, want, &run, err);
	if (r == 0 && rename_run(run, path) < 0)
		r = err_sys(err, -ENOMEM, "%s: cannot load", path);
	/* A failed import has taken the directory away itself. */
	run_files_remove(directory, true);
	caretaker_end(&caretaker);
	free(directory);
	if (r < 0) {
		run_free(run);
		return r;
	}
	*ret_run = run;
	return 0;
}
